import math

import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "float32")):
        with T.Kernel(4) as bx:
            math.tau = 6.0
#           ^ E130
            A[bx] = math.tau
