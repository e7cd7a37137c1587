import numpy as np

import zellige as zl
import zellige.language as T


def program() -> None:
    @zl.jit(target="interp")
    def kernel(A, B):
        M, N = T.const("M, N")
        A: T.Tensor((M, N), "float32")
#       ^ E604
        B: T.Tensor((N, M), "float32")
        with T.Kernel(1):
            a = T.alloc_shared((M, N), "float32")
            T.copy(A, a)

    kernel(np.zeros(2, "float32"), np.zeros((2, 2), "float32"))
