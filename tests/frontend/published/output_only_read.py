import zellige as zl
import zellige.language as T


@T.prim_func
def double(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
#          ^ E280
    with T.Kernel(1) as _:
        for i in T.Parallel(64):
            B[i] = A[i] * 2


def program() -> None:
    zl.compile(double, out_idx=[0], target="interp")
