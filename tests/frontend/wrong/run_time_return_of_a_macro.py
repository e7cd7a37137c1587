import zellige.language as T


@T.macro
def clipped(x):
    if x > 4:
        return 4
#       ^ E113
    return x


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            B[bx] = clipped(A[bx])
