import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32")):
        tile = T.alloc_shared((16,), "int32")
#              ^ E102
        with T.Kernel(4):
            T.copy(A, tile)
