import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            total = 0
            for i in T.serial(8):
                total += A[i]
#               ^ E206
            B[0] = total
