import zellige as zl
import zellige.language as T


@zl.jit(target="interp")
def double(A, B):
    m, n = T.dynamic("m, n")
    A: T.Tensor((m, n + 1), "float32")
    B: T.Tensor((m, n + 1), "float32")
    with T.Kernel(T.ceildiv(m, 64), T.ceildiv(n + 1, 32)) as (bx, by):
        tile = T.alloc_shared((64, 32), "float32")
        T.copy(A[bx * 64, by * 32], tile)
        T.copy(tile, B[bx * 64, by * 32])


def program() -> None:
    double.compile()
