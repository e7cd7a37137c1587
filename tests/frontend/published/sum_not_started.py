import zellige as zl
import zellige.language as T


@zl.jit(target="interp")
def products(blocks: int):
    @T.prim_func
    def main(A: T.Tensor((16, 16 * blocks), "float32"), B: T.Tensor((16 * blocks, 16), "float32"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((16, 16), "float32")
            b = T.alloc_shared((16, 16), "float32")
            total = T.alloc_fragment((16, 16), "float32")
            for k in T.Pipelined(blocks, num_stages=2):
                T.copy(A[0, k * 16], a)
                T.copy(B[k * 16, 0], b)
                T.gemm(a, b, total)
#               ^ E289
            T.copy(total, C)

    return main


def program() -> None:
    products(4)
