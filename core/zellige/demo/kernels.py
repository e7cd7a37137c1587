"""Vector addition, a pipelined GEMM and causal attention, as a kernel author writes them.

In: sizes and tile sizes, which need not divide each other. Out: one ``prim_func`` each.
"""

# Kernels are read by the front end, not run by Python: their annotations are shapes, which mypy cannot follow.
# mypy: ignore-errors

import math
from typing import Any

import zellige.language as T


def vector_addition(n: int, *, block: int = 4096) -> Any:
    """c = a + b for float32 vectors of ``n`` elements."""

    @T.prim_func
    def vector_addition(a: T.Tensor((n,), "float32"), b: T.Tensor((n,), "float32"), c: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=256) as bx:
            for i in T.Parallel(block):
                c[bx * block + i] = a[bx * block + i] + b[bx * block + i]

    return vector_addition


def pipelined_gemm(M: int, N: int, K: int, *, block_M: int = 128, block_N: int = 128, block_K: int = 32, stages: int = 3) -> Any:
    """C = A B for float32 matrices A[M, K], B[K, N], C[M, N]."""

    @T.prim_func
    def pipelined_gemm(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_tile = T.alloc_shared((block_M, block_K), "float32")
            B_tile = T.alloc_shared((block_K, block_N), "float32")
            C_tile = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_tile)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_tile)
                T.copy(B[k * block_K, bx * block_N], B_tile)
                T.gemm(A_tile, B_tile, C_tile)
            T.copy(C_tile, C[by * block_M, bx * block_N])

    return pipelined_gemm


def causal_attention(batch: int, heads: int, length: int, width: int, *, block_M: int = 64, block_N: int = 64, stages: int = 2) -> Any:
    """O = softmax(Q K^T / sqrt(width), over the positions up to the row's own) V, for float16 tensors [batch, heads, length, width].

    The softmax runs online: each block of keys rescales what the blocks before it gave to the new maximum of the row.
    """
    shape = (batch, heads, length, width)
    scale = math.log2(math.e) / math.sqrt(width)  # exp(x) is taken as exp2(x log2(e))

    @T.prim_func
    def causal_attention(
        Q: T.Tensor(shape, "float16"), K: T.Tensor(shape, "float16"), V: T.Tensor(shape, "float16"), O: T.Tensor(shape, "float16")
    ):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=128) as (bx, by, bz):
            Q_tile = T.alloc_shared((block_M, width), "float16")
            K_tile = T.alloc_shared((block_N, width), "float16")
            V_tile = T.alloc_shared((block_N, width), "float16")
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), "float16")
            output = T.alloc_fragment((block_M, width), "float32")
            row_max = T.alloc_fragment((block_M,), "float32")
            row_max_before = T.alloc_fragment((block_M,), "float32")
            rescale = T.alloc_fragment((block_M,), "float32")
            block_sum = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], Q_tile)
            T.fill(output, 0)
            T.fill(row_sum, 0)
            T.fill(row_max, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv((bx + 1) * block_M, block_N), num_stages=stages):
                T.copy(K[bz, by, k * block_N : (k + 1) * block_N, :], K_tile)
                T.copy(V[bz, by, k * block_N : (k + 1) * block_N, :], V_tile)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.if_then_else(bx * block_M + i >= k * block_N + j, 0, -T.infinity("float32"))
                T.gemm(Q_tile, K_tile, scores, transpose_B=True)
                T.copy(row_max, row_max_before)
                T.reduce_max(scores, row_max, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    rescale[i] = T.exp2((row_max_before[i] - row_max[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - row_max[i] * scale)
                T.reduce_sum(scores, block_sum, dim=1)
                for i in T.Parallel(block_M):
                    row_sum[i] = row_sum[i] * rescale[i] + block_sum[i]
                for i, j in T.Parallel(block_M, width):
                    output[i, j] *= rescale[i]
                T.copy(scores, weights)
                T.gemm(weights, V_tile, output)
            for i, j in T.Parallel(block_M, width):
                output[i, j] /= row_sum[i]
            T.copy(output, O[bz, by, bx * block_M : (bx + 1) * block_M, :])

    return causal_attention
