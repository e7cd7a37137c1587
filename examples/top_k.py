"""The k largest values of each row and where they stand; of equal ones the first. k rounds: find the maximum, note it, strike it out."""

from functools import partial

import numpy as np
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[1, 2])
def top_k(columns, k, dtype="float32", block_rows=8):
    rows = T.dynamic("rows")

    @T.prim_func
    def top_k(X: T.Tensor((rows, columns), dtype), values: T.Tensor((rows, k), dtype), indices: T.Tensor((rows, k), "int32")):
        with T.Kernel(T.ceildiv(rows, block_rows), threads=128) as bx:
            x = T.alloc_fragment((block_rows, columns), dtype)
            places = T.alloc_fragment((block_rows, columns), "int32")
            top = T.alloc_fragment((block_rows,), dtype)
            place = T.alloc_fragment((block_rows,), "int32")
            T.copy(X[bx * block_rows, 0], x)
            for n in T.serial(k):
                T.reduce_max(x, top, dim=1)
                for i, j in T.Parallel(block_rows, columns):
                    places[i, j] = T.if_then_else(x[i, j] == top[i], j, columns)
                T.reduce_min(places, place, dim=1)
                for i in T.Parallel(block_rows):
                    values[bx * block_rows + i, n] = top[i]
                    indices[bx * block_rows + i, n] = place[i]
                for i, j in T.Parallel(block_rows, columns):
                    if j == place[i]:
                        x[i, j] = -T.infinity(dtype)

    return top_k


@example(shape={"rows": 2001, "columns": 257, "k": 6}, dtypes=("float32", "float16", "bfloat16"))
def main(run: Run) -> None:
    rows, columns, k = run.shape
    run.require(k <= columns, "k must be at most columns")
    X = run.normal(rows, columns)
    kernel = top_k(columns, k, run.dtype)
    x = to_numpy(X)
    indices = np.argsort(-x, axis=1, kind="stable")[:, :k]
    expected = [np.take_along_axis(x, indices, axis=1), indices]
    run.check("top k", partial(kernel, X), expected, byte=X.nbytes)


if __name__ == "__main__":
    main()
