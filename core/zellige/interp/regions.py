"""Reading and writing regions of buffers as arrays.

In: a region, a frame. Out: an array with the region's extents behind one axis for the points (of length 1 where all points have the same
box of the same storage). What lies outside the buffer reads as its safe value and is not written.
"""

from __future__ import annotations

import numpy as np

from zellige.elements.conversion import Array, stored
from zellige.interp.expressions import evaluate, integer, layout_of, report_undefined, safe_value
from zellige.interp.frame import Frame, Place, Run
from zellige.interp.masks import Mask, active_points
from zellige.interp.memory import Layout, halves
from zellige.interp.report import AccessKind
from zellige.ir.expr import Buffer, Region
from zellige.ir.stmt import AtomicTile
from zellige.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A region with its numbers: ``starts`` has one array a dimension, without axes or with one entry a point."""

    buffer: Buffer
    place: Place
    layout: Layout
    starts: tuple[Array, ...]
    extents: tuple[int, ...]

    @property
    def is_uniform(self) -> bool:
        """Whether it is one box of one copy for all points."""
        return isinstance(self.place.copies, int) and all(start.ndim == 0 for start in self.starts)

    def slices(self) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """The part inside the buffer, as slices of the buffer and of the region; for a uniform box."""
        inner: list[slice] = []
        outer: list[slice] = []
        for start, extent, size in zip((int(s) for s in self.starts), self.extents, self.layout.shape):
            low = min(max(start, 0), size)
            high = max(min(start + extent, size), low)
            inner.append(slice(low, high))
            outer.append(slice(low - start, high - start) if high > low else slice(0, 0))
        return tuple(inner), tuple(outer)

    def elements(self) -> tuple[Array, Array]:
        """Scalar positions (with the points' axis first, a vector's lanes last) and which elements are inside."""
        axes = len(self.extents)
        indices = []
        for axis, (start, extent) in enumerate(zip(self.starts, self.extents)):
            first = start.astype(np.int64).reshape(-1, *(1,) * axes)
            indices.append(first + np.arange(extent).reshape(*(1,) * axis, extent, *(1,) * (axes - axis - 1)))
        position, inside = self.layout.locate(indices)
        shape = (max((index.shape[0] for index in indices), default=1), *self.extents)
        copies = self.place.copies
        if not isinstance(copies, int):
            copies = copies.reshape(-1, *(1,) * axes)
            shape = (max(shape[0], copies.shape[0]), *self.extents)
        position = self.place.memory.positions(np.broadcast_to(position, shape), copies, self.buffer.dtype)
        return position, np.broadcast_to(inside, shape)


def box_of(run: Run, frame: Frame, region: Region, mask: Mask) -> Box:
    """The numbers of ``region``; extents must be the same for all points."""
    buffer = region.buffer
    place = frame.places[buffer.root]
    layout = layout_of(run, frame, buffer, place)
    starts = tuple(np.asarray(evaluate(run, frame, offset, mask)).astype(np.int64) for offset in region.offsets)
    extents = tuple(
        max(0, integer(run, frame, extent, mask, what=f"an extent of the region of {buffer.label}")) for extent in region.extents
    )
    box = Box(buffer=buffer, place=place, layout=layout, starts=starts, extents=extents)
    if run.report.bounds:
        _report_outside(run, frame, box, mask)
    return box


def whole_box(run: Run, frame: Frame, buffer: Buffer) -> Box:
    """All of ``buffer``."""
    place = frame.places[buffer.root]
    layout = layout_of(run, frame, buffer, place)
    return Box(buffer=buffer, place=place, layout=layout, starts=(np.asarray(np.int64(0)),) * len(layout.shape), extents=layout.shape)


def read_box(run: Run, frame: Frame, box: Box, mask: Mask, *, reports_undefined: bool = True) -> Array:
    """The elements of ``box`` as an array of its own."""
    undefined = box.place.memory.undefined
    _log_box(run, frame, box, mask, "read")
    if reports_undefined and undefined is not None and _any_fact(box, undefined):
        _, positions = _selected(frame, box, mask)
        report_undefined(run, box.place.memory, box.buffer, box.layout, positions.ravel())
    view = _view(box) if box.is_uniform else None
    if view is not None:
        inner, outer = box.slices()
        part = stored(view[inner], box.buffer.dtype.scalar)
        if part.shape == box.extents:
            return np.array(part)[None]
        result = np.full(box.extents, safe_value(run, box.buffer), part.dtype)
        result[outer] = part
        return result[None]
    position, inside = box.elements()
    if not inside.any():
        return np.full(position.shape, safe_value(run, box.buffer), box.buffer.dtype.scalar.numpy)
    values = box.place.memory.read(position, box.buffer.dtype)
    return np.where(_spread(inside, box.buffer), values, safe_value(run, box.buffer))


def _log_box(run: Run, frame: Frame, box: Box, mask: Mask, kind: AccessKind, values: Array | None = None) -> None:
    """Hand what is touched of a tensor to the watch over blocks."""
    statement = run.statement
    if run.blocks is None or statement is None or box.buffer.root.space != "global":
        return
    if isinstance(statement, AtomicTile) and box.buffer is statement.dst.buffer:
        if kind == "read":
            return
        kind = "atomic"
    chosen, positions = _selected(frame, box, mask, 1 if values is None else values.shape[0])
    kept = None if values is None else _at(values, chosen)
    if positions.size:
        run.blocks.log(statement, box.buffer, box.layout, box.place.memory, positions, kind, kept)


def undefined_part(box: Box) -> Array | None:
    """Which elements of ``box`` nobody has written; None where all were written or that is not tracked."""
    memory = box.place.memory
    if memory.undefined is None or not _any_fact(box, memory.undefined):
        return None
    position, inside = box.elements()
    missing = np.zeros(position.shape, bool)
    if inside.any():
        missing = memory.any_half(memory.undefined, position, box.buffer.dtype) & _spread(inside, box.buffer)
    return np.asarray(missing.any(axis=-1)) if box.buffer.dtype.lanes > 1 else missing


def write_box(run: Run, frame: Frame, box: Box, values: Array, mask: Mask, *, undefined: Array | None = None) -> None:
    """Store ``values`` (of the buffer's dtype, shaped as :func:`read_box` gives them) inside the buffer, for the active points in order.

    ``undefined`` says which of them nobody has written.
    """
    memory = box.place.memory
    _log_box(run, frame, box, mask, "write", values)
    view = _view(box) if box.is_uniform and undefined is None and values.shape[0] == 1 else None
    if view is not None:
        inner, outer = box.slices()
        view[inner] = values[0][outer]
        if memory.undefined is not None:
            _facts(box, memory.undefined)[inner] = False
        if memory.written is not None:
            _facts(box, memory.written)[inner] = True
        return
    chosen, positions = _selected(frame, box, mask, values.shape[0])
    memory.write(positions, _at(values, chosen), box.buffer.dtype)
    if undefined is not None and memory.undefined is not None:
        missing = _at(undefined, chosen)
        spread = np.broadcast_to(missing[:, None], positions.shape) if box.buffer.dtype.lanes > 1 else missing
        memory.mark(memory.undefined, positions, box.buffer.dtype, value=spread)


def _view(box: Box) -> Array | None:
    """The buffer as an array over its storage; None where its elements are smaller than a byte or vectors."""
    dtype, memory, copies = box.buffer.dtype, box.place.memory, box.place.copies
    if dtype.lanes > 1 or dtype.storage_bits < 8 or not isinstance(copies, int):
        return None
    native = memory.view(dtype).dtype
    start = copies * memory.copy_bytes if memory.copies > 1 else 0
    strides = tuple(stride * native.itemsize for stride in box.layout.strides)
    view: Array = np.ndarray(box.layout.shape, native, memory.cells, start, strides)
    return view


def _facts(box: Box, facts: Array) -> Array:
    """Facts about half bytes as an array like the buffer, with the halves of an element as one more, last axis."""
    width = halves(box.buffer.dtype) * box.buffer.dtype.lanes
    start = box.place.copies * 2 * box.place.memory.copy_bytes if isinstance(box.place.copies, int) else 0
    strides = (*(stride * width for stride in box.layout.strides), 1)
    view: Array = np.ndarray((*box.layout.shape, width), np.bool_, facts, start, strides)
    return view


def _any_fact(box: Box, facts: Array) -> bool:
    """Whether a fact may hold of an element of the box; sure where all points have the same box."""
    return bool(_facts(box, facts)[box.slices()[0]].any()) if box.is_uniform else True


def _spread(flags: Array, buffer: Buffer) -> Array:
    return flags[..., None] if buffer.dtype.lanes > 1 else flags


def _active(frame: Frame, mask: Mask, inside: Array) -> Array:
    """The mask with as many axes as ``inside``; a box that is the same for all points is active when any point is."""
    if mask is True or inside.shape[0] == 1:
        return np.asarray(mask is not False)
    flags = np.zeros(frame.count, bool)
    flags[active_points(mask, frame.count)] = True
    return flags.reshape(-1, *(1,) * (inside.ndim - 1))


def _selected(frame: Frame, box: Box, mask: Mask, count: int = 1) -> tuple[Array, Array]:
    """Which elements of the box are inside of the buffer and an active point's, and the positions of those in order. ``count``: of how
    many points there are values for them."""
    position, inside = box.elements()
    chosen = np.broadcast_to(inside, (max(inside.shape[0], count), *box.extents))
    chosen = chosen & _active(frame, mask, chosen)
    return chosen, _at(position, chosen)


def _at(values: Array, chosen: Array) -> Array:
    """The values of the chosen elements in order; the lanes of vectors stay an axis."""
    return np.asarray(np.broadcast_to(values, (*chosen.shape, *values.shape[chosen.ndim :]))[chosen])


def _report_outside(run: Run, frame: Frame, box: Box, mask: Mask) -> None:
    points = active_points(mask, frame.count)
    if 0 in box.extents or not points.size or run.statement is None:
        return
    for axis, (start, extent, size) in enumerate(zip(box.starts, box.extents, box.layout.shape)):
        low = (start if start.ndim == 0 else start[points]).astype(np.int64).ravel()
        outside = np.flatnonzero((low < 0) | (low + extent > size))
        if outside.size:
            first = int(low[outside[0]])
            where = f"{first}:{first + extent} in dimension {axis} of {box.buffer.label}"
            run.findings.outside(run.statement, box.buffer, box.layout, where, outside.size)
            return
