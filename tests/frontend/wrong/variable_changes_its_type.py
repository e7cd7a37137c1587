import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            total = 0
            for i in T.serial(16):
                total = total + A[i] * 0.5
#               ^ E206
            B[bx] = T.cast(total, "int32")
