import zellige.language as T


def program() -> None:
    weights = [1, 2, 3, 4]

    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            B[bx] = weights[bx]
#                   ^ E105
