"""One role whose copies run ahead of the loops that they stand in.

In: a context on a machine with asynchronous copies and no roles of its own. Out: :class:`~zellige.plan.context.Programs`, or None where
no loop has copies that can run ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zellige.ir.stmt import For, Pipelined, Stmt
from zellige.ir.traverse import rebuilt
from zellige.plan.ahead import tell
from zellige.plan.by_hand import schedule_by_hand
from zellige.plan.channels import Bound, bind, group_streams, tell_channel
from zellige.plan.context import Context, Programs
from zellige.plan.draft import Decisions
from zellige.plan.nodes import Channel, PlanStmt, Role, Token
from zellige.plan.overlap import run_ahead, schedule_of_copies
from zellige.plan.pipeline import Schedule
from zellige.plan.place import Excess
from zellige.plan.producer import assign_producer, candidates, why_no_copies
from zellige.plan.roles import BLOCK, Ahead, pipelined_loops


def software(context: Context) -> Programs | None:
    """The programs of a block that runs copies ahead of their loop by itself; None where none can."""
    question = "do copies run ahead of their loop?"
    ahead = candidates(context)
    context.decisions.take("which roles does a block have?", "one", "the target's roles cannot run programs of their own", topic="style")
    top = _of_one_queue(_of_bodies(ahead, context.decisions), context.decisions)
    chosen: list[Stmt] = [a.copy for a in top]
    assignment, sharing, view = assign_producer(context, chosen)
    if assignment is None or sharing is None or view is None:
        context.decisions.take(question, "no", why_no_copies(context))
        return None
    streams = [s for s in sharing.streams if s.loop is not None and isinstance(s.loop.kind, Pipelined) and s.place == (id(s.loop), "body")]
    groups = group_streams(context.facts, view, assignment, streams, context.bodies())
    if all(g.wanted < 2 for g in groups):
        why = "; ".join(dict.fromkeys(g.because for g in groups)) or "no tile is made and used in the body of a pipelined loop"
        context.decisions.take(question, "no", why)
        return None
    groups = tuple(g for g in groups if g.wanted > 1)
    depths, _, _ = context.depths(groups, frozenset(), {}, in_order=True)
    first = top[0].overlap
    token = Token(name="copies", engine=first.path.engine)
    made = bind([g for g in groups if depths[g] > 1], depths, context.machine, {}, Decisions())
    bound = tuple(replace(b, channel=_within_role(b.channel, first.wait.mechanism if first.wait is not None else "order")) for b in made)
    replaced: dict[int, tuple[Stmt | PlanStmt, ...]] = {}
    kept: list[Bound] = []
    asynchronous = frozenset(id(c) for c in chosen)
    for loop in reversed(pipelined_loops(context.facts.launch.body)):  # inner loops first
        mine = [b for b in bound if b.group.loop is loop]
        if not mine:
            continue
        if any(id(inner) in replaced for inner in pipelined_loops(loop.body)):
            context.decisions.take(question, "no", "a loop within it already does, and runs more often", where=loop.span)
            continue
        buffers = {x for b in mine for x in b.channel.buffers}
        flying = frozenset(id(s) for s in loop.body if id(s) in asynchronous and context.facts.written(s) <= buffers)
        schedule = _schedule(context, loop, mine)
        answer = run_ahead(context.facts, loop, mine, schedule, token, flying)
        if isinstance(answer, str):
            context.decisions.take(question, "no", answer, where=loop.span)
            continue
        replaced[id(loop)] = answer.statements
        kept.extend(mine)
        for b in mine:
            tell_channel(b.channel, b.group, context.decisions)
        for one in top:
            if id(one.copy) in flying:
                tell(one.overlap, context.decisions)
        _tell_ahead(context.decisions, question, loop, max(b.channel.depth for b in mine) - 1)
    if not kept:
        return None
    body = _with_loops(context.facts.launch.body, replaced)
    slots = {buffer: b.channel.depth for b in kept for buffer in b.channel.buffers}
    again = context.placed(slots, frozenset())
    assert not isinstance(again, Excess)
    role = Role(name=BLOCK, engine=context.machine.main_engine, body=body)
    return Programs(roles=(role,), channels=tuple(b.channel for b in kept), placements=again)


def _of_bodies(found: Sequence[Ahead], decisions: Decisions) -> list[Ahead]:
    """The copies that stand in the bodies of their loops; the others are made in their turn."""
    kept: list[Ahead] = []
    for one in found:
        if any(s is one.copy for s in one.loop.body):
            kept.append(one)
            continue
        why = "it stands in a branch or a loop within the pipelined loop, and only copies of every iteration are issued ahead"
        decisions.take(f"can the copy to {one.copy.dst.buffer.name} run ahead?", "no", why, where=one.copy.span)
    return kept


def _tell_ahead(decisions: Decisions, question: str, loop: For, steps: int) -> None:
    decisions.take(
        question, f"by up to {steps} iteration{'' if steps == 1 else 's'}",
        "they are issued before the step's work and waited for when their turn comes: "
        "a prologue fills the slots, a drain empties them",
        rejected=(("copies in their place", "the engine would wait for each"),), where=loop.span,
    )  # fmt: skip


def _of_one_queue(found: Sequence[Ahead], decisions: Decisions) -> list[Ahead]:
    """The copies that one engine makes and one synchronisation waits for, those of the first; the others are made in their turn."""
    kept: list[Ahead] = []
    for one in found:
        first, here = found[0].overlap, one.overlap
        if (here.path.engine, here.wait) == (first.path.engine, first.wait):
            kept.append(one)
            continue
        why = f"it is issued or waited for otherwise than the copy to {first.copy.dst.buffer.name}, and one queue holds all that runs ahead"
        decisions.take(f"can the copy to {one.copy.dst.buffer.name} run ahead?", "no", why, where=one.copy.span)
    return kept


def _schedule(context: Context, loop: For, bound: Sequence[Bound]) -> Schedule:
    """The author's schedule where there is one that can be followed, else copies ahead."""
    by_hand = schedule_by_hand(context.facts, loop)
    return by_hand if isinstance(by_hand, Schedule) else schedule_of_copies(loop, bound)


def _within_role(channel: Channel, mechanism: str) -> Channel:
    return replace(channel, producers=(BLOCK,), consumers=(BLOCK,), scope="role", mechanism=mechanism)


def _with_loops(body: Sequence[Stmt], replaced: Mapping[int, tuple[Stmt | PlanStmt, ...]]) -> tuple[Stmt | PlanStmt, ...]:
    made: list[Stmt | PlanStmt] = []
    for statement in body:
        if id(statement) in replaced:
            made.extend(replaced[id(statement)])
            continue
        changes = {}
        for name in type(statement).BODIES:
            inner = getattr(statement, name)
            new = _with_loops(inner, replaced)
            if len(new) != len(inner) or any(a is not b for a, b in zip(new, inner)):
                changes[name] = new
        made.append(rebuilt(statement, **changes) if changes else statement)
    return tuple(made)
