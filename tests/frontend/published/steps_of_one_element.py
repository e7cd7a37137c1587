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
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                T.copy(A[by * 32, k], a)
#               ^ E295
                T.copy(B[k * 32, bx], b)
#               ^ E295
                T.gemm(a, b, c)
            T.copy(c, C[by * 32, bx * 32])

    return kernel


@zl.jit(target="interp")
def scaled(N):
    M = T.dynamic("m")

    @T.prim_func
    def kernel(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, 16)) as bx:
            a = T.alloc_shared((16, N), "float32")
            T.copy(A[bx, 0], a)
#           ^ E295
            T.copy(a, B[bx * 16, 0])

    return kernel


def program() -> None:
    matmul(64, 96, 128)
    scaled(8)
