"""c = a + b. The length is known only when the kernel is called, so that a new one compiles nothing."""

from _bounds import exact
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[-1])
def vector_add(dtype="float32", block=4096):
    n = T.dynamic("n")

    @T.prim_func
    def vector_add(a: T.Tensor((n,), dtype), b: T.Tensor((n,), dtype), c: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=256) as bx:
            for i in T.Parallel(block):
                c[bx * block + i] = a[bx * block + i] + b[bx * block + i]

    return vector_add


@example(shape={"n": 5_000_011}, dtypes=("float32", "float16", "bfloat16", "int32"))
def main(run: Run) -> None:
    (n,) = run.shape
    a, b = run.normal(n, scale=100), run.normal(n, scale=100)
    kernel = vector_add(run.dtype)
    if run.dtype == "int32":
        expected = to_numpy(a) + to_numpy(b)
    else:
        expected = (exact(to_numpy(a)) + exact(to_numpy(b))).rounded(run.dtype)
    run.check("vector add", lambda: kernel(a, b), expected, byte=3 * n * a.itemsize)


if __name__ == "__main__":
    main()
