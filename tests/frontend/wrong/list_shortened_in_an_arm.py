import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), n: T.int32):
        with T.Kernel(4) as bx:
            values = [1, 2]
            A[bx] = values.pop() if n > 3 else 0
#                   ^ E119
