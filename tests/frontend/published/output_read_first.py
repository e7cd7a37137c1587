import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[1], target="interp")
def added(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((m,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(m):
                B[i] += A[i]
#               ^ E286

    return main


@zl.jit(out_idx=[1], target="interp")
def larger(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((m,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(m):
                if A[i] > B[i]:
                    B[i] = A[i]
#                   ^ E286

    return main


@zl.jit(out_idx=[1], target="interp")
def largest(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            B[0] = T.max(B[0], A[3])
#           ^ E286

    return main


@zl.jit(out_idx=[1], target="interp")
def reduced(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            a = T.alloc_fragment((m,), "float32")
            T.copy(A, a)
            T.reduce_sum(a, B[0:1], clear=False)
#           ^ E286

    return main


@zl.jit(target="interp")
def over_the_grid(A):
    A: T.Tensor((8,), "float32")
    C = T.empty((8,), "float32")
    with T.Kernel(8) as b:
        C[b] = C[b] + A[b]
#       ^ E286
    return C


@zl.jit(out_idx=[1], target="interp")
def set_too_late(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((m,), "float32")):
        with T.Kernel(1):
            t = T.alloc_fragment((m,), "float32")
            T.copy(B, t)
#           ^ E286
            for i in T.Parallel(m):
                B[i] = t[i] + A[i]

    return main


def program() -> None:
    for kernel in (added, larger, largest, reduced):
        kernel(16)
    over_the_grid.compile()
    set_too_late(16)
