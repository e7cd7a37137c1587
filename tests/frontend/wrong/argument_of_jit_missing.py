import numpy as np

import zellige as zl
import zellige.language as T


def program() -> None:
    @zl.jit
    def scale(A, factor: int):
#   ^ E157
        with T.Kernel(A.shape[0]) as bx:
            A[bx] = A[bx] * factor

    scale(np.zeros(8, np.int32))
