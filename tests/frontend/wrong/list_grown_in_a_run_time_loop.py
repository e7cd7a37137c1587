import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            values = []
            for i in T.serial(4):
                values.append(A[i])
#               ^ E119
            B[bx] = values[0]
