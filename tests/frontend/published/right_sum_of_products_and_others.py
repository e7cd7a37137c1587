import zellige as zl
import zellige.language as T


@T.prim_func
def summed(A: T.Tensor((256, 64), "float16"), D: T.Tensor((4,), "float32"), n: T.int32, C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1):
        a = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.clear(c)
        for k in T.serial(4):
            T.copy(A[k * 64, 0], a)
            if k < n:
                T.gemm(a, a, c, transpose_B=True)
            else:
                for i, j in T.Parallel(64, 64):
                    c[i, j] = c[i, j] * 2 + D[k]
        T.copy(c, C)


def program() -> None:
    zl.compile(summed, target="interp")
