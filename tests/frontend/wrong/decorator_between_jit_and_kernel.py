import functools

import numpy as np

import zellige as zl
import zellige.language as T


def counted(function):
    @functools.wraps(function)
    def call(*arguments):
#             ^ E128
        return function(*arguments)

    return call


def program() -> None:
    @zl.jit
    @counted
    def scale(A: T.Tensor((8,), "int32")):
        with T.Kernel(8) as bx:
            A[bx] = A[bx] * 2

    scale(np.zeros(8, np.int32))
