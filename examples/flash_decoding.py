"""Attention of one new query a sequence over a long cache of keys and values: the keys are split over blocks, a second launch joins them.

The query heads that share a head of keys are the rows of one tile. Each part yields its output divided by its own sum of exponentials, and
that sum's logarithm; the whole is the parts' mean, weighted by their sums.
"""

import math
from functools import partial

import numpy as np
from _bounds import U32, exact, lift, softmax
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[-1])
def flash_decoding(heads, kv_heads, width, splits, dtype="float16", block_N=64, stages=2):
    batch, keys = T.dynamic("batch, keys")
    group = heads // kv_heads
    scale = math.log2(math.e) / math.sqrt(width)

    @T.prim_func
    def flash_decoding(
        Q: T.Tensor((batch, heads, width), dtype),
        K: T.Tensor((batch, keys, kv_heads, width), dtype),
        V: T.Tensor((batch, keys, kv_heads, width), dtype),
        O: T.Tensor((batch, heads, width), dtype),
    ):
        parts = T.alloc_global((batch, heads, splits, width), "float32")
        log_sums = T.alloc_global((batch, heads, splits), "float32")  # to base 2
        with T.Kernel(splits, kv_heads, batch, threads=128) as (bx, by, bz):
            Q_tile = T.alloc_shared((group, width), dtype)
            K_tile = T.alloc_shared((block_N, width), dtype)
            V_tile = T.alloc_shared((block_N, width), dtype)
            scores = T.alloc_fragment((group, block_N), "float32")
            weights = T.alloc_fragment((group, block_N), dtype)
            output = T.alloc_fragment((group, width), "float32")
            top = T.alloc_fragment((group,), "float32")
            top_before = T.alloc_fragment((group,), "float32")
            block_sum = T.alloc_fragment((group,), "float32")
            total = T.alloc_fragment((group,), "float32")
            T.copy(Q[bz, by * group : (by + 1) * group, :], Q_tile)
            T.clear(output)
            T.clear(total)
            T.fill(top, T.min_value("float32"))
            blocks = T.ceildiv(T.ceildiv(keys, block_N), splits)  # of this part
            for k in T.Pipelined(blocks, num_stages=stages):
                first = (bx * blocks + k) * block_N
                T.copy(K[bz, first : first + block_N, by, :], K_tile)
                T.copy(V[bz, first : first + block_N, by, :], V_tile)
                T.gemm(Q_tile, K_tile, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(group, block_N):
                    scores[i, j] = T.if_then_else(first + j < keys, scores[i, j] * scale, -T.infinity("float32"))
                T.copy(top, top_before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i, j in T.Parallel(group, block_N):
                    scores[i, j] = T.exp2(scores[i, j] - top[i])
                T.reduce_sum(scores, block_sum, dim=1)
                for i, j in T.Parallel(group, width):
                    output[i, j] *= T.exp2(top_before[i] - top[i])
                for i in T.Parallel(group):
                    total[i] = total[i] * T.exp2(top_before[i] - top[i]) + block_sum[i]
                T.copy(scores, weights)
                T.gemm(weights, V_tile, output)
            for i, j in T.Parallel(group, width):
                parts[bz, by * group + i, bx, j] = T.if_then_else(total[i] > 0, output[i, j] / total[i], 0)
            for i in T.Parallel(group):
                # A part beyond the keys has no sum: it weighs nothing.
                log_sums[bz, by * group + i, bx] = T.if_then_else(total[i] > 0, T.log2(total[i]) + top[i], -T.infinity("float32"))
        with T.Kernel(heads, batch, threads=128) as (by, bz):
            sums = T.alloc_fragment((splits,), "float32")
            part = T.alloc_fragment((splits, width), "float32")
            most = T.alloc_fragment((1,), "float32")
            all_sums = T.alloc_fragment((1,), "float32")
            joined = T.alloc_fragment((width,), "float32")
            T.copy(log_sums[bz, by, :], sums)
            T.copy(parts[bz, by, :, :], part)
            T.reduce_max(sums, most, dim=0)
            for s in T.Parallel(splits):
                sums[s] = T.exp2(sums[s] - most[0])
            T.reduce_sum(sums, all_sums, dim=0)
            for s, j in T.Parallel(splits, width):
                part[s, j] *= sums[s] / all_sums[0]
            T.reduce_sum(part, joined, dim=0)
            T.copy(joined, O[bz, by, :])

    return flash_decoding


@example(shape={"batch": 3, "heads": 16, "kv_heads": 2, "keys": 5003, "width": 64, "splits": 8}, dtypes=("float16", "bfloat16", "float32"))
def main(run: Run) -> None:
    batch, heads, kv_heads, keys, width, splits = run.shape
    run.require(heads % kv_heads == 0, "heads must be a multiple of kv_heads: each head of keys serves as many heads of queries")
    Q, K, V = run.normal(batch, heads, width), run.normal(batch, keys, kv_heads, width), run.normal(batch, keys, kv_heads, width)
    kernel = flash_decoding(heads, kv_heads, width, splits, run.dtype)
    q = exact(to_numpy(Q)).reshape(batch, heads, 1, width)
    k, v = (exact(np.repeat(to_numpy(x).swapaxes(1, 2), heads // kv_heads, axis=1)) for x in (K, V))
    # A part's sum goes through log2 and exp2, which round like two more rescalings; joining sums over the parts twice.
    weights, total = softmax(q @ k.mT * lift(1 / math.sqrt(width)), steps=-(-keys // 64) + 2)
    expected = (weights.rounded(run.dtype) @ v / total).perturbed((2 * splits + 4) * U32).rounded(run.dtype).reshape(batch, heads, width)
    run.check("flash decoding", partial(kernel, Q, K, V), expected, byte=2 * K.nbytes)


if __name__ == "__main__":
    main()
