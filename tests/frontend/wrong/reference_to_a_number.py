import zellige.language as T


@T.macro
def set_to_one(place: T.Ref):
    place = 1  # noqa: F841


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            set_to_one(3)
#           ^ E124
            B[bx] = 0
