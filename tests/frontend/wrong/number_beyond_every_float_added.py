import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float16")):
        with T.Kernel(1):
            A[0] = A[1] + 10**400
#                  ^ E254
