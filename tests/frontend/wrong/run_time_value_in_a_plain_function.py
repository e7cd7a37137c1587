import zellige.language as T


def larger(x, y):
    return x if x > y else y


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            B[bx] = larger(A[bx], 3)
#                   ^ E104
