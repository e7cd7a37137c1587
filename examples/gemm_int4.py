"""C = A W^T with weights of 4 bits, two in a byte, and a scale and a zero point for each group of them along K.

A tile of weights is unpacked to the type of A on the chip: the weights cross the memory as 4 bits each.
"""

from functools import partial

import numpy as np
from _bounds import exact
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[-1])
def gemm_int4(N, K, dtype="float16", group=64, block_M=64, block_N=64, block_K=64, stages=3):
    M = T.dynamic("M")

    @T.prim_func
    def gemm_int4(
        A: T.Tensor((M, K), dtype),
        W: T.Tensor((N, T.ceildiv(K, 2)), "uint8"),
        scales: T.Tensor((N, T.ceildiv(K, group)), dtype),
        zeros: T.Tensor((N, T.ceildiv(K, group)), "uint8"),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_tile = T.alloc_shared((block_M, block_K), dtype)
            packed = T.alloc_shared((block_N, block_K // 2), "uint8")
            W_tile = T.alloc_shared((block_N, block_K), dtype)
            C_tile = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_tile)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_tile)
                T.copy(W[bx * block_N, k * block_K // 2], packed)
                for i, j in T.Parallel(block_N, block_K):
                    nibble = T.cast((packed[i, j // 2] >> (j % 2 * 4)) & 15, "int32")
                    row, column = bx * block_N + i, (k * block_K + j) // group
                    W_tile[i, j] = T.cast(nibble - zeros[row, column], "float32") * scales[row, column]
                T.gemm(A_tile, W_tile, C_tile, transpose_B=True)
            T.copy(C_tile, C[by * block_M, bx * block_N])

    return gemm_int4


@example(shape={"M": 129, "N": 389, "K": 777}, dtypes=("float16", "bfloat16", "float32"))
def main(run: Run) -> None:
    M, N, K = run.shape
    nibbles = run.random.integers(0, 16, (N, K))
    pairs = np.pad(nibbles, ((0, 0), (0, K % 2))).reshape(N, -1, 2)
    points = run.random.integers(5, 11, (N, -(-K // 64)))
    A, scales, zeros = run.normal(M, K), run.normal(N, points.shape[1], scale=0.05), run.put(points, "uint8")
    W = run.put(pairs[..., 0] | pairs[..., 1] << 4, "uint8")
    kernel = gemm_int4(N, K, run.dtype)
    wide = np.arange(K) // 64
    weights = (exact(nibbles - points[:, wide]) * exact(to_numpy(scales)[:, wide])).rounded(run.dtype)
    expected = (exact(to_numpy(A)) @ weights.mT).rounded(run.dtype)
    run.check("GEMM, int4 weights", partial(kernel, A, W, scales, zeros), expected, flop=2 * M * N * K)


if __name__ == "__main__":
    main()
