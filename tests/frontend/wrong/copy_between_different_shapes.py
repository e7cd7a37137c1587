import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            tile = T.alloc_shared((12,), "int32")
            T.copy(A[0:10], tile)
#           ^ E223
            T.copy(tile[0:10], B[0:10])
