"""Tile operations in kernels that ask for their lanes: which ones the lanes do together, and which ones each lane does for itself.

An operation is a lane's own where it touches a local buffer or where an operand differs between lanes; all targets agree on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics import CompileError

TARGETS = ("interp", "cpu", "cuda:sm_80,simulate")
pytestmark = pytest.mark.parametrize("target", TARGETS)


def ints(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Small whole numbers, of which every sum here is exact."""
    return random.integers(-4, 5, shape).astype(np.float32)


def launched(target: str, kernel: Callable[..., Any], *arguments: np.ndarray) -> np.ndarray:
    zl.compile(T.prim_func(kernel), target=target)(*arguments)
    return arguments[-1]


def test_a_shared_tile_into_every_lanes_buffer(target: str, random: np.random.Generator) -> None:
    def k(A: T.Tensor((32,), "float32"), O: T.Tensor((32, 4), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((32,), "float32")
            own = T.alloc_local((4,), "float32")
            T.copy(A, s)
            T.copy(s[4:8], own)
            for v in T.serial(4):
                O[tx, v] = own[v] + tx

    a = ints(random, 32)
    np.testing.assert_array_equal(launched(target, k, a, np.zeros((32, 4), np.float32)), a[4:8] + np.arange(32)[:, None])


def test_parts_of_a_shared_tile_change_hands(target: str, random: np.random.Generator) -> None:
    """Each lane writes its part and reads another's, three times over: the compiler puts the lanes in order."""

    def k(A: T.Tensor((128,), "float32"), O: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "float32")
            own = T.alloc_local((4,), "float32")
            for r in T.serial(3):
                T.copy(A[tx * 4 : tx * 4 + 4], own)
                for v in T.serial(4):
                    own[v] = own[v] + r
                T.copy(own, s[tx * 4 : tx * 4 + 4])
                T.copy(s[(31 - tx) * 4 : (31 - tx) * 4 + 4], own)
                T.copy(own, O[tx * 4 : tx * 4 + 4])

    a = ints(random, 128)
    np.testing.assert_array_equal(launched(target, k, a, np.zeros(128, np.float32)), (a + 2).reshape(32, 4)[::-1].reshape(-1))


def test_operands_that_differ_between_lanes(target: str, random: np.random.Generator) -> None:
    def k(A: T.Tensor((101,), "float16"), F: T.Tensor((32, 2), "float32"), O: T.Tensor((101,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "float32")
            T.copy(A[tx * 4 : tx * 4 + 4], s[tx * 4 : tx * 4 + 4])
            T.fill(F[tx, :], tx)
            T.copy(s, O[0:128])

    a, f = ints(random, 101).astype(np.float16), np.zeros((32, 2), np.float32)
    np.testing.assert_array_equal(launched(target, k, a, f, np.zeros(101, np.float32)), a)
    np.testing.assert_array_equal(f, np.arange(32)[:, None] + np.zeros(2))


def test_under_a_condition_that_some_lanes_meet(target: str, random: np.random.Generator) -> None:
    def k(A: T.Tensor((128,), "float32"), O: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "float32")
            T.clear(s)
            if tx < 8:
                T.copy(A[tx * 4 : tx * 4 + 4], s[tx * 4 : tx * 4 + 4])
            elif tx % 2 == 0:
                T.fill(s[tx * 4 : tx * 4 + 2], -1)
            T.copy(s, O)

    a = ints(random, 128)
    expected = np.zeros((32, 4), np.float32)
    expected[:8] = a[:32].reshape(8, 4)
    expected[8::2, :2] = -1
    np.testing.assert_array_equal(launched(target, k, a, np.zeros(128, np.float32)), expected.reshape(-1))


@pytest.mark.parametrize("stages", [0, 2, 3])
@pytest.mark.parametrize("is_whole", [False, True])
def test_in_a_pipeline(target: str, stages: int, is_whole: bool, random: np.random.Generator) -> None:
    def k(A: T.Tensor((6, 128), "float32"), O: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "float32")
            own = T.alloc_local((4,), "float32")
            total = T.alloc_local((4,), "float32")
            T.clear(total)
            for t in T.Pipelined(6, num_stages=stages):
                if is_whole:
                    T.copy(A[t, 0:128], s)
                else:
                    T.copy(A[t, tx * 4 : tx * 4 + 4], s[tx * 4 : tx * 4 + 4])
                T.copy(s[(tx ^ 1) * 4 : (tx ^ 1) * 4 + 4], own)
                for v in T.serial(4):
                    total[v] = total[v] * 2 + own[v]
            T.copy(total, O[tx * 4 : tx * 4 + 4])

    a = ints(random, 6, 128)
    expected = np.zeros((32, 4), np.float32)
    for step in a:
        expected = expected * 2 + step.reshape(32, 4)[np.arange(32) ^ 1]
    np.testing.assert_array_equal(launched(target, k, a, np.zeros(128, np.float32)), expected.reshape(-1))


def test_atomics_of_every_lane(target: str, random: np.random.Generator) -> None:
    """Of a lane's tile, and of an element that each lane chooses, into a tensor and a shared tile."""

    def k(A: T.Tensor((128,), "float32"), M: T.Tensor((1,), "float32"), O: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            own = T.alloc_local((4,), "float32")
            s = T.alloc_shared((4,), "float32")
            T.clear(s)
            T.copy(A[tx * 4 : tx * 4 + 4], own)
            T.atomic_add(s, own)
            T.atomic_add(M, A[tx])
            T.copy(s, O)

    a, m = ints(random, 128), np.zeros(1, np.float32)
    np.testing.assert_array_equal(launched(target, k, a, m, np.zeros(4, np.float32)), a.reshape(32, 4).sum(0))
    assert m[0] == a[:32].sum()


@pytest.mark.parametrize("shift", ["rows", "lanes"])
def test_a_region_moves_within_a_tile(target: str, shift: str, random: np.random.Generator) -> None:
    """All lanes read before any writes, whether a lane's own elements overlap or those of another."""

    def k(A: T.Tensor((33, 4), "float32"), O: T.Tensor((33, 4), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((33, 4), "float32")
            T.copy(A, s)
            if shift == "rows":
                T.copy(s[tx, 0:3], s[tx, 1:4])
            else:
                T.copy(s[tx, :], s[tx + 1, :])
            T.copy(s, O)

    a = ints(random, 33, 4)
    expected = a.copy()
    if shift == "rows":
        expected[:32, 1:] = a[:32, :3]
    else:
        expected[1:] = a[:32]
    np.testing.assert_array_equal(launched(target, k, a, np.zeros((33, 4), np.float32)), expected)


def test_a_product_of_every_lane(target: str, random: np.random.Generator) -> None:
    """Its tiles live on across a barrier and are seen through a view, so that they become arrays with a dimension more."""

    def k(
        A: T.Tensor((32, 6), "float32"), B: T.Tensor((3, 2), "float32"), P: T.Tensor((32, 3, 2), "float32"),
        O: T.Tensor((32, 2, 2), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            row = T.alloc_local((6,), "float32")
            left = T.reshape(row, (2, 3))
            turned = T.alloc_local((3, 2), "float32")
            total = T.alloc_local((2, 2), "float32")
            s = T.alloc_shared((3, 2), "float32")
            T.copy(A[tx, :], row)
            T.copy(B, s)
            T.sync_threads()
            T.gemm(left, s, total, clear_accum=True)
            T.transpose(left, turned)
            T.sync_threads()
            T.gemm(turned, s, total, transpose_A=True)
            T.sync_threads()
            T.copy(total, O[tx, :, :])
            T.copy(turned, P[tx, :, :])

    a, b, p = ints(random, 32, 6), ints(random, 3, 2), np.zeros((32, 3, 2), np.float32)
    left = a.reshape(32, 2, 3)
    np.testing.assert_array_equal(launched(target, k, a, b, p, np.zeros((32, 2, 2), np.float32)), 2 * (left @ b))
    np.testing.assert_array_equal(p, left.transpose(0, 2, 1))


@pytest.mark.parametrize("dim", [0, 1])
def test_reductions_and_scans_of_every_lane(target: str, dim: int, random: np.random.Generator) -> None:
    """From and to shared tiles and lanes' own ones, with and without a view; a scan of a view wrote outside of its buffer once."""
    kept = 4 - dim

    def k(
        A: T.Tensor((32, 12), "float32"), R: T.Tensor((32, kept), "float32"), M: T.Tensor((32, kept), "float32"),
        C: T.Tensor((32, 3, 4), "float32"), O: T.Tensor((32, 12), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            row = T.alloc_local((12,), "float32")
            tile = T.reshape(row, (3, 4))
            largest = T.alloc_local((kept,), "float32")
            s = T.alloc_shared((32, kept), "float32")
            T.copy(A[tx, :], row)
            T.sync_threads()
            T.reduce_sum(tile, s[tx, :], dim=dim)
            T.reduce_max(tile, largest, dim=dim)
            T.sync_threads()
            for v in T.serial(kept):
                R[tx, v] = s[31 - tx, v]
            T.copy(largest, M[tx, :])
            T.cumsum(tile, tile, dim=dim)
            T.sync_threads()
            T.copy(tile, C[tx, :, :])
            T.cumsum(row, row, dim=0)
            T.sync_threads()
            T.copy(row, O[tx, :])

    a = ints(random, 32, 12)
    tiles = a.reshape(32, 3, 4)
    r, m, c = np.zeros((32, kept), np.float32), np.zeros((32, kept), np.float32), np.zeros((32, 3, 4), np.float32)
    found = launched(target, k, a, r, m, c, np.zeros((32, 12), np.float32))
    np.testing.assert_array_equal(r, tiles.sum(1 + dim)[::-1])
    np.testing.assert_array_equal(m, tiles.max(1 + dim))
    scanned = tiles.cumsum(1 + dim)
    np.testing.assert_array_equal(c, scanned)
    np.testing.assert_array_equal(found, scanned.reshape(32, 12).cumsum(1))


def test_inside_of_points_that_a_lane_runs(target: str, random: np.random.Generator) -> None:
    """Copies, scans, products and loops over points within a T.Parallel that is itself each lane's own."""

    def k(A: T.Tensor((32, 2, 3), "float32"), B: T.Tensor((3, 2), "float32"), O: T.Tensor((32, 2, 2), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            for i in T.Parallel(2):
                row = T.alloc_local((1, 3), "float32")
                total = T.alloc_local((1, 2), "float32")
                T.copy(A[tx, i, 0:3], row)
                T.cumsum(row, row, dim=1)
                for j in T.Parallel(3):
                    row[0, j] = row[0, j] + i
                T.gemm(row, B, total, clear_accum=True)
                T.copy(total, O[tx, i, 0:2])

    a, b = ints(random, 32, 2, 3), ints(random, 3, 2)
    expected = (a.cumsum(2) + np.arange(2)[:, None]) @ b
    np.testing.assert_array_equal(launched(target, k, a, b, np.zeros((32, 2, 2), np.float32)), expected)


@pytest.mark.parametrize("form", ["local", "place", "value"])
def test_a_fragment_is_no_operand_of_a_lane(target: str, form: str) -> None:
    def k(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            f = T.alloc_fragment((128,), "float32")
            own = T.alloc_local((4,), "float32")
            T.copy(A, f)
            if form == "local":
                T.copy(f[0:4], own)
            elif form == "place":
                T.copy(f[tx * 4 : tx * 4 + 4], A[tx * 4 : tx * 4 + 4])
            else:
                T.fill(f, tx)

    with pytest.raises(CompileError, match="fragment f is an operand of") as caught:
        zl.compile(T.prim_func(k), target=target)
    assert caught.value.code == "E148"


def test_atomic_operations_on_what_the_lane_has(target: str, random: np.random.Generator) -> None:
    """The array is the lane's, and so is each that is copied from it; nobody else changes it in between."""

    def k(A: T.Tensor((64,), "int32"), S: T.Tensor((64,), "int32"), O: T.Tensor((64, 4), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            own = T.alloc_local((4,), "int32")
            T.fill(own, 3)
            T.atomic_add(own[1], A[tx])
            before = T.atomic_max(own[tx % 2], 5, return_prev=True)
            T.atomic_or(own[2], tx)
            T.atomic_add(own[tx % 8], 100)
            if own[1] > 0:
                S[tx] = before
            T.copy(own, O[tx, :])

    a = random.integers(-4, 5, 64).astype(np.int32)
    seen, out = np.zeros(64, np.int32), np.zeros((64, 4), np.int32)
    launched(target, k, a, seen, out)
    for lane in range(64):
        own = [3, 3 + int(a[lane]), 3, 3]
        before, own[lane % 2] = own[lane % 2], max(own[lane % 2], 5)
        own[2] |= lane
        if lane % 8 < 4:
            own[lane % 8] += 100
        assert out[lane].tolist() == own
        assert seen[lane] == (before if own[1] > 0 else 0)


def test_what_an_atomic_operation_makes_differ_is_stored_by_each_lane(target: str) -> None:
    def k(S: T.Tensor((64,), "int32"), O: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            own = T.alloc_local((2,), "int32")
            T.fill(own, 0)
            T.atomic_add(own[0], tx)
            S[own[0]] = own[0] * 2
            for i in T.serial(own[0] % 3):
                O[own[0]] += i + 1

    s, o = np.zeros(64, np.int32), np.zeros(64, np.int32)
    launched(target, k, s, o)
    np.testing.assert_array_equal(s, np.arange(64) * 2)
    np.testing.assert_array_equal(o, [(0, 1, 3)[lane % 3] for lane in range(64)])
