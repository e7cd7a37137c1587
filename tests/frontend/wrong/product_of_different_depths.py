import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            a = T.alloc_shared((16, 8), "float16")
            b = T.alloc_shared((4, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.clear(c)
            T.gemm(a, b, c)
#           ^ E226
