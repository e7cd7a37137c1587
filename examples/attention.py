"""Attention forward: O = softmax(Q K^T / sqrt(width)) V, causal or not, with groups of query heads that share a head of keys and values.

The softmax runs online: a block of keys with far larger scores than those before it rescales what they gave. Also returned, for the
backward pass: the logarithm of each row's sum of exponentials. The products' operands have the tensors' type, all else is float32.
"""

import math
from functools import partial

import numpy as np
from _bounds import Bounded, exact, softmax
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[3, 4])
def attention(heads, kv_heads, width, is_causal, dtype="float16", block_M=64, block_N=64, stages=2):
    batch, queries, keys = T.dynamic("batch, queries, keys")
    group = heads // kv_heads
    scale = math.log2(math.e) / math.sqrt(width)  # exp(x) is taken as exp2(x log2(e)), and what is subtracted is kept times that

    @T.prim_func
    def attention(
        Q: T.Tensor((batch, heads, queries, width), dtype),
        K: T.Tensor((batch, kv_heads, keys, width), dtype),
        V: T.Tensor((batch, kv_heads, keys, width), dtype),
        O: T.Tensor((batch, heads, queries, width), dtype),
        log_sum: T.Tensor((batch, heads, queries), "float32"),
    ):
        with T.Kernel(T.ceildiv(queries, block_M), heads, batch, threads=128) as (bx, by, bz):
            Q_tile = T.alloc_shared((block_M, width), dtype)
            K_tile = T.alloc_shared((block_N, width), dtype)
            V_tile = T.alloc_shared((block_N, width), dtype)
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), dtype)
            output = T.alloc_fragment((block_M, width), "float32")
            block_top = T.alloc_fragment((block_M,), "float32")
            top = T.alloc_fragment((block_M,), "float32")
            rescale = T.alloc_fragment((block_M,), "float32")
            block_sum = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], Q_tile)
            T.clear(output)
            T.clear(total)
            T.fill(top, T.min_value("float32"))  # finite: a row that has seen no key yet subtracts it from -inf
            # The last query stands at the last key: query i of a causal kernel sees the keys up to i + keys - queries.
            seen = T.min(keys, (bx + 1) * block_M + keys - queries) if is_causal else keys
            for k in T.Pipelined(T.ceildiv(seen, block_N), num_stages=stages):
                T.copy(K[bz, by // group, k * block_N : (k + 1) * block_N, :], K_tile)
                T.copy(V[bz, by // group, k * block_N : (k + 1) * block_N, :], V_tile)
                for i, j in T.Parallel(block_M, block_N):
                    last = bx * block_M + i + keys - queries if is_causal else keys - 1
                    scores[i, j] = T.if_then_else(k * block_N + j <= last and k * block_N + j < keys, 0, -T.infinity("float32"))
                T.gemm(Q_tile, K_tile, scores, transpose_B=True)
                T.reduce_max(scores, block_top, dim=1)
                for i in T.Parallel(block_M):
                    # What is subtracted is free: it grows only where weights would be larger than 2^8, so most rescalings are by 1.
                    reached = block_top[i] * scale
                    grown = T.if_then_else(reached > top[i] + 8, reached, top[i])
                    rescale[i] = T.__exp2(top[i] - grown)
                    top[i] = grown
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.__exp2(scores[i, j] * scale - top[i])
                T.reduce_sum(scores, block_sum, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * rescale[i] + block_sum[i]
                for i, j in T.Parallel(block_M, width):
                    output[i, j] *= rescale[i]
                T.copy(scores, weights)
                T.gemm(weights, V_tile, output)
            for i, j in T.Parallel(block_M, width):
                output[i, j] /= total[i]
            T.copy(output, O[bz, by, bx * block_M : (bx + 1) * block_M, :])
            for i in T.Parallel(block_M):
                total[i] = T.log(total[i]) + top[i] * math.log(2)
            T.copy(total, log_sum[bz, by, bx * block_M : (bx + 1) * block_M])

    return attention


def reference(q: Bounded, k: Bounded, v: Bounded, *, is_causal: bool, dtype: str, block: int = 64) -> list[Bounded]:
    """O and the logarithms of the sums of q[..., queries, width], k and v[..., keys, width] with as many heads as q."""
    queries, keys = q.value.shape[-2], k.value.shape[-2]
    scores = q @ k.mT * (1 / math.sqrt(q.value.shape[-1]))
    seen = np.tri(queries, keys, keys - queries, dtype=bool) if is_causal else np.ones((queries, keys), dtype=bool)
    weights, total = softmax(scores, seen, steps=-(-keys // block))
    top = np.where(seen, scores.value, -np.inf).max(-1)
    output = (weights.rounded(dtype) @ v / total).rounded(dtype)
    return [output, total[..., 0].log() + Bounded(top, np.where(seen, scores.error, 0).max(-1))]


@example(shape={"batch": 2, "heads": 6, "kv_heads": 2, "queries": 501, "keys": 517, "width": 64}, dtypes=("float16", "bfloat16", "float32"))
def main(run: Run) -> None:
    batch, heads, kv_heads, queries, keys, width = run.shape
    run.require(heads % kv_heads == 0, "heads must be a multiple of kv_heads: each head of keys serves as many heads of queries")
    run.require(keys >= queries, "keys must be at least queries: the last query stands at the last key")
    Q, K, V = run.normal(batch, heads, queries, width), run.normal(batch, kv_heads, keys, width), run.normal(batch, kv_heads, keys, width)
    k, v = (exact(np.repeat(to_numpy(x), heads // kv_heads, axis=1)) for x in (K, V))
    for is_causal in (False, True):
        kernel = attention(heads, kv_heads, width, is_causal, run.dtype)
        expected = reference(exact(to_numpy(Q)), k, v, is_causal=is_causal, dtype=run.dtype)
        pairs = queries * keys - queries * (queries - 1) / 2 if is_causal else queries * keys
        name = "attention, causal" if is_causal else "attention"
        run.check(name, partial(kernel, Q, K, V), expected, flop=4 * batch * heads * width * pairs)


if __name__ == "__main__":
    main()
