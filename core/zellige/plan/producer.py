"""The copies that a producer, real or imagined, may make ahead of everything else.

In: a context and candidate copies. Out: the assignment of roles in which each tile that the producer makes is a stream; the other copies
go back to the consumer, each with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zellige.ir.expr import Buffer, Var
from zellige.ir.stmt import Copy, For, Stmt
from zellige.plan.ahead import tell
from zellige.plan.context import Context
from zellige.plan.dependence import meeting_distance, varying_variables
from zellige.plan.roles import CONSUMER, PRODUCER, Ahead, Assignment, changed_in, copies_ahead, is_operation, operations_of, pipelined_loops
from zellige.plan.spaces import choose_path
from zellige.plan.streams import RoleView, Sharing, Stream, home_of, share


def candidates(context: Context) -> tuple[Ahead, ...]:
    """The copies that could run ahead of their loops by themselves; why the others cannot is a decision."""
    ahead, refused = copies_ahead(context.facts, context.spaces, context.machine)
    for copy, reason in refused:
        if isinstance(reason, str):
            context.decisions.take(f"can the copy to {copy.dst.buffer.name} run ahead?", "no", reason, where=copy.span)
        else:
            tell(reason, context.decisions)
    return ahead


def why_no_copies(context: Context) -> str:
    """Why a launch has no copies that a producer could make."""
    is_looping = bool(pipelined_loops(context.facts.launch.body))
    return "no copy can run ahead of its loop" if is_looping else "there is no pipelined loop whose copies could run ahead"


def copies_before_loops(context: Context, ahead: Sequence[Ahead]) -> list[Stmt]:
    """Copies at the top of the launch that the producer can make too, when it has others."""
    if not ahead:
        return []
    changed = changed_in(context.facts)
    found: list[Stmt] = []
    for statement in context.facts.launch.body:
        if (
            not isinstance(statement, Copy)
            or statement.src.buffer.root.space != "global"
            or statement.dst.buffer.root not in context.spaces
        ):
            continue
        path, _ = choose_path(statement, context.facts, context.spaces, context.machine)
        if path.is_asynchronous and not (context.facts.read(statement) & changed):
            found.append(statement)
    return found


def assign_producer(context: Context, chosen: list[Stmt]) -> tuple[Assignment | None, Sharing | None, RoleView | None]:
    """The assignment in which every tile that the producer makes is a stream; copies whose tile is none go back to the consumer."""
    while chosen:
        engines = {PRODUCER: context.machine.main_engine, CONSUMER: context.machine.main_engine}
        of = {id(s): CONSUMER for s in operations_of(context.facts.launch.body)}
        of.update({id(s): PRODUCER for s in chosen})
        assignment = Assignment(of=of, engines=engines)
        view = RoleView(context.facts, assignment)
        foreign = view.computed(PRODUCER).union(*view.foreign.values())
        if foreign:
            chosen.remove(_hand_back(context, chosen, foreign))
            continue
        sharing = share(context.facts, view, dict.fromkeys(context.buffers, 1))
        carried = {stream.buffer for stream in sharing.streams}
        idle = [s for s in chosen if not sharing.shared and not context.facts.written(s) & carried]
        for statement in idle:
            chosen.remove(statement)
            name = ", ".join(b.name for b in context.facts.written(statement))
            context.decisions.take(f"can the copy to {name} run ahead?", "no", "nobody else uses its tile", where=statement.span)
        if idle:
            continue
        if not sharing.shared:
            late = _overwriting(context, chosen, sharing.streams)
            if late is None:
                return (assignment, sharing, view) if sharing.streams else (None, None, None)
            chosen.remove(late)
            name = ", ".join(b.name for b in context.facts.written(late))
            why = f"it writes to {name} where an earlier copy may still write: copies under way land in any order"
            context.decisions.take(f"can the copy to {name} run ahead?", "no", why, where=late.span)
            continue
        bad = set(sharing.shared)
        for statement in [s for s in chosen if context.facts.written(s) & bad] or chosen[:]:
            chosen.remove(statement)
            name = ", ".join(b.name for b in context.facts.written(statement))
            why = next((sharing.reasons[b] for b in context.facts.written(statement) if b in sharing.reasons), "")
            if not why:
                why = f"its address needs {', '.join(b.name for b in bad)}, which the consumer changes"
            context.decisions.take(f"can the copy to {name} run ahead?", "no", why, where=statement.span)
    return None, None, None


def _overwriting(context: Context, chosen: Sequence[Stmt], streams: Sequence[Stream]) -> Stmt | None:
    """A copy to a version of a tile that writes where one before it to the same version does, or itself in an earlier iteration of a loop
    that fills the version; None where all write to places of their own."""
    facts = context.facts
    for stream in streams:
        _, body, _, _ = home_of(facts, stream.buffer)
        for phase in stream.phases:
            filling = body[phase.made[0] : phase.made[1] + 1]
            varying = varying_variables(filling)
            found = [(copy, loops) for copy, loops in _in_loops(filling) if any(copy is s for s in chosen)]
            found = [(copy, loops) for copy, loops in found if stream.buffer in facts.written(copy)]
            for number, (copy, loops) in enumerate(found):
                assert isinstance(copy, Copy), "a producer makes copies"
                for other, _ in found[:number]:
                    assert isinstance(other, Copy), "a producer makes copies"
                    if meeting_distance(other.dst, copy.dst, None, facts.scope, 0, varying) is not None:
                        return copy
                for loop in loops:
                    if meeting_distance(copy.dst, copy.dst, loop, facts.scope, 1, varying_variables(loop.body)) is not None:
                        return copy
    return None


def _in_loops(body: Sequence[Stmt]) -> Iterator[tuple[Stmt, tuple[For, ...]]]:
    """The operations under ``body`` in order, each with the loops of ``body`` around it."""
    pending: list[tuple[Stmt, tuple[For, ...]]] = [(s, ()) for s in reversed(body)]
    while pending:
        statement, loops = pending.pop()
        if is_operation(statement):
            yield statement, loops
            continue
        around = (*loops, statement) if isinstance(statement, For) else loops
        for name in reversed(type(statement).BODIES):
            pending.extend((s, around) for s in reversed(getattr(statement, name)))


def _hand_back(context: Context, chosen: Sequence[Stmt], foreign: frozenset[Var | Buffer]) -> Stmt:
    """The copy to give back to the consumer, since what it needs comes from an operation: one that uses such a variable itself, else
    the last."""
    statement = next((s for s in chosen if context.facts.used(s) & foreign), chosen[-1])
    names = ", ".join(sorted(v.name for v in foreign))
    context.decisions.take(
        f"can the copy to {', '.join(b.name for b in context.facts.written(statement))} run ahead?", "no",
        f"where it reads, or how often, depends on {names}, which the block computes", where=statement.span,
    )  # fmt: skip
    return statement
