import zellige as zl
import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32")):
#   ^ E152
        B = T.empty((16,), "int32")
        with T.Kernel(16) as bx:
            B[bx] = A[bx]
        return B

    zl.compile(kernel, out_idx=0)
