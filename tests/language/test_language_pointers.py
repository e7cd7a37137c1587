"""T.ptr and T.handle with T.match_buffer: the older spelling of a tensor whose shape the body gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T


def test_handles_become_tensors(run):
    @T.prim_func
    def k(a: T.handle, b: T.ptr, c: T.handle("float32")):
        A = T.match_buffer(a, (4, 4), dtype=T.float32, align=16)
        B = T.match_buffer(b, [4], "int32", scope="global")
        C = T.match_buffer(c, (4, 2), strides=(4, 1))
        with T.Kernel(1):
            for i in T.Parallel(4):
                A[0, i] = B[i] + 1
                C[i, 1] = B[i]

    a, b, c = np.zeros((4, 4), np.float32), np.arange(4, dtype=np.int32), np.zeros((4, 4), np.float32)[:, :2]
    run(k, a, b, c)
    np.testing.assert_array_equal(a[0], b + 1)
    np.testing.assert_array_equal(c[:, 1], b)


def test_the_rank_of_an_eager_parameter_follows_a_constant():
    @zl.jit(target="interp")
    def sizes(A: T.ptr, is_matrix: bool = False) -> None:
        if is_matrix:
            M, N = T.const("M, N")
            A = T.match_buffer(A, [M, N], T.float32)
            with T.Kernel(1):
                A[0, 0] = M * 100 + N
        else:
            L = T.const("L")
            A = T.match_buffer(A, [L], T.float32)
            with T.Kernel(1):
                A[0] = L

    matrix, vector = np.zeros((3, 5), np.float32), np.zeros(7, np.float32)
    sizes(matrix, is_matrix=True)
    sizes(vector)
    assert (matrix[0, 0], vector[0]) == (305, 7)


@pytest.mark.parametrize(
    "argument", [{"scope": "shared"}, {"elem_offset": 3}, {"data": 0}, {"buffer_type": "auto"}, {"axis_separators": [1]}]
)
def test_arguments_that_a_tensor_of_a_call_does_not_have(refused, argument: dict[str, Any]):
    def k(a: T.handle):
        A = T.match_buffer(a, (4,), "float32", **argument)
        with T.Kernel(1):
            A[0] = 1

    error = refused("E259", k)
    assert isinstance(error, TypeError) and next(iter(argument)) in str(error)


def test_what_is_no_parameter_is_not_matched(refused):
    def k(A: T.Tensor((4,), "uint64")):
        B = T.match_buffer(A[0], (4,), "float32")
        with T.Kernel(1):
            B[0] = 1

    refused("E126", k)


def test_a_handle_without_a_shape(refused):
    def k(a: T.handle):
        with T.Kernel(1):
            a[0] = 1

    refused("E125", k)
