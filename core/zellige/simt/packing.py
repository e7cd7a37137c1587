"""Memory of a block that is used at different times, in the same bytes.

In: the statements of a program, before barriers are placed, and its shared memories. Out: an offset for each, and which of them share
bytes: a write to one ends what the others held, so barriers are placed as if it wrote those too
(:func:`zellige.simt.code.with_barriers`).

A memory holds something of use from its first to its last mention in program order, counted in places where a barrier can stand: what is
mentioned between two of them is in use at one time, since a lane may be at the first statement while another is at the last. A mention in a
loop counts as all of the loop, unless the memory is declared in the loop's body (then of the loop in it). Slots of channels are filled
ahead of what reads them, and have bytes of their own; so have memories too small to be worth a barrier.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from zellige.ir.expr import Buffer
from zellige.ir.stmt import Barrier, For, While
from zellige.ir.traverse import walk
from zellige.records import dataclass
from zellige.simt.code import Declared, Touch

SHARED_ALIGNMENT: Final = 128
"""Bytes: shared memories begin at multiples of it. No access asks for more, those of engines to swizzled tiles apart."""

WORTH_BYTES: Final = 1024
"""Bytes from which a memory may share those of others."""


def aligned(size: int, alignment: int = SHARED_ALIGNMENT) -> int:
    """``size`` in bytes rounded up to a multiple of ``alignment``."""
    return -(-size // alignment) * alignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a memory takes: ``bytes`` rounded up to ``alignment``, of which the offset is a multiple."""

    memory: Buffer
    bytes: int
    alignment: int = SHARED_ALIGNMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """``meets`` are the memories that share bytes with each; ``bytes`` what all take together."""

    offsets: dict[Buffer, int]
    meets: dict[Buffer, frozenset[Buffer]]
    bytes: int


def packed(statements: Sequence[Any], rooms: Sequence[Room], alone: Collection[Buffer]) -> Packing:
    """First fit in the order of ``rooms``; one after the other where sharing saves nothing."""
    live = live_ranges(statements, {r.memory for r in rooms})
    plain = _fitted(rooms, lambda a, b: True)
    own = {r.memory for r in rooms if r.memory in alone or r.bytes < WORTH_BYTES}

    def meet(a: Buffer, b: Buffer) -> bool:
        if a in own or b in own or a not in live or b not in live:
            return True
        return live[a][0] <= live[b][1] and live[b][0] <= live[a][1]

    shared = _fitted(rooms, meet)
    return shared if shared.bytes < plain.bytes else plain


def _fitted(rooms: Sequence[Room], meet: Any) -> Packing:
    placed: list[tuple[Room, int]] = []
    for room in rooms:
        offset = 0
        for other, start in sorted(((o, s) for o, s in placed if meet(room.memory, o.memory)), key=lambda p: p[1]):
            if offset + room.bytes <= start:
                break
            offset = max(offset, _up(start + other.bytes, room.alignment))
        placed.append((room, offset))
    meets: dict[Buffer, frozenset[Buffer]] = {}
    for room, start in placed:
        others = frozenset(o.memory for o, s in placed if o is not room and s < start + room.bytes and start < s + o.bytes)
        if others:
            meets[room.memory] = others
    total = max((_up(start + room.bytes, room.alignment) for room, start in placed), default=0)
    return Packing(offsets={r.memory: s for r, s in placed}, meets=meets, bytes=total)


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


# ---- when each memory holds something ----


_NEVER: Final = 1 << 62


@dataclass(slots=True)
class _Ranges:
    """``counter`` numbers the stretches between places for a barrier; ``earliest`` is the first where the body mentions a memory."""

    wanted: frozenset[Buffer]
    counter: int = 0
    earliest: int = 0
    ranges: dict[Buffer, tuple[int, int]] = field(default_factory=dict)

    def note(self, memories: Iterable[Buffer], first: int) -> None:
        for memory in memories:
            old = self.ranges.get(memory, (first, first))
            self.ranges[memory] = (min(old[0], first), max(old[1], self.counter))
            self.earliest = min(self.earliest, first)

    def visit(self, body: Iterable[Any]) -> set[Buffer]:
        """Every memory that is mentioned, those declared in the body apart."""
        mentioned: set[Buffer] = set()
        declared: set[Buffer] = set()
        for item in body:
            if isinstance(item, Declared):
                declared.add(item.memory)
                continue
            if isinstance(item, Touch) or (isinstance(item, Barrier) and item.scope != "warp"):
                self.counter += 1
                continue
            first, before = self.counter, self.earliest
            here = self._own(item)
            inner: set[Buffer] = set()
            self.earliest = _NEVER
            for name in getattr(type(item), "BODIES", ()):
                inner |= self.visit(getattr(item, name))
            if isinstance(item, (For, While)):
                self.note(inner, min(self.earliest, self.counter))
            self.earliest = min(before, self.earliest)
            self.note(here, first)
            mentioned |= here | inner
        return mentioned - declared

    def _own(self, item: Any) -> set[Buffer]:
        """The memories that a statement itself mentions, those in it apart."""
        found: set[Buffer] = set()
        for node in walk(item, bodies=False):
            for name in ("buffer", "target", "source", "memory", "barriers"):
                value = getattr(node, name, None)
                if isinstance(value, Buffer) and value.root in self.wanted:
                    found.add(value.root)
        return found


def live_ranges(statements: Sequence[Any], memories: Collection[Buffer]) -> dict[Buffer, tuple[int, int]]:
    """First and last position in program order at which each memory may hold something of use; of one never mentioned, none."""
    found = _Ranges(frozenset(memories))
    found.visit(statements)
    return found.ranges


def resources_that_meet(packing: Packing, resources: Mapping[Buffer, frozenset[Any]]) -> dict[Any, frozenset[Any]]:
    """The same for what touches name: by each resource those whose memory shares bytes with its own."""
    return {
        resource: frozenset(r for other in others for r in resources.get(other, ()))
        for memory, others in packing.meets.items()
        for resource in resources.get(memory, ())
    }
