"""C = A B, in the lazy style: a Python function of the sizes returns the kernel for them."""

from _bounds import exact
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[-1])
def gemm(M=1000, N=1037, K=999, dtype="float32", block_M=128, block_N=128, block_K=32, stages=3):
    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_tile = T.alloc_shared((block_M, block_K), dtype)
            B_tile = T.alloc_shared((block_K, block_N), dtype)
            C_tile = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_tile)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_tile)
                T.copy(B[k * block_K, bx * block_N], B_tile)
                T.gemm(A_tile, B_tile, C_tile)
            T.copy(C_tile, C[by * block_M, bx * block_N])

    return gemm


@example(shape={"M": 1000, "N": 1037, "K": 999}, dtypes=("float32", "float16", "bfloat16"))
def main(run: Run) -> None:
    M, N, K = run.shape
    A, B = run.normal(M, K), run.normal(K, N)
    kernel = gemm(M, N, K, run.dtype)
    expected = (exact(to_numpy(A)) @ exact(to_numpy(B))).rounded(run.dtype)
    run.check("GEMM, lazy", lambda: kernel(A, B), expected, flop=2 * M * N * K)


if __name__ == "__main__":
    main()
