import zellige as zl
import zellige.language as T


def program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), n: T.int32):
#                                           ^ E158
        with T.Kernel(4) as bx:
            A[bx] = n

    zl.compile(kernel, out_idx=[-1])
