import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32")):
        A: T.Tensor((8,), "int32")
#       ^ E126
        with T.Kernel(4) as bx:
            A[bx] = 0
