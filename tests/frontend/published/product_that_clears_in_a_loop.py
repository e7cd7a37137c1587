import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[-1], target="interp")
def matmul(M, N, K):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32)) as (bx, by):
            a = T.alloc_shared((32, 16), "float32")
            b = T.alloc_shared((16, 32), "float32")
            c = T.alloc_fragment((32, 32), "float32")
            for k in T.Pipelined(T.ceildiv(K, 16), num_stages=2):
                T.copy(A[by * 32, k * 16], a)
                T.copy(B[k * 16, bx * 32], b)
                T.gemm(a, b, c, clear_accum=True)
#               ^ E293
            T.copy(c, C[by * 32, bx * 32])

    return kernel


def program() -> None:
    matmul(64, 64, 64)
