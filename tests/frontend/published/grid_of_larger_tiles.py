import zellige as zl
import zellige.language as T


@T.prim_func
def double(A: T.Tensor((64, 200), "float32"), B: T.Tensor((64, 200), "float32")):
    with T.Kernel(T.ceildiv(200, 64)) as bx:
        tile = T.alloc_shared((64, 32), "float32")
        T.copy(A[0, bx * 64], tile)
        T.copy(tile, B[0, bx * 64])
#       ^ E281


def program() -> None:
    zl.compile(double, target="interp")
