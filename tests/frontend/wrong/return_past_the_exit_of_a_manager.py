import contextlib

import zellige.language as T


@contextlib.contextmanager
def marked(tile, index):
    yield
    tile[index] = 1


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(16) as bx:
            with marked(B, bx):
                if A[bx] < 0:
                    return
#                   ^ E167
                A[bx] = 0
