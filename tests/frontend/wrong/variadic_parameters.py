import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(*tensors):
#               ^ E128
        with T.Kernel(4) as bx:
            tensors[0][bx] = 0
