import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            A[0] = -(10**5000)
#           ^ E254
