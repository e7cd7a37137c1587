"""The work of compiling grows with the length of a program and no faster: calls of functions are counted, so that the answer is exact.

In: the programs of ``benchmarks/compile_time.py``. What one more statement costs is compared between short and long programs.
"""

from __future__ import annotations

import cProfile
import importlib
import pstats
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zellige.plan.invented_machines import TEST_TARGETS
from zellige.plan.planner import plan

SHORT, MIDDLE, LONG = 8, 32, 128
MOST = 1.2
"""Quadratic work in any part that is as large as the rest gives 1.3 and more; programs are cut into parts of a certain length."""

UNCOUNTED = ("LLVM",)
"""Stages that run elsewhere, so that their calls say nothing."""


@pytest.fixture(scope="module")
def programs() -> Any:
    """The benchmark as a module; it stands in no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
        return importlib.import_module("compile_time")


def counted(run: Callable[[], Any]) -> tuple[Any, int]:
    """What ``run`` returns, and how many calls it took."""
    profile = cProfile.Profile()
    result = profile.runcall(run)
    return result, pstats.Stats(profile).total_calls  # type: ignore[attr-defined]


def growth(calls: dict[int, int]) -> float:
    return ((calls[LONG] - calls[MIDDLE]) / (LONG - MIDDLE)) / ((calls[MIDDLE] - calls[SHORT]) / (MIDDLE - SHORT))


KINDS = (
    "scalars,bindings,branches,loops,maps,one map,tiles,products,pipeline,one tile,many tiles,copies,nests,product loop,lanes,expressions,"
    "sum"
).split(",")


def test_every_kind_is_looked_at(programs: Any) -> None:
    assert list(programs.KINDS) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_statement_costs_the_same_in_a_long_program(programs: Any, kind: str) -> None:
    calls: dict[str, dict[int, int]] = {}
    for size in (3, SHORT, MIDDLE, LONG):  # the first fills what is kept once

        def measure(stage: str, run: Callable[[], Any], size: int = size) -> Any:
            if stage in UNCOUNTED:
                return None
            result, calls.setdefault(stage, {})[size] = counted(run)
            return result

        programs.staged(kind, size, size, measure)
    assert list(calls) == [stage for stage in programs.STAGES if stage not in UNCOUNTED]
    left_out: set[str] = set()
    if kind == "pipeline":  # whether a loop has roles, and how often its plan is revised, follows from its length in steps
        left_out |= {"plan for lanes", "emit for lanes"}
    if kind == "sum":  # of the few calls that printing one statement takes some are of a line's length
        left_out |= {"emit for lanes"}
    found = {stage: growth(counts) for stage, counts in calls.items() if stage not in left_out}
    assert {stage: value for stage, value in found.items() if value > MOST} == {}


@pytest.mark.parametrize("machine", list(TEST_TARGETS))
@pytest.mark.parametrize("kind", ["scalars", "loops", "maps", "tiles", "products", "pipeline"])
def test_plans_of_every_machine_cost_the_same(programs: Any, kind: str, machine: str) -> None:
    calls = {}
    for size in (3, SHORT, MIDDLE, LONG):
        kernel = programs.traced(*programs.source_of(kind, size, size))
        calls[size] = counted(lambda kernel=kernel: plan(kernel, TEST_TARGETS[machine]))[1]
    assert growth(calls) <= MOST
