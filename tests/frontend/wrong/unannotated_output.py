import numpy as np

import zellige as zl
import zellige.language as T


def program() -> None:
    @zl.jit(out_idx=-1)
    def double(A, B):
#                 ^ E284
        with T.Kernel(A.shape[0]) as bx:
            B[bx] = A[bx] * 2

    double(np.zeros(8, np.int32))
