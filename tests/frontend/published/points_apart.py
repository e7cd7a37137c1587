"""Loops whose points look as if they met at an element, and do not, or mean it."""

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[1], target="interp")
def one_point(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            s = T.alloc_shared((4,), "float32")
            T.clear(s)
            for i in T.Parallel(m):
                if i == 3:
                    s[0] += A[i]
                if i == 4 and A[i] > s[1]:
                    s[1] = A[i]
                T.atomic_add(s[2], A[i])
                s[3] = T.max(s[3], 1.0)
            T.copy(s, B)

    return main


@zl.jit(out_idx=[2], target="interp")
def scattered(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), at: T.Tensor((m,), "int32"), B: T.Tensor((m,), "float32")):
        with T.Kernel(1):
            s = T.alloc_shared((m,), "float32")
            T.clear(s)
            for i in T.Parallel(m):
                place = at[i]
                s[place] += A[i]
            for i in T.Parallel(m):
                for j in T.serial(i, i + 1):
                    s[j] += A[i]
            for i in T.Parallel(1):
                s[0] += A[i]
            for i in T.Parallel(m):
                own = T.alloc_var("float32", init=0.0)
                own += A[i]
                s[i] = own
            T.copy(s, B)

    return main


@zl.jit(out_idx=[1], target="interp")
def reduced(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            r = T.alloc_reducer((1,), "float32", op="sum")
            T.clear(r)
            for i in T.Parallel(m):
                r[0] += A[i]
            T.finalize_reducer(r)
            T.copy(r, B)

    return main


@zl.jit(out_idx=[1], target="interp")
def one_value(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((4, 2), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(m):
                B[0, 0] = A[0] + m
                if A[i] > 3.0:
                    B[0, 1] = 1.0
                if i == 5:
                    B[1, 0] = A[i]
                B[i // m + 1, 1] = A[0]
                B[3, 1] = A[i // m] + i // m
                none = i >> 4
                B[0, 0] = T.max(B[0, 0], none)
            for i in T.Parallel(1):
                B[2, 0] = A[i]
            for i in T.Parallel(m):
                if i == m - 1:
                    B[3] = A[i]
            B[2, 1] = 0
            B[1, 1] = 0

    return main


def program() -> None:
    one_point(16)
    scattered(16)
    reduced(16)
    one_value(16)
