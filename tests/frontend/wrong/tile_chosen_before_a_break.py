import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32"), C: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            chosen = B
            for i in T.serial(4):
                if A[i] > 1:
                    chosen = C
                    break
            chosen[0] = 1
#           ^ E109
