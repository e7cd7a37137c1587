import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32")):
        block = T.Kernel(4)
#               ^ E163
        A[0] = 1
