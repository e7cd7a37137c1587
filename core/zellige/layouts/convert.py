"""Moving a tile from one distribution over lanes to another: by renaming registers, by shuffles, or through shared memory.

In: two layouts from (register, lane, and outer inputs such as warp) to the same tile. Out: the cheapest conversion, found from the map
"target's holder -> source's holder", the inverse of one layout after the other: where it moves registers only, nothing is moved; where
lanes, values are shuffled in rounds; where outer inputs, the tile goes through memory, in a layout free of bank conflicts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from zellige.diagnostics import catalogue
from zellige.diagnostics.error import ZelligeError
from zellige.layouts import bits
from zellige.layouts.access import vector_width
from zellige.layouts.algebra import compose, cut_digits, free_digits, loose_digits, right_inverse, sliced
from zellige.layouts.banks import Access, Banks, conflict_degree, conflict_free
from zellige.layouts.build import OFFSET, padded, row_major
from zellige.layouts.digits import Digit, strided
from zellige.layouts.distribute import LANE, REGISTER
from zellige.layouts.layout import Layout, layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """Register r of the target is register ``sources[r]`` of the source, in the same lane."""

    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One shuffle of all lanes of a group: lane l offers its register ``offered[l]``, lane l takes what lane ``sources[l]`` offers and puts
    it into its register ``received[l]``."""

    sources: tuple[int, ...]
    offered: tuple[int, ...]
    received: tuple[int, ...]

    @property
    def mask(self) -> int | None:
        """The number m where every lane l takes from lane ``l ^ m``: a butterfly; 0 where nothing crosses lanes."""
        first = self.sources[0]
        return first if all(source == lane ^ first for lane, source in enumerate(self.sources)) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """Rounds within a group of lanes, then copies of registers: (from, to) of the target, which hold the same elements."""

    rounds: tuple[Round, ...]
    duplicates: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughMemory:
    """Stored as ``source`` holds it, a barrier, loaded as the target wants it. ``memory`` maps the tile's indices to an offset.

    ``store_vector`` and ``load_vector`` are elements an access, the degrees the turns that each access takes (1: free of conflicts).
    """

    memory: Layout
    store_vector: int
    load_vector: int
    store_degree: int
    load_degree: int


Conversion: TypeAlias = Rename | Shuffle | ThroughMemory


def convert(
    source: Layout,
    target: Layout,
    *,
    bits_per_element: int,
    banks: Banks | None = None,
    widest: int = 16,
    most_rounds: int | None = None,
) -> Conversion:
    """How a tile distributed as ``source`` becomes distributed as ``target``.

    ``banks`` are those of the shared memory (32 of 4 bytes unless given), ``widest`` the bytes of its widest access; shuffles of more than
    ``most_rounds`` rounds go through memory instead. Raises E320 where the two do not hold the same tile, E322 where ``source`` does not
    hold every element.
    """
    if source.output_sizes != target.output_sizes:
        reason = f"a tile of {source.output_sizes} does not become one of {target.output_sizes}"
        raise catalogue.E320.error(operation="convert", reason=reason)
    try:
        holders = holder_map(source, target)
    except ZelligeError as error:
        if error.code != catalogue.E321.id:
            raise
        holders = None  # the factors of the two do not line up: only memory joins them
    if holders is not None and _keeps_outer(holders, source):
        renamed = _rename(holders)
        if renamed is not None:
            return renamed
        shuffled = _shuffle(holders, _copying_lanes(source), most_rounds)
        if shuffled is not None:
            return shuffled
    return _through_memory(source, target, bits_per_element, banks or Banks(), widest)


def holder_map(source: Layout, target: Layout) -> Layout:
    """From each input point of ``target`` to the input point of ``source`` that holds the same element, the nearest of several."""
    return _nearest(compose(target, right_inverse(source)), source)


