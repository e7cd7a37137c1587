"""Bank conflicts of memory accesses, and memory layouts without them.

In: where lanes read or write (layouts to ``offset``, in elements) and the banks of a memory. Out: how many turns an access takes, by a rank
over the field of two elements where the lanes are linear and by counting where they are not; and a layout of memory in which given accesses
take one turn each, found by the same rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from zellige.diagnostics import catalogue
from zellige.layouts import bits
from zellige.layouts.algebra import compose, product
from zellige.layouts.build import OFFSET, from_bases, row_major
from zellige.layouts.distribute import LANE, REGISTER
from zellige.layouts.layout import Array, Layout

SEARCH_LIMIT = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Banks:
    """Memory that serves one word of each bank in a turn: ``count`` banks of words of ``width`` bytes, both powers of two.

    Lanes that want more bytes than all banks give are served in phases of neighbouring lanes; lanes that want one word share it.
    """

    count: int = 32
    width: int = 4

    def __post_init__(self) -> None:
        if self.count < 1 or self.count & (self.count - 1) or self.width < 1 or self.width & (self.width - 1):
            raise catalogue.E320.error(operation="banks", reason=f"{self.count} banks of {self.width} bytes are no powers of two")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Lanes that each move ``vector`` neighbouring elements: ``layout`` maps (register, lane, ...) to indices of a tile."""

    layout: Layout
    vector: int = 1


def conflict_degree(access: Layout, banks: Banks, *, bits_per_element: int, vector: int = 1, lane: str = LANE) -> int:
    """The turns that each phase of an access takes, 1 at best. ``access`` maps ``lane`` (and more, taken as 0) to ``offset``."""
    linear = _lane_columns(access, lane)
    lanes = _lanes_of_a_phase(access.axis(lane).size, banks, bits_per_element * vector)
    powers = not (bits_per_element * vector) & (bits_per_element * vector - 1)
    if linear is None or not powers or lanes & (lanes - 1):
        return counted_degree(access, banks, bits_per_element=bits_per_element, vector=vector, lane=lane)
    words = _word_columns(linear[: lanes.bit_length() - 1], banks, bits_per_element, vector)
    return 1 << (bits.rank(words) - bits.rank(word & (banks.count - 1) for word in words))


def counted_degree(access: Layout, banks: Banks, *, bits_per_element: int, vector: int = 1, lane: str = LANE) -> int:
    """As :func:`conflict_degree`, by listing the words that every phase wants."""
    size = access.axis(lane).size
    offsets = access.apply({name: np.arange(size) if name == lane else 0 for name in access.input_sizes})[OFFSET]
    elements = offsets[:, None] + np.arange(vector)
    words = elements * bits_per_element // (8 * banks.width)
    lanes = _lanes_of_a_phase(size, banks, bits_per_element * vector)
    worst = 1
    for start in range(0, size, lanes):
        wanted = np.unique(words[start : start + lanes])
        worst = max(worst, int(np.bincount(wanted % banks.count).max()))
    return worst


