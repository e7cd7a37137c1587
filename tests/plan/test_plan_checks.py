"""The static checks: right plans give no problem, and what a problem says."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import zellige.plan.check as check_module
from zellige.diagnostics import InternalError
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import Assume, For
from zellige.ir.traverse import rebuilt
from zellige.plan.check import check, examine, verify_plan
from zellige.plan.nodes import Issue, PlannedKernel, PlannedLaunch, Role, Token, Wait
from zellige.plugin.contract import Capabilities, Space

NAMES = ("specialised_gemm", "pipelined_gemm", "skewed_attention", "queue_machine", "turn_taking")


@pytest.mark.parametrize("name", NAMES)
def test_a_right_plan_has_no_problem(name: str, plan_named: Callable[..., PlannedKernel]) -> None:
    assert check(plan_named(name)) == ()


def test_every_plan_by_hand_is_checked(plans_by_hand: dict[str, Any]) -> None:
    assert set(NAMES) == set(plans_by_hand)


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_any_depth_of_a_channel_between_roles(depth: int, plan_named: Callable[..., PlannedKernel]) -> None:
    found = check(plan_named("specialised_gemm", depth=depth))
    # the consumers keep one slot until the next product is issued: with one slot nobody can go on
    assert [problem.check for problem in found] == ([3] if depth == 1 else [])


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_any_number_of_stages(stages: int, plan_named: Callable[..., PlannedKernel]) -> None:
    assert check(plan_named("pipelined_gemm", stages=stages)) == ()


def test_other_samples_are_as_clean(plan_named: Callable[..., PlannedKernel]) -> None:
    assert check(plan_named("skewed_attention"), samples=12, seed=7) == ()


def test_a_deadlock_says_who_waits_for_whom(plan_named: Callable[..., PlannedKernel]) -> None:
    (problem,) = check(plan_named("specialised_gemm", depth=1))
    assert "role load waits to acquire slot 1 of channel tiles (depth 1) until top, bottom released slot 0" in problem.message
    assert "role top waits to get slot 1 of channel tiles until it is put by load" in problem.message


def test_a_wrong_plan_is_the_compilers_mistake(plan_named: Callable[..., PlannedKernel]) -> None:
    with pytest.raises(InternalError, match=r"(?s)the plan of gemm for by hand is wrong:.*check 3"):
        verify_plan(plan_named("specialised_gemm", depth=1))
    verify_plan(plan_named("specialised_gemm"))


def test_the_launches_body_as_one_role_is_a_right_plan(plan_named: Callable[..., PlannedKernel]) -> None:
    for name in NAMES:
        plan = plan_named(name)
        launch = plan.launches[0]
        main = Role(name="main", engine="vector", body=launch.launch.body)
        simple = rebuilt(plan, launches=(rebuilt(launch, roles=(main,), channels=(), placements=(), choices=()),))
        assert check(simple) == ()


TWO_COPIES = """# tile-ir 1.0


def k(A: tensor((4, 8), float32), C: tensor((4, 8), float32)):
    with launch(1) as (bx,):
        x = alloc((8,), float32, "shared")
        for k in serial(4):
            copy(A[k, 0:+8], x[:])
            copy(x[:], C[k, 0:+8])
"""


def test_tokens_are_told_apart_by_identity_not_by_name() -> None:
    kernel = parse_kernel(TWO_COPIES)
    alloc, loop = kernel.launches[0].body
    assert isinstance(loop, For)
    load, store = loop.body
    first, second = Token(name="copies", engine="copy"), Token(name="copies", engine="copy")
    body = (Issue(operation=load, token=first), Wait(token=first), Issue(operation=store, token=second), Wait(token=second))
    role = Role(name="main", engine="vector", body=(alloc, rebuilt(loop, body=body)))
    launch = PlannedLaunch(launch=kernel.launches[0], roles=(role,))
    assert check(PlannedKernel(kernel=kernel, target="by hand", launches=(launch,))) == ()


def test_the_list_of_checks_is_complete() -> None:
    """The numbers that the modules report are those of the list."""
    listed = {int(number) for number in re.findall(r"^(\d+)\. ", check_module.__doc__ or "", re.MULTILINE)}
    assert listed == set(range(1, 19))


ASSUMING = """# tile-ir 1.0


