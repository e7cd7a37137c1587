import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32")):
        with T.Kernel(2, 2, 2, 2) as (a, b, c, d):
#            ^ E214
            A[a + b + c + d] = 0
