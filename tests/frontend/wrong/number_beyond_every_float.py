import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            A[0] = 10**400
#           ^ E254
