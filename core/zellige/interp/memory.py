"""Storage: the bytes of a buffer, read and written as elements of any type, and what the reports know about each element.

In: a NumPy byte array or a size. Out: a :class:`Memory`, which reads and writes elements by their position in row-major storage,
and a :class:`Layout`, which turns indices into positions. 4-bit elements lie two to a byte everywhere, low half first, so that an alias of
another type sees the bits that a tensor argument would hold. Facts about elements are kept for each half byte, the smallest element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

import numpy as np

from zellige.dtypes import DType
from zellige.elements.conversion import Array, codes, from_codes, has_nan, stored
from zellige.elements.memory import bytes_at
from zellige.records import dataclass

PATTERN = 0xA5
"""What every byte of fresh storage holds where its type has no NaN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Extents and strides in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def dense(shape: Sequence[int]) -> Layout:
        """Row-major without gaps."""
        return Layout(shape=tuple(shape), strides=tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))))

    @property
    def span(self) -> int:
        """The number of elements from the first to the last, both counted; 0 where an extent is 0."""
        if 0 in self.shape:
            return 0
        return 1 + sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides))

    def locate(self, indices: Sequence[Array]) -> tuple[Array, Array]:
        """The position of each index tuple and whether it is inside; the position of one outside is 0."""
        inside: Array = np.asarray(True)
        position: Array = np.asarray(np.int64(0))
        for index, extent, stride in zip(indices, self.shape, self.strides):
            whole = index.astype(np.int64)
            inside = inside & (whole >= 0) & (whole < extent)
            position = position + whole * stride
        return np.where(inside, position, np.int64(0)), inside

    def index_of(self, position: int) -> tuple[int, ...]:
        """The indices of a position, for messages."""
        index = [0] * len(self.shape)
        for axis in sorted(range(len(self.shape)), key=lambda a: -self.strides[a]):
            if self.strides[axis]:
                index[axis], position = divmod(position, self.strides[axis])
        return tuple(index)


def halves(dtype: DType) -> int:
    """How many half bytes one scalar takes in storage."""
    return max(1, dtype.scalar.storage_bits // 4)


def storage_bytes(elements: int, dtype: DType) -> int:
    """The bytes of so many elements."""
    return -(-elements * dtype.lanes * dtype.scalar.storage_bits // 8)


@dataclass(slots=True, kw_only=True)
class Memory:
    """``copies`` pieces of storage of ``copy_bytes`` bytes each, one after the other in ``cells``.

    A block's buffer has one copy; a buffer that belongs to each lane or point has one for each. Positions count scalars from the start of
    ``cells``. ``undefined`` marks half bytes nobody has written, ``written`` those written since it was made; None: not tracked.
    """

    cells: Array
    copies: int
    copy_bytes: int
    undefined: Array | None = None
    written: Array | None = None
    _views: dict[str, Array] = field(default_factory=dict)

    @staticmethod
    def fresh(elements: int, dtype: DType, *, copies: int = 1, tracks_undefined: bool = False) -> Memory:
        """Storage that nobody has written: floats are NaN where the type has it, all else is a pattern."""
        size = -(-storage_bytes(elements, dtype) // 8) * 8
        memory = Memory(cells=np.full(copies * size, PATTERN, np.uint8), copies=copies, copy_bytes=size)
        scalar = dtype.scalar
        if scalar.is_float and has_nan(scalar):
            memory.view(scalar)[...] = np.nan
        elif scalar.bits == 6:
            memory.cells &= 0x3F
        if tracks_undefined:
            memory.undefined = np.ones(2 * copies * size, bool)
        return memory

    def view(self, dtype: DType) -> Array:
        """The storage as an array of a scalar type of at least 8 bits."""
        name = "uint8" if dtype.is_bool else dtype.name
        found = self._views.get(name)
        if found is None:
            native = np.dtype(np.uint8) if dtype.is_bool else dtype.numpy
            found = self._views[name] = self.cells[: self.cells.size // native.itemsize * native.itemsize].view(native)
        return found

    def positions(self, elements: Array, copies: int | Array, dtype: DType) -> Array:
        """The scalars of the given elements of the given copies; a vector's lanes along a new last axis."""
        position = elements
        if self.copies > 1:
            position = position * dtype.lanes + copies * (self.copy_bytes * 8 // dtype.scalar.storage_bits)
        elif dtype.lanes > 1:
            position = position * dtype.lanes
        return position[..., None] + np.arange(dtype.lanes) if dtype.lanes > 1 else position

    def read(self, positions: Array, dtype: DType) -> Array:
        """The scalars at ``positions``."""
        scalar = dtype.scalar
        if scalar.bits == 4:
            both = self.cells[positions >> 1]
            return from_codes(np.asarray((both >> ((positions & 1) << 2).astype(np.uint8)) & np.uint8(0xF)), scalar)
        values = np.asarray(self.view(scalar)[positions])
        return stored(values, scalar)

    def write(self, positions: Array, values: Array, dtype: DType) -> None:
        """Store ``values``, of the shape of ``positions``; of several for one position the last stays."""
        scalar = dtype.scalar
        if scalar.bits == 4:
            bits = np.asarray(codes(values, scalar))
            for half in (0, 1):  # one after the other: the two halves of a byte may be written together
                chosen = (positions & 1) == half
                place = positions[chosen] >> 1
                self.cells[place] = (self.cells[place] & np.uint8(0xF0 >> (4 * half))) | (bits[chosen] << np.uint8(4 * half))
        else:
            self.view(scalar)[positions] = values
        if self.undefined is not None:
            self.mark(self.undefined, positions, dtype, value=False)
        if self.written is not None:
            self.mark(self.written, positions, dtype, value=True)

    def mark(self, facts: Array, positions: Array, dtype: DType, *, value: bool | Array) -> None:
        """Set a fact of the scalars at ``positions``."""
        rows = self._rows(facts, dtype)
        rows[positions] = value if isinstance(value, bool) else value[..., None]

    def any_half(self, facts: Array, positions: Array, dtype: DType) -> Array:
        """Whether a fact holds for a part of each scalar at ``positions``."""
        return np.asarray(self._rows(facts, dtype)[positions].any(axis=-1))

    def _rows(self, facts: Array, dtype: DType) -> Array:
        width = halves(dtype)
        return facts[: facts.size // width * width].reshape(-1, width)


def memory_at(pointer: int, size: int) -> Memory:
    """``size`` bytes of the process's own memory, which the caller keeps alive."""
    return Memory(cells=bytes_at(pointer, size), copies=1, copy_bytes=size)
