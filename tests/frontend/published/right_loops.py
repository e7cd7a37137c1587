"""Tiles that each iteration begins anew and uses, sums of a single step, and loops that may be empty."""

import zellige as zl
import zellige.language as T


@T.prim_func
def scores(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(2) as bx:
        a = T.alloc_shared((32, 64), "float32")
        b = T.alloc_shared((32, 64), "float32")
        score = T.alloc_fragment((32, 32), "float32")
        total = T.alloc_fragment((32, 32), "float32")
        T.copy(A[bx * 32, 0], a)
        T.clear(total)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(B[k * 32, 0], b)
            T.clear(score)
            T.gemm(a, b, score, transpose_B=True)
            for i, j in T.Parallel(32, 32):
                total[i, j] += score[i, j] * 2
        for k in T.Pipelined(1, num_stages=2):
            T.gemm(a, b, score, transpose_B=True, clear_accum=True)
        for k in T.Pipelined(2, 2):
            T.copy(B[k, 0], b)
        for k in T.Pipelined(1, 0):
            T.copy(B[k, 0], b)
        for k in T.Pipelined(3, 1, num_stages=2):
            T.copy(B[k, 0], b)
        T.copy(total, C[bx * 32, 0])
        T.copy(score, C[bx * 32, 32])


@T.prim_func
def tails(A: T.Tensor((64, 70), "float32"), B: T.Tensor((64, 70), "float32"), C: T.Tensor((64, 64), "float32")):
    """A: the tail is read by itself. B: whole tiles are left out, which are no tail."""
    with T.Kernel(1):
        a = T.alloc_shared((64, 32), "float32")
        tail = T.alloc_shared((64, 6), "float32")
        T.copy(A[0, 64], tail)
        for k in T.serial(70 // 32):
            T.copy(A[0, k * 32], a)
            T.copy(a, C[0, k * 32])
        for k in T.serial(1):
            T.copy(B[0, k * 32], a)


def program() -> None:
    zl.compile(tails, target="interp")
    zl.compile(scores, target="interp")
