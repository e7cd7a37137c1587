"""Faults planted in right plans: each is found by the static check that the table names, and most by the plan interpreter as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from zellige.interp import interpret
from zellige.ir.expr import Binary, Var, const
from zellige.ir.stmt import For, Gemm, If
from zellige.ir.traverse import rebuilt, rewrite, walk
from zellige.plan.check import Limits, check
from zellige.plan.interpret import PlanFault, run
from zellige.plan.nodes import Acquire, Choice, Get, Issue, LaunchPlan, PlannedKernel, Put, Release, Slotted, Turn, Wait

SCHEDULES = 12

# ---- ways to change a plan ------------------------------------------------------------------------------------------------


def launch_of(plan: PlannedKernel) -> Any:
    return plan.launches[0]


def with_launch(plan: PlannedKernel, **changes: Any) -> PlannedKernel:
    return rebuilt(plan, launches=(rebuilt(launch_of(plan), **changes),))


def edited(plan: PlannedKernel, role: str, visit: Callable[[Any], Any]) -> PlannedKernel:
    """``visit`` over the statements of one role: it returns its argument, another node, or a tuple in its place."""
    roles = []
    for one in launch_of(plan).roles:
        roles.append(rebuilt(one, body=rewrite(one, visit).body) if one.name == role else one)
    return with_launch(plan, roles=tuple(roles))


def body_of(plan: PlannedKernel, role: str) -> tuple[Any, ...]:
    return next(one.body for one in launch_of(plan).roles if one.name == role)


def with_body(plan: PlannedKernel, role: str, body: tuple[Any, ...]) -> PlannedKernel:
    return with_launch(plan, roles=tuple(rebuilt(one, body=body) if one.name == role else one for one in launch_of(plan).roles))


def dropped(plan: PlannedKernel, role: str, is_dropped: Callable[[Any], bool]) -> PlannedKernel:
    return edited(plan, role, lambda node: () if is_dropped(node) else node)


def with_channel(plan: PlannedKernel, name: str, **changes: Any) -> PlannedKernel:
    old = next(channel for channel in launch_of(plan).channels if channel.name == name)
    new = rebuilt_channel(old, changes)

    def visit(node: Any) -> Any:
        if getattr(node, "channel", None) is old:
            return rebuilt(node, channel=new)
        if isinstance(node, Slotted):
            return rebuilt(node, lags=tuple((new if channel is old else channel, lag) for channel, lag in node.lags))
        return node

    for role in [role.name for role in launch_of(plan).roles]:
        plan = edited(plan, role, visit)
    return with_launch(plan, channels=tuple(new if channel is old else channel for channel in launch_of(plan).channels))


def rebuilt_channel(channel: Any, changes: dict[str, Any]) -> Any:
    from dataclasses import replace

    return replace(channel, **changes)


def without_channel(plan: PlannedKernel, name: str) -> PlannedKernel:
    """Its buffers have one version and nothing orders their use."""
    for role in [role.name for role in launch_of(plan).roles]:
        plan = dropped(plan, role, lambda node: getattr(getattr(node, "channel", None), "name", None) == name)
        plan = edited(plan, role, lambda node: node.operation if isinstance(node, Slotted) else node)
    return with_launch(plan, channels=tuple(channel for channel in launch_of(plan).channels if channel.name != name))


def moved_before(plan: PlannedKernel, role: str, what: type, before: type) -> PlannedKernel:
    """In every loop of the role that has both: the first statement of one kind goes before the first of another."""

    def visit(node: Any) -> Any:
        if not isinstance(node, (For, If)):
            return node
        name = "body" if isinstance(node, For) else "then"
        body = list(getattr(node, name))
        first = next((s for s in body if isinstance(s, what)), None)
        other = next((s for s in body if isinstance(s, before)), None)
        if first is None or other is None:
            return node
        body.remove(first)
        body.insert(body.index(other), first)
        return rebuilt(node, **{name: tuple(body)})

    return edited(plan, role, visit)


def waits_changed(plan: PlannedKernel, role: str, change: Callable[[int], int]) -> PlannedKernel:
    return edited(plan, role, lambda node: rebuilt(node, leave_in_flight=change(node.leave_in_flight)) if isinstance(node, Wait) else node)


def placed(plan: PlannedKernel, name: str, **changes: Any) -> PlannedKernel:
    from dataclasses import replace

    placements = launch_of(plan).placements
    return with_launch(plan, placements=tuple(replace(p, **changes) if p.buffer.name == name else p for p in placements))


def loops_of(plan: PlannedKernel, role: str) -> list[For]:
    return [statement for statement in body_of(plan, role) if isinstance(statement, For)]


def is_gemm(node: Any) -> bool:
    return isinstance(node, Gemm) or (isinstance(node, Issue) and isinstance(node.operation, Gemm))


# ---- the faults ------------------------------------------------------------------------------------------------------------


def release_missing(plan: PlannedKernel) -> PlannedKernel:
    return dropped(plan, "top", lambda node: isinstance(node, Release))


def release_too_early(plan: PlannedKernel) -> PlannedKernel:
    """The product in flight still reads the slot."""
    return waits_changed(plan, "top", lambda left: left + 1)


def slot_reused_early(plan: PlannedKernel) -> PlannedKernel:
    """The slot goes back before the products read it."""
    return moved_before(plan, "main", Release, Slotted)


def depth_one_short(plan: PlannedKernel) -> PlannedKernel:
    depth = launch_of(plan).channels[0].depth
    return with_channel(plan, "tiles", depth=depth - 1)


def depth_of_scores_one_short(plan: PlannedKernel) -> PlannedKernel:
    return with_channel(plan, "score", depth=1)


def bytes_of_a_slot_miscounted(plan: PlannedKernel) -> PlannedKernel:
    """Who waits until so many bytes have landed would wait for ever."""
    return with_channel(plan, "tiles", bytes=launch_of(plan).channels[0].bytes + 16)


def put_before_copy_completes(plan: PlannedKernel) -> PlannedKernel:
    """A put of a channel that does not count transactions says that the data is there."""
    return with_channel(plan, "tiles", is_transaction=False)


def wait_missing(plan: PlannedKernel) -> PlannedKernel:
    return dropped(plan, "main", lambda node: isinstance(node, Wait))


def wait_one_too_early(plan: PlannedKernel) -> PlannedKernel:
    return waits_changed(plan, "main", lambda left: left + 1)


def token_waited_too_late(plan: PlannedKernel) -> PlannedKernel:
    """The first product reads while the copies may still be on their way."""
    for what in (Put, Get, Slotted):
        plan = moved_before(plan, "main", what, Wait)
    return plan


def wrong_lag(plan: PlannedKernel) -> PlannedKernel:
    return edited(
        plan, "work",
        lambda node: rebuilt(node, lags=tuple((channel, lag + 1) for channel, lag in node.lags)) if isinstance(node, Slotted) else node,
    )  # fmt: skip


def get_in_tail_once_too_often(plan: PlannedKernel) -> PlannedKernel:
    channel = launch_of(plan).channels[0]
    return with_body(plan, "bottom", (*body_of(plan, "bottom"), Get(channel=channel), Release(channel=channel)))


def drain_one_short(plan: PlannedKernel) -> PlannedKernel:
    drain = loops_of(plan, "main")[-1]
    return edited(
        plan, "main", lambda node: rebuilt(node, stop=Binary(op="sub", left=node.stop, right=const(1))) if _same(node, drain) else node
    )


def _same(node: Any, loop: For) -> bool:
    return isinstance(node, For) and node.var is loop.var


def drain_missing(plan: PlannedKernel) -> PlannedKernel:
    drain = loops_of(plan, "main")[-1]
    return dropped(plan, "main", lambda node: _same(node, drain))


def prologue_one_short(plan: PlannedKernel) -> PlannedKernel:
    prologue = loops_of(plan, "main")[0]
    return edited(
        plan, "main",
        lambda node: rebuilt(node, start=const(1)) if _same(node, prologue) else node,
    )  # fmt: skip


def wrong_iteration_loaded(plan: PlannedKernel) -> PlannedKernel:
    steady = loops_of(plan, "main")[1]

    def visit(node: Any) -> Any:
        if isinstance(node, Binary) and node.op == "add" and node.left is steady.var:
            return rebuilt(node, right=const(1))
        return node

    return edited(plan, "main", visit)


def partial_treated_as_full(plan: PlannedKernel) -> PlannedKernel:
    """The main part of the loop has one iteration of the tail."""
    return split_moved(plan, 1)


def full_treated_as_partial(plan: PlannedKernel) -> PlannedKernel:
    return split_moved(plan, -1)


def split_moved(plan: PlannedKernel, shift: int) -> PlannedKernel:
    main, tail = body_of(plan, "load")
    last = tail.stop
    middle = Binary(op="min", left=Binary(op="add", left=main.stop, right=const(shift)), right=last)
    middle = Binary(op="max", left=middle, right=const(0))
    main, tail = rebuilt(main, stop=middle), rebuilt(tail, start=middle)
    return with_launch(with_body(plan, "load", (main, tail)), full_loops=(main,))


def predicate_missing(plan: PlannedKernel) -> PlannedKernel:
    copy = launch_of(plan).choices[0].operation
    return with_launch(plan, choices=(Choice(operation=copy, executor="copy", edge="none"),))


def wrong_dimension_tested(plan: PlannedKernel) -> PlannedKernel:
    copy = launch_of(plan).choices[0].operation
    return with_launch(plan, choices=(Choice(operation=copy, executor="copy", tested=(1,)),))


def version_dropped(plan: PlannedKernel) -> PlannedKernel:
    """Write after read: the next scores are made where the last ones are still read."""
    return without_channel(plan, "score")


def atomics_reordered(plan: PlannedKernel) -> PlannedKernel:
    for role in ("one", "two"):
        plan = edited(plan, role, lambda node: rebuilt(node, order=("two", "one")) if isinstance(node, Turn) else node)
    return plan


def turns_dropped(plan: PlannedKernel) -> PlannedKernel:
    for role in ("one", "two"):
        plan = dropped(plan, role, lambda node: isinstance(node, Turn))
    return plan


def turn_given_twice(plan: PlannedKernel) -> PlannedKernel:
    return edited(plan, "one", lambda node: (node, node) if isinstance(node, Turn) and node.phase == "pass" else node)


def turn_taken_twice(plan: PlannedKernel) -> PlannedKernel:
    return edited(plan, "one", lambda node: (node, node) if isinstance(node, Turn) and node.phase == "take" else node)


def turn_never_given(plan: PlannedKernel) -> PlannedKernel:
    return dropped(plan, "one", lambda node: isinstance(node, Turn) and node.phase == "pass")


def last_turn_kept(plan: PlannedKernel) -> PlannedKernel:
    """The role that nobody waits for any more takes a turn and does not pass it on."""
    takes = [node for s in body_of(plan, "one") for node in walk(s) if isinstance(node, Turn) and node.phase == "take"]
    return with_body(plan, "one", (*body_of(plan, "one"), takes[0]))


def slots_overlap(plan: PlannedKernel) -> PlannedKernel:
    return placed(plan, "B_tile", offset=1024)


def accumulators_overlap(plan: PlannedKernel) -> PlannedKernel:
    return placed(plan, "lower", offset=0)


def slot_misaligned(plan: PlannedKernel) -> PlannedKernel:
    return placed(plan, "A_tile", offset=3 * 1536 + 64)


def slots_lacking(plan: PlannedKernel) -> PlannedKernel:
    return placed(plan, "A_tile", slots=2)


def slot_too_small(plan: PlannedKernel) -> PlannedKernel:
    return placed(plan, "A_tile", bytes=512)


def slice_lacks_a_variable(plan: PlannedKernel) -> PlannedKernel:
    """The role counts its tiles by a variable of its own and forgets the kernel's."""
    loop = next(s for s in body_of(plan, "vector") if isinstance(s, For))
    own = Var(name="own", dtype=loop.var.dtype, kind="loop")
    return edited(plan, "vector", lambda node: rebuilt(node, var=own) if isinstance(node, For) and node.var is loop.var else node)


