"""Parameters whose shape the body gives: T.ptr and T.handle with T.make_tensor or T.match_buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zellige.language as T
from zellige import jit
from zellige.diagnostics import ZelligeError


def array(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_pointer_parameters() -> None:
    @jit(target="interp")
    def add(A: T.ptr, B: T.ptr, n: int, dtype: Any):
        A = T.make_tensor(A, (n,), dtype)
        B = T.make_tensor(B, (n,), dtype)
        with T.Kernel(n) as bx:
            B[bx] = B[bx] + A[bx]

    a, b = array(4), array(4)
    add(a, b, 4, "float32")
    np.testing.assert_array_equal(b, 2 * a)
    assert add.compile(A=T.ptr(), B=T.ptr(), n=3, dtype=T.float16).kernel.params[0].buffer.dtype == "float16"


def test_a_pointer_is_matched_with_the_shape_that_a_branch_gives() -> None:
    @jit(target="interp")
    def last(A: T.ptr, B: T.handle, is_2d=False):
        if is_2d:
            M, N = T.const("M, N")
            A = T.match_buffer(A, [M, N], T.float32)
            B = T.match_buffer(B, (M,), dtype="float32", align=16, offset_factor=1)
            with T.Kernel(M) as row:
                B[row] = A[row, N - 1]
        else:
            L, S = T.const("L, S")
            A = T.match_buffer(A, [L], T.float32, strides=[S])
            B = T.match_buffer(B, [1], T.float32)
            with T.Kernel(1):
                B[0] = A[L - 1]

    a, b, c = array(3, 4), np.zeros(3, np.float32), np.zeros(1, np.float32)
    last(a, b, is_2d=True)
    np.testing.assert_array_equal(b, a[:, -1])
    last(a[:, 1], c)
    np.testing.assert_array_equal(c, a[-1, 1])


def test_a_pointer_that_cannot_be_matched() -> None:
    def scoped(A: T.handle):
        A = T.match_buffer(A, (8,), "float32", scope="shared")

    def offset(A: T.handle):
        A = T.match_buffer(A, (8,), "float32", elem_offset=4)

    def tensor(A: T.Tensor((8,), "float32")):
        A = T.match_buffer(A, (8,), "float32")

    for function, code in ((scoped, "E259"), (offset, "E259"), (tensor, "E126")):
        with pytest.raises(ZelligeError) as caught:
            T.prim_func(function)
        assert caught.value.code == code and caught.value.span is not None
