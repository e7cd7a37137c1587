"""A role for each engine of a machine of queues, joined by channels.

In: a context. Out: :class:`~zellige.plan.context.Programs`, or None where one role must do.
"""

from __future__ import annotations

from zellige.plan.channels import bind, group_streams
from zellige.plan.context import Context, Programs
from zellige.plan.nodes import Role
from zellige.plan.roles import by_engine
from zellige.plan.streams import RoleView, share
from zellige.plan.weave import HeaderReadsShared, Weaver


def queues(context: Context) -> Programs | None:
    """The programs of a block whose engines take their work from queues; None where one engine does everything."""
    question = "which roles does a block have?"
    assignment = by_engine(context.facts, context.legal.products, context.spaces, context.machine)
    if len(assignment.roles) == 1:
        context.decisions.take(question, f"one, on the engine {assignment.roles[0]}", "one engine executes all of its operations")
        return None
    view = RoleView(context.facts, assignment)
    foreign = sorted(v.name for made in view.foreign.values() for v in made)
    if foreign:
        context.decisions.take(
            question, "one", f"the value of {', '.join(foreign)} comes from an operation of one engine and steers another"
        )
        return None
    sharing = share(context.facts, view, dict.fromkeys(context.buffers, 1))
    groups = group_streams(context.facts, view, assignment, sharing.streams, context.bodies())
    for buffer in sharing.shared:
        context.decisions.take(
            f"how do several engines use {buffer.name}?", "in turns, one version", sharing.reasons[buffer],
            rejected=(("a stream of versions", sharing.reasons[buffer]),),
        )  # fmt: skip
    context.own(view)
    depths, placed, _ = context.depths(groups, frozenset(sharing.shared), {})
    bound = bind(groups, depths, context.machine, {}, context.decisions)
    weaver = Weaver(context.facts, view, assignment, bound, sharing.shared, context.mechanism())
    try:
        bodies = weaver.programs()
    except HeaderReadsShared as error:
        context.decisions.take(question, "one", f"a loop or branch depends on {error.buffer.name}, which several engines change in turns")
        return None
    channels = (*(b.channel for b in bound), *weaver.handovers())
    limit = context.machine.channel.count if context.machine.channel is not None else None
    if limit is not None and sum(c.depth for c in channels) > limit:
        context.decisions.take(question, "one", f"{sum(c.depth for c in channels)} flags would be needed, and a block has {limit}")
        return None
    context.decisions.take(question, ", ".join(assignment.roles), "each engine runs a program of its own, joined by flags")
    roles = tuple(Role(name=role, engine=assignment.engines[role], body=bodies[role]) for role in assignment.roles)
    return Programs(roles=roles, channels=channels, placements=placed)
