import zellige as zl
import zellige.language as T


@T.prim_func
def double(A: T.Tensor((64, 96), "float32"), B: T.Tensor((64, 96), "float32")):
    with T.Kernel(32) as bx:
        for j in T.Parallel(96):
            B[bx, j] = A[bx, j] * 2
#           ^ E281


def program() -> None:
    zl.compile(double, out_idx=-1, target="interp")
