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


@T.prim_func
def outside(A: T.Tensor((4, 4), "int32x2"), B: T.Tensor((4, 4), "int32x2"), C: T.Tensor((8,), "int32")):
    with T.Kernel(1):
        T.annotate_safe_value({A: -1})
        seen = T.view(A, (32,), "int32")
        own, turned = T.alloc_shared((4, 4), "int32x2"), T.alloc_shared((4, 4), "int32x2")
        for i, j in T.Parallel(4, 4):
            own[i, j] = A[i + 2, j]
        T.transpose(own, turned)
        T.copy(turned, B)
        for i in T.Parallel(8):
            C[i] = seen[i + 28]


@pytest.mark.parametrize("target", TARGETS)
def test_what_lies_outside_of_vectors_and_of_views(target):
    a = np.arange(1, 33, dtype=np.int32).reshape(4, 4, 2)
    b, c = np.zeros_like(a), np.ones(8, np.int32)
    zl.compile(outside, target=target)(a, b, c)
    np.testing.assert_array_equal(b, np.concatenate([a[2:], np.full((2, 4, 2), -1)]).transpose(1, 0, 2))
    assert c.tolist() == [29, 30, 31, 32, 0, 0, 0, 0], "a view has a safe value of its own"


@T.prim_func
def through_names(A: T.Tensor((n,), "int32x4"), B: T.Tensor((n,), "int32x4")):
    with T.Kernel(1):
        total = T.int32x4(0)
        for i in T.serial(n):
            v = A[i]
            A[i] = 0
            if T.extract_lane(v, 1) > 4:
                v = v * 2
            total = total + v
            B[i] = total if i % 2 == 0 else -v
        for i in T.Parallel(n):
            A[i] = T.if_then_else(B[i] > 0, B[i], 1)


@pytest.mark.parametrize("target", TARGETS)
def test_names_of_vectors(target):
    given = np.arange(20, dtype=np.int32).reshape(5, 4)
    doubled = np.where(given[:, 1:2] > 4, given * 2, given)
    wanted = np.where(np.arange(5)[:, None] % 2 == 0, doubled.cumsum(0), -doubled)
    a, b = given.copy(), np.zeros_like(given)
    zl.compile(through_names, target=target)(a, b)
    np.testing.assert_array_equal(b, wanted)
    np.testing.assert_array_equal(a, np.where(wanted > 0, wanted, 1))
