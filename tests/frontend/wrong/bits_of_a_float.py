import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            B[bx] = T.cast(A[bx] * 1.5 & 3, "int32")
#                          ^ E204
