import zellige.language as T


def cleared(tile):
    for i in T.Parallel(16):
        tile[i] = 0


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32")):
        with T.Kernel(4):
            cleared(A)
#           ^ E132
