import zellige as zl
import zellige.language as T


@T.prim_func
def matmul(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 256), "float16"), R: T.Tensor((256,), "float32")):
    with T.Kernel(2) as bx:
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 256), "float16")
        c = T.alloc_fragment((64, 256), "float32")
        row = T.alloc_fragment((64,), "float32")
        T.copy(B, b)
        T.clear(c)
        for tile in T.serial(2):
            T.copy(A[(bx * 2 + tile) * 64, 0], a)
            T.gemm(a, b, c)
#           ^ E282
            T.reduce_sum(c, row, dim=1)
            T.copy(row, R[(bx * 2 + tile) * 64])


def program() -> None:
    zl.compile(matmul, target="interp")
