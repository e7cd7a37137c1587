"""A mixture of experts: each token goes to the k experts its router chooses; each expert is a gated MLP; their results are combined.

Five kernels: ``route`` chooses experts and weights, ``place`` counts the tokens of each expert, ``arrange`` gives each (token, expert) pair
a row so that an expert's rows lie together, ``gated`` and ``combine`` are grouped products over those rows. Nothing is padded: a tile
that an expert fills only in part is masked.
"""

import numpy as np
from _bounds import Bounded, concatenate, exact, lift, softmax
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T


@zl.jit(out_idx=[2, 3])
def route(experts, k, width, dtype="float16", block_M=32, block_K=64, stages=2):
    """The k likeliest experts of each token, and their weights, which sum to 1."""
    tokens = T.dynamic("tokens")

    @T.prim_func
    def route(
        X: T.Tensor((tokens, width), dtype),
        router: T.Tensor((width, experts), dtype),
        chosen: T.Tensor((tokens, k), "int32"),
        weights: T.Tensor((tokens, k), "float32"),
    ):
        with T.Kernel(T.ceildiv(tokens, block_M), threads=128) as bx:
            X_tile = T.alloc_shared((block_M, block_K), dtype)
            router_tile = T.alloc_shared((block_K, experts), dtype)
            logits = T.alloc_fragment((block_M, experts), "float32")
            places = T.alloc_fragment((block_M, experts), "int32")
            top = T.alloc_fragment((block_M,), "float32")
            first_top = T.alloc_fragment((block_M,), "float32")
            place = T.alloc_fragment((block_M,), "int32")
            likely = T.alloc_fragment((block_M, k), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.clear(logits)
            for step in T.Pipelined(T.ceildiv(width, block_K), num_stages=stages):
                T.copy(X[bx * block_M, step * block_K], X_tile)
                T.copy(router[step * block_K, 0], router_tile)
                T.gemm(X_tile, router_tile, logits)
            T.reduce_max(logits, first_top, dim=1)
            for n in T.serial(k):
                T.reduce_max(logits, top, dim=1)
                for i, j in T.Parallel(block_M, experts):
                    places[i, j] = T.if_then_else(logits[i, j] == top[i], j, experts)
                T.reduce_min(places, place, dim=1)
                for i in T.Parallel(block_M):
                    likely[i, n] = T.exp(top[i] - first_top[i])
                    chosen[bx * block_M + i, n] = place[i]
                for i, j in T.Parallel(block_M, experts):
                    if j == place[i]:
                        logits[i, j] = -T.infinity("float32")
            T.reduce_sum(likely, total, dim=1)
            for i, n in T.Parallel(block_M, k):
                weights[bx * block_M + i, n] = likely[i, n] / total[i]

    return route


@zl.jit(out_idx=[-1])
def place(experts, k):
    """Where the rows of each expert begin: offsets[e] to offsets[e + 1]."""
    tokens = T.dynamic("tokens")

    @T.prim_func
    def place(chosen: T.Tensor((tokens, k), "int32"), offsets: T.Tensor((experts + 1,), "int32")):
        with T.Kernel(1, threads=128):
            counts = T.alloc_shared((experts + 1,), "int32")
            T.clear(counts)
            for t, n in T.Parallel(tokens, k):
                T.atomic_add(counts[chosen[t, n] + 1], 1)
            T.cumsum(counts, dim=0)
            T.copy(counts, offsets)

    return place


@zl.jit(out_idx=[-1])
def arrange(experts, k):
    """The pair (token k + choice) of each row. Pairs of one expert may stand in any order: the result does not depend on it."""
    tokens = T.dynamic("tokens")

    @T.prim_func
    def arrange(
        chosen: T.Tensor((tokens, k), "int32"), offsets: T.Tensor((experts + 1,), "int32"), pairs: T.Tensor((tokens * k,), "int32")
    ):
        with T.Kernel(1, threads=128):
            cursor = T.alloc_shared((experts,), "int32")
            for e in T.Parallel(experts):
                cursor[e] = offsets[e]
            for t, n in T.Parallel(tokens, k):
                row = T.atomic_add(cursor[chosen[t, n]], 1, return_prev=True)
                pairs[row] = t * k + n

    return arrange


@T.macro
def find_tile(offsets, experts, block_M, number, expert: T.Ref, start: T.Ref):
    """Sets ``expert`` and ``start`` (its row) of tile ``number``. Both keep their values for a tile beyond the last."""
    first = T.alloc_var("int32", init=0)  # tiles of the experts before
    for e in T.serial(experts):
        tiles = T.ceildiv(offsets[e + 1] - offsets[e], block_M)
        if number >= first and number < first + tiles:
            expert = e
            start = offsets[e] + (number - first) * block_M
        first = first + tiles


@zl.jit(out_idx=[-1])
def gated(experts, k, width, hidden, dtype="float16", block_M=32, block_N=64, block_K=64, stages=2):
    """H = silu(X gate[e]) * (X up[e]) for the rows of each expert e."""
    tokens = T.dynamic("tokens")

    @T.prim_func
    def gated(
        X: T.Tensor((tokens, width), dtype),
        gate: T.Tensor((experts, width, hidden), dtype),
        up: T.Tensor((experts, width, hidden), dtype),
        offsets: T.Tensor((experts + 1,), "int32"),
        pairs: T.Tensor((tokens * k,), "int32"),
        H: T.Tensor((tokens * k, hidden), dtype),
    ):
        with T.Kernel(T.ceildiv(hidden, block_N), T.ceildiv(tokens * k, block_M) + experts, threads=128) as (bx, by):
            X_tile = T.alloc_shared((block_M, block_K), dtype)
            gate_tile = T.alloc_shared((block_K, block_N), dtype)
            up_tile = T.alloc_shared((block_K, block_N), dtype)
            gates = T.alloc_fragment((block_M, block_N), "float32")
            ups = T.alloc_fragment((block_M, block_N), "float32")
            expert = T.alloc_var("int32", init=-1)
            start = T.alloc_var("int32", init=0)
            find_tile(offsets, experts, block_M, by, expert, start)
            if expert >= 0:
                T.clear(gates)
                T.clear(ups)
                for step in T.Pipelined(T.ceildiv(width, block_K), num_stages=stages):
                    for i, j in T.Parallel(block_M, block_K):
                        X_tile[i, j] = X[pairs[start + i] // k, step * block_K + j]
                    T.copy(gate[expert, step * block_K, bx * block_N], gate_tile)
                    T.copy(up[expert, step * block_K, bx * block_N], up_tile)
                    T.gemm(X_tile, gate_tile, gates)
                    T.gemm(X_tile, up_tile, ups)
                for i, j in T.Parallel(block_M, block_N):
                    if start + i < offsets[expert + 1] and bx * block_N + j < hidden:
                        H[start + i, bx * block_N + j] = gates[i, j] * T.sigmoid(gates[i, j]) * ups[i, j]

    return gated


@zl.jit
def combine(experts, k, width, hidden, dtype="float16", block_M=32, block_N=64, block_K=64, stages=2):
    """Y[token] += weight * (H down[e]) over the experts e of each token. Y holds zeros before."""
    tokens = T.dynamic("tokens")

    @T.prim_func
    def combine(
        H: T.Tensor((tokens * k, hidden), dtype),
        down: T.Tensor((experts, hidden, width), dtype),
        offsets: T.Tensor((experts + 1,), "int32"),
        pairs: T.Tensor((tokens * k,), "int32"),
        weights: T.Tensor((tokens, k), "float32"),
        Y: T.Tensor((tokens, width), "float32"),
    ):
        with T.Kernel(T.ceildiv(width, block_N), T.ceildiv(tokens * k, block_M) + experts, threads=128) as (bx, by):
            H_tile = T.alloc_shared((block_M, block_K), dtype)
            down_tile = T.alloc_shared((block_K, block_N), dtype)
            sums = T.alloc_fragment((block_M, block_N), "float32")
            expert = T.alloc_var("int32", init=-1)
            start = T.alloc_var("int32", init=0)
            find_tile(offsets, experts, block_M, by, expert, start)
            if expert >= 0:
                T.clear(sums)
                for step in T.Pipelined(T.ceildiv(hidden, block_K), num_stages=stages):
                    T.copy(H[start, step * block_K], H_tile)
                    T.copy(down[expert, step * block_K, bx * block_N], down_tile)
                    T.gemm(H_tile, down_tile, sums)
                for i, j in T.Parallel(block_M, block_N):
                    if start + i < offsets[expert + 1] and bx * block_N + j < width:
                        token, choice = pairs[start + i] // k, pairs[start + i] % k
                        T.atomic_add(Y[token, bx * block_N + j], sums[i, j] * weights[token, choice])

    return combine


def expected_routing(X, router, k) -> tuple[np.ndarray, Bounded]:
    logits = exact(to_numpy(X)) @ exact(to_numpy(router))
    chosen = np.argsort(-logits.value, axis=1, kind="stable")[:, :k]
    taken = logits[np.arange(len(chosen))[:, None], chosen]
    weights, total = softmax(taken)
    return chosen, weights / total


def expected_result(X, gate, up, down, chosen, weights, dtype) -> Bounded:
    x, gates, ups, downs = (exact(to_numpy(a)) for a in (X, gate, up, down))
    result = lift(0.0)
    for n in range(chosen.shape[1]):
        parts, tokens = [], []
        for expert in range(len(gates.value)):
            mine = np.flatnonzero(chosen[:, n] == expert)
            g, u = x[mine] @ gates[expert], x[mine] @ ups[expert]
            hidden = (g * g.sigmoid() * u).rounded(dtype)
            parts.append(hidden @ downs[expert] * weights[mine, n].reshape(-1, 1))
            tokens.append(mine)
        result = result + concatenate(parts)[np.argsort(np.concatenate(tokens))]
    return result


@example(shape={"tokens": 501, "experts": 8, "k": 2, "width": 193, "hidden": 301}, dtypes=("float16", "bfloat16", "float32"))
def main(run: Run) -> None:
    tokens, experts, k, width, hidden = run.shape
    run.require(k <= experts, "k must be at most experts")
    X, router = run.normal(tokens, width), run.normal(width, experts, scale=0.1)
    gate, up = run.normal(experts, width, hidden, scale=0.1), run.normal(experts, width, hidden, scale=0.1)
    down = run.normal(experts, hidden, width, scale=0.1)
    router_kernel, sizes = route(experts, k, width, run.dtype), (experts, k, width, hidden, run.dtype)
    chosen, weights = expected_routing(X, router, k)
    run.check("MoE routing", lambda: router_kernel(X, router), [chosen, weights], flop=2 * tokens * width * experts)

    def layer():
        chosen, weights = router_kernel(X, router)
        offsets = place(experts, k)(chosen)
        pairs = arrange(experts, k)(chosen, offsets)
        H = gated(*sizes)(X, gate, up, offsets, pairs)
        Y = run.zeros(tokens, width, dtype="float32")
        combine(*sizes)(H, down, offsets, pairs, weights, Y)
        return Y

    expected = expected_result(X, gate, up, down, chosen, weights, run.dtype)
    run.check("MoE layer", layer, expected, flop=6 * tokens * k * width * hidden)


if __name__ == "__main__":
    main()
