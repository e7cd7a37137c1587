import numpy as np

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=-1, target="interp")
def double(A, B):
#             ^ E284
    with T.Kernel(A.shape[0]) as bx:
        B[bx] = A[bx] * 2


def program() -> None:
    double(np.zeros(8, np.float32))
