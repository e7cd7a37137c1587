import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            for i in T.serial(16):
#           ^ E123
                if A[i] == 7:
                    break
            else:
                B[bx] = -1
