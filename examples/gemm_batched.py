"""C[b] = A[b] B[b]^T for a batch of matrices: the batch is the third dimension of the grid."""

from _bounds import exact
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[-1])
def gemm_batched(M, N, K, dtype="float32", block_M=64, block_N=64, block_K=32, stages=3):
    batch = T.dynamic("batch")

    @T.prim_func
    def gemm_batched(A: T.Tensor((batch, M, K), dtype), B: T.Tensor((batch, N, K), dtype), C: T.Tensor((batch, M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), batch, threads=128) as (bx, by, bz):
            A_tile = T.alloc_shared((block_M, block_K), dtype)
            B_tile = T.alloc_shared((block_N, block_K), dtype)
            C_tile = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_tile)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[bz, by * block_M, k * block_K], A_tile)
                T.copy(B[bz, bx * block_N, k * block_K], B_tile)
                T.gemm(A_tile, B_tile, C_tile, transpose_B=True)
            T.copy(C_tile, C[bz, by * block_M, bx * block_N])

    return gemm_batched


@example(shape={"batch": 13, "M": 250, "N": 201, "K": 187}, dtypes=("float32", "float16", "bfloat16"))
def main(run: Run) -> None:
    batch, M, N, K = run.shape
    A, B = run.normal(batch, M, K), run.normal(batch, N, K)
    kernel = gemm_batched(M, N, K, run.dtype)
    expected = (exact(to_numpy(A)) @ exact(to_numpy(B)).mT).rounded(run.dtype)
    run.check("GEMM, batched", lambda: kernel(A, B), expected, flop=2 * batch * M * N * K)


if __name__ == "__main__":
    main()
