"""Softmax of each row, of any width: one pass in blocks finds the maximum and the sum of the exponentials together, correcting the sum
whenever the maximum grows, and a second one writes the result. Of a row that is one block the exponentials are still there then."""

from _bounds import exact, softmax as softmax_bound
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T

LOG2_E = 1.4426950408889634


@zl.jit(out_idx=[-1])
def softmax(columns, dtype="float32", block_rows=8, block_columns=1024):
    rows = T.dynamic("rows")
    block = min(block_columns, columns)

    @T.prim_func
    def softmax(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
        with T.Kernel(T.ceildiv(rows, block_rows), threads=128) as bx:
            x = T.alloc_fragment((block_rows, block), "float32")
            top = T.alloc_fragment((block_rows,), "float32")
            top_before = T.alloc_fragment((block_rows,), "float32")
            total = T.alloc_fragment((block_rows,), "float32")
            block_sum = T.alloc_fragment((block_rows,), "float32")
            T.annotate_safe_value({X: -T.infinity(dtype)})
            T.fill(top, T.min_value("float32"))
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(columns, block), num_stages=2):
                T.copy(X[bx * block_rows, k * block], x)
                T.copy(top, top_before)
                T.reduce_max(x, top, dim=1, clear=False)
                for i, j in T.Parallel(block_rows, block):
                    x[i, j] = T.exp2((x[i, j] - top[i]) * LOG2_E)
                T.reduce_sum(x, block_sum, dim=1)
                for i in T.Parallel(block_rows):
                    total[i] = total[i] * T.exp2((top_before[i] - top[i]) * LOG2_E) + block_sum[i]
            if columns == block:
                for i, j in T.Parallel(block_rows, block):
                    x[i, j] /= total[i]
                T.copy(x, Y[bx * block_rows, 0])
            else:
                for k in T.Pipelined(T.ceildiv(columns, block), num_stages=2):
                    T.copy(X[bx * block_rows, k * block], x)
                    for i, j in T.Parallel(block_rows, block):
                        x[i, j] = T.exp2((x[i, j] - top[i]) * LOG2_E) / total[i]
                    T.copy(x, Y[bx * block_rows, k * block])

    return softmax


@example(shape={"rows": 4001, "columns": 1037}, dtypes=("float32", "float16", "bfloat16"))
def main(run: Run) -> None:
    rows, columns = run.shape
    X = run.normal(rows, columns, scale=3)
    kernel = softmax(columns, run.dtype)
    weights, total = softmax_bound(exact(to_numpy(X)), steps=-(-columns // 1024))
    run.check("softmax", lambda: kernel(X), (weights / total).rounded(run.dtype), byte=2 * X.nbytes)


if __name__ == "__main__":
    main()
