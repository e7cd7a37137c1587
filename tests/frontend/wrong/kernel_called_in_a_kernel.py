import zellige.language as T


def program() -> None:
    @T.prim_func
    def inner(A: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            A[bx] = 0

    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            A[bx] = 1
            inner(A)
#           ^ E155
