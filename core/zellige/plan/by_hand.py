"""The author's own schedule of a pipelined loop (``order`` and ``stage`` of T.Pipelined), where it can be followed.

In: the facts of a launch and a loop. Out: a :class:`~zellige.plan.pipeline.Schedule` over the loop's body, or the reason why it cannot be
followed. A schedule may name all statements of the body or only those that touch memory. It never changes the result: one that would is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zellige.ir.expr import Buffer
from zellige.ir.stmt import For, Pipelined, Stmt
from zellige.plan.facts import LaunchFacts

if TYPE_CHECKING:
    from zellige.plan.pipeline import Schedule


def schedule_by_hand(facts: LaunchFacts, loop: For) -> Schedule | str | None:
    """The author's schedule; a sentence where it cannot be followed, None where there is none."""
    kind = loop.kind
    if not isinstance(kind, Pipelined) or not (kind.stage or kind.order):
        return None
    from zellige.plan.pipeline import replicable, why_not  # few schedules are by hand

    counted = [s for s in loop.body if facts.roots(s) or type(s).BODIES]
    named = next((s for s in (list(loop.body), counted) if len(kind.stage) == len(s) and len(kind.order) in (0, len(s))), None)
    if named is None:
        return f"it names {len(kind.stage)} stages and {len(kind.order)} places for {len(counted)} statements"
    if any(stage < 0 for stage in kind.stage):
        return "stages are numbers from 0"
    if kind.order and sorted(kind.order) != list(range(len(named))):
        return f"its order is not each of 0 to {len(named) - 1} once"
    schedule = _spread(loop, named, kind)
    return why_not(facts, loop, schedule, renewed_tiles(facts, loop), replicable(facts, loop)) or schedule


def _spread(loop: For, named: Sequence[Stmt], kind: Pipelined) -> Schedule:
    """Stages and places of every statement; those that are not named go with the first."""
    from zellige.plan.pipeline import Schedule

    stage_of = {id(s): stage for s, stage in zip(named, kind.stage)}
    order_of = {id(s): place for s, place in zip(named, kind.order or range(len(named)))}
    stages = tuple(stage_of.get(id(s), 0) for s in loop.body)
    orders = tuple((order_of[id(s)] + 1) * len(loop.body) if id(s) in order_of else i for i, s in enumerate(loop.body))
    return Schedule(stage_of=stages, order_of=orders)


def renewed_tiles(facts: LaunchFacts, loop: For) -> frozenset[Buffer]:
    """The tiles that each iteration of a loop overwrites before it looks at them: they can have versions."""
    first: dict[Buffer, Stmt] = {}
    for statement in loop.body:
        for root in facts.roots(statement):
            if root.space != "global":
                first.setdefault(root, statement)
    return frozenset(root for root, statement in first.items() if facts.kills(statement, root))
