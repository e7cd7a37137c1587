"""Outputs and tiles whose reads stand before writes in the text, and that are right."""

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[1], target="interp")
def carried(n: int):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            for i in T.serial(n):
                B[i] = B[i - 1] + A[i]

    return main


@zl.jit(out_idx=[1], target="interp")
def chosen(n: int):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            last = T.alloc_shared((n,), "float32")
            for i in T.serial(n):
                B[i] = T.if_then_else(i == 0, A[i], B[i // 2])
                last[i] = T.if_then_else(i > 0, last[i // 2] + 1.0, 1.0)

    return main


@zl.jit(out_idx=[2], target="interp")
def solved(n: int):
    @T.prim_func
    def main(L: T.Tensor((n, n), "float32"), b: T.Tensor((n,), "float32"), x: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            total = T.alloc_var("float32", init=0.0)
            for k in T.serial(n):
                total = b[k]
                for j in T.serial(k):
                    total = total - L[k, j] * x[j]
                x[k] = total / L[k, k]

    return main


@zl.jit(out_idx=[1], target="interp")
def from_the_second(n: int):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1):
            kept = T.alloc_fragment((16,), "float32")
            for k in T.serial(n // 16):
                for i in T.Parallel(16):
                    if k > 0:
                        kept[i] = kept[i] + A[k * 16 + i]
                    else:
                        kept[i] = A[i]
            T.copy(kept, B)

    return main


def program() -> None:
    carried(16)
    chosen(16)
    solved(16)
    from_the_second(64)
