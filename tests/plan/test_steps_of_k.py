"""How many steps of k a product takes at once: of few rows, and of tiles that are long along k."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import Gemm
from zellige.plan.invented_machines import SCALAR_VECTOR_CPU
from zellige.plan.nodes import Choice
from zellige.plan.planner import plan
from zellige.plugin.contract import RegisterFile

EIGHT_LANES = replace(SCALAR_VECTOR_CPU, registers=RegisterFile(vectors=16, vector_bytes=32), vector_bytes=32)
"""Blocks are of 4 x 24 sums here."""

PRODUCT = """# tile-ir 1.0


def k(A: tensor(({m}, 1024), float32), B: tensor((1024, 512), float32), C: tensor(({m}, 512), float32)):
    with launch(4, {cells}) as (bx, by):
        a = alloc(({rows}, {depth}), float32, "shared")
        b = alloc(({depth}, 128), float32, "shared")
        c = alloc(({rows}, 128), float32, "fragment")
        fill(c[:, :], 0.0)
        for k in serial({steps}):
            copy(A[by * {rows}:+{rows}, k * {depth}:+{depth}], a[:, :])
            copy(B[k * {depth}:+{depth}, bx * 128:+128], b[:, :])
            gemm(a[:, :], b[:, :], c[:, :], clear=False)
        copy(c[:, :], C[by * {rows}:+{rows}, bx * 128:+128])
"""


def product(*, m: int, rows: int = 128, depth: int = 32) -> Choice:
    kernel = parse_kernel(PRODUCT.format(m=m, rows=rows, depth=depth, cells=-(-m // rows), steps=1024 // depth))
    return next(c for c in plan(kernel, EIGHT_LANES).launches[0].choices if isinstance(c.operation, Gemm))


@pytest.mark.parametrize("rows, merge", [(16, 2), (17, 8), (2, 2), (128, 8)])
def test_a_product_of_few_rows_takes_short_steps(rows: int, merge: int) -> None:
    """Up to four blocks of 4 rows: bringing b is all that it costs. A tile of few rows of a large matrix is not meant."""
    found = product(m=rows)
    assert found.tiling is not None
    assert (found.tiling.m, found.tiling.n) == (4, 24)
    assert found.merge == merge
    assert product(m=1024, rows=16).merge == 8


@pytest.mark.parametrize("depth", [256, 512, 1024])
def test_a_tile_that_is_long_along_k_is_packed_as_a_short_one_is(depth: int) -> None:
    """An iteration is a product of its own then; all else of the loop is as with many short ones."""
    short, long = product(m=1000), product(m=1000, depth=depth)
    assert (short.merge, long.merge) == (8, 1)
    assert short.is_merged
    assert long.is_merged
    assert [(at.is_direct, at.kept) for at in long.layouts] == [(at.is_direct, at.kept) for at in short.layouts]
    assert long.unread == short.unread == ("m", "n")
    assert long.fill is not None
    assert long.out is not None
