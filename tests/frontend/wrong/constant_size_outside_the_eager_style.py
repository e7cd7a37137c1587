import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A):
        M = T.const("M")
#           ^ E153
        A: T.Tensor((M,), "int32")
        with T.Kernel(M) as bx:
            A[bx] = 0