def slice_has_a_wrong_bound(plan: PlannedKernel) -> PlannedKernel:
    def visit(node: Any) -> Any:
        if isinstance(node, For) and any(isinstance(s, Get) for s in node.body):
            return rebuilt(node, stop=Binary(op="sub", left=node.stop, right=const(1)))
        return node

    return edited(plan, "cube", visit)


def channel_skipped(plan: PlannedKernel) -> PlannedKernel:
    return dropped(plan, "vector", lambda node: isinstance(node, (Get, Release)) and node.channel.name == "result")


def channel_removed(plan: PlannedKernel) -> PlannedKernel:
    return without_channel(plan, "near")


def put_before_last_write(plan: PlannedKernel) -> PlannedKernel:
    def visit(node: Any) -> Any:
        if isinstance(node, For) and any(isinstance(s, Acquire) for s in node.body):
            get, acquire, first, second, put, release = node.body
            return rebuilt(node, body=(get, acquire, first, put, second, release))
        return node

    return edited(plan, "feed", visit)


def store_not_waited_for(plan: PlannedKernel) -> PlannedKernel:
    return dropped(plan, "vector", lambda node: isinstance(node, Wait))


def source_overwritten_in_flight(plan: PlannedKernel) -> PlannedKernel:
    """One slot for what is stored, and the store waited for at the end of the role."""
    waits = [node for s in body_of(plan, "vector") for node in walk(s) if isinstance(node, Wait)]
    plan = dropped(with_channel(plan, "staged", depth=1), "vector", lambda node: isinstance(node, Wait))
    return with_body(plan, "vector", (*body_of(plan, "vector"), waits[0]))


