import zellige as zl
import zellige.language as T


@zl.jit(target="interp")
def double(A: T.Tensor((64, 128), "float32"), B: T.Tensor((64, 128), "float32")):
    with T.Kernel(1):
        tile = T.alloc_shared((64, 32), "float32")
        for k in T.Pipelined(T.ceildiv(128, 32), 2):
#                ^ E292
            T.copy(A[0, k * 32], tile)
            T.copy(tile, B[0, k * 32])


def program() -> None:
    double.compile()
