import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            tile = T.alloc_fragment((4, 8), "float32")
            rows = T.alloc_fragment((8,), "float32")
            T.reduce_sum(tile, rows, dim=1)
#           ^ E229
