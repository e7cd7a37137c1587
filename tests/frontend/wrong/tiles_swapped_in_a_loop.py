import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            cur = T.alloc_shared((16,), "int32")
            nxt = T.alloc_shared((16,), "int32")
            for _k in T.serial(4):
#                     ^ E109
                T.copy(A, nxt)
                cur, nxt = nxt, cur
            T.copy(cur, B)
