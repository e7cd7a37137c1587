import numpy as np

import zellige as zl
import zellige.language as T


def program() -> None:
    @zl.jit
    def scale(A, B):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = A[i]
#               ^ E110

    scale(np.zeros(8, np.int32), None)
