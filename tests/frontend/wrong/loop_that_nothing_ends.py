import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            while True:
#                 ^ E121
                for i in range(16):
                    if A[i] > 2:
                        break
                B[bx] = 0
