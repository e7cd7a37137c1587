"""Operations that read what they write have their NumPy meaning on every backend: operands are read whole before the result is written.

The expected values are NumPy's, so that the interpreter is judged like the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import zellige
import zellige.language as T

TARGETS = ("interp", "cpu", "template", "cuda:sm_80,simulate", "cuda:sm_90a,simulate")

LANES = 64

SPACES = {"shared": T.alloc_shared, "fragment": T.alloc_fragment}


def judge(function: Any, numbers: tuple[int, ...], tensors: list[np.ndarray], expected: list[np.ndarray], targets: tuple[str, ...]) -> None:
    for target in targets:
        given = [tensor.copy() for tensor in tensors]
        zellige.compile(function, target=target)(*given, *numbers)
        for found, want in zip(given, expected):
            np.testing.assert_array_equal(found, want, err_msg=target)


def integers(*shape: int, dtype: str = "int32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def in_tile(size: tuple[int, ...], space: str, change: Callable[[Any], None], dtype: str = "int32") -> Any:
    """A kernel that copies a tensor into a tile, changes the tile, and copies it back."""

    @T.prim_func
    def changed(A: T.Tensor(size, dtype)):
        with T.Kernel(1, threads=LANES):
            tile = SPACES[space](size, dtype)
            T.copy(A, tile)
            change(tile)
            T.copy(tile, A)

    return changed


@T.macro
def shifted_down(tile):
    T.copy(tile[1:40], tile[0:39])


@T.macro
def shifted_up(tile):
    T.copy(tile[0:33], tile[7:40])


@T.macro
def summed_further_on(tile):
    T.cumsum(tile[0:30], tile[7:37])


@T.macro
def summed_from_the_end(tile):
    T.cumsum(tile[3:33], tile[0:30], reverse=True)


@T.macro
def added_further_on(tile):
    T.atomic_add(tile[1:40], tile[0:39])


@T.macro
def filled_with_an_element(tile):
    T.fill(tile, tile[3])


@T.macro
def viewed(tile):
    narrow = T.view(tile, (80,), "int16")
    T.copy(narrow[0:60], narrow[5:65])


def _after(change: Callable[[np.ndarray], None], before: np.ndarray) -> np.ndarray:
    after = before.copy()
    change(after)
    return after


def _down(a: np.ndarray) -> None:
    a[0:39] = a[1:40].copy()


def _up(a: np.ndarray) -> None:
    a[7:40] = a[0:33].copy()


def _sums(a: np.ndarray) -> None:
    a[7:37] = np.cumsum(a[0:30])


def _sums_from_the_end(a: np.ndarray) -> None:
    a[0:30] = np.cumsum(a[3:33][::-1])[::-1]


def _additions(a: np.ndarray) -> None:
    a[1:40] += a[0:39].copy()


def _filled(a: np.ndarray) -> None:
    a[:] = a[3]


def _halves(a: np.ndarray) -> None:
    halves = a.view(np.int16)
    halves[5:65] = halves[0:60].copy()


ROWS = {
    "down": (shifted_down, _down),
    "up": (shifted_up, _up),
    "scan": (summed_further_on, _sums),
    "reverse scan": (summed_from_the_end, _sums_from_the_end),
    "fill": (filled_with_an_element, _filled),
    "views": (viewed, _halves),
}

FEWER = TARGETS[:-1]
"""For the many small programs that differ in their numbers only."""


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str, space: str) -> None:
    macro, change = ROWS[name]
    before = integers(40)
    judge(in_tile((40,), space, macro), (), [before], [_after(change, before)], TARGETS)


def test_atomic_additions() -> None:
    before = integers(40)
    judge(in_tile((40,), "shared", added_further_on), (), [before], [_after(_additions, before)], TARGETS)


@T.macro
def transposed(tile):
    T.transpose(tile, tile)


@T.macro
def rows_into_itself(tile):
    T.reduce_sum(tile, tile[3, :], dim=1)


@T.macro
def columns_into_itself(tile):
    T.reduce_max(tile, tile[:, 5], dim=0, clear=False)


@pytest.mark.parametrize("space", SPACES)
def test_squares(space: str) -> None:
    before = integers(24, 24)
    judge(in_tile((24, 24), space, transposed), (), [before], [before.T], TARGETS)
    reduced = before.copy()
    reduced[3, :] = before.sum(1)
    judge(in_tile((24, 24), space, rows_into_itself), (), [before], [reduced], TARGETS)
    reduced = before.copy()
    reduced[:, 5] = np.maximum(before[:, 5], before.max(0))
    judge(in_tile((24, 24), space, columns_into_itself), (), [before], [reduced], TARGETS)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.parametrize("which", ["a", "b", "both"])
def test_products_into_a_factor(space: str, clear: bool, which: str) -> None:
    n = 32

    @T.prim_func
    def product(A: T.Tensor((n, n), "float16"), B: T.Tensor((n, n), "float16")):
        with T.Kernel(1, threads=LANES):
            a = SPACES[space]((n, n), "float16")
            b = SPACES[space]((n, n), "float16")
            T.copy(A, a)
            T.copy(B, b)
            if which == "a":
                T.gemm(a, b, a, clear_accum=clear)
            elif which == "b":
                T.gemm(a, b, b, transpose_A=True, clear_accum=clear)
            else:
                T.gemm(a, a, a, clear_accum=clear)
            T.copy(a, A)
            T.copy(b, B)

    a, b = integers(n, n, dtype="float16"), integers(n, n, dtype="float16", seed=1)
    left, right = a.astype(np.float32), b.astype(np.float32)
    made = {"a": left @ right, "b": left.T @ right, "both": left @ left}[which]
    into = b if which == "b" else a
    result = (made if clear else into.astype(np.float32) + made).astype(np.float16)
    judge(product, (), [a, b], [a, result] if which == "b" else [result, b], TARGETS)


def test_lanes() -> None:
    @T.prim_func
    def of_lanes(A: T.Tensor((40,), "int32"), B: T.Tensor((32, 6), "int32")):
        with T.Kernel(1, threads=32):
            lane = T.get_thread_binding()
            tile = T.alloc_shared((40,), "int32")
            own = T.alloc_local((6,), "int32")
            T.copy(A, tile)
            T.copy(tile[1:40], tile[0:39])
            T.cumsum(tile[0:30], tile[7:37])
            T.copy(tile, A)
            T.copy(B[lane, 0:6], own)
            T.copy(own[0:5], own[1:6])
            T.copy(own, B[lane, 0:6])

    a, b = integers(40), integers(32, 6)
    moved, own = _after(_down, a), b.copy()
    _sums(moved)
    own[:, 1:] = b[:, :5]
    judge(of_lanes, (), [a, b], [moved, own], ("interp", "cpu", "cuda:sm_80,simulate", "cuda:sm_90a,simulate"))


def _move(a: np.ndarray, source: tuple[int, int], target: tuple[int, int], extents: tuple[int, int], *, adds: bool = False) -> None:
    """What a copy (or an atomic addition) within ``a`` does: outside is 0 when read, and is not written."""
    before = a.copy()
    for i in range(extents[0]):
        for j in range(extents[1]):
            y, x = source[0] + i, source[1] + j
            value = before[y, x] if 0 <= y < a.shape[0] and 0 <= x < a.shape[1] else 0
            y, x = target[0] + i, target[1] + j
            if 0 <= y < a.shape[0] and 0 <= x < a.shape[1]:
                a[y, x] = before[y, x] + value if adds else value


def _kernel_of_run_time_size(space: str) -> Any:
    n, m = T.dynamic("n"), T.dynamic("m")

    @T.prim_func
    def moved(A: T.Tensor((n, m), "int32"), p: T.int32, q: T.int32, r: T.int32, s: T.int32, h: T.int32, w: T.int32):
        with T.Kernel(1, threads=LANES):
            T.copy(A[p : p + h, q : q + w], A[r : r + h, s : s + w])
            T.atomic_add(A[r : r + h, s : s + w], A[p : p + h, q : q + w])

    @T.prim_func
    def in_shared(A: T.Tensor((9, 21), "int32"), p: T.int32, q: T.int32, r: T.int32, s: T.int32, h: T.int32, w: T.int32):
        with T.Kernel(1, threads=LANES):
            tile = T.alloc_shared((9, 21), "int32")
            T.copy(A, tile)
            T.copy(tile[p : p + h, q : q + w], tile[r : r + h, s : s + w])
            T.atomic_add(tile[r : r + h, s : s + w], tile[p : p + h, q : q + w])
            T.copy(tile, A)

    return moved if space == "global" else in_shared


RUN_TIME = {space: _kernel_of_run_time_size(space) for space in ("global", "shared")}


@settings(max_examples=12)
@given(
    space=st.sampled_from(sorted(RUN_TIME)), source=st.tuples(st.integers(-2, 6), st.integers(-2, 12)),
    target=st.tuples(st.integers(-2, 6), st.integers(-2, 12)), extents=st.tuples(st.integers(0, 11), st.integers(0, 23)),
)  # fmt: skip
def test_regions_of_run_time_size(space: str, source: tuple[int, int], target: tuple[int, int], extents: tuple[int, int]) -> None:
    before = integers(9, 21)
    after = before.copy()
    _move(after, source, target, extents)
    _move(after, source, target, extents, adds=True)
    judge(RUN_TIME[space], (*source, *target, *extents), [before], [after], FEWER)


@settings(max_examples=12)
@given(
    operation=st.sampled_from(["copy", "scan", "transpose", "atomic"]), space=st.sampled_from(["global", "shared"]),
    source=st.tuples(st.integers(0, 5), st.integers(0, 5)), target=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    extents=st.tuples(st.integers(1, 7), st.integers(1, 7)),
)  # fmt: skip
def test_regions_of_constant_size(
    operation: str, space: str, source: tuple[int, int], target: tuple[int, int], extents: tuple[int, int]
) -> None:
    (p, q), (r, s), (h, w) = source, target, extents
    th, tw = (w, h) if operation == "transpose" else (h, w)

    @T.prim_func
    def moved(A: T.Tensor((12, 12), "int32")):
        with T.Kernel(1, threads=LANES):
            tile = A if space == "global" else T.alloc_shared((12, 12), "int32")
            if space != "global":
                T.copy(A, tile)
            if operation == "copy":
                T.copy(tile[p : p + h, q : q + w], tile[r : r + th, s : s + tw])
            elif operation == "scan":
                T.cumsum(tile[p : p + h, q : q + w], tile[r : r + th, s : s + tw], dim=1)
            elif operation == "atomic":
                T.atomic_add(tile[r : r + th, s : s + tw], tile[p : p + h, q : q + w])
            else:
                T.transpose(tile[p : p + h, q : q + w], tile[r : r + th, s : s + tw])
            if space != "global":
                T.copy(tile, A)

    before = integers(12, 12)
    after, read = before.copy(), before[p : p + h, q : q + w]
    value = {"copy": read, "scan": read.cumsum(1), "transpose": read.T, "atomic": read}[operation]
    after[r : r + th, s : s + tw] = before[r : r + th, s : s + tw] + value if operation == "atomic" else value
    judge(moved, (), [before], [after], FEWER)


def test_a_reduction_into_a_row_of_registers_may_be_along_either_axis() -> None:
    """The row kept stands in the other dimension than the one reduced."""
    before = integers(24, 24)
    for shape in ((1, 24), (24, 1), (24,)):
        for axis in (0, 1):

            @T.prim_func
            def reduced(A: T.Tensor((24, 24), "int32"), B: T.Tensor(shape, "int32")):
                with T.Kernel(1, threads=32):
                    tile = T.alloc_shared((24, 24), "int32")
                    row = T.alloc_fragment(shape, "int32")
                    T.copy(A, tile)
                    T.reduce_sum(tile, row, dim=axis)
                    T.copy(row, B)

            expected = before.sum(axis).astype(np.int32).reshape(shape)
            judge(reduced, (), [before, np.zeros(shape, np.int32)], [before, expected], TARGETS)