def phase_degrees(addresses: Array, lanes: Array, size: int, banks: Banks) -> list[int]:
    """The turns of each phase of an access in which lanes (by number) touch ``size`` bytes each at ``addresses`` in bytes."""
    words = max(1, size // banks.width)
    phases = lanes // max(1, banks.count // words)
    touched = (addresses // banks.width)[:, None] + np.arange(words)
    return [int(np.bincount(np.unique(touched[phases == phase]) % banks.count).max()) for phase in np.unique(phases)]


def _lanes_of_a_phase(lanes: int, banks: Banks, bits_per_lane: int) -> int:
    return max(1, min(lanes, banks.count * banks.width * 8 // bits_per_lane))


def _lane_columns(access: Layout, lane: str) -> list[int] | None:
    """The images of a lane's bits, where it has no other digits."""
    digits = access.axis(lane).digits
    position = access.output(OFFSET)
    return [digit.flips[position] for digit in digits] if all(digit.is_bit for digit in digits) else None


def _word_columns(columns: Sequence[int], banks: Banks, bits_per_element: int, vector: int) -> list[int]:
    """The images of lanes' and a vector's bits as words, without those that stay within a word."""
    own = [1 << bit for bit in range(vector.bit_length() - 1)]
    words = [column * bits_per_element // (8 * banks.width) for column in (*columns, *own)]
    return [word for word in words if word]


# ---- memory without conflicts ----


def conflict_free(tile: Sequence[tuple[str, int]], accesses: Sequence[Access], banks: Banks, *, bits_per_element: int) -> Layout:
    """A memory layout of ``tile`` in which every access takes one turn: rows stay rows, pieces within a row change places.

    Where no such exchange exists and there are at most two accesses, rows are mixed too. Odd factors of extents repeat the exchange.
    Raises E325 where no layout was found (for three and more accesses there may be none).
    """
    box = [(name, extent & -extent) for name, extent in tile]
    patterns = [_pattern(access, box, banks, bits_per_element) for access in accesses]
    unit = max((access.vector for access in accesses), default=1)
    per_word = max(1, 8 * banks.width // bits_per_element)
    words = math.prod(extent for _, extent in box) // per_word
    width = banks.count.bit_length() - 1
    depth = max(0, words.bit_length() - 1)
    kept = max(1, unit // per_word).bit_length() - 1
    rows = _exchange(patterns, width, depth, kept)
    if rows is not None:
        images = [1 << bit if bit < width else (1 << bit) ^ rows[bit - width] for bit in range(depth)]
    else:
        images = _mixed_rows(patterns, width, depth, max(1, min(access.vector for access in accesses) // per_word))
    within = per_word.bit_length() - 1 if words else math.prod(extent for _, extent in box).bit_length() - 1
    columns = [1 << bit for bit in range(within)] + [image << within for image in images]
    return _repeated(tile, box, columns)


def _pattern(access: Access, box: Sequence[tuple[str, int]], banks: Banks, bits_per_element: int) -> bits.Span:
    """The words that one phase of an access wants, as a subspace."""
    flat = row_major(box)
    weights = {name: flat.at(**{other: int(other == name and extent > 1) for other, _ in box})[OFFSET] for name, extent in box}
    columns = []
    for digit in access.layout.axis(LANE).digits:
        image = 0
        for (name, extent), position in ((pair, access.layout.output(pair[0])) for pair in box):
            if not digit.is_bit or digit.flips[position] >= max(extent, 1):
                reason = f"lanes reach beyond {extent} points of {name}, the part of it that is a power of two"
                raise catalogue.E325.error(reason=reason)
            image |= digit.flips[position] * weights[name]
        columns.append(image)
    lanes = _lanes_of_a_phase(access.layout.axis(LANE).size, banks, bits_per_element * access.vector)
    return bits.span(_word_columns(columns[: lanes.bit_length() - 1], banks, bits_per_element, access.vector))


def _exchange(patterns: Sequence[bits.Span], width: int, depth: int, kept: int) -> list[int] | None:
    """For each bit of the row number the places that it exchanges (a mask of bank bits from ``kept`` up); None where none is found.

    Words in one bank are a subspace: that spanned by row bits, each with its exchange. No access may want two words of it.
    """
    levels = [[bits.span(row[0] for row in pattern.rows.values()) for pattern in patterns]]
    chosen: list[int] = []
    choices: list[Iterator[int]] = []
    visited = 0
    while len(chosen) < depth - width:
        row = len(chosen)
        if len(choices) == row:
            choices.append(iter(_preferred(row, width, kept)))
        for places in choices[-1]:
            visited += 1
            same_bank = 1 << (width + row) ^ places
            if all(same_bank not in found for found in levels[-1]):
                chosen.append(places)
                levels.append([found.extended(same_bank) for found in levels[-1]])
                break
        else:
            choices.pop()
            if not chosen or visited > SEARCH_LIMIT:
                return None
            chosen.pop()
            levels.pop()
    return chosen


def _preferred(row: int, width: int, kept: int) -> list[int]:
    """The exchanges for a row bit: none, one place in turn, then all others."""
    free = width - kept
    if free < 1:
        return [0]
    usual = [0, 1 << (kept + row % free)] if row >= free else [1 << (kept + row), 0]
    return usual + [places << kept for places in range(1 << free) if places << kept not in usual]


def _mixed_rows(patterns: Sequence[bits.Span], width: int, depth: int, vector: int) -> list[int]:
    """Images of the word bits where each of two accesses meets every bank once: banks are a common complement of both."""
    if len(patterns) > 2:
        raise catalogue.E325.error(reason=f"{len(patterns)} accesses leave no words to share a bank")
    kept = [1 << bit for bit in range(vector.bit_length() - 1)]
    first, second = ([row[0] for row in pattern.rows.values()] for pattern in (*patterns, *patterns)[:2])
    same_bank = _common_complement(first, second, width, depth)
    basis = list(kept)
    for vector_ in (*(1 << bit for bit in range(depth)),):
        if len(basis) < width and bits.rank([*basis, *same_bank, vector_]) == len(basis) + len(same_bank) + 1:
            basis.append(vector_)
    inverse = bits.inverse([*basis, *same_bank])
    if inverse is None:
        raise catalogue.E325.error(reason="the vectors of the accesses are not neighbours in the tile")
    return list(inverse)


def _common_complement(first: Sequence[int], second: Sequence[int], width: int, depth: int) -> list[int]:
    """``depth - width`` independent vectors whose span meets neither of two subspaces but in 0."""
    sides = [_extended(first, width, depth), _extended(second, width, depth)]
    relations = bits.kernel([*sides[0], *sides[1]])
    shared = [bits.combined(sides[0], mask & ((1 << width) - 1)) for mask in relations]
    own = [_beyond(shared, side) for side in sides]
    rest = _beyond([*shared, *own[0], *own[1]], [1 << bit for bit in range(depth)])
    return [a ^ b for a, b in zip(*own)] + rest


def _extended(vectors: Sequence[int], size: int, depth: int) -> list[int]:
    """A basis of ``size`` vectors that begins with ``vectors``."""
    return [*vectors, *_beyond(vectors, [1 << bit for bit in range(depth)])][:size]


def _beyond(known: Sequence[int], more: Sequence[int]) -> list[int]:
    """Those of ``more`` that are independent of ``known`` and of each other."""
    found = bits.span(known)
    return [vector for vector in more if found.add(vector)]


def _repeated(tile: Sequence[tuple[str, int]], box: Sequence[tuple[str, int]], columns: Sequence[int]) -> Layout:
    """The layout of a box of powers of two from the images of its flat bits, repeated over the tile."""
    bases: dict[str, list[tuple[int]]] = {}
    position = len(columns)
    for name, extent in box:
        count = extent.bit_length() - 1
        bases[name] = [(column,) for column in columns[position - count : position]]
        position -= count
    inner = from_bases(bases, {OFFSET: 1 << len(columns)})
    return product(inner, row_major([(name, extent // small) for (name, extent), (_, small) in zip(tile, box)]))


def degrees(memory: Layout, accesses: Sequence[Access], banks: Banks, *, bits_per_element: int) -> tuple[int, ...]:
    """The turns of each access to a tile stored as ``memory``."""
    placed = [(compose(access.layout, memory), access.vector) for access in accesses]
    return tuple(conflict_degree(value, banks, bits_per_element=bits_per_element, vector=vector) for value, vector in placed)


__all__ = ["LANE", "REGISTER", "Access", "Banks", "conflict_degree", "conflict_free", "counted_degree", "degrees"]
