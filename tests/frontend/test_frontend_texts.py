"""What errors say where the general text would mislead: hints that name what helps, and places at the line that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import zellige as zl
import zellige.language as T
from zellige.diagnostics import ZelligeError


def told(make: Any) -> str:
    with pytest.raises(ZelligeError) as caught:
        make()
    return str(caught.value)


@T.prim_func
def stores(A: T.Tensor((8,), "float32")):
    with T.Kernel(1):
        A[0] = 1


@pytest.mark.parametrize("target", ["interp", "cpu"])
@pytest.mark.parametrize(
    ("array", "code", "hint"),
    [
        (np.zeros(8, ">f4"), "E616", 'x.astype(x.dtype.newbyteorder("="))'),
        (np.zeros(8, object), "E616", "np.array(x, dtype=np.float32)"),
        (np.zeros(8, complex), "E616", "x.real.copy(), x.imag.copy()"),
        (np.zeros(8, "float32")[::-1], "E609", "np.ascontiguousarray(x)"),
    ],
    ids=["byte order", "objects", "complex", "backward"],
)
def test_array_that_a_kernel_cannot_take(target: str, array: Any, code: str, hint: str) -> None:
    text = told(lambda: zl.compile(stores, target=target)(array))
    assert code in text and hint in text and "StridedTensor" not in text


@pytest.mark.parametrize(
    "array",
    [np.ones(8, ">f4"), np.ones(8, object), np.ones(8, complex), np.ma.ones(8, "float32"), torch.ones(8, dtype=torch.cfloat)],
    ids=["byte order", "objects", "complex", "masked", "torch"],
)
def test_such_an_array_is_no_constant(array: Any) -> None:
    @zl.jit(target="interp")
    def first(A, B):  # type: ignore[no-untyped-def]
        with T.Kernel(1):
            B[0] = A[0]

    kept = np.zeros(8, "float32")
    assert "E616: argument A" in told(lambda: first(array, kept)) and "E616: argument B" in told(lambda: first(kept, array))


@pytest.mark.parametrize(
    "make",
    [lambda: torch.ones(8, 8).to_sparse_csr(), lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])],
    ids=["sparse", "nested"],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_torch_tensor_without_strides_is_told_of_at_every_call(make: Callable[[], Any]) -> None:
    @zl.jit(target="interp")
    def first(A: T.Tensor((8, 8), "float32")):
        with T.Kernel(1):
            A[0, 0] = 1

    for _ in range(3):  # from the third call on what came of such arguments is remembered
        assert "E616" in told(lambda: first(make()))
        first(np.zeros((8, 8), "float32"))


def test_hints_of_arrays_help() -> None:
    swapped = np.arange(8, dtype=">f4")
    kernel = zl.compile(stores, target="interp")
    converted = swapped.astype(swapped.dtype.newbyteorder("="))
    kernel(converted)
    assert converted.tolist() == [1, 1, 2, 3, 4, 5, 6, 7]
    copy = np.ascontiguousarray(converted[::-1])
    kernel(copy)
    assert copy.tolist() == [1, 6, 5, 4, 3, 2, 1, 1]


def test_backward_array_for_symbolic_strides() -> None:
    step = T.dynamic("step")

    @T.prim_func
    def strided(A: T.StridedTensor((8,), (step,), "float32")):
        with T.Kernel(1):
            A[0] = 1

    text = told(lambda: zl.compile(strided, target="interp")(np.zeros(8, "float32")[::-1]))
    assert "E609" in text and "np.ascontiguousarray(x)" in text and "symbolic" not in text


def test_integer_that_floats_are_added_to(wrong_program: Callable[[str], Callable[[], None]]) -> None:
    text = told(wrong_program("floats_added_to_an_integer"))
    assert "E206" in text and "total = 0.0" in text and "int32(...)" not in text


def test_kernel_called_in_a_kernel(wrong_program: Callable[[str], Callable[[], None]]) -> None:
    text = told(wrong_program("kernel_called_in_a_kernel"))
    assert "E155" in text and "@T.macro" in text and "inner(A)" in text and "zl.compile" not in text


def test_argument_of_another_rank_is_told_of_at_the_argument(wrong_program: Callable[[str], Callable[[], None]]) -> None:
    text = told(wrong_program("argument_of_another_rank"))
    assert "E604: argument A: expected float32[M, N] with 2 dimensions, got float32[2] with 1" in text


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_address_under_a_name(target: str) -> None:
    """The place of an element stays the one that it was when it was named, whatever its index was read from."""

    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            first = T.address_of(A[0])
            B[0] = T.int32(T.ldg32(first))
            looked_up = T.address_of(A[B[7]])
            B[7] = 5
            B[1] = T.int32(T.ldg32(looked_up))
            for i in T.serial(2):
                at = T.address_of(A[B[6] + i])
                B[i + 2] = T.int32(T.ldg32(at))

    A, B = np.arange(10, 18, dtype=np.int32), np.array([0, 0, 0, 0, 0, 0, 2, 3], np.int32)
    zl.compile(kernel, target=target)(A, B)
    assert B.tolist() == [10, 13, 12, 13, 0, 0, 2, 5]