def _nearest(holders: Layout, source: Layout) -> Layout:
    """Where the source has copies in other lanes, each lane takes the one whose number agrees with its own."""
    axes = {axis.name: digits for axis, digits in zip(holders.inputs, loose_digits(holders))}
    names = list(holders.output_sizes)
    for free in free_digits(source):
        copied = next((d for w, d in _weighted(source.axis(free.axis).digits) if w == free.weight), None)
        same_size = holders.input_sizes.get(free.axis) == source.input_sizes[free.axis]
        if free.axis == REGISTER or copied is None or not copied.is_free or not same_size:
            continue
        try:
            low, rest = cut_digits(axes[free.axis], free.weight, free.axis)
            middle, high = cut_digits(rest, free.extent, free.axis)
        except ZelligeError:
            continue  # the target's digits are cut elsewhere: any copy serves
        own = names.index(free.axis)
        weight, moved = free.weight, []
        for digit in middle:
            strides = tuple(stride + (weight if n == own else 0) for n, stride in enumerate(digit.strides))
            moved.append(replace(digit, strides=strides))
            weight *= digit.extent
        axes[free.axis] = [*low, *moved, *high]
    return layout(axes, holders.output_sizes)


def _weighted(digits: Sequence[Digit]) -> list[tuple[int, Digit]]:
    weight, found = 1, []
    for digit in digits:
        found.append((weight, digit))
        weight *= digit.extent
    return found


def _keeps_outer(holders: Layout, source: Layout) -> bool:
    """Whether no element crosses the outer inputs, and nothing within a lane depends on them."""
    outer = [name for name in source.input_sizes if name not in (REGISTER, LANE)]
    if {name for name in holders.input_sizes if name not in (REGISTER, LANE)} != set(outer):
        return False
    for name in outer:
        if holders.input_sizes[name] != source.input_sizes[name] or not _is_identity(holders, name):
            return False
    return all(digit.is_free for name in outer for digit in sliced(holders, outer).axis(name).digits)


def _is_identity(holders: Layout, name: str) -> bool:
    """Whether the output ``name`` is the input of that name and depends on nothing else."""
    alone = sliced(holders, [other for other in holders.output_sizes if other != name])
    free = {axis.name: [strided(axis.size, (int(axis.name == name),))] for axis in holders.inputs}
    return alone == layout(free, {name: holders.output_sizes[name]})


def _rename(holders: Layout) -> Rename | None:
    if LANE in holders.output_sizes:
        if LANE not in holders.input_sizes or not _is_identity(holders, LANE):
            return None
        if not all(d.is_free for d in sliced(holders, [n for n in holders.output_sizes if n != REGISTER]).axis(LANE).digits):
            return None
    count = holders.axis(REGISTER).size
    zero = dict.fromkeys(holders.input_sizes, 0)
    return Rename(sources=tuple(holders.at(**{**zero, REGISTER: r})[REGISTER] for r in range(count)))


# ---- shuffles ----


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """Images of the target's lane and register bits in the source: lanes, and registers above them."""

    lane: tuple[int, ...]
    register: tuple[int, ...]
    width: int  # bits of a lane's number

    def source(self, register: int, lane: int) -> tuple[int, int]:
        """(lane, register) of the source."""
        image = bits.combined(self.lane, lane) ^ bits.combined(self.register, register)
        return image & ((1 << self.width) - 1), image >> self.width


def _copying_lanes(source: Layout) -> tuple[int, ...]:
    """The bits of a lane's number on which nothing depends: lanes that differ in them hold the same."""
    digits = source.axis(LANE).digits if LANE in source.input_sizes else ()
    return tuple(weight for weight, digit in _weighted(digits) if digit.extent == 2 and digit.is_free and not weight & (weight - 1))


