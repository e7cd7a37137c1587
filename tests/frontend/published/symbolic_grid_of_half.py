import zellige as zl
import zellige.language as T


@zl.jit(target="interp")
def double(A, B):
    n = T.dynamic("n")
    A: T.Tensor((n,), "float32")
    B: T.Tensor((n,), "float32")
    with T.Kernel(T.ceildiv(n, 128)) as bx:
        for i in T.Parallel(64):
            B[bx * 64 + i] = A[bx * 64 + i] * 2
#           ^ E281


def program() -> None:
    double.compile()
