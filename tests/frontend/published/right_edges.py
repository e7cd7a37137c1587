import numpy as np

import zellige as zl
import zellige.language as T


@zl.jit(target="interp")
def edges(A: T.Tensor((8,), "float32"), B: T.Tensor((16,), "float32"), n: T.int32):
    with T.Kernel(16) as bx:
        B[bx] = A[bx - 8] + A[-1] + A[bx - 15] + A[bx * 4]
        for i in T.serial(0):
            B[bx] = A[i - 1]
        for i in T.serial(n):
            B[bx] += A[i - 100]


def program() -> None:
    b = np.zeros(16, np.float32)
    edges(np.arange(1, 9, dtype=np.float32), b, 0)
    a = np.arange(1, 9)
    wanted = [(a[i - 8] if 8 <= i else 0) + a[-1] + (a[i - 15] if i >= 15 else 0) + (a[i * 4] if i * 4 < 8 else 0) for i in range(16)]
    np.testing.assert_array_equal(b, wanted)
