"""Names that run-time control assigns and that have a value wherever they are read."""

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[1], target="interp")
def both_sides(n: int):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(n) as b:
            if A[b] > 1:
                found = 1.0
            elif A[b] < -1:
                found = -1.0
            else:
                found = A[b]
            if A[b] > 3:
                other = found
            if A[b] > 3:
                B[b] = other
            else:
                B[b] = found

    return main


@zl.jit(out_idx=[1], target="interp")
def counted(n: int):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1):
            for k in T.serial(n):
                if k == 0:
                    first = A[k]
                last = A[k] + first
            B[0] = last
            if A[0] > 0:
                sign = 1.0
            if A[0] <= 0:
                sign = -1.0
            B[1] = sign

    return main


@zl.jit(out_idx=[1], target="interp")
def left_early(n: int):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            B[0] = 0.0
            for k in T.serial(n):
                if A[k] > 0:
                    found = A[k]
                else:
                    continue
                B[0] = B[0] + found

    return main


def program() -> None:
    both_sides(16)
    counted(16)
    left_early(16)
