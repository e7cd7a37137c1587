import numpy as np

import zellige as zl
import zellige.language as T


def program() -> None:
    @zl.jit
    def double(A):
        M = T.const("M")
#           ^ E250
        A: T.Tensor((M * 2,), "int32")
        with T.Kernel(M) as bx:
            A[bx] = 0

    double(np.zeros(8, np.int32))
