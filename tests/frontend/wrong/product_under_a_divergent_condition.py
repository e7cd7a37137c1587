import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            tx = T.get_thread_binding(0)
            a = T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            if tx < 16:
                T.gemm(a, a, c)
#               ^ E145
