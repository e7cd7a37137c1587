"""Layouts that spread a tile over lanes: for elementwise work and reductions, and of an instruction's fragment over groups of lanes.

In: a tile's dimensions (outermost first) and numbers of lanes. Out: layouts from (register, lane, ...) to the tile's indices. Any extents
and any number of lanes have one: where lanes are too many, elements are held several times; where they do not divide, the last ones are
masked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zellige.diagnostics import catalogue
from zellige.layouts.algebra import copies, product
from zellige.layouts.build import mixed
from zellige.layouts.layout import Layout, Sizes

REGISTER, LANE = "register", "lane"


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A tile over the lanes of a block. ``layout`` maps (register, lane) to indices of a box that holds the tile.

    Points outside of ``tile`` (``is_masked``) belong to no element. ``vector`` neighbouring elements of the last dimension lie in
    neighbouring registers of a lane, aligned to ``vector``.
    """

    tile: tuple[tuple[str, int], ...]
    layout: Layout
    vector: int

    @property
    def registers(self) -> int:
        return self.layout.axis(REGISTER).size

    @property
    def copies(self) -> int:
        """How many lanes hold each element: a store writes once, a sum over all lanes counts each element so often."""
        return copies(self.layout)

    @property
    def is_masked(self) -> bool:
        return tuple(self.layout.output_sizes.items()) != self.tile


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """How one dimension is divided: ``vector`` neighbours a register group, then ``lanes``, then ``repeats`` in further registers."""

    name: str
    vector: int
    lanes: int
    repeats: int


def distribute(tile: Sizes, lanes: int, vector: int = 1) -> Distribution:
    """The distribution with the least work a lane: registers to compute and vectors to move; of equals the one with fewer masks.

    Lanes that follow each other hold neighbouring vectors of the last dimension. E320 for numbers below 1.
    """
    pairs = tuple(dict(tile).items())
    if lanes < 1 or vector < 1 or not pairs or any(extent < 1 for _, extent in pairs):
        raise catalogue.E320.error(operation="a distribution", reason=f"{dict(pairs)} over {lanes} lanes in vectors of {vector}")
    ways = [
        (splits, spare)
        for width in range(min(vector, pairs[-1][1]), 0, -1)
        if vector % width == 0 and pairs[-1][1] % width == 0
        for splits, spare in _ways(pairs, lanes, width)
    ]
    splits, spare = min(ways, key=lambda way: _cost(pairs, way[0]))
    return Distribution(tile=pairs, layout=_layout(splits, spare), vector=splits[-1].vector)


def _ways(pairs: Sequence[tuple[str, int]], lanes: int, width: int) -> list[tuple[list[_Split], int]]:
    """All ways to give lanes to dimensions, rounding extents up where they do not divide, and the number of copies that are left."""
    ways: list[tuple[list[_Split], int]] = [([], lanes)]
    for name, extent in reversed(pairs):
        own = width if not ways[0][0] else 1
        groups = extent // own
        ways = [
            ([_Split(name=name, vector=own, lanes=taken, repeats=-(-groups // taken)), *splits], spare // taken)
            for splits, spare in ways
            for taken in range(1, spare + 1)
            if spare % taken == 0 and taken < 2 * groups
        ]
    return ways


def _cost(pairs: Sequence[tuple[str, int]], splits: Sequence[_Split]) -> tuple[int, ...]:
    """Registers and vectors of them, then dimensions that are masked, then lanes away from the last dimension."""
    registers = math.prod(split.vector * split.repeats for split in splits)
    masked = sum(split.vector * split.lanes * split.repeats != extent for split, (_, extent) in zip(splits, pairs))
    return (registers + registers // splits[-1].vector, registers, masked, *(-split.lanes for split in reversed(splits)))


def _layout(splits: Sequence[_Split], spare: int) -> Layout:
    dense = list(reversed(splits))
    registers = [(split.vector, {split.name: 1}) for split in dense]
    registers += [(split.repeats, {split.name: split.vector * split.lanes}) for split in dense]
    lane_digits: list[tuple[int, Mapping[str, int]]] = [(split.lanes, {split.name: split.vector}) for split in dense]
    sizes = {split.name: split.vector * split.lanes * split.repeats for split in splits}
    return mixed({REGISTER: registers, LANE: [*lane_digits, (spare, {})]}, sizes)


def tiled(fragment: Layout, tile: Sizes, groups: Mapping[str, Mapping[str, int]], *, is_interleaved: bool = False) -> Layout:
    """An instruction's ``fragment`` repeated over a tile, shared among groups of lanes.

    ``groups`` names further inputs, fastest first, and how many of them stand along each dimension: ``{"warp": {"m": 4, "n": 2}}``. Along a
    dimension that the fragment lacks they hold copies. Each group has a contiguous part of the tile, or with ``is_interleaved`` every
    n-th fragment of it. Repeats are in registers, those of the last dimension first. E323 where the tile is not made up so.
    """
    sizes = dict(tile)
    missing = sorted(set(sizes) ^ set(fragment.output_sizes))
    if missing:
        raise catalogue.E323.error(reason=f"{', '.join(missing)} is a dimension of the tile or the fragment only")
    if any(count < 1 for counts in groups.values() for count in counts.values()):
        raise catalogue.E323.error(reason=f"less than one group of lanes along a dimension: {dict(groups)}")
    repeats = {}
    for name, extent in sizes.items():
        step = fragment.output_sizes[name] * math.prod(counts.get(name, 1) for counts in groups.values())
        if extent % step:
            raise catalogue.E323.error(reason=f"{name} has {extent} points, no multiple of the {step} that all groups hold at once")
        repeats[name] = extent // step
    again = mixed({REGISTER: [(repeats[name], {name: 1}) for name in reversed(list(sizes))]}, repeats)
    across = _groups(groups, list(sizes))
    return product(product(fragment, across), again) if is_interleaved else product(product(fragment, again), across)


def _groups(groups: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> Layout:
    """Groups of lanes along dimensions: the first dimension named fastest."""
    done = dict.fromkeys(names, 1)
    digits: dict[str, list[tuple[int, Mapping[str, int]]]] = {}
    for group, counts in groups.items():
        digits[group] = []
        for name, count in counts.items():
            digits[group].append((count, {name: done[name]} if name in done else {}))
            if name in done:
                done[name] *= count
    return mixed(digits, done)
