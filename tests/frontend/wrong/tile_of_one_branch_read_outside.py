import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            if A[bx] > 0:
                tile = T.alloc_shared((16,), "int32")
                T.copy(A, tile)
            B[bx] = tile[0]
#                   ^ E109