@sizes(n=int32)
def k(A: tensor((n,), float32)):
    with launch(1) as (bx,):
        assume({condition})
        for i in serial({trips}):
            A[i] = 1.0
"""


def as_written(text: str, body: Any = None) -> PlannedKernel:
    """The kernel in one role that runs the launch's body, or ``body`` of it."""
    kernel = parse_kernel(text)
    launch = kernel.launches[0]
    role = Role(name="main", engine="vector", body=launch.body if body is None else body(launch.body))
    return PlannedKernel(kernel=kernel, target="by hand", launches=(PlannedLaunch(launch=launch, roles=(role,)),))


def test_a_plan_that_no_sample_reaches_is_not_right() -> None:
    found = check(as_written(ASSUMING.format(condition="n > 1000000", trips="n")))
    assert [(p.check, p.message) for p in found] == [
        (14, "none of 32 samples satisfies what the kernel assumes: the plan was not run")
    ]  # fmt: skip
    assert check(as_written(ASSUMING.format(condition="n > 2", trips="n"))) == ()


@pytest.mark.parametrize("condition", ["n <= 3 and n >= 2", "n == 7", "n < 1000000"])
def test_sizes_near_what_the_kernel_assumes_are_tried(condition: str) -> None:
    """Whatever tiles the launch has: seed 339 of the generated programs assumes at most 8 of a size that it cuts into tiles of 16."""
    assert check(as_written(ASSUMING.format(condition=condition, trips="(n + 15) // 16"))) == ()


def test_a_launch_without_blocks_needs_no_sample() -> None:
    assert check(as_written(ASSUMING.format(condition="n > 1000000", trips="n").replace("launch(1)", "launch(0)"))) == ()


def twice(body: Any) -> Any:
    """The body with its loop twice as long."""
    return tuple(rebuilt(s, body=(*s.body, *s.body)) if isinstance(s, For) else s for s in body)


def test_a_block_of_very_many_operations_is_followed_through_the_first() -> None:
    text = ASSUMING.format(condition="n > 2", trips="1000000")
    findings = examine(as_written(text))
    assert findings.problems == ()
    assert findings.notes == ("its blocks have too many operations: they were followed through the first 5000, not to their ends",)


def test_a_fault_among_very_many_operations_is_found() -> None:
    text = TWO_COPIES.replace("4", "900000")

    def swapped(body: Any) -> Any:
        return tuple(rebuilt(s, body=tuple(reversed(s.body))) if isinstance(s, For) else s for s in body)

    found = check(as_written(text, swapped))
    assert 10 in {problem.check for problem in found}


def test_a_plan_that_runs_too_much_is_wrong_and_not_passed_over() -> None:
    found = check(as_written(ASSUMING.format(condition="n > 2", trips="900"), twice))
    assert [p.message for p in found if p.check == 9][0] == "the plan runs more than 1000 operations where the kernel runs 900"


def test_an_assumption_holds_in_every_role() -> None:
    def moved(body: Any) -> Any:
        """The loop's variable is what the assumption is about, in another order than the kernel's."""
        loop = next(s for s in body if isinstance(s, For))
        (assume, store) = loop.body
        assert isinstance(assume, Assume)
        return (rebuilt(loop, body=(rebuilt(assume, condition=rebuilt(assume.condition, op="gt")), store)),)

    text = ASSUMING.format(condition="n > 2", trips="n").replace("        assume(n > 2)\n", "")
    text = text.replace("            A[i] = 1.0", "            assume(i < n)\n            A[i] = 1.0")
    found = check(as_written(text, moved))
    assert {problem.check for problem in found} == {12}
    assert "comes to an assumption that does not hold there" in found[0].message


def test_the_static_level_runs_nothing(plan_named: Callable[..., PlannedKernel]) -> None:
    shallow = plan_named("specialised_gemm", depth=1)
    assert check(shallow, level="static") == ()
    verify_plan(shallow, level="static")


def test_the_limits_are_those_of_the_capabilities(plan_named: Callable[..., PlannedKernel]) -> None:
    small = Capabilities(target="small", spaces=(Space(name="shared", bytes=1024),))
    with pytest.raises(InternalError, match="check 7: 4608 bytes of shared are used and there are 1024"):
        verify_plan(plan_named("specialised_gemm"), capabilities=small, level="static")
