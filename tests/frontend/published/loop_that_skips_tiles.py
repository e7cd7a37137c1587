import zellige as zl
import zellige.language as T


@T.prim_func
def double(A: T.Tensor((64, 256), "float32"), B: T.Tensor((64, 256), "float32")):
    with T.Kernel(1):
        tile = T.alloc_shared((64, 32), "float32")
        for k in T.serial(0, 256, 64):
            T.copy(A[0, k], tile)
            T.copy(tile, B[0, k])
#           ^ E281


def program() -> None:
    zl.compile(double, target="interp", out_idx=-1)
