"""A plan in words: its decisions, roles, channels and memory, as lines of text.

In: a :class:`~zellige.plan.nodes.PlannedKernel`. Out: lines for a reader who wrote the kernel. Colours and tables are the command line's
business.
"""

from __future__ import annotations

from collections.abc import Iterator

from zellige.plan.nodes import Channel, Decision, PlannedKernel, PlannedLaunch, Role
from zellige.plan.roles import BLOCK


def report(planned: PlannedKernel) -> str:
    """All of a plan as text."""
    return "\n".join(_lines(planned)) + "\n"


def _lines(planned: PlannedKernel) -> Iterator[str]:
    yield f"{planned.kernel.name} for {planned.target}"
    for number, launch in enumerate(planned.launches):
        if len(planned.launches) > 1:
            yield f"launch {number + 1} of {len(planned.launches)}"
        for decision in launch.decisions:
            yield ""
            yield f"{decision.question}{place_of(decision)}"
            yield f"    {decision.chosen}"
            yield f"    because {decision.because}"
            for candidate, reason in decision.rejected:
                yield f"    not {candidate}: {reason}"
        yield ""
        yield from (f"role {role_text(role)}" for role in launch.roles)
        yield from (f"channel {channel_text(channel)}" for channel in launch.channels)
        yield from (f"memory {line}" for line in memory_lines(launch))


def place_of(decision: Decision) -> str:
    """Where in the source a decision belongs, as `` (file:line)``; empty where that is not known."""
    span = decision.where
    return f" ({span.file.rsplit('/', 1)[-1]}:{span.line})" if span is not None else ""


def role_text(role: Role) -> str:
    name = "the block" if role.name == BLOCK else role.name
    copies = f", {role.count} times: they share the rows" if role.count > 1 else ""
    return f"{name} on {role.engine}{copies}"


def channel_text(channel: Channel) -> str:
    """``K_tile: producer -> consumer, 2 slots of 8192 bytes, by flag pair``."""
    ends = f"{' and '.join(channel.producers)} -> {' and '.join(channel.consumers)}"
    if channel.scope == "role":
        ends = "within its role"
    if channel.orders:
        return f"{channel.name}: {ends}, hands over {', '.join(b.name for b in channel.orders)}, by {channel.mechanism}"
    return (
        f"{channel.name}: {ends}, {channel.depth} slot{'s' if channel.depth > 1 else ''} of {channel.bytes} bytes, by {channel.mechanism}"
    )


def memory_lines(launch: PlannedLaunch) -> Iterator[str]:
    """One line a space: bytes in use, and the tiles with their versions."""
    spaces = dict.fromkeys(p.space for p in launch.placements)
    for space in spaces:
        mine = [p for p in launch.placements if p.space == space]
        top = max(p.offset + p.bytes * p.slots for p in mine)
        tiles = ", ".join(f"{p.buffer.name}{f' x {p.slots}' if p.slots > 1 else ''}" for p in mine)
        yield f"{space}: {top} bytes ({tiles})"
