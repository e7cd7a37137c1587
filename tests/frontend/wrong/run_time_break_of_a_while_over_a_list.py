import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), n: T.int32):
        with T.Kernel(1):
            left = [1, 2]
            while left:
                i = left.pop()
                if A[i] > n:
                    break
#                   ^ E112
                A[i] = 0
