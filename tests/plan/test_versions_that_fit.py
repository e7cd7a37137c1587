"""How many versions of tiles fit: what taking one away at a time leads to, found in a few steps however many the author asks for."""

from __future__ import annotations

from typing import Any

import pytest

import zellige.language as T
from zellige.plan import context
from zellige.plan.invented_machines import TEST_TARGETS
from zellige.plan.nodes import PlannedLaunch
from zellige.plan.planner import plan


def two_loops(first: int, second: int, rows: int = 24) -> Any:
    """Two pipelined loops whose tiles have different sizes."""

    @T.prim_func
    def two_loops(A: T.Tensor((4096, 64), "float16"), B: T.Tensor((4096, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((rows, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            d = T.alloc_fragment((64, rows), "float32")
            T.clear(c)
            T.clear(d)
            for k in T.Pipelined(64, num_stages=first):
                T.copy(A[k * 64, 0], a)
                T.gemm(a, a, c)
                for l in T.Pipelined(4096 // rows, num_stages=second):
                    T.copy(B[l * rows, 0], b)
                    T.gemm(a, b, d, transpose_B=True)
            for i, j in T.Parallel(64, rows):
                c[i, j] += d[i, j]
            T.copy(c, C)

    return two_loops.kernel


def slots(launch: PlannedLaunch) -> list[str]:
    """What is said of versions and channels, and the versions of each tile."""
    return [f"{d.question} {d.chosen}" for d in launch.decisions] + [f"{p.buffer.name} {p.slots}" for p in launch.placements]


def one_at_a_time(depths: Any, deepest: Any, *_: Any) -> None:
    depths[deepest] -= 1


@pytest.mark.parametrize("machine", ["lanes_async", "lanes_copies", "queues_cube"])
@pytest.mark.parametrize("stages", [(2, 3), (40, 40), (60, 17), (17, 90), (3, 70), (120, 120)], ids=str)
def test_the_depths_are_those_of_taking_one_at_a_time(machine: str, stages: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    found = slots(plan(two_loops(*stages), TEST_TARGETS[machine]).launches[0])
    assert any("slots" in said or "instead of" in said for said in found)
    monkeypatch.setattr(context, "_reduce", one_at_a_time)
    assert found == slots(plan(two_loops(*stages), TEST_TARGETS[machine]).launches[0])


@pytest.mark.parametrize("machine", ["lanes_async", "lanes_copies", "queues_cube"])
def test_a_hundred_thousand_stages_take_a_few_steps(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    reduce = context._reduce

    def counted(*arguments: Any) -> None:
        nonlocal steps
        steps += 1
        reduce(*arguments)

    monkeypatch.setattr(context, "_reduce", counted)
    launch = plan(two_loops(100_000, 100_000), TEST_TARGETS[machine]).launches[0]
    assert 0 < steps < 20
    assert any("instead of 100000" in d.chosen for d in launch.decisions)
