"""C = A B with the steps along K of all tiles dealt out evenly to a fixed number of blocks (stream-K: Osama et al., 2023).

A block begins and ends anywhere in a tile. The parts of a tile that several blocks share are added atomically, a whole one is stored.
"""

from _bounds import exact
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T


@zl.jit
def gemm_stream_k(M, N, K, dtype="float32", blocks=16, block_M=128, block_N=128, block_K=32, stages=3):
    tiles_N = T.ceildiv(N, block_N)
    steps = T.ceildiv(K, block_K)  # of one tile
    total = T.ceildiv(M, block_M) * tiles_N * steps
    share = T.ceildiv(total, blocks)

    @T.prim_func
    def gemm_stream_k(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(blocks, threads=128) as block:
            A_tile = T.alloc_shared((block_M, block_K), dtype)
            B_tile = T.alloc_shared((block_K, block_N), dtype)
            C_tile = T.alloc_fragment((block_M, block_N), "float32")
            step = T.alloc_var("int32", init=block * share)
            end = T.min((block + 1) * share, total)
            while step < end:
                tile = step // steps
                first = step % steps
                last = T.min(steps, first + end - step)
                row = tile // tiles_N * block_M
                column = tile % tiles_N * block_N
                T.clear(C_tile)
                for k in T.Pipelined(first, last, num_stages=stages):
                    T.copy(A[row, k * block_K], A_tile)
                    T.copy(B[k * block_K, column], B_tile)
                    T.gemm(A_tile, B_tile, C_tile)
                if last - first == steps:
                    T.copy(C_tile, C[row, column])
                else:
                    T.atomic_add(C[row, column], C_tile)
                step = step + last - first

    return gemm_stream_k


@example(shape={"M": 500, "N": 637, "K": 1999}, dtypes=("float32", "float16", "bfloat16"))
def main(run: Run) -> None:
    M, N, K = run.shape
    A, B = run.normal(M, K), run.normal(K, N)
    kernel = gemm_stream_k(M, N, K, run.dtype)

    def product():
        C = run.zeros(M, N, dtype="float32")
        kernel(A, B, C)
        return C

    run.check("GEMM, stream K", product, exact(to_numpy(A)) @ exact(to_numpy(B)), flop=2 * M * N * K)


if __name__ == "__main__":
    main()