def product_twice(plan: PlannedKernel) -> PlannedKernel:
    return edited(plan, "cube", lambda node: (node, node) if isinstance(node, Gemm) else node)


def product_missing(plan: PlannedKernel) -> PlannedKernel:
    return dropped(plan, "cube", is_gemm)


def foreign_side(plan: PlannedKernel) -> PlannedKernel:
    return edited(plan, "load", lambda node: Get(channel=node.channel) if isinstance(node, Put) else node)


def channel_without_consumer(plan: PlannedKernel) -> PlannedKernel:
    return dropped(plan, "bottom", lambda node: isinstance(node, (Get, Release)))


def tile_without_place(plan: PlannedKernel) -> PlannedKernel:
    return with_launch(plan, placements=tuple(p for p in launch_of(plan).placements if p.buffer.name != "upper"))


def merged_where_a_loop_clears(plan: PlannedKernel) -> PlannedKernel:
    return merged(plan, "scores")


def merged_where_operands_are_computed(plan: PlannedKernel) -> PlannedKernel:
    return merged(plan, "output")


def merged(plan: PlannedKernel, result: str) -> PlannedKernel:
    product = next(n for n in walk(launch_of(plan).launch) if isinstance(n, Gemm) and n.c.buffer.name == result)
    return with_launch(plan, choices=(Choice(operation=product, executor="matmul", merge=2),))


