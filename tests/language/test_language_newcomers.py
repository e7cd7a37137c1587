"""What programs for TileLang write and newcomers expect: T.Not, T.thread_binding, views with data, tensors of vectors, 4-bit outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics import CompileError, LaunchError, Unsupported, ZelligeError

TARGETS = ("cpu", "interp")


@pytest.mark.parametrize("target", TARGETS)
def test_not(target: str) -> None:
    @T.prim_func
    def k(A: T.Tensor((8,), "int32")):
        with T.Kernel(8) as i:
            A[i] = T.if_then_else(T.Not(A[i] > 2), 1, 0) + T.if_then_else(T.Not(True), 10, 0)

    a = np.arange(8, dtype=np.int32)
    zl.compile(k, target=target)(a)
    assert a.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("target", TARGETS)
def test_a_loop_over_the_lanes(target: str) -> None:
    @T.prim_func
    def k(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            for tx in T.thread_binding(64, "threadIdx.x"):
                A[tx] = tx * 2

    a = np.zeros(64, np.int32)
    zl.compile(k, target=target)(a)
    assert a.tolist() == list(range(0, 128, 2))


@pytest.mark.parametrize("arguments", [(32, "threadIdx.x"), (64, "threadIdx.y"), (64, "blockIdx.x"), (64, 3)])
def test_lanes_that_a_launch_does_not_have(arguments: tuple[Any, ...], refused: Any) -> None:
    def k(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            for tx in T.thread_binding(*arguments):
                A[tx] = tx

    refused("E258", k)


@pytest.mark.parametrize("target", TARGETS)
def test_a_view_with_the_data_as_third_argument(target: str) -> None:
    @T.prim_func
    def k(A: T.Tensor((4, 4), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(16) as i:
            flat = T.Tensor((16,), "int32", A.data)
            B[i] = flat[i]

    b = np.zeros(16, np.int32)
    zl.compile(k, target=target)(np.arange(16, dtype=np.int32).reshape(4, 4), b)
    assert b.tolist() == list(range(16))


@pytest.mark.parametrize("target", TARGETS)
def test_tensors_of_vectors(target: str) -> None:
    @zl.jit(target=target)
    def k(A: T.Tensor((T.dynamic("n"),), "float32x4")):
        B = T.empty((A.shape[0],), "float32x4")
        with T.Kernel(A.shape[0]) as i:
            B[i] = A[i]
        return B

    for count in (8, 8, 3):
        a = np.arange(4 * count, dtype=np.float32).reshape(count, 4)
        np.testing.assert_array_equal(k(a), a)
    wide = np.arange(64, dtype=np.float32).reshape(8, 8)
    for wrong in (np.zeros((8, 3), np.float32), np.zeros(8, np.float32), np.zeros((8, 4), np.float16), wide[:, :4]):
        with pytest.raises(LaunchError) as caught:
            k(wrong)
        assert caught.value.code in ("E604", "E607", "E609") and "last dimension of 4" in caught.value.hint or caught.value.code == "E609"


@pytest.mark.parametrize("target", TARGETS)
def test_outputs_of_four_bits(target: str) -> None:
    def made(size: int) -> Any:
        @zl.jit(target=target)
        def k(A: T.Tensor((8,), "int8")):
            C = T.empty((size,), "int4")
            with T.Kernel(size) as i:
                C[i] = T.cast(A[i], "int4")
            return C

        return k

    for _ in range(2):
        assert made(8)(np.arange(8, dtype=np.int8)).tolist() == [16, 50, 84, 118]
    odd = made(7)
    for _ in range(2):
        with pytest.raises(LaunchError) as caught:
            odd(np.arange(8, dtype=np.int8))
        assert caught.value.code == "E617"


@pytest.mark.parametrize("target", TARGETS)
def test_a_size_that_stands_only_in_a_product(target: str) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def k(A: T.Tensor((n * 4,), "int32")):
        with T.Kernel(n) as i:
            A[i * 4] = n

    kernel = zl.compile(k, target=target)
    a = np.zeros(16, np.int32)
    kernel(a)
    assert a.tolist() == [4, 0, 0, 0] * 4
    with pytest.raises(LaunchError) as caught:
        kernel(np.zeros(15, np.int32))
    assert caught.value.code == "E605" and "n * 4 is 12" in caught.value.hint


def test_a_grid_that_comes_out_negative_is_empty() -> None:
    for target in TARGETS:

        @zl.jit(target=target)
        def k(n: T.int32, B: T.Tensor((4,), "float32")):
            with T.Kernel(n - 2, 2) as (bx, by):
                B[bx] = 1

        b = np.zeros(4, np.float32)
        k(1, b)
        assert b.tolist() == [0, 0, 0, 0]
        k(4, b)
        assert b.tolist() == [1, 1, 0, 0]


def test_addresses_and_lists_at_run_time_are_refused(refused: Any) -> None:
    @T.prim_func
    def k(p: T.ptr, B: T.Tensor((8,), "float32")):
        A = T.make_tensor(p, (8,), "float32")
        with T.Kernel(8) as i:
            B[i] = A[i]

    a, b = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    kernel = zl.compile(k, target="cpu")
    kernel(a, b)
    assert b.tolist() == a.tolist()
    with pytest.raises(LaunchError) as caught:
        kernel(a.ctypes.data, b)
    assert caught.value.code == "E603" and "neither size nor type" in caught.value.hint

    def table(P: T.Tensor((2,), "int64"), B: T.Tensor((8,), "float32")):
        with T.Kernel(8) as i:
            B[i] = T.make_tensor(P[0], (8,), "float32")[i]

    assert "pass each tensor of a table" in refused("E126", table).hint

    def weights(B: T.Tensor((8,), "float32")):
        with T.Kernel(8) as i:
            B[i] = [0.5, 1.5][i % 2]

    assert "enumerate" in refused("E105", weights).hint


def test_what_python_calls_the_errors() -> None:
    assert issubclass(CompileError, ValueError) and issubclass(LaunchError, ValueError)
    assert issubclass(Unsupported, NotImplementedError) and issubclass(Unsupported, CompileError)
    assert not issubclass(ZelligeError, ValueError)
