"""Layouts by their usual names: row-major, strided, padded, in panels, swizzled, from basis vectors.

In: names and extents of a tile's dimensions (outermost first), and numbers of elements. Out: layouts from the tile's indices to one output
``offset``, in elements; :func:`from_bases` and :func:`identity` make any.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from zellige.diagnostics import catalogue
from zellige.layouts.digits import Digit, flipping, strided
from zellige.layouts.layout import Layout, Sizes, layout

OFFSET = "offset"


def identity(sizes: Sizes) -> Layout:
    """Each dimension onto itself."""
    pairs = list(sizes.items() if isinstance(sizes, Mapping) else sizes)
    inputs = {name: [strided(size, (int(n == position) for n in range(len(pairs))))] for position, (name, size) in enumerate(pairs)}
    return layout(inputs, pairs)


def from_bases(bases: Mapping[str, Sequence[Sequence[int]]], outputs: Sizes) -> Layout:
    """A linear layout: for each input the images of its bits, least significant first, a coordinate for each output.

    ``from_bases({"register": [(0, 1)], "lane": [(0, 2), (1, 0)]}, {"row": 2, "column": 4})``.
    """
    return layout({name: [flipping(image) for image in images] for name, images in bases.items()}, outputs)


def mixed(digits: Mapping[str, Sequence[tuple[int, Mapping[str, int]]]], outputs: Sizes) -> Layout:
    """A layout from digits: for each input pairs of an extent and the stride in each output that it moves, least significant first.

    ``mixed({"lane": [(4, {"column": 2}), (8, {"row": 1})]}, {"row": 8, "column": 8})``; an empty mapping is a digit of copies.
    """
    names = list(dict(outputs))
    for name, pairs in digits.items():
        unknown = sorted({key for _, strides in pairs for key in strides} - set(names))
        if unknown:
            raise catalogue.E320.error(operation="a layout", reason=f"{name} moves {', '.join(unknown)}, which is no output")
    inputs = {
        name: [strided(extent, (strides.get(output, 0) for output in names)) for extent, strides in pairs] for name, pairs in digits.items()
    }
    return layout(inputs, outputs)


def strided_memory(sizes: Sizes, strides: Mapping[str, int], *, size: int | None = None) -> Layout:
    """Element (i, j, ...) at ``i * strides[i] + ...``. ``size`` is the storage's, by default one more than the last offset."""
    pairs = dict(sizes)
    if set(strides) != set(pairs):
        raise catalogue.E320.error(operation="strided memory", reason=f"strides are given for ({', '.join(strides)})")
    last = sum((extent - 1) * strides[name] for name, extent in pairs.items())
    inputs = {name: [strided(extent, (strides[name],))] for name, extent in pairs.items()}
    return layout(inputs, {OFFSET: last + 1 if size is None else size})


def row_major(sizes: Sizes) -> Layout:
    """Without gaps, the last dimension densest."""
    return padded(sizes, 0)


def column_major(sizes: Sizes) -> Layout:
    """Without gaps, the first dimension densest."""
    pairs = list(dict(sizes).items())
    strides = {name: math.prod(extent for _, extent in pairs[:position]) for position, (name, _) in enumerate(pairs)}
    return strided_memory(pairs, strides)


def padded(sizes: Sizes, padding: int) -> Layout:
    """Row-major with ``padding`` unused elements after each row."""
    pairs = list(dict(sizes).items())
    strides, step = {}, 1
    for position, (name, extent) in reversed(list(enumerate(pairs))):
        strides[name] = step
        step *= extent + (padding if position == len(pairs) - 1 else 0)
    return strided_memory(pairs, {name: strides[name] for name, _ in pairs}, size=max(step, 1))


def blocked(sizes: Sizes, order: Sequence[tuple[str, int]]) -> Layout:
    """Storage as nested blocks: ``order`` lists (dimension, extent) from the outermost to the densest.

    Of a dimension named several times the parts are its digits, the densest least significant: a k x n tile in panels of NR columns with
    groups of kp rows is ``[("n", N // NR), ("k", K // kp), ("n", NR), ("k", kp)]``. E320 where the parts do not make up an extent.
    """
    pairs = dict(sizes)
    digits: dict[str, list[Digit]] = {name: [] for name in pairs}
    step = 1
    for name, extent in reversed(order):
        if name not in digits:
            raise catalogue.E320.error(operation="blocked storage", reason=f"{name} is no dimension of the tile")
        digits[name].append(strided(extent, (step,)))
        step *= extent
    for name, extent in pairs.items():
        parts = [digit.extent for digit in digits[name]]
        if math.prod(parts) != extent:
            raise catalogue.E320.error(operation="blocked storage", reason=f"the parts {parts} of {name} do not make up {extent}")
    return layout(digits, {OFFSET: step})


def swizzled(rows: tuple[str, int], columns: tuple[str, int], *, span: int, piece: int, period: int = 1) -> Layout:
    """Rows of ``span`` elements in which pieces of ``piece`` elements change places from row to row: place = piece number xor row number.

    Wider tiles are panels of ``span`` columns one behind the other. ``period`` rows in a row share an exchange (rows that together fill
    the banks once). All are powers of two but the extents: span must divide the columns, and the rows must hold whole exchanges: E324
    otherwise. A span of 128 bytes with pieces of 16 is ``span=128 // itemsize, piece=16 // itemsize``.
    """
    (row, height), (column, width) = rows, columns
    for what, number in (("span", span), ("piece", piece), ("period", period)):
        if number < 1 or number & (number - 1):
            raise catalogue.E324.error(reason=f"the {what} of {number} is no power of two")
    if width % span or span % piece:
        raise catalogue.E324.error(reason=f"{width} columns do not consist of spans of {span} in pieces of {piece}")
    places = span // piece
    if height % (places * period):
        reason = f"{height} rows are no multiple of the {places * period} rows after which the exchange repeats"
        raise catalogue.E324.error(reason=reason)
    across = [*(flipping((1 << bit,)) for bit in range(span.bit_length() - 1)), strided(width // span, (height * span,))]
    down = [strided(period, (span,))]
    for bit in range(places.bit_length() - 1):
        down.append(Digit(extent=2, strides=((span * period) << bit,), flips=(piece << bit,)))
    down.append(strided(height // (places * period), (span * period * places,)))
    return layout({row: down, column: across}, {OFFSET: height * width})
