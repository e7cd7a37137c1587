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


@zl.jit(target="interp")
def wrapped(A: T.Tensor((8,), "float32"), B: T.Tensor((4,), "float32")):
    with T.Kernel(1):
        T.copy(A[T.uint64(18446744073709551615)], B)
        for i in T.serial(4):
            B[i] += A[T.uint64(18446744073709551614) + T.cast(i, "uint64")]


def program() -> None:
    c = np.zeros(4, np.float32)
    wrapped(np.arange(1, 9, dtype=np.float32), c)
    np.testing.assert_array_equal(c, [0, 1, 2 + 1, 3 + 2])
    b = np.zeros(16, np.float32)
    edges(np.arange(1, 9, dtype=np.float32), b, 0)
    a = np.arange(1, 9)
    wanted = [(a[i - 8] if 8 <= i else 0) + a[-1] + (a[i - 15] if i >= 15 else 0) + (a[i * 4] if i * 4 < 8 else 0) for i in range(16)]
    np.testing.assert_array_equal(b, wanted)
