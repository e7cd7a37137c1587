import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[-1], target="interp")
def matmul(M, N, K):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32)) as (bx, by):
            a = T.alloc_shared((32, 32), "float32")
            b = T.alloc_shared((32, 32), "float32")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(K // 32, num_stages=2):
                T.copy(A[by * 32, k * 32], a)
#               ^ E294
                T.copy(B[k * 32, bx * 32], b)
#               ^ E294
                T.gemm(a, b, c)
            T.copy(c, C[by * 32, bx * 32])

    return kernel


def program() -> None:
    matmul(64, 64, 70)
