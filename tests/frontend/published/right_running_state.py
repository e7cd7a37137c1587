import zellige as zl
import zellige.language as T


@T.prim_func
def linear_attention(Q: T.Tensor((256, 64), "float16"), K: T.Tensor((256, 64), "float16"), O: T.Tensor((256, 64), "float32")):
    with T.Kernel(1) as _:
        q = T.alloc_shared((64, 64), "float16")
        k = T.alloc_shared((64, 64), "float16")
        state = T.alloc_fragment((64, 64), "float32")
        held = T.alloc_shared((64, 64), "float16")
        out = T.alloc_fragment((64, 64), "float32")
        T.clear(state)
        for step in T.serial(4):
            T.copy(Q[step * 64, 0], q)
            T.copy(K[step * 64, 0], k)
            T.gemm(k, k, state, transpose_A=True)
            T.copy(state, held)
            T.gemm(q, held, out, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                state[i, j] = state[i, j] * 0.5
            T.copy(out, O[step * 64, 0])


def program() -> None:
    zl.compile(linear_attention, target="interp")
