import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[1], target="interp")
def total(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            s = T.alloc_shared((1,), "float32")
            T.clear(s)
            for i in T.Parallel(m):
                s[0] += A[i]
#               ^ E296
            T.copy(s, B)

    return main


@zl.jit(out_idx=[1], target="interp")
def rows(m: int):
    @T.prim_func
    def main(A: T.Tensor((m, m), "float32"), B: T.Tensor((m,), "float32")):
        with T.Kernel(1):
            s = T.alloc_fragment((m,), "float32")
            T.clear(s)
            for i, j in T.Parallel(m, m):
                s[i] = s[i] + A[i, j]
#               ^ E296
            T.copy(s, B)

    return main


@zl.jit(out_idx=[1], target="interp")
def largest(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            B[0] = A[0]
            for i in T.Parallel(m):
                if A[i] > B[0]:
                    B[0] = A[i]
#                   ^ E296

    return main


@zl.jit(out_idx=[1], target="interp")
def named(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            B[0] = 0
            for i in T.Parallel(m):
                before = B[0]
                together = before + A[i]
                B[0] = together
#               ^ E296

    return main


@zl.jit(out_idx=[1], target="interp")
def largest_by_name(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            B[0] = A[0]
            for i in T.Parallel(m):
                greatest = B[0]
                if A[i] > greatest:
                    B[0] = A[i]
#                   ^ E296

    return main


@zl.jit(target="interp")
def over_blocks(m: int):
    @T.prim_func
    def main(A: T.Tensor((m, 4), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(m) as b:
            for i in T.Parallel(4):
                B[i] = B[i] + A[b, i]
#               ^ E296

    return main


@zl.jit(target="interp")
def over_rows_of_blocks(m: int):
    @T.prim_func
    def main(A: T.Tensor((m, 4), "float32"), B: T.Tensor((m,), "float32")):
        with T.Kernel(m, 4) as (b, c):
            if A[b, c] > B[b]:
                B[b] = A[b, c]
#               ^ E296

    return main


@zl.jit(out_idx=[1], target="interp")
def last_of_all(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(m):
                twice = A[i] * 2
                B[0] = twice
#               ^ E296

    return main


@zl.jit(out_idx=[1], target="interp")
def row_of_every_point(m: int):
    @T.prim_func
    def main(A: T.Tensor((m, 4), "float32"), B: T.Tensor((2, 4), "float32")):
        with T.Kernel(1):
            rows = T.alloc_fragment((2, 4), "float32")
            for i, j in T.Parallel(m, 4):
                rows[-1] = A[i, j]
#               ^ E296
            T.copy(rows, B)

    return main


@zl.jit(target="interp")
def block_of_every_number(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(m) as b:
            B[0] = A[b]
#           ^ E296

    return main


def program() -> None:
    total(16)
    rows(16)
    largest(16)
    named(16)
    largest_by_name(16)
    over_blocks(16)
    over_rows_of_blocks(16)
    last_of_all(16)
    row_of_every_point(16)
    block_of_every_number(16)