def _shuffle(holders: Layout, copying: Sequence[int], most_rounds: int | None) -> Shuffle | None:
    """Rounds where the lanes are linear: each takes register ``t ^ G(lane)`` of every lane, G chosen so that every lane offers one."""
    inner = sliced(holders, [name for name in holders.output_sizes if name not in (REGISTER, LANE)])
    sizes = {REGISTER: holders.output_sizes.get(REGISTER, 1), LANE: holders.output_sizes.get(LANE, 1)}
    lanes = inner.input_sizes.get(LANE, 1)
    if lanes != sizes[LANE] or lanes & (lanes - 1):
        return None
    width = lanes.bit_length() - 1
    places = [inner.output(name) if name in inner.output_sizes else None for name in (LANE, REGISTER)]
    low: dict[str, list[int]] = {REGISTER: [], LANE: []}
    repeats: list[tuple[int, int, int]] = []  # of odd digits of registers: weight, extent, step in the source's registers
    for name in (REGISTER, LANE):
        for weight, digit in _weighted(inner.axis(name).digits if name in inner.input_sizes else ()):
            images = [(digit.strides[p] ^ digit.flips[p]) if p is not None else 0 for p in places]
            if digit.is_bit and weight == 1 << len(low[name]):
                low[name].append(images[0] | images[1] << width)
            elif name == LANE or images[0] or digit.is_bit:
                return None
            else:
                repeats.append((weight, digit.extent, images[1]))
    columns = _Columns(lane=tuple(low[LANE]), register=tuple(low[REGISTER]), width=width)
    rounds = math.prod(extent for _, extent, _ in repeats) << len(bits.independent(columns.register))
    if most_rounds is not None and rounds > most_rounds:
        return None
    return _scheduled(columns, repeats, copying)


def _scheduled(columns: _Columns, repeats: Sequence[tuple[int, int, int]], copying: Sequence[int]) -> Shuffle | None:
    own = len(columns.register)
    kept = bits.independent(columns.register)  # the other register bits are copies within a lane
    needed = [columns.register[bit] for bit in kept]
    found = _choice(columns.lane, needed, columns.width, copying)
    if found is None:
        return None
    choice = found[0]
    columns = replace(columns, lane=tuple(lane ^ other for lane, other in zip(columns.lane, found[1])))
    rounds = []
    offsets = _offsets(repeats)
    for to_add, from_add in offsets:
        rounds += [_round(columns, kept, t, choice, to_add, from_add) for t in range(1 << len(kept))]
    duplicates = _duplicates(columns, kept, [to_add for to_add, _ in offsets]) if len(kept) < own else []
    return Shuffle(rounds=tuple(rounds), duplicates=tuple(duplicates))


