"""A plan in words: its decisions by the lines of the author's program, its roles, channels and memory.

In: a :class:`~zellige.plan.nodes.PlannedKernel`. Out: lines for a reader who wrote the kernel, or the same as a dictionary for programs.
Colours and tables are the command line's business.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from typing import Any

from zellige.plan.nodes import Channel, Decision, PlannedKernel, PlannedLaunch, Role
from zellige.plan.roles import BLOCK
from zellige.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The decisions about one line of the source, or (``place`` empty) about a block as a whole. ``source`` is the line as written, empty
    where it cannot be read."""

    place: str
    source: str
    decisions: tuple[Decision, ...]


def sections(launch: PlannedLaunch) -> tuple[Section, ...]:
    """The decisions of a launch: those about the block first, then line by line."""
    found: dict[tuple[str, int], list[Decision]] = {}
    for decision in launch.decisions:
        span = decision.where
        found.setdefault(("", 0) if span is None else (span.file, span.line), []).append(decision)
    return tuple(
        Section(
            place=f"{file.rsplit('/', 1)[-1]}:{line}" if file else "",
            source=linecache.getline(file, line).strip() if file else "",
            decisions=tuple(found[file, line]),
        )
        for file, line in sorted(found)
    )


def report(planned: PlannedKernel) -> str:
    """All of a plan as text."""
    return "\n".join(_lines(planned)) + "\n"


def _lines(planned: PlannedKernel) -> Iterator[str]:
    yield f"{planned.kernel.name} for {planned.target}"
    for number, launch in enumerate(planned.launches):
        if len(planned.launches) > 1:
            yield f"launch {number + 1} of {len(planned.launches)}"
        for section in sections(launch):
            yield ""
            yield title_of(section)
            for decision in section.decisions:
                yield f"    {decision.question} {decision.chosen}"
                yield f"        because {decision.because}"
                for candidate, reason in decision.rejected:
                    yield f"        not {candidate}: {reason}"
        yield ""
        yield from (f"role {role_text(role)}" for role in launch.roles)
        yield from (f"channel {channel_text(channel)}" for channel in launch.channels)
        yield from (f"memory {line}" for line in memory_lines(launch))
        yield from (f"({line})" for line in legend(launch))


def title_of(section: Section) -> str:
    """``gemm.py:22   T.gemm(A_tile, B_tile, C_tile)``."""
    return f"{section.place}   {section.source}".rstrip() if section.place else "the block as a whole"


def role_text(role: Role) -> str:
    """A role in one line: its engine, its copies, its registers."""
    name = "the block" if role.name == BLOCK else role.name
    copies = f", {role.count} times: they share the rows" if role.count > 1 else ""
    registers = f", {role.registers} registers a lane" if role.registers is not None else ""
    return f"{name} on {role.engine}{copies}{registers}"


def channel_text(channel: Channel) -> str:
    """``K_tile: producer -> consumer, 2 slots of 8192 bytes, by flag pair``."""
    ends = f"{' and '.join(channel.producers)} -> {' and '.join(channel.consumers)}"
    if channel.scope == "role":
        ends = "within its role"
    if channel.scope == "cluster":
        shared = ", ".join(b.name for b in channel.spread)
        ends += f" of all blocks of a cluster, each of which copies its share of {shared} for all"
    if channel.orders:
        return f"{channel.name}: {ends}, hands over {', '.join(b.name for b in channel.orders)}, by {channel.mechanism}"
    return (
        f"{channel.name}: {ends}, {channel.depth} slot{'s' if channel.depth > 1 else ''} of {channel.bytes} bytes, by {channel.mechanism}"
    )


def legend(launch: PlannedLaunch) -> Iterator[str]:
    """What the words of the plan mean, as far as this one needs them; for a reader who wrote a kernel and never saw a plan."""
    if len(launch.roles) > 1:
        yield "a role is a part of the block that runs a program of its own, at the same time as the others"
    if launch.channels:
        yield "a channel hands tiles from where they are made to where they are used; a slot is room for one version of each of its tiles"


def memory_lines(launch: PlannedLaunch) -> Iterator[str]:
    """One line a space: bytes in use, and the tiles with their versions; at the end the tiles that are nowhere stored."""
    packed = {at.buffer for choice in launch.choices for at in choice.layouts if at.is_direct}
    stored = [p for p in launch.placements if p.buffer not in packed]
    spaces = dict.fromkeys(p.space for p in stored)
    for space in spaces:
        mine = [p for p in stored if p.space == space]
        top = max(p.offset + p.bytes * p.slots for p in mine)
        tiles = ", ".join(f"{p.buffer.name}{f' x {p.slots}' if p.slots > 1 else ''}" for p in mine)
        yield f"{space}: {top} bytes ({tiles})"
    if packed:
        yield f"not stored: {', '.join(p.buffer.name for p in launch.placements if p.buffer in packed)}"


def as_dictionary(planned: PlannedKernel) -> dict[str, Any]:
    """The plan for programs: strings, numbers, lists and dictionaries alone, as JSON has them."""
    return {
        "kernel": planned.kernel.name,
        "target": planned.target,
        "launches": [_launch_dictionary(launch) for launch in planned.launches],
    }


def _launch_dictionary(launch: PlannedLaunch) -> dict[str, Any]:
    order = launch.order
    return {
        "decisions": [_decision_dictionary(decision) for decision in launch.decisions],
        "roles": [{"name": r.name, "engine": r.engine, "count": r.count, "registers": r.registers} for r in launch.roles],
        "channels": [
            {
                "name": c.name, "buffers": [b.name for b in c.buffers], "orders": [b.name for b in c.orders],
                "spread": [b.name for b in c.spread], "depth": c.depth,
                "bytes": c.bytes, "producers": list(c.producers), "consumers": list(c.consumers), "scope": c.scope,
                "mechanism": c.mechanism,
            }
            for c in launch.channels
        ],
        "placements": [
            {"buffer": p.buffer.name, "space": p.space, "offset": p.offset, "bytes": p.bytes, "slots": p.slots} for p in launch.placements
        ],
        "order": {
            "order": order.order, "panel": order.panel, "coarsen": list(order.coarsen), "is_persistent": order.is_persistent,
            "tiles": None if order.tiles is None else {
                "workers": order.tiles.workers, "panel": order.tiles.panel, "order": order.tiles.order,
            },
            "cluster": None if order.cluster is None else list(order.cluster), "splits": order.splits,
            "workspace_bytes": order.workspace_bytes,
        },
    }  # fmt: skip


def _decision_dictionary(decision: Decision) -> dict[str, Any]:
    where = None if decision.where is None else {"file": decision.where.file, "line": decision.where.line}
    return {
        "question": decision.question,
        "chosen": decision.chosen,
        "because": decision.because,
        "rejected": [{"candidate": candidate, "because": reason} for candidate, reason in decision.rejected],
        "where": where,
    }
