"""Kernels over rows: quotients with one divisor a row, loops that are written out, reductions with memory of their own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from simulated import TARGET, agree, lowered  # noqa: E402

import zellige  # noqa: E402
import zellige.language as T  # noqa: E402
from zellige.ir.stmt import Barrier, For, Unrolled  # noqa: E402
from zellige.ir.traverse import walk  # noqa: E402


def divided(rows: int, columns: int) -> Any:
    @T.prim_func
    def divided(A: T.Tensor((rows, columns), "float32"), B: T.Tensor((rows,), "float32"), C: T.Tensor((rows, columns), "float32")):
        with T.Kernel(rows, threads=32) as bx:
            a = T.alloc_fragment((1, columns), "float32")
            b = T.alloc_fragment((1,), "float32")
            T.copy(A[bx, 0], a)
            T.copy(B[bx], b)
            for i, j in T.Parallel(1, columns):
                a[i, j] = a[i, j] / b[i]
            T.copy(a, C[bx, 0])

    return divided


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -3.0, 1e-45, -1e-40, 3e38, -2e-38, 2.0**64, 2.0**-64, 2.0**-65], np.float32)


def test_rows_share_a_reciprocal_and_the_quotients_are_those_of_division() -> None:
    rows, columns = len(SPECIAL) + 50, 256
    random = np.random.default_rng(5)
    a = np.ldexp(random.uniform(-2, 2, (rows, columns)), random.integers(-90, 120, (rows, columns))).astype(np.float32)
    a[:, :8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1.0]
    b = np.ldexp(random.uniform(-2, 2, rows), random.integers(-120, 120, rows)).astype(np.float32)
    b[: len(SPECIAL)] = SPECIAL
    with np.errstate(all="ignore"):
        expected = a / b[:, None]
    usual = (np.abs(expected) >= 2.0**-126) | (expected == 0) | ~np.isfinite(expected)
    function = divided(rows, columns)
    _, module = lowered(function)
    assert "b_inverse" in "".join(n.name for n in _buffers(module))
    found = np.zeros_like(a)
    zellige.compile(function, target=TARGET)(a, b, found)
    same = (found.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(found) & np.isnan(expected))
    assert same[usual].all(), (a[usual & ~same], found[usual & ~same], expected[usual & ~same])
    assert (np.abs(found[~usual] - expected[~usual]) <= 2.0**-148).all()


def _buffers(module: Any) -> list[Any]:
    return [n.buffer for f in module.functions for n in walk(f) if getattr(n, "buffer", None) is not None]


@pytest.mark.parametrize("columns,is_shared", [(32, False), (64, False), (128, True)])
def test_few_quotients_divide(columns: int, is_shared: bool) -> None:
    _, module = lowered(divided(2, columns))
    assert any("inverse" in n.name for n in _buffers(module)) == is_shared


def twice(columns: int, block: int, dtype: str, *, in_place: bool = False) -> Any:
    """Y = X / max(X) of one row, in two passes."""

    @T.prim_func
    def twice(X: T.Tensor((3, columns), dtype), Y: T.Tensor((3, columns), dtype)):
        with T.Kernel(3, threads=32) as bx:
            x = T.alloc_fragment((1, block), "float32")
            top = T.alloc_fragment((1,), "float32")
            T.fill(top, -T.infinity("float32"))
            for k in T.serial(columns // block):
                T.copy(X[bx, k * block], x)
                T.reduce_max(x, top, dim=1, clear=False)
            for k in T.serial(columns // block):
                T.copy(X[bx, k * block], x)
                for i, j in T.Parallel(1, block):
                    x[i, j] = x[i, j] / top[i]
                if in_place:
                    T.copy(x, X[bx, k * block])
                else:
                    T.copy(x, Y[bx, k * block])

    return twice


@pytest.mark.parametrize(
    "columns,block,dtype,in_place,is_written_out",
    [
        (1024, 256, "float16", False, True),
        (1024, 256, "float16", True, False),  # the second pass may read what the first did not
        (1024, 1024, "float16", False, False),  # one iteration
        (8192, 256, "float16", False, False),  # too many iterations
        (4096, 512, "float32", False, False),  # too many registers
    ],
)
def test_short_loops_over_a_row_are_written_out(columns: int, block: int, dtype: str, in_place: bool, is_written_out: bool) -> None:
    function = twice(columns, block, dtype, in_place=in_place)
    _, module = lowered(function)
    (program,) = module.functions
    loops = [n for n in program.body if isinstance(n, For)]
    assert len(loops) == 2
    assert all(isinstance(loop.kind, Unrolled) == is_written_out for loop in loops)
    assert any("written out" in line for line in program.header) == is_written_out
    x = np.random.default_rng(2).normal(size=(3, columns)).astype(dtype)
    agree(function, x, np.zeros_like(x))


def test_a_block_waits_once_for_each_of_its_sums() -> None:
    @T.prim_func
    def sums(X: T.Tensor((4, 512), "float32"), Y: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((1, 512), "float32")
            total = T.alloc_fragment((1,), "float32")
            top = T.alloc_fragment((1,), "float32")
            T.clear(total)
            T.clear(top)
            for k in T.serial(4):
                T.copy(X[k, 0], x)
                T.reduce_max(x, top, dim=1, clear=False)
                T.reduce_sum(x, total, dim=1, clear=False)
            T.copy(total, Y[0])
            T.copy(top, Y[1])

    _, module = lowered(sums)
    loop = next(n for n in module.functions[0].body if isinstance(n, For))
    assert sum(isinstance(n, Barrier) for n in walk(loop)) == 2
    agree(sums, np.random.default_rng(3).integers(-9, 9, (4, 512)).astype(np.float32), np.zeros(2, np.float32))
