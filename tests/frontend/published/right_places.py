"""Places that resemble E295's mistakes: windows that slide by one element, products written transposed, tensors read in two ways."""

import zellige as zl
import zellige.language as T


@T.prim_func
def windows(X: T.Tensor((9,), "float32"), Y: T.Tensor((72,), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((8,), "float32")):
    """X: two windows of eight elements cover it. Y: as many steps as half of it has tiles."""
    with T.Kernel(1):
        x = T.alloc_shared((8,), "float32")
        y = T.alloc_shared((8,), "float32")
        total = T.alloc_fragment((8,), "float32")
        T.copy(B, total)
        for k in T.serial(2):
            T.copy(X[k], x)
            for i in T.Parallel(8):
                total[i] += x[i]
        for k in T.serial(5):
            T.copy(Y[k], y)
            for i in T.Parallel(8):
                total[i] += y[i]
        T.copy(total, C)


@T.prim_func
def read_twice(A: T.Tensor((64, 32), "float32"), C: T.Tensor((64, 32), "float32")):
    with T.Kernel(2) as bx:
        a = T.alloc_shared((32, 32), "float32")
        next_rows = T.alloc_shared((32, 32), "float32")
        T.copy(A[bx * 32, 0], a)
        T.copy(A[bx, 0], next_rows)
        for i, j in T.Parallel(32, 32):
            a[i, j] += next_rows[i, j]
        T.copy(a, C[bx * 32, 0])


@T.prim_func
def transposed(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32"), C: T.Tensor((64, 64), "float32")):
    """The transposed product of the transposed tile; and a product whose grid names its rows first."""
    with T.Kernel(2, 2) as (bx, by):
        a = T.alloc_shared((32, 64), "float32")
        b = T.alloc_shared((64, 32), "float32")
        c = T.alloc_fragment((32, 32), "float32")
        turned = T.alloc_shared((32, 32), "float32")
        T.copy(A[by * 32, 0], a)
        T.copy(B[0, bx * 32], b)
        T.gemm(a, b, c, clear_accum=True)
        T.transpose(c, turned)
        T.copy(turned, C[bx * 32, by * 32])


@T.prim_func
def rows_first(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(2, 2) as (bx, by):
        a = T.alloc_shared((64, 32), "float32")
        b = T.alloc_shared((64, 32), "float32")
        c = T.alloc_fragment((32, 32), "float32")
        c_shared = T.alloc_shared((32, 32), "float32")
        T.copy(A[0, bx * 32], a)
        T.copy(B[0, by * 32], b)
        T.gemm(a, b, c, transpose_A=True, clear_accum=True)
        T.copy(c, c_shared)
        T.copy(c_shared, C[bx * 32, by * 32])


def program() -> None:
    for kernel in (windows, read_twice, transposed, rows_first):
        zl.compile(kernel, target="interp")
