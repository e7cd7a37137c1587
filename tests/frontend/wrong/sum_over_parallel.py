import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            total = 0
            for i in T.Parallel(16):
                total += A[i]
            B[bx] = total
#                   ^ E115
