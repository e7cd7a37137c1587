"""The hook ``fit``: a backend has launches planned again, by core, with everybody's candidates and passes; explained as compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics import CompileError
from zellige.explain import explain
from zellige.plan.nodes import Decision, PlannedKernel
from zellige.plugin.registry import Registry

Install = Callable[[dict[str, str]], Registry]

BACKEND = """
from acme_machine import *
from dataclasses import replace
from zellige.plan.nodes import Decision
from zellige.plugin.contract import Fitted, Revision
LOG = []
def narrow(ctx, lines=1):
    return replace(ctx.capabilities, cache_line_bytes=64 * lines)
def about(chosen):
    return Decision(question="how long is a line?", chosen=chosen, because="the tiles are small")
class Fits(AcmeBackend):
    @hookimpl
    def candidates(self, operation, ctx):
        LOG.append(f"candidates for {ctx.capabilities.cache_line_bytes}")
        return None
    @hookimpl
    def fit(self, planned, asked, ctx):
        LOG.append(f"fit after {len(asked)}")
        %s
backend = Fits('fits')
"""


def copied(columns: int = 16) -> Any:
    @T.prim_func
    def main(A: T.Tensor((8, columns), "float32"), B: T.Tensor((8, columns), "float32")):
        with T.Kernel(1) as _:
            tile = T.alloc_shared((8, columns), "float32")
            T.copy(A, tile)
            T.copy(tile, B)

    return main


def installed(install: Install, answer: str) -> list[str]:
    """The backend's log."""
    registry = install({"fits": BACKEND % answer.replace("\n", "\n        ")})
    handle = registry.backend(registry.resolve("fits"))
    plugin = handle._hooks.plugin
    log: list[str] = __import__(type(plugin).__module__).LOG
    log.clear()
    return log


def run(**options: Any) -> None:
    a, b = np.arange(128, dtype=np.float32).reshape(8, 16), np.zeros((8, 16), np.float32)
    zl.compile(copied(), target="fits", **options)(a, b)
    np.testing.assert_array_equal(b, a)


TWICE = """if len(asked) < 2:
    return [Revision(launch=0, capabilities=narrow(ctx, 1 + len(asked)), decisions=(about(f"{64 * (1 + len(asked))} bytes"),))]
return Fitted()"""


def test_revised_plans_have_candidates_and_passes_and_are_explained(install: Install) -> None:
    log = installed(install, TWICE)
    seen: list[tuple[str, ...]] = []

    def look(planned: PlannedKernel) -> PlannedKernel:
        seen.append(tuple(d.chosen for d in planned.launches[0].decisions if d.question == "how long is a line?"))
        more = Decision(question="did the pass run?", chosen="yes", because="a user asked for it")
        return replace(planned, launches=tuple(replace(one, decisions=(*one.decisions, more)) for one in planned.launches))

    run(passes=[("allocate", look)])
    assert seen == [(), ("64 bytes",), ("128 bytes",)]
    assert [line for line in log if line.startswith("fit")] == ["fit after 0", "fit after 1", "fit after 2"]
    assert {"candidates for 64", "candidates for 128"} <= set(log)
    assert [d.chosen for d in explain(copied(), "fits").decisions if d.question == "how long is a line?"] == ["128 bytes"]
    told = explain(zl.compile(copied(), target="fits", passes=[("sync", look)])).decisions
    assert [d.question for d in told[-2:]] == ["how long is a line?", "did the pass run?"]


def test_a_launch_is_planned_once_for_the_same_capabilities(install: Install) -> None:
    log = installed(
        install,
        """if len(asked) < 3:
    lines = (1, 2, 1)[len(asked)]
    return [Revision(launch=0, capabilities=narrow(ctx, lines), decisions=())]
return Fitted()""",
    )
    explain(copied(), "fits")
    first = log.index("fit after 1")
    assert log.count("candidates for 64") > 0
    assert "candidates for 64" not in log[first:]
    assert "candidates for 128" in log[first:]


def test_what_cannot_be_planned_comes_back_with_the_error(install: Install) -> None:
    log = installed(
        install,
        """if not asked:
    tiny = tuple(replace(space, bytes=16) if space.role != "global" else space for space in ctx.capabilities.spaces)
    return [Revision(launch=0, capabilities=replace(ctx.capabilities, spaces=tiny), decisions=(about("tiny"),))]
(one,) = asked
LOG.append(one.error.code)
assert one.planned is planned.launches[0] and not any(d.chosen == "tiny" for d in one.planned.decisions)
return Fitted()""",
    )
    run()
    assert "E301" in log
    assert not list(explain(copied(), "fits").about("tiny"))


def test_the_program_of_a_plan_is_handed_on_with_a_second_plan(install: Install) -> None:
    """Both plans have the passes; the second begins with what was asked for."""
    log = installed(
        install,
        """LOG.append(" ".join(d.chosen for d in planned.launches[0].decisions if d.question == "how long is a line?"))
if asked:
    return Fitted(program="the other")
return Fitted(program="the first", otherwise=(Revision(launch=0, capabilities=narrow(ctx), decisions=(about("short"),)),))""",
    )
    seen: list[int] = []

    def look(planned: PlannedKernel) -> PlannedKernel:
        seen.append(len(planned.launches[0].decisions))
        return planned

    found = explain(zl.compile(copied(), target="fits", passes=[("lower", look)])).fitted
    assert found.program == "the first"
    assert found.otherwise is not None
    assert (found.otherwise.program, found.otherwise.otherwise) == ("the other", None)
    assert [d.chosen for d in found.otherwise.planned.launches[0].decisions if d.question == "how long is a line?"] == ["short"]
    assert len(set(seen)) == 2
    assert "short" in log


ALWAYS = "return [Revision(launch=0, capabilities=narrow(ctx), decisions=())]"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ALWAYS, "asked for another plan 16 times"),
        ("return Fitted(otherwise=(Revision(launch=0, decisions=()),))", "asked for a third plan of a kernel beside two"),
        ("return [Revision(launch=3, decisions=())]", "asked for a revision of launch 3 of a kernel that has 1"),
        ("return ()", "answered nothing, expected Fitted or a tuple of Revision"),
        ("return None", "answered NoneType, expected Fitted or a tuple of Revision"),
        ("return ['less']", "answered str, expected Fitted or a tuple of Revision"),
        ("return [Revision(launch='first', decisions=())]", "launch"),
        ("return [Revision(launch=0, decisions=('less',))]", "decisions"),
        ("return Fitted(otherwise=('less',))", "otherwise"),
        ("return [Revision(launch=0, decisions=(), capabilities=replace(ctx.capabilities, threads=-1))]", "threads"),
    ],
)
def test_wrong_answers_are_said(install: Install, answer: str, said: str) -> None:
    installed(install, answer)
    with pytest.raises(CompileError) as caught:
        zl.compile(copied(), target="fits")
    assert caught.value.code == "E703"
    assert said in str(caught.value)


def test_a_failing_hook_is_its_authors(install: Install) -> None:
    installed(install, "raise KeyError('stages')")
    with pytest.raises(CompileError) as caught:
        zl.compile(copied(), target="fits")
    assert caught.value.code == "E709"
    assert "fit" in str(caught.value)
