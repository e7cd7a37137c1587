import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[1], target="interp")
def under_an_if(n: int):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(n) as b:
            if A[b] > 0:
                found = A[b]
            B[b] = found
#           ^ E165

    return main


@zl.jit(out_idx=[1], target="interp")
def under_an_elif(n: int):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(n):
                if A[i] > 1:
                    found = 1.0
                elif A[i] < -1:
                    found = -1.0
                B[i] = found
#               ^ E165

    return main


@zl.jit(out_idx=[2], target="interp")
def after_a_loop(n: int):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), counts: T.Tensor((4,), "int32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(4) as b:
            for k in T.serial(counts[b]):
                last = A[k]
            B[b] = last + 1.0
#           ^ E165

    return main


def program() -> None:
    under_an_if(16)
    under_an_elif(16)
    after_a_loop(16)
