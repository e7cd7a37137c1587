import numpy as np

import zellige as zl
import zellige.language as T


def program() -> None:
    @zl.jit
    def scale(A, *others):
#                 ^ E128
        with T.Kernel(A.shape[0]) as bx:
            A[bx] = A[bx] * 2

    scale(np.zeros(8, np.int32))
