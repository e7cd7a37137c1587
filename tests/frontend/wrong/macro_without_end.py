import zellige.language as T


@T.macro
def power(x, n):
    return x * power(x, n - 1)
#              ^ E122


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            B[bx] = power(A[bx], 3)
