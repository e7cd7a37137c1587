import zellige as zl
import zellige.language as T


@T.prim_func
def double(A: T.Tensor((256, 256), "float32"), B: T.Tensor((256, 256), "float32")):
    with T.Kernel(T.ceildiv(256, 64)) as bx:
        tile = T.alloc_shared((64, 64), "float32")
        T.copy(A[bx * 64, bx * 64], tile)
        T.copy(tile, B[bx * 64, bx * 64])
#       ^ E281


def program() -> None:
    zl.compile(double, target="interp", out_idx=-1)
