"""Kernels of every shape that planning must understand, or leave alone: planned for the four machines, checked, run under adverse
schedules.

What a plan computes is compared bit for bit with the interpreter; what was decided is in ``test_planner_decisions.py``."""

# Kernels are read by the front end, not run by Python.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
import pytest

import zellige.language as T
from zellige.interp import interpret
from zellige.plan.check import check
from zellige.plan.interpret import has_one_order, reference_kernel, run
from zellige.plan.invented_machines import TEST_TARGETS
from zellige.plan.planner import plan

SEEDS = 3


def half_gemm(M=96, N=64, K=160, BM=64, BN=32, BK=32, stages=3, transpose=False):
    """Float16 operands, pitches that suit every copy path."""
    B_shape = (N, K) if transpose else (K, N)

    @T.prim_func
    def half_gemm(A: T.Tensor((M, K), "float16"), B: T.Tensor(B_shape, "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=128) as (bx, by):
            As = T.alloc_shared((BM, BK), "float16")
            Bs = T.alloc_shared((BN, BK) if transpose else (BK, BN), "float16")
            Cl = T.alloc_fragment((BM, BN), "float32")
            T.clear(Cl)
            for k in T.Pipelined(T.ceildiv(K, BK), num_stages=stages):
                T.copy(A[by * BM, k * BK], As)
                if transpose:
                    T.copy(B[bx * BN, k * BK], Bs)
                else:
                    T.copy(B[k * BK, bx * BN], Bs)
                T.gemm(As, Bs, Cl, transpose_B=transpose)
            T.copy(Cl, C[by * BM, bx * BN])

    return half_gemm


def split_k(stages=2):
    """Split-K: blocks add to one output by atomics."""

    @T.prim_func
    def split_k(A: T.Tensor((32, 128), "float16"), B: T.Tensor((128, 64), "float16"), C: T.Tensor((32, 64), "float32")):
        with T.Kernel(2, 4, threads=128) as (bx, bz):
            As = T.alloc_shared((32, 16), "float16")
            Bs = T.alloc_shared((16, 32), "float16")
            Cl = T.alloc_fragment((32, 32), "float32")
            T.clear(Cl)
            for k in T.Pipelined(2, num_stages=stages):
                T.copy(A[0, bz * 32 + k * 16], As)
                T.copy(B[bz * 32 + k * 16, bx * 32], Bs)
                T.gemm(As, Bs, Cl)
            T.atomic_add(C[0, bx * 32], Cl)

    return split_k


def atomics_in_loop(stages=2):
    """Tiles of atomics in a pipelined loop: their order is part of the bits."""

    @T.prim_func
    def atomics_in_loop(A: T.Tensor((8, 64), "float16"), C: T.Tensor((8, 16), "float32")):
        with T.Kernel(1, threads=32):
            As = T.alloc_shared((8, 16), "float16")
            Af = T.alloc_fragment((8, 16), "float32")
            for k in T.Pipelined(4, num_stages=stages):
                T.copy(A[0, k * 16], As)
                for i, j in T.Parallel(8, 16):
                    Af[i, j] = As[i, j] * 0.1
                T.atomic_add(C[0, 0], Af)

    return atomics_in_loop


def read_then_overwrite(stages=3):
    """Each iteration reads a row of X and overwrites the row that the next one reads."""

    @T.prim_func
    def read_then_overwrite(X: T.Tensor((9, 64), "float16")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((1, 64), "float16")
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(X[k, 0], tile)
                for j in T.Parallel(64):
                    tile[0, j] = tile[0, j] + 1.0
                T.copy(tile, X[k + 1, 0])

    return read_then_overwrite


def carried_tile(stages=3):
    """The tile of an iteration is used before the next one is copied: by the iteration after it."""

    @T.prim_func
    def carried_tile(X: T.Tensor((8, 64), "float16"), Y: T.Tensor((8, 64), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((1, 64), "float16")
            sums = T.alloc_fragment((1, 64), "float32")
            T.clear(tile)
            T.clear(sums)
            for k in T.Pipelined(8, num_stages=stages):
                for j in T.Parallel(64):
                    sums[0, j] = sums[0, j] * 2.0 + tile[0, j]
                T.copy(X[k, 0], tile)
                T.copy(sums, Y[k, 0])

    return carried_tile


def used_after_loop(stages=3):
    """The last tile is used after the loop."""

    @T.prim_func
    def used_after_loop(X: T.Tensor((8, 64), "float16"), Y: T.Tensor((2, 64), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((1, 64), "float16")
            sums = T.alloc_fragment((1, 64), "float32")
            T.clear(sums)
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(X[k, 0], tile)
                for j in T.Parallel(64):
                    sums[0, j] += tile[0, j]
            T.copy(sums, Y[0, 0])
            T.copy(tile, Y[1, 0])

    return used_after_loop


def two_phases(stages=2):
    """One tile is filled and used twice in an iteration."""

    @T.prim_func
    def two_phases(X: T.Tensor((8, 64), "float16"), Z: T.Tensor((8, 64), "float16"), Y: T.Tensor((1, 64), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((1, 64), "float16")
            sums = T.alloc_fragment((1, 64), "float32")
            T.clear(sums)
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(X[k, 0], tile)
                for j in T.Parallel(64):
                    sums[0, j] += tile[0, j]
                T.copy(Z[k, 0], tile)
                for j in T.Parallel(64):
                    sums[0, j] = sums[0, j] * tile[0, j]
            T.copy(sums, Y[0, 0])

    return two_phases


def modified_in_place(stages=3):
    """The consumer scales the tile that was copied, and uses it after."""

    @T.prim_func
    def modified_in_place(X: T.Tensor((8, 64), "float16"), Y: T.Tensor((8, 64), "float16")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((1, 64), "float16")
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(X[k, 0], tile)
                for j in T.Parallel(64):
                    tile[0, j] = tile[0, j] * 2.0
                T.copy(tile, Y[k, 0])

    return modified_in_place


def partial_tile(stages=3):
    """Only half of the tile is copied in each iteration: the other half keeps what it held."""

    @T.prim_func
    def partial_tile(X: T.Tensor((8, 64), "float16"), Y: T.Tensor((8, 64), "float16")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((2, 64), "float16")
            T.clear(tile)
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(X[k, 0:64], tile[k % 2, 0:64])
                for j in T.Parallel(64):
                    Y[k, j] = tile[0, j] + tile[1, j]

    return partial_tile


def siblings(stages=2):
    """Two pipelined loops in one launch over one tile each, and one shared by both."""

    @T.prim_func
    def siblings(X: T.Tensor((8, 64), "float16"), Z: T.Tensor((8, 64), "float16"), Y: T.Tensor((2, 64), "float32")):
        with T.Kernel(1, threads=32):
            first = T.alloc_shared((1, 64), "float16")
            second = T.alloc_shared((1, 64), "float16")
            both = T.alloc_shared((1, 64), "float16")
            sums = T.alloc_fragment((1, 64), "float32")
            T.clear(sums)
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(X[k, 0], first)
                T.copy(Z[k, 0], both)
                for j in T.Parallel(64):
                    sums[0, j] += first[0, j] * both[0, j]
            T.copy(sums, Y[0, 0])
            for k in T.Pipelined(7, num_stages=stages + 1):
                T.copy(Z[k, 0], second)
                T.copy(X[k + 1, 0], both)
                for j in T.Parallel(64):
                    sums[0, j] += second[0, j] - both[0, j]
            T.copy(sums, Y[1, 0])

    return siblings


def nested(stages=2):
    """A pipelined loop within a pipelined loop, with tiles at both levels."""

    @T.prim_func
    def nested(X: T.Tensor((4, 64), "float16"), Z: T.Tensor((8, 64), "float16"), Y: T.Tensor((4, 64), "float32")):
        with T.Kernel(1, threads=32):
            outer = T.alloc_shared((1, 64), "float16")
            inner = T.alloc_shared((1, 64), "float16")
            sums = T.alloc_fragment((1, 64), "float32")
            for m in T.Pipelined(4, num_stages=stages):
                T.copy(X[m, 0], outer)
                T.clear(sums)
                for k in T.Pipelined(m + 1, num_stages=stages + 1):
                    T.copy(Z[k + m, 0], inner)
                    for j in T.Parallel(64):
                        sums[0, j] += inner[0, j] * outer[0, j]
                T.copy(sums, Y[m, 0])

    return nested


def conditional_copy(stages=3):
    """The copy stands under a condition; without it the tile keeps the last one."""

    @T.prim_func
    def conditional_copy(X: T.Tensor((8, 64), "float16"), Y: T.Tensor((8, 64), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((1, 64), "float16")
            T.clear(tile)
            for k in T.Pipelined(8, num_stages=stages):
                if k % 3 == 0:
                    T.copy(X[k, 0], tile)
                for j in T.Parallel(64):
                    Y[k, j] = tile[0, j] * 3.0

    return conditional_copy


def conditional_work(stages=3):
    """Copies always, work sometimes."""

    @T.prim_func
    def conditional_work(X: T.Tensor((8, 64), "float16"), Y: T.Tensor((8, 64), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((1, 64), "float16")
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(X[k, 0], tile)
                if k % 3 != 1:
                    for j in T.Parallel(64):
                        Y[k, j] = tile[0, j] * 3.0
                else:
                    T.copy(tile, Y[k, 0])

    return conditional_work


def gather(stages=3):
    """Row numbers come from a tensor, kept in a variable; how many rows there are, too."""

    @T.prim_func
    def gather(
        X: T.Tensor((16, 64), "float16"), rows: T.Tensor((8,), "int32"), counts: T.Tensor((3,), "int32"), Y: T.Tensor((3, 64), "float32")
    ):
        with T.Kernel(3, threads=32) as bx:
            tile = T.alloc_shared((1, 64), "float16")
            sums = T.alloc_fragment((1, 64), "float32")
            n = T.alloc_var("int32")
            row = T.alloc_var("int32")
            n = counts[bx]
            T.clear(sums)
            for k in T.Pipelined(n, num_stages=stages):
                row = rows[k]
                T.copy(X[row, 0], tile)
                for j in T.Parallel(64):
                    sums[0, j] += tile[0, j] * row
            T.copy(sums, Y[bx, 0])

    return gather


def chased(stages=3):
    """The row of the next iteration stands in the tile of this one: no copy can run ahead."""

    @T.prim_func
    def chased(X: T.Tensor((8, 64), "float16"), links: T.Tensor((8, 4), "int32"), Y: T.Tensor((8, 64), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((1, 64), "float16")
            link = T.alloc_shared((1, 4), "int32")
            at = T.alloc_var("int32")
            at = 0
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(X[at, 0], tile)
                T.copy(links[at, 0], link)
                for j in T.Parallel(64):
                    Y[k, j] = tile[0, j] + k
                at = link[0, 1]

    return chased


def counted(stages=3):
    """A variable counts across iterations and is used by copies and by work."""

    @T.prim_func
    def counted(X: T.Tensor((16, 64), "float16"), Y: T.Tensor((8, 64), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((1, 64), "float16")
            at = T.alloc_var("int32")
            at = 0
            for k in T.Pipelined(8, num_stages=stages):
                at = at + (k % 3)
                T.copy(X[at, 0], tile)
                for j in T.Parallel(64):
                    Y[k, j] = tile[0, j] + at

    return counted


def leaves_early(stages=3):
    """A break whose condition the data decides, then an ordinary loop."""

    @T.prim_func
    def leaves_early(X: T.Tensor((8, 64), "float16"), stop: T.Tensor((1,), "int32"), Y: T.Tensor((2, 64), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((1, 64), "float16")
            other = T.alloc_shared((1, 64), "float16")
            sums = T.alloc_fragment((1, 64), "float32")
            T.clear(sums)
            for k in T.Pipelined(8, num_stages=stages):
                if k == stop[0]:
                    break
                T.copy(X[k, 0], tile)
                for j in T.Parallel(64):
                    sums[0, j] += tile[0, j]
            T.copy(sums, Y[0, 0])
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(X[k, 0], other)
                for j in T.Parallel(64):
                    sums[0, j] += other[0, j]
            T.copy(sums, Y[1, 0])

    return leaves_early


def while_loop():
    """A loop whose end the data decides."""

    @T.prim_func
    def while_loop(X: T.Tensor((8, 64), "float16"), n: T.Tensor((1,), "int32"), Y: T.Tensor((1, 64), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((1, 64), "float16")
            sums = T.alloc_fragment((1, 64), "float32")
            at = T.alloc_var("int32")
            T.clear(sums)
            at = 0
            while at < n[0]:
                T.copy(X[at, 0], tile)
                for j in T.Parallel(64):
                    sums[0, j] += tile[0, j]
                at = at + 1
            T.copy(sums, Y[0, 0])

    return while_loop


def dealt_steps():
    """Steps along k of all tiles dealt out to blocks: a pipelined loop in one that goes on while a scalar says so, and changes it."""

    @T.prim_func
    def dealt_steps(A: T.Tensor((64, 96), "float16"), B: T.Tensor((96, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(5, threads=128) as block:
            a = T.alloc_shared((32, 16), "float16")
            b = T.alloc_shared((16, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            step = T.alloc_var("int32", init=block * 5)
            end = T.min((block + 1) * 5, 24)
            while step < end:
                tile = step // 6
                first = step % 6
                last = T.min(6, first + end - step)
                T.clear(c)
                for k in T.Pipelined(first, last, num_stages=3):
                    T.copy(A[tile // 2 * 32, k * 16], a)
                    T.copy(B[k * 16, tile % 2 * 32], b)
                    T.gemm(a, b, c)
                T.atomic_add(C[tile // 2 * 32, tile % 2 * 32], c)
                step = step + last - first

    return dealt_steps


def two_launches(stages=2):
    """The second launch reads what the first has written."""

    @T.prim_func
    def two_launches(X: T.Tensor((8, 64), "float16"), W: T.Tensor((8, 64), "float16"), Y: T.Tensor((1, 64), "float32")):
        with T.Kernel(8, threads=32) as bx:
            tile = T.alloc_shared((1, 64), "float16")
            T.copy(X[bx, 0], tile)
            for j in T.Parallel(64):
                tile[0, j] = tile[0, j] * 2.0
            T.copy(tile, W[bx, 0])
        with T.Kernel(1, threads=32) as bx:
            tile = T.alloc_shared((1, 64), "float16")
            sums = T.alloc_fragment((1, 64), "float32")
            T.clear(sums)
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(W[k, 0], tile)
                for j in T.Parallel(64):
                    sums[0, j] += tile[0, j]
            T.copy(sums, Y[0, 0])

    return two_launches


def lanes_of_a_block():
    """The author programs the lanes."""

    @T.prim_func
    def lanes_of_a_block(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), "float32")
            tx = T.get_thread_binding()
            tile[tx] = X[tx]
            T.sync_threads()
            Y[tx] = tile[63 - tx]

    return lanes_of_a_block


def by_hand(order=(0, 1, 2), stage=(0, 1, 2)):
    """Stages and order by the author."""

    @T.prim_func
    def by_hand(X: T.Tensor((8, 64), "float16"), Y: T.Tensor((8, 64), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((1, 64), "float16")
            wide = T.alloc_fragment((1, 64), "float32")
            for k in T.Pipelined(8, num_stages=2, order=list(order), stage=list(stage)):
                T.copy(X[k, 0], tile)
                for j in T.Parallel(64):
                    wide[0, j] = tile[0, j] * 2.0
                T.copy(wide, Y[k, 0])

    return by_hand


def softmax_of_products(length=72, width=32, stages=2):
    """Online softmax over blocks with two products an iteration; the score tile is cleared, not initialised."""

    @T.prim_func
    def softmax_of_products(
        Q: T.Tensor((40, width), "float16"),
        K: T.Tensor((length, width), "float16"),
        V: T.Tensor((length, width), "float16"),
        O: T.Tensor((40, width), "float32"),
    ):
        with T.Kernel(T.ceildiv(40, 16), threads=32) as bx:
            Qs = T.alloc_shared((16, width), "float16")
            Ks = T.alloc_shared((16, width), "float16")
            Vs = T.alloc_shared((16, width), "float16")
            S = T.alloc_fragment((16, 16), "float32")
            P = T.alloc_fragment((16, 16), "float16")
            acc = T.alloc_fragment((16, width), "float32")
            top = T.alloc_fragment((16,), "float32")
            before = T.alloc_fragment((16,), "float32")
            total = T.alloc_fragment((16,), "float32")
            part = T.alloc_fragment((16,), "float32")
            T.copy(Q[bx * 16, 0], Qs)
            T.clear(acc)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(length, 16), num_stages=stages):
                T.copy(K[k * 16, 0], Ks)
                T.clear(S)
                T.gemm(Qs, Ks, S, transpose_B=True)
                T.copy(V[k * 16, 0], Vs)
                for i, j in T.Parallel(16, 16):
                    S[i, j] = T.if_then_else(k * 16 + j < length, S[i, j], -T.infinity("float32"))
                T.copy(top, before)
                T.reduce_max(S, top, dim=1, clear=False)
                for i, j in T.Parallel(16, 16):
                    S[i, j] = T.exp2(S[i, j] - top[i])
                T.reduce_sum(S, part, dim=1)
                for i in T.Parallel(16):
                    total[i] = total[i] * T.exp2(before[i] - top[i]) + part[i]
                for i, j in T.Parallel(16, width):
                    acc[i, j] *= T.exp2(before[i] - top[i])
                T.copy(S, P)
                T.gemm(P, Vs, acc)
            for i, j in T.Parallel(16, width):
                acc[i, j] = acc[i, j] / total[i]
            T.copy(acc, O[bx * 16, 0])

    return softmax_of_products


def products_in_a_loop(stages=2):
    """Two products an iteration, within a loop over heads: the second may end an iteration late, its loop is not at the top."""

    @T.prim_func
    def products_in_a_loop(
        Q: T.Tensor((2, 16, 32), "float16"),
        K: T.Tensor((2, 48, 32), "float16"),
        V: T.Tensor((2, 48, 32), "float16"),
        O: T.Tensor((2, 16, 32), "float32"),
    ):
        with T.Kernel(1, threads=32):
            Qs = T.alloc_shared((16, 32), "float16")
            Ks = T.alloc_shared((16, 32), "float16")
            Vs = T.alloc_shared((16, 32), "float16")
            S = T.alloc_fragment((16, 16), "float32")
            P = T.alloc_fragment((16, 16), "float16")
            acc = T.alloc_fragment((16, 32), "float32")
            for h in T.serial(2):
                T.copy(Q[h, 0, 0], Qs)
                T.clear(acc)
                if h >= 0:
                    for k in T.Pipelined(h + 2, num_stages=stages):
                        T.copy(K[h, k * 16, 0], Ks)
                        T.copy(V[h, k * 16, 0], Vs)
                        T.clear(S)
                        T.gemm(Qs, Ks, S, transpose_B=True)
                        T.copy(S, P)
                        T.gemm(P, Vs, acc)
                T.copy(acc, O[h, 0, 0])

    return products_in_a_loop


def corrected(filling="whole", stages=3):
    """A copy that writes over a part of what the copy before it brings: both may not be under way at a time. Parts that are filled by
    copies of their own are apart."""

    @T.prim_func
    def corrected(A: T.Tensor((16, 128), "float16"), P: T.Tensor((8, 128), "float16"), B: T.Tensor((128, 32), "float16"),
                  C: T.Tensor((16, 32), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((16, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((16, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=stages):
                if filling == "steps":
                    for j in T.serial(2):
                        T.copy(A[0:16, (k + j) * 32 : (k + j) * 32 + 32], a)
                else:
                    T.copy(A[0, k * 32], a)
                if filling == "whole":
                    T.copy(P[0:8, k * 32 : k * 32 + 32], a[8:16, 0:32])
                elif filling == "rows":
                    T.copy(P[0:4, k * 32 : k * 32 + 32], a[4:8, 0:32])
                    T.copy(P[4:8, k * 32 : k * 32 + 32], a[7:11, 0:32])
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    return corrected


def corrected_before(stages=2):
    """The same before the loop."""

    @T.prim_func
    def corrected_before(A: T.Tensor((16, 32), "float16"), P: T.Tensor((8, 32), "float16"), B: T.Tensor((32, 128), "float16"),
                         C: T.Tensor((16, 128), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((16, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((16, 32), "float32")
            T.copy(A, a)
            T.copy(P, a[8:16, 0:32])
            for k in T.Pipelined(4, num_stages=stages):
                T.copy(B[0, k * 32], b)
                T.gemm(a, b, c, clear_accum=True)
                T.copy(c, C[0:16, k * 32 : k * 32 + 32])

    return corrected_before


def two_sums(blocks=5):
    """Two products take what the lanes make of the first one's result: that one may run ahead."""

    @T.prim_func
    def two_sums(Q: T.Tensor((16, 32), "float16"), K: T.Tensor((blocks * 32, 32), "float16"), O: T.Tensor((16, 32), "float32")):
        with T.Kernel(1, threads=32):
            Qs = T.alloc_shared((16, 32), "float16")
            Ks = T.alloc_shared((32, 32), "float16")
            Vs = T.alloc_shared((32, 32), "float16")
            S = T.alloc_fragment((16, 32), "float32")
            P = T.alloc_fragment((16, 32), "float16")
            one = T.alloc_fragment((16, 32), "float32")
            other = T.alloc_fragment((16, 32), "float32")
            T.copy(Q, Qs)
            T.clear(one)
            T.clear(other)
            for k in T.Pipelined(blocks, num_stages=2):
                T.copy(K[k * 32, 0], Ks)
                T.copy(K[k * 32, 0], Vs)
                T.clear(S)
                T.gemm(Qs, Ks, S, transpose_B=True)
                T.copy(S, P)
                T.gemm(P, Vs, one)
                T.gemm(P, Vs, other, transpose_B=True)
            for i, j in T.Parallel(16, 32):
                O[i, j] = one[i, j] - other[i, j]

    return two_sums


PROGRAMS = {
    "two sums": two_sums, "two sums, one block": lambda: two_sums(1),
    "gemm": half_gemm, "gemm, 1 stage": lambda: half_gemm(stages=1), "gemm, no stage": lambda: half_gemm(stages=0),
    "gemm, B transposed": lambda: half_gemm(transpose=True), "gemm, odd": lambda: half_gemm(M=90, N=56, K=152),
    "gemm, no steps": lambda: half_gemm(K=0, stages=2), "gemm, fewer steps than stages": lambda: half_gemm(K=32, stages=4),
    "split-K": split_k, "atomics in the loop": atomics_in_loop, "read, then overwrite": read_then_overwrite, "carried tile": carried_tile,
    "used after the loop": used_after_loop, "two phases": two_phases, "modified in place": modified_in_place, "partial tile": partial_tile,
    "siblings": siblings, "nested": nested, "conditional copy": conditional_copy, "conditional work": conditional_work, "gather": gather,
    "chased": chased, "counted": counted, "leaves early": leaves_early, "while": while_loop, "dealt steps": dealt_steps,
    "two launches": two_launches,
    "lanes": lanes_of_a_block, "by hand": by_hand, "by hand, another order": lambda: by_hand((2, 1, 0), (0, 1, 1)),
    "by hand, wrong": lambda: by_hand((0, 1, 2), (1, 0, 0)), "softmax of products": softmax_of_products,
    "products in a loop": products_in_a_loop, "corrected": corrected, "corrected, rows": lambda: corrected("rows"),
    "corrected, steps": lambda: corrected("steps"), "corrected before": corrected_before,
}  # fmt: skip


def arguments_of(kernel, random):
    """Random contents; index tensors within bounds."""
    made = []
    for param in kernel.params:
        buffer = param.buffer
        shape = tuple(int(e.value) for e in buffer.shape)
        if buffer.dtype.is_float:
            made.append(random.standard_normal(shape).astype(buffer.dtype.numpy))
        elif buffer.name == "links":
            made.append(np.stack([random.permutation(8) for _ in range(shape[1])], axis=1).astype(np.int32))
        elif buffer.name == "counts":
            made.append(np.array([0, 1, 8], np.int32))
        else:
            made.append(random.integers(0, 8, shape).astype(np.int32))
    return made


@pytest.mark.parametrize("target", TEST_TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_plan_is_sound_and_gives_the_interpreter_s_bits(name: str, target: str) -> None:
    kernel = PROGRAMS[name]().kernel
    planned = plan(kernel, TEST_TARGETS[target])
    assert [str(problem) for problem in check(planned)] == []
    arguments = arguments_of(kernel, np.random.default_rng(7))
    expected = [a.copy() for a in arguments]
    interpret(reference_kernel(planned), expected)
    for seed in range(1 if has_one_order(planned) else SEEDS):
        given = [a.copy() for a in arguments]
        run(planned, given, schedule_seed=seed)
        for want, have in zip(expected, given):
            assert want.tobytes() == have.tobytes(), f"schedule {seed}"
