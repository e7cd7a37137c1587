"""Products without a unit, blocks that end within a warp, ways out of loops: run by the simulator, exact with integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zellige
import zellige.language as T
from zellige.driver import dump
from zellige.ir.expr import BOOL, Const
from zellige.ir.stmt import Barrier, Break, If, While
from zellige.simt.code import Code, with_barriers

TARGET = "cuda:sm_80,simulate"


def product(m: int, n: int, k: int, *, dtype: str = "float32", a_turned: bool = False, b_turned: bool = False, threads: int = 64) -> Any:
    a_shape, b_shape = (k, m) if a_turned else (m, k), (n, k) if b_turned else (k, n)

    @T.prim_func
    def one(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared(a_shape, dtype)
            b = T.alloc_shared(b_shape, dtype)
            c = T.alloc_fragment((m, n), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c, transpose_A=a_turned, transpose_B=b_turned)
            T.copy(c, C)

    return one


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("shape", [(64, 32, 16), (5, 7, 9), (1, 64, 8), (40, 3, 12)])
@pytest.mark.parametrize("threads", [32, 96, 128])
def test_lanes_multiply_and_add(shape: tuple[int, int, int], turned: tuple[bool, bool], threads: int) -> None:
    m, n, k = shape
    random = np.random.default_rng(1)
    a, b = (random.integers(-4, 5, s).astype(np.float32) for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float32)
    kernel = zellige.compile(product(m, n, k, a_turned=turned[0], b_turned=turned[1], threads=threads), target=TARGET)
    kernel(np.ascontiguousarray(a.T) if turned[0] else a, np.ascontiguousarray(b.T) if turned[1] else b, c)
    np.testing.assert_array_equal(c, a @ b)


def test_the_text_of_a_product_does_not_grow_with_its_depth() -> None:
    short, long = (len(dump(product(64, 64, k).kernel, "cuda:sm_80", "source").splitlines()) for k in (16, 128))
    assert abs(short - long) < 10


def test_a_product_reads_shared_memory_by_wide_accesses() -> None:
    assert "wide16*)a_" in dump(product(64, 64, 32).kernel, "cuda:sm_80", "source")


def moved(dtype: str) -> Any:
    """A product of rows of a and b that are chosen at run time."""

    @T.prim_func
    def one(A: T.Tensor((32, 16), dtype), B: T.Tensor((32, 8), dtype), C: T.Tensor((16, 8), "float32"), row: T.int64, step: T.int32):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((32, 16), dtype)
            b = T.alloc_shared((32, 8), dtype)
            c = T.alloc_fragment((16, 8), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a[row : row + 16, :], b[step : step + 16, :], c)
            T.copy(c, C)

    return one


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_parts_of_operands_outside_their_tiles_are_zeros(dtype: str) -> None:
    """By matrix loads and by wide accesses: neither looks where the tile ends."""
    random = np.random.default_rng(2)
    a, b = (random.integers(-3, 4, s).astype(dtype) for s in ((32, 16), (32, 8)))
    kernel = zellige.compile(moved(dtype), target=TARGET)
    for row, step in ((0, 0), (16, 16), (20, 0), (0, 24), (-8, -8), (32, 0), (0, -40), (1 << 32, 0), (-(1 << 32), 16)):
        want = np.zeros((16, 8), np.float32)
        rows, steps = ([i if 0 <= i < 32 else None for i in range(at, at + 16)] for at in (row, step))
        for i, r in enumerate(rows):
            for k, s in enumerate(steps):
                if r is not None and s is not None:
                    want[i] += a[r, k].astype(np.float32) * b[s].astype(np.float32)
        c = np.full((16, 8), np.nan, np.float32)
        kernel(a, b, c, row, step)
        np.testing.assert_array_equal(c, want, err_msg=f"{row}, {step}")


def test_operands_that_are_versions_of_a_tile_are_read_whole() -> None:
    """Which half is read follows from the loop, and each lies in the tile: matrix loads without a test."""

    @T.prim_func
    def halves(A: T.Tensor((16, 64), "float16"), B: T.Tensor((64, 16), "float16"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((32, 16), "float16")
            b = T.alloc_shared((2, 16, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.clear(c)
            for k in range(4):
                T.copy(A[:, k * 16 : k * 16 + 16], a[k % 2 * 16 : k % 2 * 16 + 16, :])
                T.copy(B[k * 16, 0], b[k % 2, :, :])
                T.gemm(a[k % 2 * 16 : k % 2 * 16 + 16, :], b[k % 2, :, :], c)
            T.copy(c, C)

    assert dump(halves.kernel, "cuda:sm_80", "source").count("ldmatrix") >= 2


def test_a_barrier_stands_where_a_loop_is_left_early() -> None:
    """What an iteration read before it broke off is still being read when the loop around begins again."""
    code, tile = Code(), "tile"
    true = Const(value=True, dtype=BOOL)
    code.touch(writes=(tile,))
    with code.nested() as outer:
        code.touch(writes=(tile,))
        with code.nested() as inner:
            code.touch(reads=(tile,))
            code.emit(If(condition=true, then=(Break(),)))
            code.emit(Barrier(scope="block"))
        code.emit(While(condition=true, body=tuple(inner)))
    code.emit(While(condition=true, body=tuple(outer)))
    placed = with_barriers(code.statements)
    loop = next(s for s in placed if isinstance(s, While))
    assert isinstance(loop.body[0], Barrier)


@pytest.mark.parametrize("threads", [7, 40])
def test_blocks_that_end_within_a_warp(threads: int) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((5, 9), "int32"), B: T.Tensor((5,), "int32"), C: T.Tensor((threads,), "int32")):
        with T.Kernel(1, threads=threads):
            tx = T.get_thread_binding()
            a = T.alloc_shared((5, 9), "int32")
            s = T.alloc_shared((5,), "int32")
            T.copy(A, a)
            T.reduce_sum(a, s, dim=1)
            T.copy(s, B)
            C[tx] = s[tx % 5]

    a = np.arange(45, dtype=np.int32).reshape(5, 9)
    b, c = np.zeros(5, np.int32), np.zeros(threads, np.int32)
    zellige.compile(kernel, target=TARGET)(a, b, c)
    np.testing.assert_array_equal(b, a.sum(1))
    np.testing.assert_array_equal(c, a.sum(1)[np.arange(threads) % 5])


def test_lanes_agree_on_what_another_block_may_be_changing() -> None:
    """A loop that waits for a flag: one lane reads it for all, or lanes that saw different values would part at the barrier inside."""

    @T.prim_func
    def waiting(F: T.Tensor((4,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((64,), "int32")
            n = T.alloc_var("int32")
            n = 0
            while F[0] + n < 3:
                for i in T.Parallel(64):
                    s[i] = i + n
                F[1] = n
                n = n + 1
            T.copy(s, B)

    text = dump(waiting.kernel, "cuda:sm_80", "source")
    loop = text[text.index("while (true)") :]
    first = loop[: loop.index("break;")]
    assert "if ((thread == 0))" in first and first.count("__syncthreads();") >= 1 and "if ((!agreed" in first
    flags, b = np.zeros(4, np.int32), np.zeros(64, np.int32)
    zellige.compile(waiting, target=TARGET)(flags, b)
    np.testing.assert_array_equal(b, np.arange(64) + 2)
    assert flags[1] == 2


def test_authors_may_place_every_barrier() -> None:
    @T.prim_func
    def lanes(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            s[tx] = A[tx]
            B[tx] = s[63 - tx]

    ours = zellige.compile(lanes, target="cuda:sm_80").get_kernel_source()
    theirs = zellige.compile(lanes, target="cuda:sm_80", pass_configs={"tl.disable_thread_storage_sync": True}).get_kernel_source()
    assert "__syncthreads" in ours and "__syncthreads" not in theirs


@pytest.mark.parametrize("points", [1, 24, 200])
def test_points_that_lanes_hold_again_are_added_once(points: int) -> None:
    @T.prim_func
    def added(A: T.Tensor((points,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_reducer((4,), "int32", op="sum")
            T.clear(s)
            for i in T.Parallel(points):
                s[i % 4] += A[i]
            T.finalize_reducer(s)
            T.copy(s, B)

    a, b = np.arange(1, points + 1, dtype=np.int32), np.zeros(4, np.int32)
    zellige.compile(added, target=TARGET)(a, b)
    np.testing.assert_array_equal(b, [a[i::4].sum() for i in range(4)])
