"""Which operations are found to read what they write, what is made of them, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zellige
import zellige.language as T
from zellige.diagnostics import CompileError
from zellige.driver import PIPELINE
from zellige.interp import interpret
from zellige.ir.stmt import Copy, For, Gemm, Scan
from zellige.ir.traverse import walk
from zellige.passes.runner import run_passes
from zellige.plan.check import check
from zellige.plan.interpret import run
from zellige.plan.invented_machines import TEST_TARGETS
from zellige.plan.nodes import PlannedKernel, PlannedLaunch
from zellige.plan.planner import plan


def planned_kernel(function: Any, machine: str) -> PlannedKernel:
    return plan(run_passes(function.kernel, PIPELINE), TEST_TARGETS[machine])


def planned(function: Any, machine: str = "lanes_copies") -> PlannedLaunch:
    return planned_kernel(function, machine).launches[0]


def told(launch: PlannedLaunch) -> list[str]:
    return [f"{d.question} {d.chosen}" for d in launch.decisions if d.question.startswith("how does") and "before it writes" in d.question]


def within(change: Any, blocks: int = 1) -> Any:
    @T.prim_func
    def changed(A: T.Tensor((64, 64), "float32"), p: T.int32):
        with T.Kernel(blocks, threads=64) as bx:
            tile = T.alloc_shared((64, 64), "float32")
            T.copy(A, tile)
            change(tile, p, bx)
            T.copy(tile, A)

    return changed


@T.macro
def next_row(tile, p, bx):
    for i in T.serial(63):
        T.copy(tile[i, :], tile[i + 1, :])


@T.macro
def far_rows(tile, p, bx):
    T.copy(tile[bx * 4 : bx * 4 + 4, :], tile[bx * 4 + 16 : bx * 4 + 20, :])


@T.macro
def guarded_rows(tile, p, bx):
    if p >= 8:
        T.copy(tile[p : p + 8, :], tile[0:8, :])


@T.macro
def other_columns(tile, p, bx):
    T.copy(tile[p : p + 20, 0:32], tile[0:20, 32:64])


@T.macro
def itself(tile, p, bx):
    T.copy(tile[p : p + 8, :], tile[p : p + 8, :])
    T.cumsum(tile[p : p + 8, :], tile[p : p + 8, :], dim=1)


@T.macro
def views_apart(tile, p, bx):
    flat = T.view(tile, (4096,), "float32")
    T.copy(flat[0:64], tile[1, :])


@pytest.mark.parametrize("change", [next_row, far_rows, guarded_rows, other_columns, itself, views_apart], ids=lambda m: m.__name__)
def test_operations_that_never_meet_stay_as_they_are(change: Any) -> None:
    launch = planned(within(change, blocks=4))
    assert told(launch) == []
    assert "_before" not in str([b.buffer.name for b in launch.placements])


@T.macro
def near_rows(tile, p, bx):
    T.copy(tile[p : p + 8, :], tile[0:8, :])


@T.macro
def views_together(tile, p, bx):
    flat = T.view(tile, (4096,), "float32")
    T.copy(flat[0:64], tile[0, :])


@T.macro
def summed(tile, p, bx):
    T.cumsum(tile[0:8, :], tile[1:9, :], dim=1)


@T.macro
def multiplied(tile, p, bx):
    T.gemm(tile, tile, tile)


@pytest.mark.parametrize("machine", TEST_TARGETS)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (near_rows, "how does T.copy read tile before it writes tile? all of it first, into tile_before (fragment)"),
        (views_together, "how does T.copy read flat before it writes tile? all of it first, into flat_before (fragment)"),
        (summed, "how does a running sum or maximum read tile before it writes tile? "
                 "the result is made in tile_after (fragment) and copied from there"),
        (multiplied, "how does T.gemm read tile before it writes tile? the result is made in tile_after (fragment) and copied from there"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_operations_that_may_meet_go_through_a_tile(change: Any, said: str, machine: str) -> None:
    function = within(change)
    kernel = planned_kernel(function, machine)
    launch = kernel.launches[0]
    assert told(launch) == [said]
    for node in walk(launch.launch):
        if isinstance(node, (Copy, Scan)):
            assert node.src.buffer.root is not node.dst.buffer.root
        if isinstance(node, Gemm):
            assert node.c.buffer.root not in (node.a.buffer.root, node.b.buffer.root)
    assert [str(problem) for problem in check(kernel)] == []
    before = np.random.default_rng(3).integers(-3, 4, (64, 64)).astype(np.float32)
    expected = before.copy()
    interpret(function.kernel, [expected, 3])
    for schedule in range(3):
        found = before.copy()
        run(kernel, [found, 3], schedule_seed=schedule)
        np.testing.assert_array_equal(found, expected)


def test_what_is_large_moves_in_parts() -> None:
    @T.prim_func
    def moved(A: T.Tensor((4096, 512), "float32")):
        with T.Kernel(1, threads=64):
            T.copy(A[1:4096, :], A[0:4095, :])

    launch = planned(moved)
    assert told(launch) == ["how does T.copy read A before it writes A? a part at a time, through A_part (fragment)"]
    assert sum(isinstance(node, For) for node in walk(launch.launch)) == 1, "whole rows: a loop over groups of them"


def _turned(shape: tuple[Any, Any]) -> Any:
    @T.prim_func
    def turned(A: T.Tensor(shape, "float32")):
        with T.Kernel(1, threads=64):
            T.transpose(A, A)

    return turned


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_turned((T.dynamic("n"), T.dynamic("n"))), "the size of what it reads is known only at run time"),
        (_turned((1024, 1024)), "what it reads is 4194304 bytes, and shared holds"),
    ],
    ids=["run-time", "large"],
)
def test_what_cannot_be_read_before_is_refused_where_it_stands(function: Any, reason: str) -> None:
    with pytest.raises(CompileError) as caught:
        zellige.compile(function, target="cuda:sm_80,simulate")
    (problem,) = caught.value.diagnostics
    assert problem.code == "E303"
    assert reason in problem.message
    assert problem.span is not None
    assert "T.transpose(A, A)" in problem.render()
    assert problem.hint
