"""Elements that several statements, blocks and steps write together."""

import zellige as zl
import zellige.language as T


@T.prim_func
def halves(A: T.Tensor((256, 256), "float32"), B: T.Tensor((256, 256), "float32"), C: T.Tensor((128,), "float32")):
    with T.Kernel(T.ceildiv(256, 64)) as bx:
        left = T.alloc_shared((64, 128), "float32")
        for half in T.serial(2):
            T.copy(A[bx * 64, half * 128], left)
            for i, j in T.Parallel(64, 64):
                B[bx * 64 + i, half * 128 + 2 * j] = left[i, 2 * j]
                B[bx * 64 + i, half * 128 + 2 * j + 1] = left[i, 2 * j + 1]
        for i in T.Parallel(16):
            C[bx // 2 * 64 + bx % 2 * 16 + i] = A[bx, i]
            C[bx // 2 * 64 + bx % 2 * 16 + i + 32] = A[bx, i]


@zl.jit(target="interp")
def width_at_most_128(A):
    m, n = T.dynamic("m, n")
    A: T.Tensor((m, n), "float32")
    B = T.empty((m, n), "float32")
    with T.Kernel(T.ceildiv(m, 64)) as bx:
        tile = T.alloc_shared((64, 128), "float32")
        T.copy(A[bx * 64, 0], tile)
        T.copy(tile, B[bx * 64, 0])
    return B


@T.prim_func
def every_second(A: T.Tensor((256,), "float32"), B: T.Tensor((512,), "float32")):
    with T.Kernel(4) as bx:
        for i in T.Parallel(64):
            B[2 * (bx * 64 + i)] = A[bx * 64 + i]


def program() -> None:
    zl.compile(halves, target="interp", out_idx=[1, 2])
    width_at_most_128.compile()
    zl.compile(every_second, target="interp")
