"""Kernels in the manner of tutorials: the direct style with all its older spellings, run on the CPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import zellige as tilelang
import zellige.language as T
from zellige.layout import make_swizzled_layout

M = N = 256
K = 128


@tilelang.jit(target="cpu")
def gemm(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
    with T.Kernel(T.grid(2, 2), threads=256) as (bx, by):
        a = T.alloc_shared((128, 32), "float16")
        b = T.alloc_shared((32, 128), "float16")
        c = T.alloc_fragment((128, 128), "float16")
        T.clear(c)
        for k in T.Pipelined(K // 32, num_stages=2):
            T.copy(A[by * 128, k * 32], a, swizzle="bank")
            T.copy(B[k * 32, bx * 128], b, swizzle="bank")
            T.gemm(a, b, c)
        T.copy(c, C[by * 128, bx * 128])


def integers(*shape: int, dtype: str = "float16", seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


def test_direct_gemm_with_a_grid_and_a_narrow_accumulator() -> None:
    a, b, c = integers(M, K), integers(K, N, seed=1), np.zeros((M, N), np.float16)
    gemm(a, b, c)
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))


@tilelang.jit(target="cpu", force_compile=True)
def vector_add(A, B, C, N: int, block: int = 128):
    with T.Kernel(T.ceildiv(N, block), threads=block) as bx:
        for i in T.Parallel(block):
            idx = bx * block + i
            if idx < N:
                C[idx] = A[idx] + B[idx]


@pytest.mark.parametrize("size", [1, 128, 1000])
def test_vector_addition_with_a_tail(size: int) -> None:
    a, b, c = integers(size, dtype="float32"), integers(size, dtype="float32", seed=1), np.zeros(size, np.float32)
    vector_add(a, b, c, size)
    np.testing.assert_array_equal(c, a + b)


@tilelang.jit(target="cpu", out_idx=[-1])
def pipelined_gemm(m: int, n: int, k: int, block: int, stages: int, dtype: str = "float16") -> Any:
    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, block), T.ceildiv(m, block), threads=128) as (bx, by):
            a = T.alloc_shared((block, 32), dtype)
            b = T.alloc_shared((32, block), dtype)
            c = T.alloc_fragment((block, block), "float32")
            T.annotate_layout({a: make_swizzled_layout(a), b: make_swizzled_layout(b)})
            T.use_swizzle(panel_size=10)
            T.clear(c)
            for ko in T.Pipelined(T.ceildiv(k, 32), num_stages=stages):
                T.copy(A[by * block, ko * 32], a)
                for i, j in T.Parallel(32, block):
                    b[i, j] = B[ko * 32 + i, bx * block + j]
                T.gemm(a, b, c)
            T.copy(c, C[by * block, bx * block])

    return main


@pytest.mark.parametrize("stages", [0, 3])
def test_pipelined_gemm_with_swizzled_layouts(stages: int) -> None:
    a, b = integers(100, 70), integers(70, 90, seed=1)
    c = pipelined_gemm(100, 90, 70, 64, stages)(a, b)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@tilelang.jit(target="cpu")
def attention(Q, K, V, O, scale: float, BLOCK_M: int = 64, BLOCK_N: int = 64):
    batch, heads, length, width = Q.shape
    with T.Kernel(T.ceildiv(length, BLOCK_M), heads, batch, threads=128) as (bx, by, bz):
        q = T.alloc_shared((BLOCK_M, width), Q.dtype)
        k = T.alloc_shared((BLOCK_N, width), Q.dtype)
        v = T.alloc_shared((BLOCK_N, width), Q.dtype)
        p = T.alloc_shared((BLOCK_M, BLOCK_N), Q.dtype)
        acc_s = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
        acc_o = T.alloc_fragment((BLOCK_M, width), "float32")
        top = T.alloc_fragment((BLOCK_M,), "float32")
        before = T.alloc_fragment((BLOCK_M,), "float32")
        total = T.alloc_fragment((BLOCK_M,), "float32")
        T.copy(Q[bz, by, bx * BLOCK_M : (bx + 1) * BLOCK_M, :], q)
        T.clear(acc_o)
        T.clear(total)
        T.fill(top, -T.infinity("float32"))
        for step in T.Pipelined(T.ceildiv(length, BLOCK_N), num_stages=2):
            T.copy(K[bz, by, step * BLOCK_N : (step + 1) * BLOCK_N, :], k)
            T.copy(V[bz, by, step * BLOCK_N : (step + 1) * BLOCK_N, :], v)
            T.clear(acc_s)
            T.gemm(q, k, acc_s, transpose_B=True)
            for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                acc_s[i, j] = acc_s[i, j] * scale if step * BLOCK_N + j < length else -T.infinity("float32")
            T.copy(top, before)
            T.reduce_max(acc_s, top, dim=1, clear=False)
            for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                acc_s[i, j] = T.exp(acc_s[i, j] - top[i])
            for i in T.Parallel(BLOCK_M):
                total[i] = total[i] * T.exp(before[i] - top[i]) + T.sum(acc_s[i, :])
            for i, j in T.Parallel(BLOCK_M, width):
                acc_o[i, j] *= T.exp(before[i] - top[i])
            T.copy(acc_s, p)
            T.gemm(p, v, acc_o)
        for i, j in T.Parallel(BLOCK_M, width):
            acc_o[i, j] /= total[i]
        T.copy(acc_o, O[bz, by, bx * BLOCK_M : (bx + 1) * BLOCK_M, :])


def reference(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize(("width", "block_m", "length"), [(128, 64, 128), (64, 128, 200), (32, 256, 256)])
def test_direct_attention_with_unannotated_tensors(width: int, block_m: int, length: int) -> None:
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((1, 2, length, width)).astype(np.float16) for _ in range(3))
    o = np.zeros_like(q)
    attention(q, k, v, o, 1.0 / math.sqrt(width), BLOCK_M=block_m)
    np.testing.assert_allclose(o.astype(np.float64), reference(q, k, v), atol=4e-3)
