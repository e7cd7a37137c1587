import zellige.language as T


class Settings:
    count = 0


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32")):
        with T.Kernel(4) as bx:
            Settings.count += 1
#           ^ E130
            A[bx] = Settings.count
