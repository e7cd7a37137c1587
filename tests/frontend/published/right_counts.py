import zellige as zl
import zellige.language as T


@zl.jit(target="interp")
def histogram(keys, start):
    keys: T.Tensor((64,), "int32")
    start: T.Tensor((8,), "int32")
    counts = T.empty((8,), "int32")
    with T.Kernel(1):
        T.copy(start, counts)
    with T.Kernel(4) as block:
        for i in T.Parallel(16):
            T.atomic_add(counts[keys[block * 16 + i]], 1)
            T.atomic_max(start[i % 8], 0)
    return counts


def program() -> None:
    histogram.compile()
