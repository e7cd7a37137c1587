"""C = A B^T of 8-bit floats with a scale for each block: 1 x 128 elements of A, 128 x 128 of B, as large language models are trained.

``quantise`` makes such an A: each block is divided by its largest magnitude over 448, the largest float8_e4m3fn. The product adds each
block of 128 along K, times both scales, to a float32 accumulator.
"""

from functools import partial

import numpy as np
from _bounds import Bounded, exact, lift
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T

BLOCK = 128
LARGEST = 448.0


@zl.jit(out_idx=[1, 2])
def quantise(columns, dtype="float8_e4m3fn", block_rows=32):
    rows = T.dynamic("rows")

    @T.prim_func
    def quantise(
        X: T.Tensor((rows, columns), "float32"),
        Q: T.Tensor((rows, columns), dtype),
        scales: T.Tensor((rows, T.ceildiv(columns, BLOCK)), "float32"),
    ):
        with T.Kernel(T.ceildiv(columns, BLOCK), T.ceildiv(rows, block_rows), threads=128) as (bx, by):
            x = T.alloc_fragment((block_rows, BLOCK), "float32")
            q = T.alloc_fragment((block_rows, BLOCK), dtype)
            scale = T.alloc_fragment((block_rows,), "float32")
            T.copy(X[by * block_rows, bx * BLOCK], x)
            T.reduce_absmax(x, scale, dim=1)
            for i in T.Parallel(block_rows):
                scale[i] = T.max(scale[i], 1e-4) / LARGEST
                scales[by * block_rows + i, bx] = scale[i]
            for i, j in T.Parallel(block_rows, BLOCK):
                q[i, j] = T.clamp(x[i, j] / scale[i], -LARGEST, LARGEST)
            T.copy(q, Q[by * block_rows, bx * BLOCK])

    return quantise


@zl.jit(out_idx=[-1])
def gemm_fp8(N, K, dtype="float8_e4m3fn", out_dtype="bfloat16", block_M=64, stages=3):
    M = T.dynamic("M")
    blocks_K = T.ceildiv(K, BLOCK)

    @T.prim_func
    def gemm_fp8(
        A: T.Tensor((M, K), dtype),
        scales_A: T.Tensor((M, blocks_K), "float32"),
        B: T.Tensor((N, K), dtype),
        scales_B: T.Tensor((T.ceildiv(N, BLOCK), blocks_K), "float32"),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(T.ceildiv(N, BLOCK), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_tile = T.alloc_shared((block_M, BLOCK), dtype)
            B_tile = T.alloc_shared((BLOCK, BLOCK), dtype)
            product = T.alloc_fragment((block_M, BLOCK), "float32")
            total = T.alloc_fragment((block_M, BLOCK), "float32")
            T.clear(total)
            for k in T.Pipelined(blocks_K, num_stages=stages):
                T.copy(A[by * block_M, k * BLOCK], A_tile)
                T.copy(B[bx * BLOCK, k * BLOCK], B_tile)
                T.gemm(A_tile, B_tile, product, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_M, BLOCK):
                    total[i, j] += product[i, j] * (scales_A[by * block_M + i, k] * scales_B[bx, k])
            T.copy(total, C[by * block_M, bx * BLOCK])

    return gemm_fp8


def blocks_of(array):
    """The last dimension, padded with zeros, as (blocks, BLOCK)."""
    padded = np.pad(array, ((0, 0), (0, -array.shape[1] % BLOCK)))
    return padded.reshape(array.shape[0], -1, BLOCK)


def quantised(x: np.ndarray, dtype: str) -> list[Bounded]:
    scale = exact(np.maximum(np.abs(blocks_of(x)).max(-1), 1e-4)) / lift(LARGEST)
    wide = scale[np.arange(len(x))[:, None], np.arange(x.shape[1]) // BLOCK]
    return [(exact(x) / wide).rounded(dtype), scale]


@example(shape={"M": 517, "N": 389, "K": 777}, dtypes=("float8_e4m3fn",))
def main(run: Run) -> None:
    M, N, K = run.shape
    X, W = run.normal(M, K, dtype="float32"), run.random.standard_normal((N, K))
    quantiser = quantise(K, run.dtype)
    run.check("quantise", partial(quantiser, X), quantised(to_numpy(X), run.dtype), byte=M * K * 5)

    A, scales_A = quantiser(X)
    tall = np.pad(W, ((0, -N % BLOCK), (0, -K % BLOCK))).reshape(-(-N // BLOCK), BLOCK, -(-K // BLOCK), BLOCK)
    largest = np.abs(tall).max(axis=(1, 3)) / LARGEST
    scales_B = run.put(largest, "float32")
    B = run.put(W / np.repeat(np.repeat(largest, BLOCK, 0)[:N], BLOCK, 1)[:, :K], run.dtype)
    kernel = gemm_fp8(N, K, run.dtype)
    a, b = blocks_of(to_numpy(A)), blocks_of(to_numpy(B))
    s, t = exact(to_numpy(scales_A)), exact(np.repeat(to_numpy(scales_B), BLOCK, 0)[:N])
    expected = lift(0.0)
    for k in range(a.shape[1]):
        expected = expected + exact(a[:, k]) @ exact(b[:, k]).mT * (s[:, k : k + 1] * t[:, k : k + 1].mT)
    run.check("GEMM, fp8", partial(kernel, A, scales_A, B, scales_B), expected.rounded("bfloat16"), flop=2 * M * N * K)


if __name__ == "__main__":
    main()
