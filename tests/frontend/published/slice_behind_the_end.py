import zellige as zl
import zellige.language as T


@zl.jit(target="interp")
def tail(A: T.Tensor((T.dynamic("n"), 16), "float32"), B: T.Tensor((64, 16), "float32")):
    with T.Kernel(4) as bx:
        tile = T.alloc_shared((16, 16), "float32")
        T.copy(A[bx * 16, 16], tile)
#       ^ E285
        T.copy(tile, B[bx * 16, 0])


def program() -> None:
    tail.compile()
