"""C = A B with K split over blocks, which add their parts of C atomically: for few rows and columns and a long K."""

from _bounds import exact
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T


@zl.jit
def gemm_split_k(M, N, K, dtype="float32", splits=4, block_M=64, block_N=64, block_K=32, stages=3):
    steps = T.ceildiv(T.ceildiv(K, splits), block_K)  # of one block

    @T.prim_func
    def gemm_split_k(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), splits, threads=128) as (bx, by, bz):
            A_tile = T.alloc_shared((block_M, block_K), dtype)
            B_tile = T.alloc_shared((block_K, block_N), dtype)
            C_tile = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_tile)
            for k in T.Pipelined(steps, num_stages=stages):
                T.copy(A[by * block_M, (bz * steps + k) * block_K], A_tile)
                T.copy(B[(bz * steps + k) * block_K, bx * block_N], B_tile)
                T.gemm(A_tile, B_tile, C_tile)
            T.atomic_add(C[by * block_M, bx * block_N], C_tile)

    return gemm_split_k


@example(shape={"M": 97, "N": 129, "K": 8191}, dtypes=("float32", "float16", "bfloat16"))
def main(run: Run) -> None:
    M, N, K = run.shape
    A, B = run.normal(M, K), run.normal(K, N)
    kernel = gemm_split_k(M, N, K, run.dtype)

    def product():
        C = run.zeros(M, N, dtype="float32")
        kernel(A, B, C)
        return C

    run.check("GEMM, split K", product, exact(to_numpy(A)) @ exact(to_numpy(B)), flop=2 * M * N * K)


if __name__ == "__main__":
    main()
