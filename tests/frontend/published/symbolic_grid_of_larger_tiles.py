import zellige as zl
import zellige.language as T


@zl.jit(target="interp", out_idx=-1)
def double(block=64):
    m, n = T.dynamic("m, n")

    @T.prim_func
    def kernel(A: T.Tensor((m, n), "float32"), B: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, block), T.ceildiv(m, block)) as (bx, by):
            column = bx * block
            for i, j in T.Parallel(block, block // 2):
                B[by * block + i, column + j] = A[by * block + i, column + j] * 2
#               ^ E281

    return kernel


def program() -> None:
    double()
