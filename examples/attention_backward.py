"""Attention backward: the gradients of Q, K and V for O = softmax(Q K^T / sqrt(width)) V and a given gradient of O.

The weights are calculated again from the scores and the logarithms of the rows' sums, which the forward pass returns. All that is not the
operand of a product stays float32. One kernel has a block for each tile of keys and sums over the queries, the other the reverse, so that
nothing is added atomically and every run gives the same bits.
"""

import math

import numpy as np
from _bounds import exact
from _harness import Run, example, to_numpy
from attention import attention, reference

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[-1])
def row_products(heads, width, dtype="float16", block_M=64):
    """The sum of O dO of each row: what the softmax takes off the gradient of its weights."""
    batch, length = T.dynamic("batch, length")

    @T.prim_func
    def row_products(
        O: T.Tensor((batch, heads, length, width), dtype),
        dO: T.Tensor((batch, heads, length, width), dtype),
        delta: T.Tensor((batch, heads, length), "float32"),
    ):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=128) as (bx, by, bz):
            o = T.alloc_fragment((block_M, width), "float32")
            do = T.alloc_fragment((block_M, width), "float32")
            sums = T.alloc_fragment((block_M,), "float32")
            T.copy(O[bz, by, bx * block_M, 0], o)
            T.copy(dO[bz, by, bx * block_M, 0], do)
            for i, j in T.Parallel(block_M, width):
                o[i, j] *= do[i, j]
            T.reduce_sum(o, sums, dim=1)
            T.copy(sums, delta[bz, by, bx * block_M])

    return row_products


@zl.jit(out_idx=[6, 7])
def gradients_of_keys(heads, width, is_causal, dtype="float16", block_M=64, block_N=64, stages=2):
    """dK and dV: a block for each tile of keys."""
    batch, length = T.dynamic("batch, length")
    factor = 1 / math.sqrt(width)

    @T.prim_func
    def gradients_of_keys(
        Q: T.Tensor((batch, heads, length, width), dtype),
        K: T.Tensor((batch, heads, length, width), dtype),
        V: T.Tensor((batch, heads, length, width), dtype),
        dO: T.Tensor((batch, heads, length, width), dtype),
        log_sum: T.Tensor((batch, heads, length), "float32"),
        delta: T.Tensor((batch, heads, length), "float32"),
        dK: T.Tensor((batch, heads, length, width), dtype),
        dV: T.Tensor((batch, heads, length, width), dtype),
    ):
        with T.Kernel(T.ceildiv(length, block_N), heads, batch, threads=128) as (bx, by, bz):
            Q_tile = T.alloc_shared((block_M, width), dtype)
            K_tile = T.alloc_shared((block_N, width), dtype)
            V_tile = T.alloc_shared((block_N, width), dtype)
            dO_tile = T.alloc_shared((block_M, width), dtype)
            weights = T.alloc_fragment((block_M, block_N), "float32")
            slopes = T.alloc_fragment((block_M, block_N), "float32")
            operand = T.alloc_shared((block_M, block_N), dtype)
            dK_tile = T.alloc_fragment((block_N, width), "float32")
            dV_tile = T.alloc_fragment((block_N, width), "float32")
            T.copy(K[bz, by, bx * block_N, 0], K_tile)
            T.copy(V[bz, by, bx * block_N, 0], V_tile)
            T.clear(dK_tile)
            T.clear(dV_tile)
            first = bx * block_N // block_M if is_causal else 0
            for q in T.Pipelined(first, T.ceildiv(length, block_M), num_stages=stages):
                T.copy(Q[bz, by, q * block_M, 0], Q_tile)
                T.copy(dO[bz, by, q * block_M, 0], dO_tile)
                T.gemm(Q_tile, K_tile, weights, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_M, block_N):
                    row, column = q * block_M + i, bx * block_N + j
                    is_seen = row < length and column < length and (column <= row or not is_causal)
                    weight = T.exp2((weights[i, j] * factor - log_sum[bz, by, row]) * math.log2(math.e))
                    weights[i, j] = T.if_then_else(is_seen, weight, 0)
                T.copy(weights, operand)
                T.gemm(operand, dO_tile, dV_tile, transpose_A=True)
                T.gemm(dO_tile, V_tile, slopes, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_M, block_N):
                    operand[i, j] = weights[i, j] * (slopes[i, j] - delta[bz, by, q * block_M + i])
                T.gemm(operand, Q_tile, dK_tile, transpose_A=True)
            for i, j in T.Parallel(block_N, width):
                dK_tile[i, j] *= factor
            T.copy(dK_tile, dK[bz, by, bx * block_N, 0])
            T.copy(dV_tile, dV[bz, by, bx * block_N, 0])

    return gradients_of_keys


