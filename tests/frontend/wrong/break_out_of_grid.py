import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            for i, j in T.grid(4, 4):
                if A[i * 4 + j] == 0:
                    break
#                   ^ E138
                B[i * 4 + j] = 1
