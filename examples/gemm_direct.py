"""C = A B, in the direct style: the tensors are annotated in the signature and any size may be known only at the call."""

from _bounds import exact
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T

M, N, K = T.dynamic("M, N, K")
block_M, block_N, block_K = 128, 128, 32


@zl.jit(out_idx=[-1])
def gemm(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_tile = T.alloc_shared((block_M, block_K), "float32")
        B_tile = T.alloc_shared((block_K, block_N), "float32")
        C_tile = T.alloc_fragment((block_M, block_N), "float32")
        T.clear(C_tile)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, k * block_K], A_tile)
            T.copy(B[k * block_K, bx * block_N], B_tile)
            T.gemm(A_tile, B_tile, C_tile)
        T.copy(C_tile, C[by * block_M, bx * block_N])


@example(shape={"M": 1000, "N": 1037, "K": 999})
def main(run: Run) -> None:
    M, N, K = run.shape
    A, B = run.normal(M, K), run.normal(K, N)
    expected = exact(to_numpy(A)) @ exact(to_numpy(B))
    run.check("GEMM, direct", lambda: gemm(A, B), expected, flop=2 * M * N * K)


if __name__ == "__main__":
    main()
