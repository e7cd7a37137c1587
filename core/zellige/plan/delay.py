"""A product that runs an iteration late, beside the next one's first product and the lanes' work on that.

In: a loop of a role with two asynchronous products, of which the second takes what the lanes make of the first one's result (attention: the
scores, their softmax, the weighted sum). Out: the software pipeline in its place, or the reason why the loop stays as it is.

A step starts the first product of an iteration and then the second one of the iteration before. The lanes wait for the first alone and work
on its result while the second runs; before they touch what the second makes or takes, they wait for it. Every tile keeps one version, so no
register is needed for it (a product that ran ahead of its use, :mod:`zellige.plan.overlap`, would make a second version of its result).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zellige.ir.expr import Buffer
from zellige.ir.stmt import For, Gemm, Stmt
from zellige.plan.facts import LaunchFacts
from zellige.plan.inflight import ProductsInFlight, operands_of
from zellige.plan.nodes import Acquire, Get, Issue, PlanStmt, Put, Release, Token, Turn
from zellige.plan.overlap import scalars_of_run, why_not_among
from zellige.plan.pipeline import Schedule, Segment, pipelined, replicable
from zellige.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """A loop whose statements from position ``late`` on, the second product first, may run beside the next iteration's ``first``."""

    loop: For
    first: Gemm
    second: Gemm
    late: int


def find_delay(facts: LaunchFacts, loop: For, is_asynchronous: Callable[[Gemm], bool], skipped: frozenset[int]) -> Delay | str | None:
    """The delay that a loop allows; a reason where its products follow each other and may not overlap; None where there is nothing to win.

    ``skipped`` are positions that another role runs.
    """
    positions = [i for i in range(len(loop.body)) if i not in skipped]
    products = [i for i in positions if isinstance(loop.body[i], Gemm) and is_asynchronous(loop.body[i])]  # type: ignore[arg-type]
    if len(products) != 2:
        return None
    at, late = products
    first, second = loop.body[at], loop.body[late]
    assert isinstance(first, Gemm)
    assert isinstance(second, Gemm)
    result = first.c.buffer.root
    copies = replicable(facts, loop)
    between = [i for i in positions if at < i < late and i not in copies and result in facts.roots(loop.body[i])]
    if not between or operands_of(second) & {result}:
        return None
    schedule = Schedule(
        stage_of=tuple(int(i >= late) for i in range(len(loop.body))),
        order_of=tuple(i - late if i >= late else i if i > at else i - at - len(loop.body) for i in range(len(loop.body))),
    )
    for root in {root for i in skipped for root in facts.written(loop.body[i])}:
        if all(any(root in facts.roots(loop.body[i]) for i in part) for part in _parts(positions, late)):
            return f"{root.name} comes from another role and is used by both products"
    reason = why_not_among(facts, loop, schedule, frozenset(), copies, frozenset(positions))
    return reason if reason is not None else Delay(loop=loop, first=first, second=second, late=late)


def _parts(positions: Sequence[int], late: int) -> tuple[list[int], list[int]]:
    return [i for i in positions if i < late], [i for i in positions if i >= late]


def delayed(
    facts: LaunchFacts, woven: For, delay: Delay, token: Token, is_asynchronous: Callable[[Gemm], bool], turn: str = ""
) -> tuple[Stmt | PlanStmt, ...]:
    """The pipeline in the place of ``woven``, the role's own form of the loop. Both products are issued on ``token``; the copies of the
    role ``turn`` (empty: none) take turns at starting the two of a step."""
    start, work, late = _cut(woven.body, delay)
    freed = tuple(s for s in late if isinstance(s, Release))
    late = tuple(s for s in late if not isinstance(s, Release))

    def flying(body: Sequence[Stmt | PlanStmt], before: Sequence[Gemm], *, waits: bool) -> tuple[Stmt | PlanStmt, ...]:
        return ProductsInFlight(facts, token, is_asynchronous).body(body, before, waits_at_end=waits)

    def scalars(body: Sequence[Stmt | PlanStmt]) -> tuple[Stmt | PlanStmt, ...]:
        return scalars_of_run(facts, delay.loop, woven.body, body)

    started = flying(start, (), waits=False)
    in_step = flying(_with_releases(facts, work, freed, delay.second), (delay.first, delay.second), waits=True)
    at_begin = flying(work, (delay.first,), waits=True)
    beside = flying(late, (), waits=False)
    at_end = flying((*late, *freed), (), waits=True)
    take = (Turn(name=token.engine, order=(turn,), phase="take"),) if turn else ()
    give = (Turn(name=token.engine, order=(turn,), phase="pass"),) if turn else ()
    return pipelined(
        woven,
        (
            Segment(stage=0, statements=(*started[:-1], *take, started[-1]), at_ends=started),
            Segment(stage=1, statements=(*scalars(late), *beside, *give), at_ends=(*scalars(late), *at_end)),
            Segment(stage=0, statements=(*scalars(work), *in_step), at_ends=(*scalars(work), *at_begin)),
        ),
    )


def _cut(body: Sequence[Stmt | PlanStmt], delay: Delay) -> tuple[tuple[Stmt | PlanStmt, ...], ...]:
    """What starts the first product, what follows it, and what belongs to the second one from the slots on that it waits for."""
    first = next(i for i, s in enumerate(body) if s is delay.first)
    late = next(i for i, s in enumerate(body) if s is delay.second)
    while isinstance(body[late - 1], (Get, Acquire)):
        late -= 1
    return tuple(body[: first + 1]), tuple(body[first + 1 : late]), tuple(body[late:])


def _with_releases(
    facts: LaunchFacts, work: Sequence[Stmt | PlanStmt], freed: Sequence[Release], second: Gemm
) -> tuple[Stmt | PlanStmt, ...]:
    """``work`` with the slots of the second product given back where it must have ended anyway, or at the end."""
    for place, statement in enumerate(work):
        if isinstance(statement, (Acquire, Get, Put, Release)):
            continue
        accesses = facts.accesses(statement.operation if isinstance(statement, Issue) else statement)  # type: ignore[arg-type]
        touched: set[Buffer] = {a.root for a in accesses}
        if second.c.buffer.root in touched or operands_of(second) & {a.root for a in accesses if a.changes}:
            return (*work[:place], *freed, *work[place:])
    return (*work, *freed)
