"""A loop run as a software pipeline within one role: statements of stage s of iteration i run in step i + s.

In: a loop, its body cut into segments with stages, in the order of a step. Out: prologue, steady state and drain, which together run
every segment once an iteration, or the reason why the order is not allowed.

Let S be the largest stage. Step t runs the segment of stage s for iteration t - s where that is one. In the steady state, steps start + S
to stop, all are; before and after it a segment stands in a loop of one iteration or none. The segments keep the loop's own variable,
which those small loops count; so the operations are the objects of the original body. A tile that a later stage still needs while the
next iteration makes it again has versions, and an edge of the dependence graph that only says so is no hindrance.
"""

from __future__ import annotations

from collections.abc import Sequence

from zellige.ir.expr import Buffer, Const, Expr, Var, constant_value
from zellige.ir.folding import maximum, minimum, plus
from zellige.ir.stmt import Bind, For, Serial, Stmt
from zellige.plan.dependence import Dependence, dependences
from zellige.plan.facts import SCALARS, LaunchFacts
from zellige.plan.nodes import PlanStmt
from zellige.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Statements that run together, of one stage. ``at_ends`` stand for them in prologue and drain, where fewer operations are in
    flight."""

    stage: int
    statements: tuple[Stmt | PlanStmt, ...]
    at_ends: tuple[Stmt | PlanStmt, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """``stage_of`` and ``order_of`` each position of a loop's body: the stage, and the place within a step."""

    stage_of: tuple[int, ...]
    order_of: tuple[int, ...]

    @property
    def depth(self) -> int:
        """The largest stage."""
        return max(self.stage_of, default=0)


def why_not(facts: LaunchFacts, loop: For, schedule: Schedule, versioned: frozenset[Buffer], replicated: frozenset[int]) -> str | None:
    """The reason why a schedule would change what the loop computes; None where it is right.

    ``versioned`` are tiles with enough versions: edges that only keep a later iteration from overwriting them do not count.
    ``replicated`` are positions of scalar statements that every stage runs for itself.
    """
    if constant_value(loop.step) != 1:
        return "the loop does not count by one"
    for edge in dependences(facts, loop.body, loop):
        if edge.subject in versioned and (edge.kind in ("WAR", "WAW") and edge.distance > 0):
            continue
        if edge.source in replicated or edge.sink in replicated:
            continue
        if not _is_kept(edge, schedule, versioned):
            return _told(edge, loop)
    return None


def _is_kept(edge: Dependence, schedule: Schedule, versioned: frozenset[Buffer]) -> bool:
    source = (schedule.stage_of[edge.source], schedule.order_of[edge.source])
    sink = (schedule.stage_of[edge.sink] + edge.distance, schedule.order_of[edge.sink])
    if edge.subject in versioned and edge.distance > 0:
        return True  # versions begin anew in every iteration
    return source < sink


def _told(edge: Dependence, loop: For) -> str:
    name = edge.subject.name
    match edge.kind:
        case "RAW":
            return f"{name} would be read before it is written"
        case "WAR":
            return f"{name} would be overwritten while it is still read"
        case "WAW":
            return f"{name} would be written in another order"
        case "atomic":
            return f"the atomic updates of {name} would change their order"
        case "scalar":
            return f"the variable {name} carries a value between statements of different stages"
        case _:
            return f"the order of uses of {name} would change"


def replicable(facts: LaunchFacts, loop: For) -> frozenset[int]:
    """Positions of scalar statements at the top of a loop's body that can be run again by every stage: each gives its variable a value
    before any use in the iteration, from nothing that the loop computes otherwise."""
    written = {root for s in loop.body for root in facts.written(s)}
    assigners: dict[Var, list[int]] = {}
    touched: dict[Var, int] = {}  # the first position that uses or assigns it
    for position, statement in enumerate(loop.body):
        for var in facts.assigned(statement):
            assigners.setdefault(var, []).append(position)
        for var in facts.used(statement) | facts.assigned(statement):
            touched.setdefault(var, position)
    found: set[int] = set()
    for position, statement in enumerate(loop.body):
        if not isinstance(statement, SCALARS):
            continue
        var = statement.var
        if var.is_mutable and touched[var] < position:
            continue
        if var in facts.used(statement) or assigners[var][-1] > position:
            continue
        if facts.read(statement) & written:
            continue
        if all(i in found for used in facts.used(statement) for i in assigners.get(used, ())):
            found.add(position)
    return frozenset(found)


def pipelined(loop: For, segments: Sequence[Segment]) -> tuple[Stmt | PlanStmt, ...]:
    """The statements that take the place of ``loop``."""
    last = max(s.stage for s in segments)
    before, start, stop = _bounds(loop)

    def steps(name: str, low: Expr, high: Expr, chosen: Sequence[Segment], *, guarded: bool) -> For:
        step = Var(name=f"{loop.var.name}_{name}", dtype=loop.var.dtype, kind="loop")
        body: list[Stmt | PlanStmt] = []
        for segment in _together(chosen) if guarded else chosen:
            at = plus(step, -segment.stage)
            first, end = at, plus(step, 1 - segment.stage)
            statements = segment.statements
            if guarded:
                first, end = maximum(at, start), minimum(end, stop)
                statements = segment.statements if segment.at_ends is None else segment.at_ends
            body.append(_loop(loop, loop.var, first, end, statements))
        return _loop(loop, step, low, high, tuple(body))

    early = [s for s in segments if s.stage < last]
    late = [s for s in segments if s.stage > 0]
    middle = plus(start, last)
    return (
        *before,
        steps("fill", start, middle, early, guarded=True),
        steps("step", middle, stop, segments, guarded=False),
        steps("drain", maximum(stop, middle), plus(stop, last), late, guarded=True),
    )


def _together(segments: Sequence[Segment]) -> list[Segment]:
    """Segments that follow each other and are of one stage as one, at the ends: what one starts the next may wait for, with no branch
    between."""
    made: list[Segment] = []
    for segment in segments:
        if made and made[-1].stage == segment.stage:
            joined = tuple(x for s in (made[-1], segment) for x in (s.statements if s.at_ends is None else s.at_ends))
            made[-1] = Segment(stage=segment.stage, statements=joined)
        else:
            made.append(segment)
    return made


def _loop(origin: For, var: Var, start: Expr, stop: Expr, body: tuple[Stmt | PlanStmt, ...]) -> For:
    return For(var=var, start=start, stop=stop, step=Const(value=1, dtype=var.dtype), kind=Serial(), body=body, span=origin.span)  # type: ignore[arg-type]


def _bounds(loop: For) -> tuple[tuple[Stmt, ...], Expr, Expr]:
    """The loop's bounds as constants or variables that keep their value, and the statements that bind those."""
    made: list[Stmt] = []
    ends: list[Expr] = []
    for name, expr in (("first", loop.start), ("end", loop.stop)):
        if isinstance(expr, Const) or (isinstance(expr, Var) and not expr.is_mutable):
            ends.append(expr)
        else:
            var = Var(name=f"{loop.var.name}_{name}", dtype=expr.dtype, kind="value")
            made.append(Bind(var=var, value=expr, span=loop.span))
            ends.append(var)
    return tuple(made), ends[0], ends[1]
