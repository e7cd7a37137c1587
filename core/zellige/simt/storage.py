"""How a tile lies in shared memory: as its author asks, or free of bank conflicts, or row after row.

In: a tile's extents, the width of an element, the banks, and the author's hint if there is one. Out: :class:`Storage`, the strides and the
swizzle of the tile, with what became of the hint in words. A hint that this family cannot store by strides and one exclusive or is not
followed, and its note says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from zellige.ir.stmt import LayoutHint
from zellige.layouts import Banks
from zellige.records import dataclass
from zellige.simt.homes import Swizzle, choose_swizzle, dense_strides
from zellige.simt.values import value_of

CHUNK_BYTES = 16
"""What one lane moves at once at most, and a row of a matrix load."""

_LARGEST_BASE, _LARGEST_BITS, _LARGEST_GAP = 7, 6, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """``pitch`` in elements, ``elements`` from the first to the last with those between. ``note``: what became of a hint."""

    pitch: tuple[int, ...]
    swizzle: Swizzle | None = None
    elements: int = 0
    note: str = ""


def rows(extents: Sequence[int]) -> Storage:
    """Row after row."""
    return Storage(pitch=tuple(dense_strides(extents)), elements=prod(extents))


def without_conflicts(extents: Sequence[int], element_bytes: int, banks: Banks) -> Storage:
    """Storage in which matrix loads and wide accesses of rows meet each bank once."""
    pitch, swizzle = choose_swizzle(extents, element_bytes, banks=banks.count, bank_bytes=banks.width)
    return Storage(pitch=pitch, swizzle=swizzle, elements=pitch[0] * extents[0] if extents else 1)


def hinted(hint: LayoutHint, extents: Sequence[int], element_bytes: int, banks: Banks, default: Storage) -> Storage:
    """What the hint asks for; ``default`` with the reason where it cannot be followed."""
    name = hint.buffer.name
    if hint.lane is not None:
        return _refused(default, name, "it says lanes and registers, and the tile is in shared memory")
    match hint.kind:
        case "swizzle":
            return _told(without_conflicts(extents, element_bytes, banks), name, "swizzled", banks)
        case "padded":
            return _told(_padded(extents, element_bytes, banks), name, "padded", banks)
        case "bank":
            return _told(_by_words(extents, element_bytes, banks), name, "swizzled by words of banks", banks)
        case "map":
            return _mapped(hint, extents, default)
        case _:
            return _refused(default, name, f"the family of machines with lanes knows no layout {hint.kind!r}")


def _told(storage: Storage, name: str, how: str, banks: Banks) -> Storage:
    note = f"{name} is stored as asked, {how} for {banks.count} banks of {banks.width} bytes"
    return Storage(pitch=storage.pitch, swizzle=storage.swizzle, elements=storage.elements, note=note)


def _refused(default: Storage, name: str, reason: str) -> Storage:
    note = f"{name} is not stored as asked: {reason}"
    return Storage(pitch=default.pitch, swizzle=default.swizzle, elements=default.elements, note=note)


def _padded(extents: Sequence[int], element_bytes: int, banks: Banks) -> Storage:
    """Rows with a gap after each: of one chunk where rows are whole chunks, else of one bank."""
    if len(extents) < 2:
        return rows(extents)
    gap = max(1, (CHUNK_BYTES if extents[-1] * element_bytes % CHUNK_BYTES == 0 else banks.width) // element_bytes)
    wide = dense_strides((*extents[:-1], extents[-1] + gap))
    return Storage(pitch=tuple(wide), elements=wide[0] * extents[0])


def _by_words(extents: Sequence[int], element_bytes: int, banks: Banks) -> Storage:
    """The word of a bank is exchanged by the number of the line of all banks: neighbours below each other meet different banks."""
    plain = rows(extents)
    line = banks.count * banks.width // element_bytes
    lines = plain.elements // max(1, line)
    if element_bytes > banks.width or plain.elements % max(1, line) or lines < 2:
        return plain
    base = (banks.width // element_bytes).bit_length() - 1
    bits = min(banks.count.bit_length() - 1, (lines - 1).bit_length())
    return Storage(pitch=plain.pitch, swizzle=Swizzle(base=base, bits=bits, shift=line.bit_length() - 1), elements=plain.elements)


# ---- maps ----


def _mapped(hint: LayoutHint, extents: Sequence[int], default: Storage) -> Storage:
    offsets = _offsets(hint, extents)
    name = hint.buffer.name
    if offsets is None:
        return _refused(default, name, "an index of its layout is not known while compiling")
    if int(offsets.flat[0]):
        return _refused(default, name, f"its first element has the place {int(offsets.flat[0])}, not 0")
    elements = int(offsets.max()) + 1
    if len(np.unique(offsets)) != offsets.size or int(offsets.min()) < 0:
        return _refused(default, name, "two elements have one place, or a place is negative")
    pitch = _strides(offsets)
    if pitch is not None:
        note = f"{name} is stored as asked, in strides of {', '.join(map(str, pitch))} elements"
        return Storage(pitch=pitch, elements=elements, note=note)
    swizzle = _exchange(offsets, extents)
    if swizzle is None:
        return _refused(default, name, "it is neither a sum of strides nor an exclusive or of two parts of the row-major place")
    note = f"{name} is stored as asked: {swizzle.bits} bits of a place from bit {swizzle.base} exchanged by those from bit {swizzle.shift}"
    return Storage(pitch=tuple(dense_strides(extents)), swizzle=swizzle, elements=elements, note=note)


def _offsets(hint: LayoutHint, extents: Sequence[int]) -> Any:
    """The place of every element: several coordinates are those of a row-major storage that just holds them."""
    known = dict(zip(hint.axes, np.indices(tuple(extents))))
    images = [value_of(e, known) for e in hint.forward]
    if any(image is None for image in images):
        return None
    spread = [np.broadcast_to(image, tuple(extents)).astype(np.int64) for image in images]
    total = np.zeros(tuple(extents), np.int64)
    for image in spread:
        total = total * (int(image.max()) + 1) + image
    return total


def _strides(offsets: Any) -> tuple[int, ...] | None:
    found = []
    for d, extent in enumerate(offsets.shape):
        step = [0] * offsets.ndim
        step[d] = 1
        found.append(int(offsets[tuple(step)]) if extent > 1 else 1)
    total = sum(np.indices(offsets.shape)[d] * stride for d, stride in enumerate(found))
    return tuple(found) if np.array_equal(total, offsets) else None


def _exchange(offsets: Any, extents: Sequence[int]) -> Swizzle | None:
    """The exclusive or of row-major places that this is: the lowest bit that changes, and the bits by which it does."""
    flat = np.arange(prod(extents)).reshape(tuple(extents))
    changed = flat ^ offsets
    if not changed.any():
        return None
    lowest = int(np.bitwise_or.reduce(changed, axis=None))
    base = (lowest & -lowest).bit_length() - 1
    for bits in range(1, _LARGEST_BITS + 1):
        for gap in range(_LARGEST_GAP):
            shift = base + bits + gap
            if base <= _LARGEST_BASE and np.array_equal(changed, (flat >> shift & (1 << bits) - 1) << base):
                return Swizzle(base=base, bits=bits, shift=shift)
    return None
