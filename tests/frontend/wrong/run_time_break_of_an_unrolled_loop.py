import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            for k in [0, 1, 2]:
                if A[k] > 3:
                    break
#                   ^ E112
                B[k] = A[k]
