"""Kernels that do nothing: without a launch, with a block without statements, with promises alone."""

import numpy as np
import pytest

import zellige as zl
import zellige.language as T


@T.prim_func
def without_parameters():
    T.evaluate(0)


@T.prim_func
def without_a_block(A: T.Tensor((8,), "float32"), n: T.int32):
    T.evaluate(0)


@T.prim_func
def only_a_text(A: T.Tensor((8,), "float32"), n: T.int32):
    """Says what it would do."""


@T.prim_func
def an_empty_block(A: T.Tensor((8,), "float32"), n: T.int32):
    with T.Kernel(n):
        pass


@T.prim_func
def points_that_do_nothing(A: T.Tensor((8,), "float32"), n: T.int32):
    with T.Kernel(n):
        for _i, _j in T.Parallel(32, 64):
            pass


@T.prim_func
def only_a_promise(A: T.Tensor((8,), "float32"), n: T.int32):
    T.assume(n > 0)


@pytest.mark.parametrize("target", ["interp", "cpu", "template", "cuda:sm_80,simulate"])
@pytest.mark.parametrize(
    "kernel", [without_a_block, only_a_text, an_empty_block, points_that_do_nothing, only_a_promise], ids=lambda kernel: kernel.name
)
def test_a_kernel_that_does_nothing_leaves_its_tensors(kernel, target):
    array = np.arange(8, dtype=np.float32)
    compiled = zl.compile(kernel, target=target)
    for _ in range(2):
        assert compiled(array, 3) is None
    np.testing.assert_array_equal(array, np.arange(8))


@pytest.mark.parametrize("target", ["interp", "cpu", "template", "cuda:sm_80,simulate"])
def test_a_kernel_without_parameters(target):
    assert zl.compile(without_parameters, target=target)() is None
    with pytest.raises(zl.LaunchError, match="takes 0 arguments, got 1"):
        zl.compile(without_parameters, target=target)(1)
