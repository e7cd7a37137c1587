"""Kernels whose lanes part and exchange values all the same, with what NumPy makes of their first argument: 64 numbers, two warps."""

# Kernels are read by the front end, not run by Python.
# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import zellige.language as T

N = 64
Want = Callable[[np.ndarray], np.ndarray]
KERNELS: dict[str, tuple[Any, Want]] = {}
"""By name the kernel and its result."""


def case(want: Want) -> Callable[[Any], Any]:
    def keep(kernel: Any) -> Any:
        KERNELS[kernel.__name__] = (kernel, want)
        return kernel

    return keep


def _sums(a: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Of each lane the sum over the lanes of its warp that have the same group."""
    warp = np.arange(N) // 32
    return np.array([a[(groups == groups[i]) & (warp == warp[i])].sum() for i in range(N)])


@case(lambda a: _sums(a, a % 2 + 2 * (a % 3 == 0)))
@T.prim_func
def nested(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
    with T.Kernel(1, threads=N):
        tx = T.get_thread_binding()
        own = A[tx]
        total = T.alloc_var("int32", init=0)
        if own % 2 == 0:
            if own % 3 == 0:
                mask = T.activemask()
                for i in T.serial(32):
                    is_there = (mask >> T.cast(i, "uint64")) % T.cast(2, "uint64") == 1
                    got = T.shfl_sync(own, T.if_then_else(is_there, i, tx % 32))
                    if is_there:
                        total += got
            else:
                mask = T.activemask()
                for i in T.serial(32):
                    is_there = (mask >> T.cast(i, "uint64")) % T.cast(2, "uint64") == 1
                    got = T.shfl_sync(own, T.if_then_else(is_there, i, tx % 32))
                    if is_there:
                        total += got
        else:
            if own % 3 == 0:
                mask = T.activemask()
                for i in T.serial(32):
                    is_there = (mask >> T.cast(i, "uint64")) % T.cast(2, "uint64") == 1
                    got = T.shfl_sync(own, T.if_then_else(is_there, i, tx % 32))
                    if is_there:
                        total += got
            else:
                mask = T.activemask()
                for i in T.serial(32):
                    is_there = (mask >> T.cast(i, "uint64")) % T.cast(2, "uint64") == 1
                    got = T.shfl_sync(own, T.if_then_else(is_there, i, tx % 32))
                    if is_there:
                        total += got
        B[tx] = total


def _rounds(a: np.ndarray) -> np.ndarray:
    """Of each lane: over its rounds, the lanes of its warp that have that many."""
    counts, warp = a % 7, np.arange(N) // 32
    return np.array([sum(int(((counts > r) & (warp == warp[i])).sum()) for r in range(counts[i])) for i in range(N)])


@case(_rounds)
@T.prim_func
def counted_rounds(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
    with T.Kernel(1, threads=N):
        tx = T.get_thread_binding()
        total = T.alloc_var("int32", init=0)
        for _ in T.serial(A[tx] % 7):
            total += T.popcount(T.cast(T.activemask(), "int64"))
        B[tx] = total


@case(_rounds)
@T.prim_func
def while_rounds(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
    with T.Kernel(1, threads=N):
        tx = T.get_thread_binding()
        i = T.alloc_var("int32", init=0)
        total = T.alloc_var("int32", init=0)
        while i < A[tx] % 7:
            total += T.popcount(T.cast(T.activemask(), "int64"))
            i += 1
        B[tx] = total


def _leaving(a: np.ndarray) -> np.ndarray:
    out = np.zeros(N, np.int64)
    for w in (slice(0, 32), slice(32, 64)):
        v, total, gone = a[w] % 8, np.zeros(32, np.int64), np.zeros(32, bool)
        for r in range(6):
            gone |= v == r
            skips = ~gone & ((v + r) % 3 == 0)
            here = ~gone & ~skips
            total[here] += here.sum()
        out[w] = total
    return out


@case(_leaving)
@T.prim_func
def leaving_and_skipping(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
    with T.Kernel(1, threads=N):
        tx = T.get_thread_binding()
        v = A[tx] % 8
        total = T.alloc_var("int32", init=0)
        for r in T.serial(6):
            if v == r:
                break
            if (v + r) % 3 == 0:
                continue
            total += T.popcount(T.cast(T.activemask(), "int64"))
        B[tx] = total


@case(lambda a: np.where(a % 4 == 0, -1, [int(((a % 4 != 0) & (np.arange(N) // 32 == i // 32)).sum()) for i in range(N)]))
@T.prim_func
def returned_early(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
    with T.Kernel(1, threads=N):
        tx = T.get_thread_binding()
        if A[tx] % 4 == 0:
            B[tx] = -1
            return
        B[tx] = T.popcount(T.cast(T.activemask(), "int64"))


def _spread(a: np.ndarray) -> np.ndarray:
    warp = np.arange(N) // 32
    in_turn = np.array([[a[(a % 5 > r) & (warp == w)].max(initial=-1) for r in range(5)] for w in range(2)])
    return np.array([in_turn[warp[i], : a[i] % 5].sum() for i in range(N)])


@case(_spread)
@T.prim_func
def largest_of_those_there(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
    """A loop that all go around together, in one that lanes leave one after the other backwards, in a branch."""
    with T.Kernel(1, threads=N):
        tx = T.get_thread_binding()
        total = T.alloc_var("int32", init=0)
        if A[tx] % 5 > 0:
            for _ in T.serial(A[tx] % 5, 0, -1):
                most = T.alloc_var("int32", init=-1)
                mask = T.activemask()
                for i in T.serial(32):
                    is_there = (mask >> T.cast(i, "uint64")) % T.cast(2, "uint64") == 1
                    got = T.shfl_sync(A[tx], T.if_then_else(is_there, i, tx % 32))
                    if is_there:
                        most = T.max(most, got)
                total += most
        B[tx] = total


@case(lambda a: np.where((a % 2 == 0) & (a % 3 == 0), -1, [
    int((((a % 2 != 0) | (a % 3 != 0)) & (np.arange(N) // 32 == i // 32)).sum()) for i in range(N)
]))  # fmt: skip
@T.prim_func
def returned_in_a_branch(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
    with T.Kernel(1, threads=N):
        tx = T.get_thread_binding()
        if A[tx] % 2 == 0:
            if A[tx] % 3 == 0:
                B[tx] = -1
                return
        B[tx] = T.popcount(T.cast(T.activemask(), "int64"))
