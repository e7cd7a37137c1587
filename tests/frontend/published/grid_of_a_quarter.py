import zellige as zl
import zellige.language as T


@zl.jit(target="interp")
def matmul(A: T.Tensor((512, 256), "float16"), B: T.Tensor((256, 512), "float16"), C: T.Tensor((512, 512), "float16")):
    with T.Kernel(T.grid(2, 2), threads=256) as (bx, by):
        a = T.alloc_shared((128, 32), "float16")
        b = T.alloc_shared((32, 128), "float16")
        c = T.alloc_fragment((128, 128), "float16")
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(256, 32), num_stages=3):
            T.copy(A[by * 128, k * 32], a, swizzle="bank")
            T.copy(B[k * 32, bx * 128], b, swizzle="bank")
            T.gemm(a, b, c)
        T.copy(c, C[by * 128, bx * 128])
#       ^ E281


def program() -> None:
    matmul.compile()
