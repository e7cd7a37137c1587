import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            r = T.alloc_reducer((4,), "int32", op="sum", replication="all")
            T.clear(r)
            r[0] = A[bx]
#           ^ E210
            T.finalize_reducer(r)
            B[bx] = r[0]
