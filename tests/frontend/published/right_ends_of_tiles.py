import zellige as zl
import zellige.language as T


@zl.jit(target="interp", out_idx=[1])
def ends(size: int):
    @T.prim_func
    def main(A: T.Tensor((size,), "float32"), O: T.Tensor((size,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_fragment((32,), "float32")
            for i in T.Parallel(64):
                if i < 32:
                    tile[i] = A[i]
            for i in T.Parallel(64):
                O[i] = T.if_then_else(i < 32, tile[i], A[i]) + tile[i % 32]

    return main


def program() -> None:
    ends(64)
