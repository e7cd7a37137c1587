import zellige.language as T


def program() -> None:
    count = 0

    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32")):
        nonlocal count
        with T.Kernel(4) as bx:
            A[bx] = count
            count = count + 1
#           ^ E130
