import zellige as zl
import zellige.language as T


@zl.jit(target="interp")
def double(A: T.Tensor((64,), "float32")):
    B = T.empty((64,), "float32")
#       ^ E280
    C = T.empty((64,), "float32")
    with T.Kernel(1) as _:
        for i in T.Parallel(64):
            C[i] = A[i] * 2
    return B, C


def program() -> None:
    double.compile()
