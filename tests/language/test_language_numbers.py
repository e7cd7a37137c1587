"""Numbers of NumPy and of enumerations stand wherever a Python number may stand; flags are told from run-time values."""

import enum

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics import ZelligeError
from zellige.ir.printer import print_kernel


class Size(enum.IntEnum):
    ONE = 1


def schedule(one, yes):
    """A kernel with ``one`` as every number and ``yes`` as every flag that is decided while compiling."""

    @T.prim_func
    def kernel(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8, 8), "float32")):
        with T.Kernel(one, threads=one) as block:
            tile = T.alloc_shared((8, 8), "float32")
            total = T.alloc_fragment((8, 8), "float32")
            row = T.alloc_fragment((8,), "float32")
            T.use_swizzle(one)
            T.annotate_min_blocks_per_sm(one)
            for k in T.Pipelined(one, num_stages=one, order=[one, 0], stage=[one, one]):
                T.copy(A[k, 0], tile, coalesced_width=one)
                T.gemm(tile, tile, total, transpose_A=yes, k_pack=one, policy=one, clear_accum=yes)
            for _ in T.unroll(2, unroll_factor=one):
                T.cumsum(total, dim=one, reverse=yes)
            T.reduce_max(total, row, dim=one, clear=yes, batch=one, nan_propagate=yes)
            for i in T.Parallel(8, coalesced_width=one):
                B[block, i] = T.atomic_add(B[one, i], row[i], return_prev=yes)

    return print_kernel(kernel.kernel)


@pytest.mark.parametrize(
    ("one", "yes"), [(np.int64(1), np.True_), (np.array(1), np.array(True)), (Size.ONE, True), (1, 1)]
)
def test_a_number_may_come_from_elsewhere(one, yes):
    assert schedule(one, yes) == schedule(1, True)


@pytest.mark.parametrize("given", ["yes", None, 0.5])
def test_a_flag_that_is_none_is_named_as_what_it_is(refused, given):
    def kernel(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.reduce_max(A, B, dim=1, clear=given)

    assert f"T.reduce_max needs True or False as clear, not {'None' if given is None else ''}" in str(refused("E258", kernel))


def test_a_flag_of_the_run_is_told_as_one(refused):
    def kernel(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8,), "float32"), n: T.int32):
        with T.Kernel(1):
            T.reduce_max(A, B, dim=1, clear=n > 0)

    assert "clear of T.reduce_max is known only when the kernel runs" in str(refused("E105", kernel))


@pytest.mark.parametrize("number", [np.int64(1), Size.ONE, [np.int32(-1)]])
def test_an_output_may_be_named_by_any_whole_number(number):
    @T.prim_func
    def kernel(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.copy(A, B)

    ones = np.ones(4, np.float32)
    assert zl.compile(kernel, target="interp", out_idx=number)(ones).tolist() == [1.0] * 4


def test_a_size_given_by_name_may_be_one_of_numpy():
    @zl.jit(target="interp")
    def kernel(A):
        M = T.const("M")
        A: T.Tensor((M,), "float32")
        B = T.empty((M,), "float32")
        with T.Kernel(1):
            T.copy(A, B)
        return B

    assert kernel(np.ones(4, np.float32), M=np.int64(4)).tolist() == [1.0] * 4


@pytest.mark.parametrize("place", ["tensor", "tile", "variable", "cast"])
def test_an_address_is_no_element_type(place):
    with pytest.raises(ZelligeError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((4,), "handle" if place == "tensor" else "int64")):
            with T.Kernel(1):
                if place == "tile":
                    tile = T.alloc_shared((4,), "handle")
                    tile[0] = 1
                elif place == "variable":
                    A[0] = T.alloc_var("handle")
                else:
                    A[0] = T.cast(1, "handle")

    assert caught.value.code == "E217"


@pytest.mark.parametrize("use", [lambda x: x + 1, lambda x: x + x, lambda x: x < x, lambda x: -x, abs, lambda x: x])
def test_nothing_is_computed_of_an_address(refused, use):
    def kernel(A: T.Tensor((4,), "int64"), n: T.uint64):
        with T.Kernel(1):
            A[0] = use(T.reinterpret(n, "handle"))

    assert "handle" in str(refused("E204", kernel))


def test_an_address_is_no_condition_and_no_number_is_one(refused):
    def condition(A: T.Tensor((4,), "int64"), n: T.uint64):
        with T.Kernel(1):
            if T.reinterpret(n, "handle"):
                A[0] = 1

    def number(A: T.Tensor((4,), "int64")):
        with T.Kernel(1):
            n: "handle" = 0  # noqa: F821, UP037
            A[0] = n

    assert "a condition is not defined for handle" in str(refused("E204", condition))
    refused("E204", number)


def test_an_address_is_kept(run):
    @T.prim_func
    def kernel(n: T.uint64, A: T.Tensor((3,), "uint64")):
        with T.Kernel(1):
            first = T.reinterpret(n, "handle")
            A[0] = T.reinterpret(first if A[1] > 5 else first, "uint64")
            A[2] = first == T.reinterpret(A[1], "handle")

    assert run(kernel, 2**63 + 7, np.array([0, 2**63 + 7, 0], np.uint64)).tolist() == [2**63 + 7, 2**63 + 7, 1]
