"""How often each of a number of values occurs. A block counts in its shared memory, then adds its counts to those of the others."""

import numpy as np
from _harness import Run, example

import zellige as zl
import zellige.language as T


@zl.jit
def histogram(bins, block=8192):
    n = T.dynamic("n")

    @T.prim_func
    def histogram(values: T.Tensor((n,), "int32"), counts: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(n, block), threads=256) as bx:
            local = T.alloc_shared((bins,), "int32")
            T.clear(local)
            for i in T.Parallel(block):
                position = bx * block + i
                if position < n and values[position] >= 0 and values[position] < bins:
                    T.atomic_add(local[values[position]], 1)
            T.atomic_add(counts, local)

    return histogram


@example(shape={"n": 1_000_003, "bins": 257}, dtypes=("int32",))
def main(run: Run) -> None:
    n, bins = run.shape
    values = run.random.binomial(bins, 0.4, n) - 3  # some lie outside the bins and are not counted
    given = run.put(values, "int32")
    kernel = histogram(bins)

    def counted():
        counts = run.zeros(bins, dtype="int32")
        kernel(given, counts)
        return counts

    inside = values[(values >= 0) & (values < bins)]
    run.check("histogram", counted, np.bincount(inside, minlength=bins), byte=4 * n)


if __name__ == "__main__":
    main()
