import zellige as zl
import zellige.language as T


@zl.jit(target="interp", out_idx=[1])
def softmax_sink(heads: int):
    @T.prim_func
    def main(S: T.Tensor((heads,), "float32"), O: T.Tensor((heads, 64), "float32")):
        with T.Kernel(heads) as head:
            sink = T.alloc_fragment((heads,), "float32")
            total = T.alloc_fragment((64,), "float32")
            for i in T.Parallel(64):
                sink[i] = S[head]
#               ^ E287
            for i in T.Parallel(64):
                total[i] = 1 / sink[i]
            T.copy(total, O[head, :])

    return main


def program() -> None:
    softmax_sink(4)