def coarsened_in_too_few_dimensions(plan: PlannedKernel) -> PlannedKernel:
    return with_launch(plan, order=LaunchPlan(coarsen=(2,)))


def coarsened_by_nothing(plan: PlannedKernel) -> PlannedKernel:
    return with_launch(plan, order=LaunchPlan(coarsen=(0, 1)))


class Planted(NamedTuple):
    """``checks``: the static checks that find it. ``is_seen``: whether the interpreter sees it under some schedule."""

    fault: Callable[[PlannedKernel], PlannedKernel]
    plan: str
    checks: frozenset[int]
    is_seen: bool = True


def planted(fault: Callable[[PlannedKernel], PlannedKernel], plan: str, *checks: int, is_seen: bool = True) -> Any:
    return pytest.param(Planted(fault, plan, frozenset(checks), is_seen), id=fault.__name__)


FAULTS = [
    planted(release_missing, "specialised_gemm", 2, 3),
    planted(release_too_early, "specialised_gemm", 5),
    planted(slot_reused_early, "pipelined_gemm", 4),
    planted(depth_one_short, "pipelined_gemm", 3),
    planted(depth_of_scores_one_short, "skewed_attention", 3),
    planted(put_before_copy_completes, "specialised_gemm", 5, 6),
    planted(bytes_of_a_slot_miscounted, "specialised_gemm", 1, is_seen=False),
    planted(wait_missing, "pipelined_gemm", 6),
    planted(wait_one_too_early, "pipelined_gemm", 6),
    planted(token_waited_too_late, "pipelined_gemm", 6),
    planted(wrong_lag, "skewed_attention", 4),
    planted(get_in_tail_once_too_often, "specialised_gemm", 3),
    planted(drain_one_short, "pipelined_gemm", 2, 9),
    planted(drain_missing, "pipelined_gemm", 2, 9),
    planted(prologue_one_short, "pipelined_gemm", 4, 6),
    planted(wrong_iteration_loaded, "pipelined_gemm", 9),
    planted(partial_treated_as_full, "specialised_gemm", 11),
    planted(full_treated_as_partial, "specialised_gemm", 11, is_seen=False),
    planted(predicate_missing, "specialised_gemm", 11),
    planted(wrong_dimension_tested, "specialised_gemm", 11),
    planted(version_dropped, "skewed_attention", 6),
    planted(atomics_reordered, "turn_taking", 10),
    planted(turns_dropped, "turn_taking", 5),
    planted(turn_given_twice, "turn_taking", 4),
    planted(turn_taken_twice, "turn_taking", 3),
    planted(turn_never_given, "turn_taking", 3),
    planted(last_turn_kept, "turn_taking", 2),
    planted(slots_overlap, "specialised_gemm", 7),
    planted(accumulators_overlap, "specialised_gemm", 5, 7),
    planted(slot_misaligned, "specialised_gemm", 7, is_seen=False),
    planted(slots_lacking, "specialised_gemm", 7),
    planted(slot_too_small, "specialised_gemm", 7),
    planted(slice_lacks_a_variable, "queue_machine", 12),
    planted(slice_has_a_wrong_bound, "queue_machine", 2, 9),
    planted(channel_skipped, "queue_machine", 4),
    planted(channel_removed, "queue_machine", 8),
    planted(put_before_last_write, "queue_machine", 4),
    planted(store_not_waited_for, "queue_machine", 6),
    planted(source_overwritten_in_flight, "queue_machine", 6),
    planted(product_twice, "queue_machine", 9),
    planted(product_missing, "queue_machine", 9),
    planted(foreign_side, "specialised_gemm", 1),
    planted(channel_without_consumer, "specialised_gemm", 1),
    planted(tile_without_place, "specialised_gemm", 7),
    planted(merged_where_a_loop_clears, "skewed_attention", 15, is_seen=False),
    planted(merged_where_operands_are_computed, "skewed_attention", 15, is_seen=False),
    planted(coarsened_in_too_few_dimensions, "specialised_gemm", 15, is_seen=False),
    planted(coarsened_by_nothing, "specialised_gemm", 15, is_seen=False),
]


