import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int8")):
        with T.Kernel(4) as bx:
            A[bx] = A[bx] << 32
#                   ^ E288
