import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16, 16), "float32"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((16, 16), "float32")
            total = T.alloc_fragment((16, 16), "float32")
            T.copy(A, tile)
            total = T.gemm(tile, tile, total, clear_accum=True)
#                   ^ E164
            T.copy(total, C)
