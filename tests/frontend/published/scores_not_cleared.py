import zellige as zl
import zellige.language as T


def attention(batch, heads, length, width, block, stages):
    shape = (batch, length, heads, width)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "float16"), K: T.Tensor(shape, "float16"), V: T.Tensor(shape, "float16"), O: T.Tensor(shape, "float16")
    ):
        with T.Kernel(T.ceildiv(length, block), heads, batch, threads=128) as (bx, by, bz):
            q = T.alloc_shared((block, width), "float16")
            k = T.alloc_shared((block, width), "float16")
            v = T.alloc_shared((block, width), "float16")
            scores = T.alloc_fragment((block, block), "float32")
            weights = T.alloc_fragment((block, block), "float16")
            out = T.alloc_fragment((block, width), "float32")
            top = T.alloc_fragment((block,), "float32")
            before = T.alloc_fragment((block,), "float32")
            scale = T.alloc_fragment((block,), "float32")
            row = T.alloc_fragment((block,), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.copy(Q[bz, bx * block : (bx + 1) * block, by, :], q)
            T.clear(out)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            for step in T.Pipelined(T.ceildiv(length, block), num_stages=stages):
                T.copy(K[bz, step * block : (step + 1) * block, by, :], k)
                T.gemm(q, k, scores, transpose_B=True)
#               ^ E282
                T.copy(V[bz, step * block : (step + 1) * block, by, :], v)
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block):
                    scale[i] = T.exp2(before[i] - top[i])
                for i, j in T.Parallel(block, block):
                    scores[i, j] = T.exp2(scores[i, j] - top[i])
                T.reduce_sum(scores, row, dim=1)
                for i in T.Parallel(block):
                    total[i] = total[i] * scale[i] + row[i]
                for i, j in T.Parallel(block, width):
                    out[i, j] *= scale[i]
                T.copy(scores, weights)
                T.gemm(weights, v, out)
            for i, j in T.Parallel(block, width):
                out[i, j] /= total[i]
            T.copy(out, O[bz, bx * block : (bx + 1) * block, by, :])

    return main


def program() -> None:
    zl.jit(attention, out_idx=[3], target="interp")(1, 2, 128, 64, 64, 2)
