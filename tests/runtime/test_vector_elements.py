"""Tensors and tiles of vector types give the same elements on every kind of target; a call hands over arrays with the lanes last."""

from __future__ import annotations

import numpy as np
import pytest

import zellige as zl
import zellige.language as T

TARGETS = ["interp", "cpu", "template", "cuda:sm_80,simulate"]
n = T.dynamic("n")


@T.prim_func
def through_tiles(A: T.Tensor((n, 3), "float16x2"), B: T.Tensor((n, 3), "float16x2"), C: T.Tensor((n, 3), "float16x2")):
    with T.Kernel(T.ceildiv(n, 2)) as block:
        shared = T.alloc_shared((2, 3), "float16x2")
        own = T.alloc_fragment((2, 3), "float16x2")
        T.copy(A[block * 2, 0], shared)
        T.copy(shared, own)
        for i, j in T.Parallel(2, 3):
            own[i, j] = own[i, j] * 2 + B[block * 2 + i, j]
        T.copy(own, C[block * 2, 0])


@pytest.mark.parametrize("target", TARGETS)
def test_tiles_of_vectors(target):
    kernel = zl.compile(through_tiles, target=target, out_idx=[2])
    for rows in (1, 5):
        a, b = np.arange(rows * 12, dtype=np.float16).reshape(2, rows, 3, 2)
        np.testing.assert_array_equal(kernel(a, b), a * 2 + b)
