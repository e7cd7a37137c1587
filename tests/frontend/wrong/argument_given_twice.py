import zellige.language as T


def first(**values: int) -> int:
    return values["x"]


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            A[0] = first(x=1, **{"x": 2})
#                  ^ E110
