import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            A[bx] = 0

    kernel(None)
#   ^ E155
