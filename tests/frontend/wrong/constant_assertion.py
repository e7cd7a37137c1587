import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            assert A.shape[0] % 32 == 0, "A has whole tiles"
#                  ^ E118
            T.copy(A, B)
