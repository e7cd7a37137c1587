"""Where each tile lives in its space, and how many versions of it fit.

In: the tiles of a block with their spaces, versions and roles. Out: placements, or :class:`Excess`, what does not fit and where. Tiles of
one role whose live ranges do not meet share bytes; a tile with versions or of several roles has bytes of its own, since roles do not run
in program order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zellige.diagnostics import ZelligeError, catalogue
from zellige.ir.expr import Buffer, constant_value
from zellige.plan.facts import LaunchFacts, bytes_of
from zellige.plan.nodes import Placement
from zellige.plugin.contract import Space
from zellige.records import dataclass

_ROUND: Final = 16
"""What the number of rows that a message proposes is a multiple of, where it is larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A buffer to place. ``is_alone``: its bytes may not be shared with another one's; else with tiles of the same ``owner``, a role,
    only."""

    buffer: Buffer
    space: Space
    slots: int = 1
    is_alone: bool = False
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A space that is too small: ``needed`` bytes for ``tiles``."""

    space: Space
    needed: int
    tiles: tuple[Tile, ...]


def place(facts: LaunchFacts, tiles: Sequence[Tile]) -> tuple[Placement, ...] | Excess:
    """Placements of all tiles whose size is constant, or the first space that they do not fit."""
    live = facts.live_ranges()
    placed: list[Placement] = []
    for space in dict.fromkeys(t.space for t in tiles):
        mine = [t for t in tiles if t.space == space]
        top = base = 0
        order = sorted(mine, key=lambda t: not (t.is_alone or t.slots > 1))
        shared: dict[str, list[Placement]] = {}
        in_use: dict[str, list[tuple[Placement, tuple[int, int]]]] = {}  # of ``shared``, what a tile to come may meet
        starts = _starts_to_come([(tile.owner, live.get(tile.buffer, (0, 0))[0]) for tile in order])
        for tile, soonest in zip(order, starts):
            size = bytes_of(tile.buffer)
            if size is None:
                continue
            size = _up(size, space.alignment)
            if tile.is_alone or tile.slots > 1:
                offset = top
                base = offset + size * tile.slots
                placed.append(_placement(tile, offset, size))
            else:
                span = live.get(tile.buffer, (0, 0))
                mates = in_use[tile.owner] = [(p, other) for p, other in in_use.get(tile.owner, ()) if other[1] >= soonest]
                meeting = [p for p, other in mates if other[0] <= span[1] and span[0] <= other[1]]
                meeting += [p for owner, theirs in shared.items() if owner != tile.owner for p in theirs]
                made = _placement(tile, _first_fit(size, meeting, base=base), size)
                offset = made.offset
                shared.setdefault(tile.owner, []).append(made)
                mates.append((made, span))
                placed.append(made)
            top = max(top, offset + size * tile.slots)
        if space.bytes is not None and top > space.bytes:
            return Excess(space=space, needed=top, tiles=tuple(mine))
    return tuple(placed)


def _starts_to_come(starts: Sequence[tuple[str, int]]) -> list[int]:
    """For each of the owners and starts the least start of the same owner from there on."""
    least: dict[str, int] = {}
    found = []
    for owner, start in reversed(starts):
        least[owner] = min(start, least.get(owner, start))
        found.append(least[owner])
    return found[::-1]


def covered_bytes(placements: Sequence[Placement]) -> int:
    """How many bytes the placements of one space take together; bytes that several share count once."""
    total = end = 0
    for placement in sorted(placements, key=lambda p: p.offset):
        top = placement.offset + placement.bytes * placement.slots
        total += max(0, top - max(end, placement.offset))
        end = max(end, top)
    return total


def _placement(tile: Tile, offset: int, size: int) -> Placement:
    return Placement(buffer=tile.buffer, space=tile.space.name, offset=offset, bytes=size, slots=tile.slots, alignment=tile.space.alignment)


def _first_fit(size: int, meeting: Sequence[Placement], *, base: int) -> int:
    """The lowest offset from ``base`` at which none of ``meeting`` lies."""
    offset = base
    for other in sorted(meeting, key=lambda p: p.offset):
        if offset + size <= other.offset:
            break
        offset = max(offset, other.offset + other.bytes)
    return offset


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def too_large(excess: Excess, facts: LaunchFacts, target: str) -> ZelligeError:
    """E301 with every tile of the space of ``target``, the limit, and what would fit."""
    limit = excess.space.bytes or 0
    listed = sorted(excess.tiles, key=lambda t: -(bytes_of(t.buffer) or 0) * t.slots)
    sized = ((t.buffer, bytes_of(t.buffer) or 0, t.slots) for t in listed)
    lines = ", ".join(f"{buffer.label} {_shape(buffer)} {buffer.dtype} of {size} bytes x {slots}" for buffer, size, slots in sized)
    return catalogue.E301.error(
        facts.launch.span, space=excess.space.name, target=target, limit=limit, needed=excess.needed, tiles=lines,
        fits=_what_fits(excess, listed, limit),
    )  # fmt: skip


def _what_fits(excess: Excess, listed: Sequence[Tile], limit: int) -> str:
    """A sentence that names the largest tile and the rows of it for which the space has room beside the others."""
    largest = listed[0]
    size = bytes_of(largest.buffer) or 0
    left = limit - (excess.needed - size * largest.slots)
    rows = constant_value(largest.buffer.shape[0]) if largest.buffer.shape else None
    if not rows or left <= 0:
        return f"the tiles must become {-(-excess.needed // max(limit, 1))} times smaller"
    fitting = int(left // max(1, size // int(rows) * largest.slots))
    if fitting < 1:
        return f"the tiles must become {-(-excess.needed // max(limit, 1))} times smaller"
    if fitting > _ROUND:
        fitting -= fitting % _ROUND  # the rest is for gaps between rows
    return f"{largest.buffer.label} with {fitting} rows instead of {rows} would fit there"


def _shape(buffer: Buffer) -> str:
    return "x".join(str(constant_value(e)) if constant_value(e) is not None else "?" for e in buffer.shape) or "scalar"