@zl.jit(out_idx=[-1])
def gradient_of_queries(heads, width, is_causal, dtype="float16", block_M=64, block_N=64, stages=2):
    """dQ: a block for each tile of queries."""
    batch, length = T.dynamic("batch, length")
    factor = 1 / math.sqrt(width)

    @T.prim_func
    def gradient_of_queries(
        Q: T.Tensor((batch, heads, length, width), dtype),
        K: T.Tensor((batch, heads, length, width), dtype),
        V: T.Tensor((batch, heads, length, width), dtype),
        dO: T.Tensor((batch, heads, length, width), dtype),
        log_sum: T.Tensor((batch, heads, length), "float32"),
        delta: T.Tensor((batch, heads, length), "float32"),
        dQ: T.Tensor((batch, heads, length, width), dtype),
    ):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=128) as (bx, by, bz):
            Q_tile = T.alloc_shared((block_M, width), dtype)
            K_tile = T.alloc_shared((block_N, width), dtype)
            V_tile = T.alloc_shared((block_N, width), dtype)
            dO_tile = T.alloc_shared((block_M, width), dtype)
            weights = T.alloc_fragment((block_M, block_N), "float32")
            slopes = T.alloc_fragment((block_M, block_N), "float32")
            operand = T.alloc_shared((block_M, block_N), dtype)
            dQ_tile = T.alloc_fragment((block_M, width), "float32")
            T.copy(Q[bz, by, bx * block_M, 0], Q_tile)
            T.copy(dO[bz, by, bx * block_M, 0], dO_tile)
            T.clear(dQ_tile)
            seen = T.min(length, (bx + 1) * block_M) if is_causal else length
            for k in T.Pipelined(T.ceildiv(seen, block_N), num_stages=stages):
                T.copy(K[bz, by, k * block_N, 0], K_tile)
                T.copy(V[bz, by, k * block_N, 0], V_tile)
                T.gemm(Q_tile, K_tile, weights, transpose_B=True, clear_accum=True)
                T.gemm(dO_tile, V_tile, slopes, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_M, block_N):
                    row, column = bx * block_M + i, k * block_N + j
                    is_seen = row < length and column < length and (column <= row or not is_causal)
                    weight = T.exp2((weights[i, j] * factor - log_sum[bz, by, row]) * math.log2(math.e))
                    operand[i, j] = T.if_then_else(is_seen, weight * (slopes[i, j] - delta[bz, by, row]), 0)
                T.gemm(operand, K_tile, dQ_tile)
            for i, j in T.Parallel(block_M, width):
                dQ_tile[i, j] *= factor
            T.copy(dQ_tile, dQ[bz, by, bx * block_M, 0])

    return gradient_of_queries


def expected_gradients(Q, K, V, dO, *, is_causal, dtype):
    """dQ, dK and dV with the errors of the forward pass in them."""
    q, k, v, do = (exact(to_numpy(x)) for x in (Q, K, V, dO))
    length, width = q.value.shape[-2:]
    factor = 1 / math.sqrt(width)
    seen = np.tri(length, dtype=bool) if is_causal else np.ones((length, length), dtype=bool)
    output, log_sum = reference(q, k, v, is_causal=is_causal, dtype=dtype)
    scores = q @ k.mT * factor - log_sum.reshape(*log_sum.value.shape, 1)
    weights = (scores * math.log2(math.e) * math.log(2)).exp().masked(seen)
    delta = (output * do).sum(-1, keepdims=True)
    slopes = (weights * (do @ v.mT - delta)).masked(seen).rounded(dtype)
    results = [slopes @ k * factor, slopes.mT @ q * factor, weights.rounded(dtype).mT @ do]
    return [result.rounded(dtype) for result in results]


@example(shape={"batch": 2, "heads": 3, "length": 401, "width": 64}, dtypes=("float16", "bfloat16", "float32"))
def main(run: Run) -> None:
    batch, heads, length, width = run.shape
    Q, K, V, dO = (run.normal(batch, heads, length, width) for _ in range(4))
    for is_causal in (False, True):
        forward = attention(heads, heads, width, is_causal, run.dtype)
        products = row_products(heads, width, run.dtype)
        of_keys = gradients_of_keys(heads, width, is_causal, run.dtype)
        of_queries = gradient_of_queries(heads, width, is_causal, run.dtype)
        O, log_sum = forward(Q, K, V)

        def backward(O=O, log_sum=log_sum, products=products, of_keys=of_keys, of_queries=of_queries):
            arguments = (Q, K, V, dO, log_sum, products(O, dO))
            return of_queries(*arguments), *of_keys(*arguments)

        expected = expected_gradients(Q, K, V, dO, is_causal=is_causal, dtype=run.dtype)
        pairs = length * (length + 1) / 2 if is_causal else length**2
        name = "attention backward, causal" if is_causal else "attention backward"
        run.check(name, backward, expected, flop=10 * batch * heads * width * pairs)


if __name__ == "__main__":
    main()
