"""B = A^T by square tiles, so that both the reads and the writes are of adjacent elements."""

from _harness import Run, example

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[-1])
def transpose(dtype="float32", block=64):
    M, N = T.dynamic("M, N")

    @T.prim_func
    def transpose(A: T.Tensor((M, N), dtype), B: T.Tensor((N, M), dtype)):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            tile = T.alloc_shared((block, block), dtype)
            turned = T.alloc_shared((block, block), dtype)
            T.copy(A[by * block, bx * block], tile)
            T.transpose(tile, turned)
            T.copy(turned, B[bx * block, by * block])

    return transpose


@example(shape={"M": 2001, "N": 1037}, dtypes=("float32", "float16", "bfloat16", "int8"))
def main(run: Run) -> None:
    M, N = run.shape
    values = run.random.integers(-128, 128, (M, N))  # every format of the choice holds these
    A = run.put(values, run.dtype)
    kernel = transpose(run.dtype)
    run.check("transpose", lambda: kernel(A), values.T, byte=2 * M * N * A.itemsize)


if __name__ == "__main__":
    main()
