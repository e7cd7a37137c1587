import zellige.language as T


def program() -> None:
    def look_up() -> int:
        return {}["missing"]

    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            try:
                if A[bx] < 0:
                    B[bx] = look_up()
#                           ^ E120
            except KeyError:
                B[bx] = 1