def _offsets(repeats: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """All values of the odd digits: offsets in the target's registers and in the source's."""
    found = [(0, 0)]
    for weight, extent, step in repeats:
        found = [(to_add + v * weight, from_add + v * step) for v in range(extent) for to_add, from_add in found]
    return found


def _choice(
    lane: Sequence[int], register: Sequence[int], width: int, copying: Sequence[int]
) -> tuple[list[int], list[int]] | None:
    """(G, H): for each lane bit the (kept) register bits and the copying lane bits to add, such that no lane must offer two registers.

    Lanes whose sources agree either want the same element (with some register added) or are told apart: by a register bit that moves them
    to a source nobody asks, or by asking another copy. None where there is no such choice.
    """
    mask = (1 << width) - 1
    others = [0] * len(lane)
    basis: list[tuple[int, int]] = []  # lane vector, its image under G
    wanted, sources = bits.Span(), bits.Span()
    for lift in bits.kernel([*lane, *register]):  # combinations of lane and register bits that hold one element
        vector = lift & ((1 << len(lane)) - 1)
        wanted.add(vector)
        basis.append((vector, lift >> len(lane)))
    undecided = []
    for bit in range(len(lane)):
        if wanted.add(1 << bit):
            if sources.add(lane[bit] & mask):
                basis.append((1 << bit, 0))
            else:
                undecided.append(bit)
    for bit in undecided:
        rest = lane[bit] & mask
        position = next((n for n, column in enumerate(register) if sources.add((column & mask) ^ rest)), None)
        if position is None:
            if any(vector >> bit & 1 for vector, _ in basis):
                return None  # another lane with the same element would ask another copy
            others[bit] = next((copy for copy in copying if sources.add(rest ^ copy)), 0)
            if not others[bit]:
                return None
        basis.append((1 << bit, 0 if position is None else 1 << position))
    inverse = bits.inverse([vector for vector, _ in basis])
    if inverse is None:
        return None
    return [bits.combined([image for _, image in basis], column) for column in inverse], others


def _round(columns: _Columns, kept: Sequence[int], t: int, choice: Sequence[int], to_add: int, from_add: int) -> Round:
    lanes = 1 << columns.width
    sources, received, offered = [], [], [0] * lanes
    for lane in range(lanes):
        chosen = t ^ bits.combined(choice, lane)
        register = sum(1 << bit for n, bit in enumerate(kept) if chosen >> n & 1)
        source, held = columns.source(register, lane)
        sources.append(source)
        received.append(register + to_add)
        offered[source] = held + from_add
    return Round(sources=tuple(sources), offered=tuple(offered), received=tuple(received))


def _duplicates(columns: _Columns, kept: Sequence[int], offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Registers of the target that hold the same as one that a round fills."""
    vectors = [columns.register[bit] for bit in kept]
    found = []
    for register in range(1 << len(columns.register)):
        if any(register >> bit & 1 for bit in range(len(columns.register)) if bit not in kept):
            mask = bits.solve(vectors, bits.combined(columns.register, register))
            assert mask is not None  # the kept ones span all
            origin = sum(1 << bit for n, bit in enumerate(kept) if mask >> n & 1)
            found += [(origin + offset, register + offset) for offset in offsets]
    return found


# ---- memory ----


def _through_memory(source: Layout, target: Layout, bits_per_element: int, banks: Banks, widest: int) -> ThroughMemory:
    """The storage with the fewest turns: an exchange without conflicts where there is one, else rows, with padding where that helps."""
    tile = list(source.output_sizes.items())
    limit = max(1, widest * 8 // bits_per_element)
    plain = _composed([source, target], row_major(tile))
    widths = [vector_width(access, limit).width for access in plain or ()]
    best: ThroughMemory | None = None
    for memory in _storages(tile, (source, target), widths, banks, bits_per_element):
        found = _judged(memory, source, target, bits_per_element, banks, limit)
        if found is None:
            continue
        if (found.store_degree, found.load_degree) == (1, 1) and [found.store_vector, found.load_vector] == widths:
            return found  # as wide as rows allow, and one turn each
        if best is None or _cost(found, source, target) < _cost(best, source, target):
            best = found
    if best is None:
        raise catalogue.E325.error(reason="no storage of the tile lines up with both distributions")
    return best


def _storages(
    tile: Sequence[tuple[str, int]], values: tuple[Layout, Layout], widths: Sequence[int], banks: Banks, bits_per_element: int
) -> Iterator[Layout]:
    """Storages to try: without conflicts, rows with and without padding, rows of powers of two with odd factors outside."""
    if widths:
        try:
            pair = [Access(layout=value, vector=width) for value, width in zip(values, widths)]
            yield conflict_free(tile, pair, banks, bits_per_element=bits_per_element)
        except ZelligeError as error:
            if error.code not in ("E321", "E325"):
                raise
    if len(tile) > 1:
        yield from (padded(tile, max(widths, default=1) * count) for count in (0, 1, 2))
    else:
        yield row_major(tile)
    yield conflict_free(tile, [], banks, bits_per_element=bits_per_element)


def _cost(way: ThroughMemory, source: Layout, target: Layout) -> tuple[int, int, int]:
    """Turns of the memory, then accesses, then elements of memory."""
    turns = source.axis(REGISTER).size * way.store_degree + target.axis(REGISTER).size * way.load_degree
    accesses = source.axis(REGISTER).size // way.store_vector + target.axis(REGISTER).size // way.load_vector
    return turns, accesses, way.memory.output_sizes[OFFSET]


def _composed(values: Sequence[Layout], memory: Layout) -> list[Layout] | None:
    """Where the registers of each distribution lie in memory; None where digits do not line up."""
    try:
        return [compose(value, memory) for value in values]
    except ZelligeError as error:
        if error.code != catalogue.E321.id:
            raise
        return None


def _judged(memory: Layout, source: Layout, target: Layout, bits_per_element: int, banks: Banks, limit: int) -> ThroughMemory | None:
    """The way through a storage: the vectors that it allows and the turns that they take; None where it lines up with neither."""
    accesses = _composed([source, target], memory)
    if accesses is None:
        return None
    vectors = [vector_width(access, limit).width for access in accesses]
    turns = [conflict_degree(access, banks, bits_per_element=bits_per_element, vector=v) for access, v in zip(accesses, vectors)]
    return ThroughMemory(memory=memory, store_vector=vectors[0], load_vector=vectors[1], store_degree=turns[0], load_degree=turns[1])
