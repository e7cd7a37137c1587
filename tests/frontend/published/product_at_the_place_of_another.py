import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[-1], target="interp")
def matmul(N):
    @T.prim_func
    def kernel(A: T.Tensor((N, N), "float32"), B: T.Tensor((N, N), "float32"), C: T.Tensor((N, N), "float32")):
        with T.Kernel(T.ceildiv(N, 32), T.ceildiv(N, 32)) as (bx, by):
            a = T.alloc_shared((32, 32), "float32")
            b = T.alloc_shared((32, 32), "float32")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            row = by * 32
            for k in T.Pipelined(T.ceildiv(N, 32), num_stages=2):
                T.copy(A[row, k * 32], a)
                T.copy(B[bx * 32, k * 32], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[bx * 32, row])
#           ^ E295

    return kernel


def program() -> None:
    matmul(64)
