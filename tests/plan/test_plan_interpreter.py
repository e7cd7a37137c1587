"""The plan interpreter: right plans give the interpreter's bits under every schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zellige.interp import interpret
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import Alloc
from zellige.ir.traverse import rebuilt
from zellige.plan.check import check
from zellige.plan.execution.schedule import STRATEGIES
from zellige.plan.interpret import PlanFault, reference_kernel, run
from zellige.plan.nodes import Placement, PlannedKernel, PlannedLaunch, Role

SCHEDULES = 20


def assert_same(plan: PlannedKernel, arguments_of: Callable[[Any, int], list[Any]], size: int, **options: Any) -> None:
    wanted = arguments_of(np.random.default_rng(size), size)
    interpret(reference_kernel(plan), wanted)
    found = arguments_of(np.random.default_rng(size), size)
    run(plan, found, **options)
    for one, other in zip(wanted, found):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("seed", range(SCHEDULES))
@pytest.mark.parametrize("name", ["specialised_gemm", "pipelined_gemm", "skewed_attention", "queue_machine", "turn_taking"])
def test_every_schedule_gives_the_interpreters_bits(name: str, seed: int, plans_by_hand: dict[str, Any]) -> None:
    make, arguments_of, sizes = plans_by_hand[name]
    plan = make()
    for size in sizes:
        assert_same(plan, arguments_of, size, schedule_seed=seed)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_the_same_bits_for_every_number_of_stages(stages: int, strategy: Any, plans_by_hand: dict[str, Any]) -> None:
    make, arguments_of, _ = plans_by_hand["pipelined_gemm"]
    assert_same(make(stages=stages), arguments_of, 70, schedule_seed=3, strategy=strategy)


def test_a_deadlock_is_reported_with_who_waits_for_whom(plans_by_hand: dict[str, Any]) -> None:
    make, arguments_of, _ = plans_by_hand["specialised_gemm"]
    with pytest.raises(PlanFault, match="role load waits to acquire slot 1 of channel tiles .depth 1. until top, bottom released slot 0"):
        run(make(depth=1), arguments_of(np.random.default_rng(0), 100))


LANES = """# tile-ir 1.0


def k(A: tensor((8,), int32)):
    with launch(2, threads=(4,)) as (bx,), lanes() as (tx,):
        x: int32 = shuffle("xor", tx, 1, width=4)
        barrier("block")
        A[bx * 4 + tx] = x + bx
"""

SAFE = """# tile-ir 1.0


@sizes(n=int32)
def k(A: tensor((n,), float32), x: scalar(float32), B: tensor((n,), float32, role="output")) -> (B,):
    with launch((n + 3) // 4) as (bx,):
        safe_value(A, 5.0)
        t = alloc((4,), float32, "shared")
        copy(A[bx * 4:+4], t[:])
        for i in parallel(4):
            t[i] = t[i] * x + A[bx * 4 + i]
        copy(t[:], B[bx * 4:+4])
"""


def in_one_role(text: str, statements: int | None = None) -> PlannedKernel:
    """The kernel's body, or its first statements, as the only role; each of its tiles, of 16 bytes at most, has a place."""
    kernel = parse_kernel(text)
    launch = kernel.launches[0]
    role = Role(name="main", engine="vector", body=launch.body[:statements])
    tiles = [s.buffer for s in launch.body if isinstance(s, Alloc)]
    places = tuple(Placement(buffer=tile, space="local", offset=16 * i, bytes=16) for i, tile in enumerate(tiles))
    return PlannedKernel(kernel=kernel, target="by hand", launches=(PlannedLaunch(launch=launch, roles=(role,), placements=places),))


def test_lane_code_runs_as_it_stands() -> None:
    values = np.zeros(8, np.int32)
    run(in_one_role(LANES), [values])
    assert values.tolist() == [1, 0, 3, 2, 2, 1, 4, 3]
    with pytest.raises(PlanFault, match="one role with its own body"):
        run(in_one_role(LANES, statements=1), [values])
    assert [problem.check for problem in check(in_one_role(LANES, statements=1))] == [9]


def test_results_scalars_and_safe_values_are_those_of_the_kernel() -> None:
    plan = in_one_role(SAFE)
    values = np.arange(10, dtype=np.float32)[::-1].copy()
    (wanted,) = interpret(plan.kernel, [values, 2.0, None])
    (found,) = run(plan, [values, 2.0, None])
    assert found.tobytes() == wanted.tobytes() and found[0] == 27.0
    (launch,) = plan.launches
    with pytest.raises(PlanFault, match="placement: t has no place in the memory of the block"):
        run(rebuilt(plan, launches=(rebuilt(launch, placements=()),)), [values, 2.0, None])
