import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[1], target="interp")
def corner(n: int):
    @T.prim_func
    def main(A: T.Tensor((n, n), "float32"), B: T.Tensor((n, n), "float32")):
        with T.Kernel(1):
            for i, j in T.Parallel(n, n):
                if i < 3 & j < 3:
#                      ^ E166
                    B[i, j] = A[i, j]
                else:
                    B[i, j] = 0

    return main


@zl.jit(out_idx=[1], target="interp")
def edges(n: int):
    @T.prim_func
    def main(A: T.Tensor((n, n), "float32"), B: T.Tensor((n, n), "float32")):
        with T.Kernel(1):
            for i, j in T.Parallel(n, n):
                if (
                    i > 0 | j > 0
#                       ^ E166
                ):
                    B[i, j] = A[i, j]
                else:
                    B[i, j] = 0

    return main


@zl.jit(out_idx=[1], target="interp")
def meant(n: int):
    @T.prim_func
    def main(A: T.Tensor((n, n), "float32"), B: T.Tensor((n, n), "float32")):
        with T.Kernel(1):
            for i, j in T.Parallel(n, n):
                if (i < 3) & (j < 3) and 0 <= (i & 7) < 5 and 0 <= ( j | 1 ) < n and 0 <= (  # the low bits
                    i & 3
                ) < 3:
                    B[i, j] = A[i, j]
                else:
                    B[i, j] = 0

    return main


def program() -> None:
    for kernel in (corner, edges, meant):
        kernel(8)
