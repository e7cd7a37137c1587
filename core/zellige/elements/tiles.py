"""Tiles of elements in bytes: read, written and changed by points that run together; what lies outside of a tile is never touched.

In: bytes or an address, an element type, a shape. Out: :class:`Tile`. For machines that are played by NumPy; what points of
:mod:`zellige.elements.lockstep` share and what each has of its own are tiles alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from zellige.dtypes import DType
from zellige.elements.conversion import Array, stored
from zellige.elements.memory import bytes_at, row_major
from zellige.elements.operations import change_in_turn

_UNDEFINED = 0xA5
"""The byte of memory that nobody has written: no plausible result is made from it."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Elements in ``cells``, rows of bytes: a row a version of the tile or a point, ``row`` the one in use (an array: one a point).
    ``strides`` count elements within a row."""

    cells: Array
    row: int | Array
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of_memory(cls, address: int, dtype: DType, shape: Sequence[int], strides: Sequence[int] = ()) -> Tile:
        """A tensor of the process's own memory, which the caller keeps alive; without ``strides`` dense."""
        steps = tuple(strides) or row_major(tuple(shape))
        span = 0 if 0 in shape else 1 + sum((extent - 1) * step for extent, step in zip(shape, steps))
        return cls(bytes_at(address, span * dtype.itemsize).reshape(1, -1), 0, dtype, tuple(shape), steps)

    @classmethod
    def of_points(cls, count: int, dtype: DType, shape: Sequence[int]) -> Tile:
        """A dense tile of each of ``count`` points, undefined as yet."""
        size = -(-math.prod(shape) * dtype.itemsize // 8) * 8
        return cls.of_rows(np.full((count, size), _UNDEFINED, np.uint8), np.arange(count) if count > 1 else 0, dtype, shape)

    @classmethod
    def of_rows(cls, cells: Array, row: int | Array, dtype: DType, shape: Sequence[int]) -> Tile:
        """A dense tile in a row of bytes."""
        return cls(cells, row, dtype, tuple(shape), row_major(tuple(shape)))

    def _elements(self) -> Array:
        """Rows by places."""
        size = self.cells.shape[1] // self.dtype.itemsize * self.dtype.itemsize
        return self.cells[:, :size].view(np.uint8 if self.dtype.is_bool else self.dtype.numpy)

    def _address(self, indices: Sequence[Array]) -> tuple[Array, Array]:
        """Where elements lie in a row, and whether they are inside."""
        inside, place = np.asarray(True), np.asarray(np.int64(0))
        for index, extent, stride in zip(indices, self.shape, self.strides):
            wide = np.asarray(index).astype(np.int64)
            inside, place = inside & (wide >= 0) & (wide < extent), place + wide * stride
        return np.where(inside, place, 0), inside

    def read(self, indices: Sequence[Array], outside: Array) -> Array:
        """The elements at ``indices``, one array a dimension, which broadcast; ``outside`` where there is none."""
        place, inside = self._address(indices)
        if not inside.any():
            return np.broadcast_to(outside, np.broadcast_shapes(place.shape, np.shape(self.row)))
        values = stored(self._elements()[self.row, place], self.dtype)
        return values if inside.all() else np.where(inside, values, outside)

    def write(self, indices: Sequence[Array], values: Array) -> None:
        """Put ``values`` at ``indices``, which have their shape together; what would lie outside is left out."""
        place, inside = (np.broadcast_to(part, values.shape) for part in self._address(indices))
        self._elements()[self.row, place[inside]] = values[inside]

    def box(self, offsets: Sequence[int], extents: Sequence[int], outside: Array) -> Box:
        """A box of the tile, parts of which may lie outside. An offset is a number of 64 bits, one beyond them that number less 2**64; of
        a negative extent there is no element."""
        starts = (((offset + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63) for offset in offsets)
        # a box that begins behind all elements has none inside, wherever it begins
        indices = np.ix_(*(min(start, 1 << 62) + np.arange(extent) for start, extent in zip(starts, extents)))
        return Box(self, indices, tuple(max(0, extent) for extent in extents), outside)

    def change(self, name: str, indices: Sequence[Array], values: Array, mask: Array, *, is_asked: bool) -> Array:
        """Each point of ``mask`` changes an element by ``name`` (:func:`zellige.elements.operations.change_in_turn`); what it held before
        where somebody asks for that."""
        count = len(mask)
        place, inside = self._address(indices)
        points = np.flatnonzero(np.broadcast_to(inside, count) & mask)
        places = (np.broadcast_to(self.row, count)[points], np.broadcast_to(place, count)[points])
        given = np.broadcast_to(values, count)[points]
        before = np.zeros(count, self.dtype.numpy)
        if name == "store" and not is_asked:
            self._elements()[places] = given
        else:
            before[points] = change_in_turn(name, self._elements(), places, given, self.dtype)
        return before if count > 1 else before[0]

    def copies(self, count: int) -> Tile:
        """A copy for each of ``count`` points."""
        return replace(self, cells=self.cells[np.broadcast_to(self.row, count)], row=np.arange(count))

    def take_changes(self, copies: Tile, before: Array) -> None:
        """Bring back what the points changed of their ``copies``, whose bytes were ``before``; of what several changed one stays."""
        points, places = np.nonzero(copies.cells != before)
        self.cells[self.row, places] = copies.cells[points, places]


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a tile: one index array a dimension, and what is read outside of the tile."""

    tile: Tile
    indices: Sequence[Array]
    extents: tuple[int, ...]
    outside: Array

    def read(self) -> Array:
        return self.tile.read(self.indices, self.outside)

    def write(self, values: Array) -> None:
        """Put in as many ``values`` as the box has places, in the order of their indices."""
        self.tile.write(self.indices, values.reshape(self.extents))


def last_change(new: Array, before: Array) -> Array:
    """What one of the points made of its value that all had as ``before``, bit for bit; ``before`` where none changed it."""
    points = np.ascontiguousarray(new)
    bits = f"u{points.itemsize}"
    changed = np.flatnonzero(points.view(bits) != np.broadcast_to(before, points.shape).copy().view(bits))
    return points[changed[-1]] if len(changed) else before
