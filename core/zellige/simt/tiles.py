"""Where the tiles of a thread-level program live, as pictures.

In: a :class:`~zellige.simt.ir.Function`. Out: a :class:`~zellige.layouts.pictures.TilePicture` for each tile of the author's: which
register of which lane holds an element, or its offset and bank, with the turns that the banks take for each access.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

import numpy as np

from zellige.dtypes import DType
from zellige.layouts import OFFSET, Banks, Layout, fitted, mixed
from zellige.layouts.pictures import TilePicture
from zellige.simt.banks import BankUse, bank_uses
from zellige.simt.distribution import SOURCES, Distribution
from zellige.simt.homes import LaneHome, RegisterHome, SharedHome, Swizzle, dense_strides
from zellige.simt.ir import Function, Tile


def pictures(function: Function, banks: Banks) -> tuple[TilePicture, ...]:
    """Of every tile, in the order in which the program's author made them."""
    uses = bank_uses(function, banks)
    return tuple(_picture(tile, banks, [use for use in uses if use.buffer == tile.home.memory.name]) for tile in function.tiles)


def dimension_names(rank: int) -> tuple[str, ...]:
    """Names of a tile's dimensions."""
    usual: Mapping[int, tuple[str, ...]] = {0: ("element",), 1: ("element",), 2: ("row", "column")}
    return usual.get(rank, tuple(f"dimension{n}" for n in range(rank)))


def register_layout(distribution: Distribution) -> Layout:
    """A distribution in the algebra: (register, lane, warp) to the tile's dimensions, as far as its digits reach."""
    names = dimension_names(len(distribution.shape))
    digits: dict[str, list[tuple[int, dict[str, int]]]] = {
        source: [(d.radix, {} if d.dimension is None else {names[d.dimension]: d.stride}) for d in distribution.of_source(source)]
        for source in SOURCES
    }
    return mixed(digits, {name: distribution.covered(d) for d, name in enumerate(names)})


def memory_layout(
    extents: Sequence[int], pitch: Sequence[int], swizzle: Swizzle | None, slab: int = 0, slab_elements: int = 0
) -> Layout:
    """A tile's storage in the algebra: its dimensions to an offset in elements; ``slab`` columns stand together (0: all)."""
    flat = np.zeros(tuple(extents), np.int64)
    places = np.indices(tuple(extents))
    for dimension, stride in enumerate(pitch):
        index = places[dimension] % slab if slab and dimension == len(pitch) - 1 else places[dimension]
        flat = flat + index * stride
    if slab:
        flat = flat + places[-1] // slab * slab_elements
    if swizzle is not None:
        flat = flat ^ ((flat >> swizzle.shift & (1 << swizzle.bits) - 1) << swizzle.base)
    sizes = dict(zip(dimension_names(len(extents)), extents))
    return fitted(sizes, {OFFSET: int(flat.max()) + 1}, {OFFSET: flat})


def _picture(tile: Tile, banks: Banks, uses: Sequence[BankUse]) -> TilePicture:
    home, dtype = tile.home, tile.buffer.dtype
    match home:
        case RegisterHome(distribution=distribution, extents=extents):
            count = distribution.registers
            place = f"registers, {count} {'element' if count == 1 else 'elements'} a lane"
            return _of(tile, extents, dtype, place, register_layout(distribution.with_shape(extents)), None, _copies(distribution))
        case SharedHome(extents=extents, pitch=pitch, swizzle=swizzle, slots=slots, slot_elements=elements):
            size = elements * max(1, dtype.bytes)
            place = f"shared memory, {slots} slots of {size} bytes" if slots > 1 else f"shared memory, {size} bytes"
            layout = memory_layout(extents, pitch, swizzle, home.slab, home.slab_elements)
            return _of(tile, extents, dtype, place, layout, banks, tuple(map(_said, uses)))
        case LaneHome(extents=extents):
            layout = memory_layout(extents, dense_strides(extents), None)
            return _of(tile, extents, dtype, "every lane, a copy of its own", layout, None, ())


def _of(
    tile: Tile, extents: Sequence[int], dtype: DType, place: str, layout: Layout, banks: Banks | None, remarks: tuple[str, ...]
) -> TilePicture:
    bits = max(8, dtype.storage_bits)
    return TilePicture(
        name=tile.buffer.name, dtype=dtype.name, bits=bits, shape=tuple(extents), place=place, layout=layout, banks=banks, remarks=remarks
    )


def _copies(distribution: Distribution) -> tuple[str, ...]:
    copies = 1
    for digit in distribution.replicated:
        copies *= digit.radix
    return (f"{copies} lanes hold each element",) if copies > 1 else ()


def _said(use: BankUse) -> str:
    where = "" if use.span is None else f"{PurePath(use.span.file).name}:{use.span.line}: "
    turns = "places that follow from memory" if use.degree is None else f"conflict degree {use.degree}"
    return f"{where}{use.kind} of {use.bytes} bytes a lane: {turns}"
