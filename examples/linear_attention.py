"""Causal linear attention in chunks: row t of O is the sum over s <= t of (q_t . k_s) v_s.

What the chunks before give is held in one matrix, the sum of k_s v_s^T, so that the work grows with the length and not with its square:
O of a chunk = Q state + tril(Q K^T) V, then state += K^T V.
"""

from functools import partial

import numpy as np
from _bounds import concatenate, exact, lift
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[-1])
def linear_attention(heads, width, dtype="float16", chunk=64, block_V=64, stages=2):
    batch, length = T.dynamic("batch, length")

    @T.prim_func
    def linear_attention(
        Q: T.Tensor((batch, heads, length, width), dtype),
        K: T.Tensor((batch, heads, length, width), dtype),
        V: T.Tensor((batch, heads, length, width), dtype),
        O: T.Tensor((batch, heads, length, width), dtype),
    ):
        with T.Kernel(T.ceildiv(width, block_V), heads, batch, threads=128) as (bx, by, bz):
            Q_tile = T.alloc_shared((chunk, width), dtype)
            K_tile = T.alloc_shared((chunk, width), dtype)
            V_tile = T.alloc_shared((chunk, block_V), dtype)
            scores = T.alloc_fragment((chunk, chunk), "float32")
            weights = T.alloc_shared((chunk, chunk), dtype)
            state = T.alloc_fragment((width, block_V), "float32")
            state_operand = T.alloc_shared((width, block_V), dtype)
            output = T.alloc_fragment((chunk, block_V), "float32")
            T.clear(state)
            for c in T.Pipelined(T.ceildiv(length, chunk), num_stages=stages):
                T.copy(Q[bz, by, c * chunk, 0], Q_tile)
                T.copy(K[bz, by, c * chunk, 0], K_tile)
                T.copy(V[bz, by, c * chunk, bx * block_V], V_tile)
                T.gemm(Q_tile, K_tile, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(chunk, chunk):
                    weights[i, j] = T.if_then_else(j <= i, scores[i, j], 0)
                T.gemm(weights, V_tile, output, clear_accum=True)
                T.copy(state, state_operand)
                T.gemm(Q_tile, state_operand, output)
                T.gemm(K_tile, V_tile, state, transpose_A=True)
                T.copy(output, O[bz, by, c * chunk, bx * block_V])

    return linear_attention


@example(shape={"batch": 2, "heads": 4, "length": 1001, "width": 64}, dtypes=("float16", "bfloat16", "float32"))
def main(run: Run) -> None:
    batch, heads, length, width = run.shape
    Q, K, V = (run.normal(batch, heads, length, width, scale=0.3) for _ in range(3))
    kernel = linear_attention(heads, width, run.dtype)
    state, outputs = lift(0.0), []
    for start in range(0, length, 64):
        q, k, v = (exact(to_numpy(x)[:, :, start : start + 64]) for x in (Q, K, V))
        seen = np.tri(q.value.shape[-2], dtype=bool)
        output = (q @ k.mT).masked(seen).rounded(run.dtype) @ v
        if start:
            output = output + q @ state.rounded(run.dtype)
        state = state + k.mT @ v
        outputs.append(output.rounded(run.dtype))
    expected = concatenate(outputs, axis=2)
    flop = 2 * batch * heads * length * width * (64 + 64 + width + width)
    run.check("linear attention", partial(kernel, Q, K, V), expected, flop=flop)


if __name__ == "__main__":
    main()
