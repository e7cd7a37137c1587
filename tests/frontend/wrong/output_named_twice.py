import zellige as zl
import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
#                                           ^ E168
        with T.Kernel(16) as bx:
            B[bx] = A[bx]

    zl.compile(kernel, target="interp", out_idx=[1, -1])
