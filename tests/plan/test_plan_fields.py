"""Plans whose parts hold what does not belong there, or name what the target has not: found by the checks that every compilation makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import zellige.language as T
from zellige.ir.traverse import rebuilt
from zellige.plan.check import Limits, check
from zellige.plan.invented_machines import LOCAL_ONLY, QUEUES_CUBE, TEST_TARGETS
from zellige.plan.nodes import Choice, PlannedKernel, PlannedLaunch
from zellige.plan.planner import plan
from zellige.plugin.contract import Capabilities


@T.prim_func
def product(A: T.Tensor((64, 128), "float16"), B: T.Tensor((128, 64), "float16"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 32), "float16")
        b = T.alloc_shared((32, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.clear(c)
        for k in T.Pipelined(4, num_stages=3):
            T.copy(A[0, k * 32], a)
            T.copy(B[k * 32, 0], b)
            T.gemm(a, b, c)
        T.copy(c, C)


def with_launch(planned: PlannedKernel, **changes: Any) -> PlannedKernel:
    (launch,) = planned.launches
    return rebuilt(planned, launches=(rebuilt(launch, **changes),))


def with_choice(planned: PlannedKernel, **changes: Any) -> PlannedKernel:
    """With other fields in the choice for the product."""
    choices = [replace(c, **changes) if c.tiling is not None else c for c in planned.launches[0].choices]
    return with_launch(planned, choices=tuple(choices))


def choice_of(launch: PlannedLaunch) -> Choice:
    return next(c for c in launch.choices if c.tiling is not None)


def said(planned: PlannedKernel, machine: Capabilities) -> list[tuple[int, str]]:
    return [(p.check, p.message) for p in check(planned, limits=Limits.of(machine), level="static")]


@pytest.mark.parametrize("machine", TEST_TARGETS)
def test_what_the_planner_chooses_is_there(machine: str) -> None:
    assert said(plan(product.kernel, TEST_TARGETS[machine]), TEST_TARGETS[machine]) == []


def test_an_engine_that_there_is_not_is_found() -> None:
    ((number, text),) = said(with_choice(plan(product.kernel, QUEUES_CUBE), executor="warp9"), QUEUES_CUBE)
    assert (number, text.partition(" (it has")[0]) == (1, "a gemm is executed by warp9, and the target has no such engine")
    assert all(engine.name in text for engine in QUEUES_CUBE.engines)


def test_a_unit_that_there_is_not_is_found() -> None:
    ((number, text),) = said(with_choice(plan(product.kernel, QUEUES_CUBE), unit="nosuch"), QUEUES_CUBE)
    assert (number, text.partition(" (it has")[0]) == (1, "a gemm is done by unit nosuch, and the target has no such unit")
    assert all(unit.name in text for unit in QUEUES_CUBE.matmul)


@pytest.mark.parametrize("size", ["m", "n", "k"])
def test_blocks_of_nothing_are_found(size: str) -> None:
    planned = plan(product.kernel, QUEUES_CUBE)
    tiling = replace(choice_of(planned.launches[0]).tiling, **{size: 0})  # type: ignore[type-var, arg-type]
    assert said(with_choice(planned, tiling=tiling), QUEUES_CUBE) == [(1, f"a gemm is cut into blocks of {tiling.m}x{tiling.n}x{tiling.k}")]


def test_blocks_that_the_unit_does_not_take_are_found() -> None:
    planned = plan(product.kernel, QUEUES_CUBE)
    choice = choice_of(planned.launches[0])
    (unit,) = (unit for unit in QUEUES_CUBE.matmul if unit.name == choice.unit and unit.a == "float16")
    assert unit.m > 1
    tiling = replace(choice.tiling, m=unit.m + 1)  # type: ignore[type-var]
    ((number, text),) = said(with_choice(planned, tiling=tiling), QUEUES_CUBE)
    assert number == 1
    assert text.endswith(f"and no unit {unit.name} takes such blocks")
    own = Limits(engines=frozenset({choice.executor}), units=(replace(unit, shape="fixed", largest=None),))
    wide = replace(choice.tiling, m=4 * unit.m)  # type: ignore[type-var]
    found = [p.message for p in check(with_choice(planned, tiling=wide), limits=own, level="static") if "takes such blocks" in p.message]
    assert len(found) == 1, "a fixed unit takes its own size alone"


@pytest.mark.parametrize("name", ["roles", "full_loops", "channels", "placements", "choices", "resolved", "decisions"])
def test_lists_are_no_tuples(name: str) -> None:
    planned = plan(product.kernel, LOCAL_ONLY)
    changed = with_launch(planned, **{name: list(getattr(planned.launches[0], name))})
    assert said(changed, LOCAL_ONLY) == [(1, f"{name} of a launch is a list, not a tuple")]


def test_numbers_are_whole() -> None:
    planned = plan(product.kernel, LOCAL_ONLY)
    (launch,) = planned.launches
    first, *others = launch.placements
    for field, value in (("slots", 2.0), ("offset", True), ("bytes", "64")):
        changed = with_launch(planned, placements=(replace(first, **{field: value}), *others))  # type: ignore[arg-type]
        wanted = f"{field} of the placement of {first.buffer.name} is {value!r}, not a whole number"
        assert said(changed, LOCAL_ONLY) == [(1, wanted)]
    assert said(with_launch(planned, order=replace(launch.order, coarsen=[1])), LOCAL_ONLY) == [
        (1, "coarsen of the order of the grid is [1], not a tuple of whole numbers")
    ]
    assert said(with_choice(planned, merge=1.0), LOCAL_ONLY) == [(1, "merge of a choice for gemm is 1.0, not a whole number")]
