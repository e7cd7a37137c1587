"""Blocks in panels: every block once, neighbours of a panel in order, and what the plan asks for is done or it is said why not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from simulated import TARGET, lowered, run_module, whole_numbers  # noqa: E402

import zellige  # noqa: E402
import zellige.language as T  # noqa: E402


def numbered(columns: int, rows: int, panel: int, order: str = "row", depth: int = 1) -> Any:
    """Each block writes its place to its own element."""

    @T.prim_func
    def numbered(A: T.Tensor((depth, rows, columns), "int32")):
        with T.Kernel(columns, rows, depth, threads=32) as (bx, by, bz):
            T.use_swizzle(panel, order)
            A[bz, by, bx] = A[bz, by, bx] + bx + 100 * by + 10000 * bz

    return numbered


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("columns,rows,panel", [(4, 6, 3), (5, 7, 3), (7, 5, 2), (3, 4, 9), (1, 6, 4), (6, 1, 4)])
def test_every_block_runs_once(columns: int, rows: int, panel: int, order: str) -> None:
    function = numbered(columns, rows, panel, order, depth=2)
    kernel, module = lowered(function)
    found = np.zeros((2, rows, columns), np.int32)
    run_module(kernel, module, [found])
    z, y, x = np.indices(found.shape)
    np.testing.assert_array_equal(found, x + 100 * y + 10000 * z)


@pytest.mark.parametrize("order", ["row", "column"])
def test_blocks_of_a_panel_follow_each_other(order: str) -> None:
    """In the order of the machine's numbers, of 4 x 5 blocks in panels of 2."""

    @T.prim_func
    def ordered(A: T.Tensor((20, 2), "int32"), count: T.Tensor((1,), "int32")):
        with T.Kernel(4, 5, threads=32) as (bx, by):
            T.use_swizzle(2, order)
            mine = T.atomic_add(count[0], 1, return_prev=True)
            A[mine, 0] = bx
            A[mine, 1] = by

    kernel, module = lowered(ordered)
    found = np.zeros((20, 2), np.int32)
    run_module(kernel, module, [found, np.zeros(1, np.int32)])
    if order == "row":
        expected = [(x, 2 * p + y) for p in range(3) for x in range(4) for y in range(2 if p < 2 else 1)]
    else:
        expected = [(2 * p + x, y) for p in range(2) for y in range(5) for x in range(2)]
    assert [tuple(row) for row in found.tolist()] == expected


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_a_number_of_blocks_known_at_run_time_is_counted_in_64_bits(columns: int) -> None:
    width = T.dynamic("width")

    @T.prim_func
    def unknown(A: T.Tensor((5, width), "int32")):
        with T.Kernel(width, 5, threads=32) as (bx, by):
            T.use_swizzle(2)
            A[by, bx] += bx + 100 * by

    kernel = zellige.compile(unknown, target=TARGET)
    assert "long long place = " in kernel.get_kernel_source()
    found = np.zeros((5, columns), np.int32)
    kernel(found)
    np.testing.assert_array_equal(found, np.arange(columns) + 100 * np.arange(5)[:, None])


def test_products_side_by_side_run_in_panels_of_the_plans() -> None:
    @T.prim_func
    def product(A: T.Tensor((192, 32), "float16"), B: T.Tensor((32, 192), "float16"), C: T.Tensor((192, 192), "float16")):
        with T.Kernel(12, 12, threads=32) as (bx, by):
            a = T.alloc_shared((16, 32), "float16")
            b = T.alloc_shared((32, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A[by * 16, 0], a)
            T.copy(B[0, bx * 16], b)
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(c, C[by * 16, bx * 16])

    kernel, module = lowered(product)
    assert any(line.startswith("in which order do blocks run? panels of") for line in module.functions[0].header)
    assert [v.name for v in module.functions[0].grid_vars] == ["bx_column", "by_row"]
    a, b = whole_numbers((192, 32), np.float16), whole_numbers((32, 192), np.float16, seed=1)
    c = np.zeros((192, 192), np.float16)
    run_module(kernel, module, [a, b, c])
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
