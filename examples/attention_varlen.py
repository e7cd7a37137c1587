"""Attention forward over sequences of different lengths, packed one after the other: no element of padding is stored or multiplied.

Sequence b holds the rows starts[b] to starts[b + 1] of Q, K and V[tokens, heads, width]. The grid reaches to the longest one.
"""

import math
from functools import partial
from itertools import pairwise

import numpy as np
from _bounds import concatenate, exact
from _harness import Run, example, to_numpy
from attention import reference

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[-1])
def attention_varlen(heads, width, is_causal, dtype="float16", block_M=64, block_N=64, stages=2):
    tokens, starts_size = T.dynamic("tokens, starts_size")
    scale = math.log2(math.e) / math.sqrt(width)

    @T.prim_func
    def attention_varlen(
        Q: T.Tensor((tokens, heads, width), dtype),
        K: T.Tensor((tokens, heads, width), dtype),
        V: T.Tensor((tokens, heads, width), dtype),
        starts: T.Tensor((starts_size,), "int32"),
        longest: T.int32,
        O: T.Tensor((tokens, heads, width), dtype),
    ):
        with T.Kernel(T.ceildiv(longest, block_M), heads, starts_size - 1, threads=128) as (bx, by, bz):
            Q_tile = T.alloc_shared((block_M, width), dtype)
            K_tile = T.alloc_shared((block_N, width), dtype)
            V_tile = T.alloc_shared((block_N, width), dtype)
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), dtype)
            output = T.alloc_fragment((block_M, width), "float32")
            top = T.alloc_fragment((block_M,), "float32")
            top_before = T.alloc_fragment((block_M,), "float32")
            rescale = T.alloc_fragment((block_M,), "float32")
            block_sum = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            start = starts[bz]
            length = starts[bz + 1] - start

            if bx * block_M < length:
                T.copy(Q[start + bx * block_M : start + (bx + 1) * block_M, by, :], Q_tile)
                T.clear(output)
                T.clear(total)
                T.fill(top, T.min_value("float32"))
                seen = T.min(length, (bx + 1) * block_M) if is_causal else length
                for k in T.Pipelined(T.ceildiv(seen, block_N), num_stages=stages):
                    T.copy(K[start + k * block_N : start + (k + 1) * block_N, by, :], K_tile)
                    T.copy(V[start + k * block_N : start + (k + 1) * block_N, by, :], V_tile)
                    for i, j in T.Parallel(block_M, block_N):
                        last = T.min(bx * block_M + i, length - 1) if is_causal else length - 1
                        scores[i, j] = T.if_then_else(k * block_N + j <= last, 0, -T.infinity("float32"))
                    T.gemm(Q_tile, K_tile, scores, transpose_B=True)
                    T.copy(top, top_before)
                    T.reduce_max(scores, top, dim=1, clear=False)
                    for i in T.Parallel(block_M):
                        rescale[i] = T.exp2((top_before[i] - top[i]) * scale)
                    for i, j in T.Parallel(block_M, block_N):
                        scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                    T.reduce_sum(scores, block_sum, dim=1)
                    for i in T.Parallel(block_M):
                        total[i] = total[i] * rescale[i] + block_sum[i]
                    for i, j in T.Parallel(block_M, width):
                        output[i, j] *= rescale[i]
                    T.copy(scores, weights)
                    T.gemm(weights, V_tile, output)
                for i, j in T.Parallel(block_M, width):
                    if bx * block_M + i < length:  # the rows after these belong to the next sequence
                        O[start + bx * block_M + i, by, j] = output[i, j] / total[i]

    return attention_varlen


@example(shape={"sequences": 5, "tokens": 1001, "heads": 4, "width": 64}, dtypes=("float16", "bfloat16", "float32"))
def main(run: Run) -> None:
    sequences, tokens, heads, width = run.shape
    bounds = np.concatenate([[0], np.sort(run.random.integers(0, tokens + 1, sequences - 1)), [tokens]])
    lengths = np.diff(bounds)
    Q, K, V = (run.normal(tokens, heads, width) for _ in range(3))
    starts = run.put(bounds, "int32")
    by_head = [exact(to_numpy(x).swapaxes(0, 1)) for x in (Q, K, V)]
    for is_causal in (False, True):
        kernel = attention_varlen(heads, width, is_causal, run.dtype)
        parts = [reference(*(x[:, a:b] for x in by_head), is_causal=is_causal, dtype=run.dtype)[0] for a, b in pairwise(bounds) if a < b]
        pairs = (lengths * (lengths + 1) / 2 if is_causal else lengths**2).sum()
        run.check(
            "attention, varlen, causal" if is_causal else "attention, varlen",
            partial(kernel, Q, K, V, starts, int(lengths.max())),
            concatenate(parts, axis=1).swap(0, 1),
            flop=4 * heads * width * pairs,
        )


if __name__ == "__main__":
    main()
