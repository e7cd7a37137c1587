import zellige.language as T


def program() -> None:
    blocks = 4

    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            while blocks > 0:
#                 ^ E121
                pass
            B[bx] = 0
