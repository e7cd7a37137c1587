"""Streams bound to channels: which tiles share one, how many versions it has, and what implements it.

In: the streams of a launch and a machine. Out: :class:`Bound`: each channel with the positions at which its roles acquire, put, get and
release. Tiles that are made together and used by the same statements share a channel; tiles that are used at different times have one
each, so that the first is free for its next version while the others are still read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zellige.ir.expr import Buffer
from zellige.ir.naming import unused_name
from zellige.ir.stmt import Copy, For, Pipelined, Stmt
from zellige.plan.by_hand import schedule_by_hand
from zellige.plan.capabilities import Machine
from zellige.plan.draft import Decisions
from zellige.plan.facts import LaunchFacts, bytes_of
from zellige.plan.nodes import Channel, Token
from zellige.plan.pipeline import Schedule
from zellige.plan.roles import Assignment
from zellige.plan.streams import Phase, Place, RoleView, Stream
from zellige.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Streams that share a channel. ``wanted`` is the number of versions that the author's stages ask for."""

    streams: tuple[Stream, ...]
    wanted: int
    because: str

    @property
    def place(self) -> Place:
        return self.streams[0].place

    @property
    def loop(self) -> For | None:
        return self.streams[0].loop

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return tuple(s.buffer for s in self.streams)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of all streams together: from the first statement that makes one of the tiles to the last."""
        if len(self.streams) == 1:
            return self.streams[0].phases
        first = min(s.phases[0].made[0] for s in self.streams)
        last = max(s.phases[0].made[1] for s in self.streams)
        return (Phase(made=(first, last), read=self.streams[0].phases[0].read),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A channel with the phases of its streams in one body."""

    channel: Channel
    group: Group


def group_streams(
    facts: LaunchFacts, view: RoleView, assignment: Assignment, streams: Sequence[Stream], bodies: Mapping[Place, Sequence[Stmt]]
) -> tuple[Group, ...]:
    """Streams put together that one channel can carry."""
    pending = list(streams)
    groups: list[Group] = []
    while pending:
        first = pending.pop(0)
        together = [first]
        for other in list(pending):
            if _belongs(facts, view, together, other, bodies[first.place]):
                together.append(other)
                pending.remove(other)
        wanted, because = wanted_versions(facts, first.loop, together, assignment)
        groups.append(Group(streams=tuple(together), wanted=wanted, because=because))
    return tuple(groups)


def _belongs(facts: LaunchFacts, view: RoleView, together: Sequence[Stream], other: Stream, body: Sequence[Stmt]) -> bool:
    first = together[0]
    if (first.place, first.producer, first.consumers) != (other.place, other.producer, other.consumers):
        return False
    if len(first.phases) != 1 or len(other.phases) != 1 or first.phases[0].read != other.phases[0].read:
        return False
    buffers = {s.buffer for s in together} | {other.buffer}
    low = min(s.phases[0].made[0] for s in (*together, other))
    high = max(s.phases[0].made[1] for s in (*together, other))
    for statement in body[low : high + 1]:
        if first.producer in view.roles_of(statement) and facts.roots(statement) and not facts.written(statement) <= buffers:
            return False  # the producer does something in between that others may wait for
        if first.producer in view.roles_of(statement) and not isinstance(statement, Copy) and facts.roots(statement):
            return False
    return True


def wanted_versions(facts: LaunchFacts, loop: For | None, streams: Sequence[Stream], assignment: Assignment) -> tuple[int, str]:
    """How many versions the author's stages ask for, and the sentence that says so."""
    if loop is None or not isinstance(loop.kind, Pipelined):
        return 1, "it is made outside a pipelined loop"
    by_hand = schedule_by_hand(facts, loop)
    if isinstance(by_hand, Schedule):
        made = min(by_hand.stage_of[s.phases[0].made[0]] for s in streams)
        read = max(by_hand.stage_of[at[2]] for s in streams for at in s.phases[0].read)
        return max(1, read - made + 1), f"the author's schedule makes it in stage {made} and uses it in stage {read}"
    if loop.kind.stages <= 1:
        return 1, "the loop asks for one stage" if loop.kind.stages else "the loop asks for no stages"
    if not any(isinstance(loop.body[s.phases[0].made[0]], Copy) for s in streams):
        return 1, "it is computed in the loop, not copied"
    return loop.kind.stages, f"the loop asks for {loop.kind.stages} stages"


def tell_channel(channel: Channel, group: Group, decisions: Decisions) -> None:
    """Says how tiles get from their producer to their consumers."""
    tiles = " and ".join(b.name for b in channel.buffers)
    if channel.scope == "role":
        question = f"how many versions of {tiles} are there?"
    else:
        verb = "do" if len(channel.buffers) > 1 else "does"
        question = f"how {verb} {tiles} get from {' and '.join(channel.producers)} to {' and '.join(channel.consumers)}?"
    slots = f"{channel.depth} slot{'s' if channel.depth != 1 else ''} of {channel.bytes} bytes"
    decisions.take(
        question, f"{slots}, joined by: {channel.mechanism}", group.because, where=group.loop.span if group.loop is not None else None
    )


def bind(
    groups: Sequence[Group], depths: Mapping[Group, int], machine: Machine, tokens: Mapping[str, Token], decisions: Decisions
) -> tuple[Bound, ...]:
    """A channel for each group, with the depth that fits. ``tokens`` are those of producers that issue their copies."""
    sync = machine.channel
    found: list[Bound] = []
    names: set[str] = set()
    for group in groups:
        first = group.streams[0]
        name = unused_name("_".join(b.name for b in group.buffers), names)
        token = tokens.get(first.producer) if sync is not None and sync.counts_bytes else None
        channel = Channel(
            name=name, buffers=group.buffers, depth=depths[group], producers=(first.producer,), consumers=first.consumers,
            is_transaction=token is not None, token=token, bytes=sum(bytes_of(b) or 0 for b in group.buffers),
            mechanism=sync.mechanism if sync is not None else "order",
        )  # fmt: skip
        tell_channel(channel, group, decisions)
        found.append(Bound(channel=channel, group=group))
    return tuple(found)
