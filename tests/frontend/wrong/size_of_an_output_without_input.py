import zellige as zl
import zellige.language as T


def program() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((n,), "int32")):
#                                           ^ E251
        with T.Kernel(4) as bx:
            B[bx] = A[bx]

    zl.compile(kernel, out_idx=-1)
