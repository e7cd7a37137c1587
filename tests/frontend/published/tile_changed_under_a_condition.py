import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[1], target="interp")
def larger(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((m,), "float32")):
        with T.Kernel(1):
            t = T.alloc_fragment((m,), "float32")
            for i in T.Parallel(m):
                if A[i] > t[i]:
#                  ^ E289
                    t[i] = A[i]
            T.copy(t, B)

    return main


@zl.jit(out_idx=[1], target="interp")
def set_at_the_end(m: int):
    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((m,), "float32")):
        with T.Kernel(1):
            t = T.alloc_shared((16,), "float32")
            last = T.alloc_shared((16,), "float32")
            for k in T.serial(m // 16):
                for i in T.Parallel(16):
                    t[i] = A[k * 16 + i] - last[i]
#                   ^ E289
                T.copy(A[k * 16], last)
                T.copy(t, B[k * 16])

    return main


def program() -> None:
    larger(16)
    set_at_the_end(64)
