import zellige as zl
import zellige.language as T


@T.prim_func
def double(A: T.Tensor((1000,), "float32"), B: T.Tensor((1000,), "float32")):
    with T.Kernel(1000 // 64) as bx:
        for i in T.Parallel(64):
            B[bx * 64 + i] = A[bx * 64 + i] * 2
#           ^ E281


def program() -> None:
    zl.compile(double, target="interp")
