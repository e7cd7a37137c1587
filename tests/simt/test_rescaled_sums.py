"""Sums that lanes rescale between products: only by factors other than 1, with the same bits; and long blocks first."""

# Kernels are read by the front end, not run by Python.
# mypy: ignore-errors

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from simulated import agree, machine, run_module, whole_numbers  # noqa: E402

import zellige  # noqa: E402
import zellige.language as T  # noqa: E402
from zellige.driver import PIPELINE  # noqa: E402
from zellige.passes.runner import run_passes  # noqa: E402
from zellige.plan.planner import plan  # noqa: E402
from zellige.simt.lower import lower  # noqa: E402


def rescaled(factor=0.5):
    """Row i is rescaled in the iterations k with k % 4 == i // 16: in each only one warp of rows has a factor other than 1."""

    @T.prim_func
    def rescaled(A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            As = T.alloc_shared((64, 32), "float16")
            Bs = T.alloc_shared((32, 64), "float16")
            sums = T.alloc_fragment((64, 64), "float32")
            factors = T.alloc_fragment((64,), "float32")
            T.clear(sums)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[0, k * 32], As)
                T.copy(B[k * 32, 0], Bs)
                for i in T.Parallel(64):
                    factors[i] = T.if_then_else(k % 4 == i // 16 and i % 16 != 5, factor, 1)
                for i, j in T.Parallel(64, 64):
                    sums[i, j] *= factors[i]
                T.gemm(As, Bs, sums)
            T.copy(sums, C)

    return rescaled


@pytest.mark.parametrize("target", ["cuda:sm_80,simulate", "cuda:sm_90a,simulate"])
@pytest.mark.parametrize("factor", [0.5, -1.0, 0.0, float("inf"), float("nan")])
def test_only_factors_other_than_one_are_multiplied_by(target, factor):
    a, b = whole_numbers((64, 256), np.float16, 1), whole_numbers((256, 64), np.float16, 2)
    agree(rescaled(factor), a, b, np.zeros((64, 64), np.float32), target=target)


def test_the_warps_of_the_others_pass_over_it():
    """One vote of a warp and one branch around the products of its registers."""
    text = zellige.compile(rescaled(), target="cuda:sm_80,simulate").get_kernel_source()
    vote = text.index("__any_sync")
    assert "factors[0] != 1.0f" in text[vote : text.index("\n", vote)]
    assert text[vote:].split("{", 1)[0].rstrip().endswith("if (rescales_" + text[vote:].split("if (rescales_", 1)[1].split(")", 1)[0] + ")")


def rows_of_a_triangle(block=16, rows=2):
    """Row i: the sum of A[:i + 1] by columns, in blocks of rows whose loops differ."""
    n = T.dynamic("n")

    @T.prim_func
    def rows_of_a_triangle(A: T.Tensor((n, 32), "int32"), C: T.Tensor((n, rows, 32), "int32")):
        with T.Kernel(T.ceildiv(n, block), rows, threads=32) as (bx, by):
            tile = T.alloc_fragment((block, 32), "int32")
            T.clear(tile)
            for k in T.serial(T.min(n, (bx + 1) * block)):
                for i, j in T.Parallel(block, 32):
                    tile[i, j] += T.if_then_else(k <= bx * block + i, A[k, j] * (by + 1), 0)
            for i, j in T.Parallel(block, 32):
                if bx * block + i < n:
                    C[bx * block + i, by, j] = tile[i, j]

    return rows_of_a_triangle


@pytest.mark.parametrize("n", [1, 16, 17, 53])
def test_every_block_runs_once_from_the_last_on(n):
    a = whole_numbers((n, 32), np.int32, 1)
    (found,) = agree(rows_of_a_triangle(), a, np.zeros((n, 2, 32), np.int32))[1:]
    np.testing.assert_array_equal(found[:, 0], np.cumsum(a, axis=0))
    np.testing.assert_array_equal(found[:, 1], 2 * np.cumsum(a, axis=0))


def test_the_machine_counts_blocks_from_the_last():
    text = zellige.compile(rows_of_a_triangle(rows=1), target="cuda:sm_80,simulate").get_kernel_source()
    assert "const int bx_from_last = (int)blockIdx.x;" in text
    assert re.search(r"int bx = .*\bn\b.* - .*bx_from_last", text)


@pytest.mark.parametrize("panel", [1, 2, 3])
@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_run_from_the_last_on(axis, panel):
    """In the order of the machine's numbers, of 4 x 5 blocks, so many rows of them beside each other."""

    @T.prim_func
    def ordered(A: T.Tensor((20, 2), "int32"), count: T.Tensor((1,), "int32")):
        with T.Kernel(4, 5, threads=32) as (bx, by):
            mine = T.atomic_add(count[0], 1, return_prev=True)
            A[mine, 0] = bx
            A[mine, 1] = by

    legal, found = run_passes(ordered.kernel, PIPELINE), machine()
    planned = plan(legal, found.capabilities)
    (launch,) = planned.launches
    order = replace(launch.order, panel=panel, from_last=launch.launch.grid_vars[axis])
    module = lower(replace(planned, launches=(replace(launch, order=order),)), found)
    array = np.zeros((20, 2), np.int32)
    run_module(legal, module, [array, np.zeros(1, np.int32)])
    plain = [(x, y) for low in range(0, 5, panel) for x in range(4) for y in range(low, min(5, low + panel))]
    if panel == 1:
        plain = [(x, y) for y in range(5) for x in range(4)]
    turned = [(3 - x, y) if axis == 0 else (x, 4 - y) for x, y in plain]
    assert [tuple(row) for row in array.tolist()] == turned
