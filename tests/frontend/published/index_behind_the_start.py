import numpy as np

import zellige as zl
import zellige.language as T


@zl.jit(target="interp")
def shifted(A: T.Tensor((8,), "float32"), B: T.Tensor((4,), "float32")):
    with T.Kernel(4) as bx:
        B[bx] = A[bx - 8]
#               ^ E285


def program() -> None:
    shifted(np.ones(8, np.float32), np.ones(4, np.float32))
