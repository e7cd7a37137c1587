"""C = A B[g] where each group g of rows of A has a matrix of its own. The groups' sizes are data: they lie in ``offsets``.

The grid has a block for each tile that there could be; one beyond the tiles of the given groups has nothing to do.
"""

import numpy as np
from _bounds import concatenate, exact
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[-1])
def gemm_grouped(groups, N, K, dtype="float32", block_M=64, block_N=64, block_K=32, stages=3):
    rows = T.dynamic("rows")

    @T.prim_func
    def gemm_grouped(
        A: T.Tensor((rows, K), dtype),
        B: T.Tensor((groups, K, N), dtype),
        offsets: T.Tensor((groups + 1,), "int32"),
        C: T.Tensor((rows, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(rows, block_M) + groups, threads=128) as (bx, by):
            A_tile = T.alloc_shared((block_M, block_K), dtype)
            B_tile = T.alloc_shared((block_K, block_N), dtype)
            C_tile = T.alloc_fragment((block_M, block_N), "float32")
            group = T.alloc_var("int32", init=-1)
            first = T.alloc_var("int32", init=0)  # tiles of the groups before the current one
            start = T.alloc_var("int32", init=0)
            for g in T.serial(groups):
                tiles = T.ceildiv(offsets[g + 1] - offsets[g], block_M)
                if by >= first and by < first + tiles:
                    group = g
                    start = offsets[g] + (by - first) * block_M
                first = first + tiles
            if group >= 0:
                T.clear(C_tile)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                    T.copy(A[start, k * block_K], A_tile)
                    T.copy(B[group, k * block_K, bx * block_N], B_tile)
                    T.gemm(A_tile, B_tile, C_tile)
                for i, j in T.Parallel(block_M, block_N):
                    if start + i < offsets[group + 1] and bx * block_N + j < N:
                        C[start + i, bx * block_N + j] = C_tile[i, j]

    return gemm_grouped


@example(shape={"groups": 7, "rows": 1001, "N": 301, "K": 203}, dtypes=("float32", "float16", "bfloat16"))
def main(run: Run) -> None:
    groups, rows, N, K = run.shape
    cuts = np.sort(run.random.integers(0, rows + 1, groups - 1))
    bounds = np.concatenate([[0], cuts, [rows]])
    A, B, offsets = run.normal(rows, K), run.normal(groups, K, N), run.put(bounds, "int32")
    kernel = gemm_grouped(groups, N, K, run.dtype)
    a, b = exact(to_numpy(A)), exact(to_numpy(B))
    expected = concatenate([a[bounds[g] : bounds[g + 1]] @ b[g] for g in range(groups)]).rounded(run.dtype)
    run.check("GEMM, grouped", lambda: kernel(A, B, offsets), expected, flop=2 * rows * N * K)


if __name__ == "__main__":
    main()
