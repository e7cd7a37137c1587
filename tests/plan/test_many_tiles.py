"""Many tiles are placed where each of them would be by comparing it with all that are placed already."""

from __future__ import annotations

import random
from typing import Any

import pytest

from zellige.dtypes import dtype
from zellige.ir.expr import INT32, Buffer, Const
from zellige.plan.place import Tile, place
from zellige.plugin.contract import Space


class Facts:
    """As much of the facts of a launch as placing asks for."""

    def __init__(self, live: dict[Buffer, tuple[int, int]]) -> None:
        self._live = live

    def live_ranges(self) -> dict[Buffer, tuple[int, int]]:
        return self._live


def by_comparing_all(tiles: list[Tile], live: dict[Buffer, tuple[int, int]]) -> dict[str, int]:
    """The lowest free offset for each tile in turn; every tile has four bytes an element, and alignment is 8."""
    found: list[tuple[Tile, int, int]] = []
    base = top = 0
    for tile in sorted(tiles, key=lambda t: not (t.is_alone or t.slots > 1)):
        size = -(-4 * int(tile.buffer.shape[0].value) // 8) * 8
        if tile.is_alone or tile.slots > 1:
            offset, base = top, top + size * tile.slots
        else:
            first, last = live.get(tile.buffer, (0, 0))
            offset = base
            for other, at, length in sorted(found, key=lambda entry: entry[1]):
                begin, end = live.get(other.buffer, (0, 0))
                if other.is_alone or other.slots > 1 or (other.owner == tile.owner and (last < begin or end < first)):
                    continue
                if offset + size > at:
                    offset = max(offset, at + length)
        found.append((tile, offset, size))
        top = max(top, offset + size * tile.slots)
    return {tile.buffer.name: offset for tile, offset, _ in found}


@pytest.mark.parametrize("seed", range(40))
def test_tiles_lie_where_comparing_all_puts_them(seed: int) -> None:
    chosen = random.Random(seed)
    space = Space(name="shared", alignment=8)
    tiles, live = [], {}
    for number in range(chosen.randrange(1, 40)):
        shape = (Const(value=chosen.randrange(1, 9), dtype=INT32),)
        buffer = Buffer(name=f"t{number}", dtype=dtype("float32"), shape=shape, space="shared")
        begin = number if chosen.random() < 0.7 else chosen.randrange(40)
        if chosen.random() < 0.95:
            live[buffer] = (begin, begin + chosen.randrange(6))
        slots, is_alone = chosen.choice((1, 1, 1, 3)), chosen.random() < 0.1
        tiles.append(Tile(buffer=buffer, space=space, slots=slots, is_alone=is_alone, owner=chosen.choice(("a", "a", "b"))))
    facts: Any = Facts(live)
    placed = place(facts, tiles)
    assert isinstance(placed, tuple)
    assert {p.buffer.name: p.offset for p in placed} == by_comparing_all(tiles, live)
