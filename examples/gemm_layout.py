"""C = A B with hints: how the tiles lie in shared memory, in which order the blocks walk over C, how groups of lanes share it.

A hint never changes the result. A target that has a better layout of its own says so in ``zl.explain``.
"""

from functools import partial

from _bounds import exact
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[-1])
def gemm_layout(M, N, K, dtype="float16", block_M=128, block_N=128, block_K=64, stages=3, panel=8):
    @T.prim_func
    def gemm_layout(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
            A_tile = T.alloc_shared((block_M, block_K), dtype)
            B_tile = T.alloc_shared((block_K, block_N), dtype)
            C_tile = T.alloc_fragment((block_M, block_N), "float32")
            C_out = T.alloc_shared((block_M, block_N), dtype)
            T.use_swizzle(panel, order="row")
            T.annotate_layout(
                {
                    A_tile: zl.layout.make_swizzled_layout(A_tile),
                    B_tile: zl.layout.make_swizzled_layout(B_tile),
                    C_out: T.Layout((block_M, block_N), lambda i, j: i * (block_N + 8) + j),  # rows 8 elements apart: no bank twice
                }
            )
            T.clear(C_tile)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_tile)
                T.copy(B[k * block_K, bx * block_N], B_tile)
                T.gemm(A_tile, B_tile, C_tile, policy=T.GemmWarpPolicy.FullRow)
            T.copy(C_tile, C_out)
            T.copy(C_out, C[by * block_M, bx * block_N])

    return gemm_layout


@example(shape={"M": 1000, "N": 1037, "K": 999}, dtypes=("float16", "bfloat16", "float32"))
def main(run: Run) -> None:
    M, N, K = run.shape
    A, B = run.normal(M, K), run.normal(K, N)
    kernel = gemm_layout(M, N, K, run.dtype)
    expected = (exact(to_numpy(A)) @ exact(to_numpy(B))).rounded(run.dtype)
    run.check("GEMM, layout hints", partial(kernel, A, B), expected, flop=2 * M * N * K)


if __name__ == "__main__":
    main()
