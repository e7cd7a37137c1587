"""RMS norm of each row: Y = X / sqrt(mean(X^2) + eps) * weight. A row stays in the fragment between the sum and the scaling."""

from _bounds import exact
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[-1])
def rms_norm(columns, dtype="float32", block_rows=4, eps=1e-5):
    rows = T.dynamic("rows")

    @T.prim_func
    def rms_norm(X: T.Tensor((rows, columns), dtype), weight: T.Tensor((columns,), dtype), Y: T.Tensor((rows, columns), dtype)):
        with T.Kernel(T.ceildiv(rows, block_rows), threads=128) as bx:
            x = T.alloc_fragment((block_rows, columns), "float32")
            square = T.alloc_fragment((block_rows, columns), "float32")
            scale = T.alloc_fragment((block_rows,), "float32")
            T.copy(X[bx * block_rows, 0], x)
            for i, j in T.Parallel(block_rows, columns):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, scale, dim=1)
            for i in T.Parallel(block_rows):
                scale[i] = T.rsqrt(scale[i] / columns + eps)
            for i, j in T.Parallel(block_rows, columns):
                x[i, j] = x[i, j] * scale[i] * weight[j]
            T.copy(x, Y[bx * block_rows, 0])

    return rms_norm


@example(shape={"rows": 4001, "columns": 1037}, dtypes=("float32", "float16", "bfloat16"))
def main(run: Run) -> None:
    rows, columns = run.shape
    X, weight = run.normal(rows, columns), run.normal(columns)
    kernel = rms_norm(columns, run.dtype)
    x = exact(to_numpy(X))
    scale = ((x * x).sum(1, keepdims=True) / columns + 1e-5).rsqrt()
    expected = (x * scale * exact(to_numpy(weight))).rounded(run.dtype)
    run.check("RMS norm", lambda: kernel(X, weight), expected, byte=2 * X.nbytes)


if __name__ == "__main__":
    main()