def seen_by_interpreter(plan: PlannedKernel, kernel: Any, arguments_of: Any, sizes: tuple[int, ...], *, is_expected: bool) -> bool:
    """Whether some schedule of some size gives a fault or other bits than the interpreter; of the largest size where it is not expected."""
    for size in reversed(sizes if is_expected else sizes[-1:]):
        wanted = arguments_of(np.random.default_rng(size), size)
        interpret(kernel, wanted)
        for seed in range(SCHEDULES):
            found = arguments_of(np.random.default_rng(size), size)
            try:
                run(plan, found, schedule_seed=seed)
            except PlanFault:
                return True
            if any(one.tobytes() != other.tobytes() for one, other in zip(wanted, found)):
                return True
    return False


@pytest.mark.parametrize("planted_fault", FAULTS)
def test_a_planted_fault_is_found(planted_fault: Planted, plans_by_hand: dict[str, Any]) -> None:
    make, arguments_of, sizes = plans_by_hand[planted_fault.plan]
    plan = make()
    wrong = planted_fault.fault(plan)
    found = check(wrong)
    assert planted_fault.checks <= {problem.check for problem in found}, "\n".join(map(str, found))
    seen = seen_by_interpreter(wrong, plan.kernel, arguments_of, sizes, is_expected=planted_fault.is_seen)
    assert seen == planted_fault.is_seen


def test_limits_of_the_target_are_kept(plan_named: Callable[..., PlannedKernel]) -> None:
    plan = plan_named("specialised_gemm")
    room = Limits(capacities={"shared": 3 * 1536}, register_space="register", registers=232, lanes=1, register_bytes=32)
    assert check(plan, limits=room) == ()
    small = Limits(capacities={"shared": 3 * 1536 - 1}, register_space="register", registers=231, lanes=1, register_bytes=8)
    assert [problem.check for problem in check(plan, limits=small)] == [7, 13, 13, 13]
