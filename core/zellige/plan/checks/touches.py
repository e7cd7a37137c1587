"""Which parts of which buffers one statement reads and writes, as boxes of numbers.

In: a statement that is whole (a tile operation, a scalar statement, a Map) and the values of the variables around it. Out: one
:class:`Touch` a region. A Map touches, for each access, the box that its indices span while its axes run; where they depend on data
it is the whole extent. Boxes are clipped to the buffer; an alias stands for all of the storage that it lies in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from zellige.analysis.intervals import Interval, interval
from zellige.ir.expr import Binary, Buffer, Const, Expr, Region, Var
from zellige.ir.stmt import Alloc, Bind, Dialect, For, Gemm, If, Map, Stmt, StmtNode, While, element
from zellige.ir.traverse import loads_in
from zellige.records import dataclass

Box: TypeAlias = "tuple[tuple[int, int], ...]"
"""First and last-plus-one index of each dimension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """An access of the storage ``root``. ``is_exact``: every element of the box is written."""

    root: Buffer
    box: Box
    is_write: bool
    is_exact: bool = True


def overlaps(one: Box, other: Box) -> bool:
    """Whether the boxes share an element."""
    return all(low < high_other and low_other < high for (low, high), (low_other, high_other) in zip(one, other))


def covers(outer: Box, inner: Box) -> bool:
    """Whether ``outer`` has all elements of ``inner``."""
    return all(low <= low_inner and high_inner <= high for (low, high), (low_inner, high_inner) in zip(outer, inner))


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known around a statement: ``integer`` evaluates, ``ranges`` are those of its variables, ``shape`` gives extents of buffers.

    ``regions`` gives what a statement itself reads and writes.
    """

    integer: Callable[[Expr], int]
    ranges: dict[Var, Interval]
    shape: Callable[[Buffer], tuple[int, ...]]
    regions: Callable[[StmtNode], tuple[tuple[Region, ...], tuple[Region, ...]]]


def touches_of(statement: Stmt, around: Surroundings) -> list[Touch]:
    """Every access of ``statement``, nested statements of a Map or a plugin's operation included."""
    if isinstance(statement, (Map, Dialect)):
        return list(_nested_touches(statement, around))
    found: list[Touch] = []
    reads, writes = around.regions(statement)
    if isinstance(statement, Gemm) and around.integer(statement.clear):
        reads = tuple(region for region in reads if region is not statement.c)
    for regions, is_write in ((reads, False), (writes, True)):
        for region in regions:
            touch = _touch(region, around, is_write=is_write)
            if touch is not None:
                found.append(touch)
    return found


def _touch(region: Region, around: Surroundings, *, is_write: bool) -> Touch | None:
    starts = [around.integer(offset) for offset in region.offsets]
    extents = [around.integer(extent) for extent in region.extents]
    spans = [(start, start + extent) for start, extent in zip(starts, extents)]
    return _clipped(region.buffer, spans, around, is_write=is_write, is_exact=True)


def outside_dimensions(region: Region, around: Surroundings) -> list[int]:
    """The dimensions in which a region goes beyond its buffer; none where it has no elements."""
    extents = [around.integer(extent) for extent in region.extents]
    if 0 in extents:
        return []
    starts = [around.integer(offset) for offset in region.offsets]
    sizes = around.shape(region.buffer)
    return [axis for axis, (start, extent, size) in enumerate(zip(starts, extents, sizes)) if start < 0 or start + extent > size]


def _clipped(buffer: Buffer, spans: list[tuple[int, int]], around: Surroundings, *, is_write: bool, is_exact: bool) -> Touch | None:
    """The part of ``spans`` inside the buffer; None where there is none."""
    shape = around.shape(buffer)
    box = tuple((max(low, 0), min(high, size)) for (low, high), size in zip(spans, shape))
    if any(low >= high for low, high in box):
        return None
    root = buffer.root
    if root is not buffer:
        is_exact &= box == tuple((0, size) for size in shape)
        box = tuple((0, size) for size in around.shape(root))
    return Touch(root=root, box=box, is_write=is_write, is_exact=is_exact)


def _nested_touches(statement: Map | Dialect, around: Surroundings) -> Iterator[Touch]:
    pending: list[tuple[StmtNode, dict[Var, Interval], frozenset[Var], bool]] = [(statement, around.ranges, frozenset(), True)]
    own: set[Buffer] = set()
    while pending:
        node, ranges, axes, is_certain = pending.pop()
        if isinstance(node, Alloc):
            own.add(node.buffer)
            continue
        yield from _accesses(node, ranges, axes, is_certain, around, own)
        inner, inner_axes = dict(ranges), axes
        match node:
            case Map():
                for axis, extent in zip(node.axes, node.extents):
                    size = interval(extent, ranges).high
                    inner[axis] = Interval(0, None if size is None else size - 1)
                inner_axes = axes | frozenset(node.axes)
            case For():
                low, high = interval(node.start, ranges).low, interval(node.stop, ranges).high
                inner[node.var] = Interval(low, None if high is None else high - 1)
                is_certain = False
            case If() | While() | Dialect():
                is_certain = False
            case _:
                pass
        for name in type(node).BODIES:
            body = getattr(node, name)
            seen = dict(inner)
            for below in body:
                if isinstance(below, Bind):
                    seen[below.var] = interval(below.value, seen)
            pending.extend((below, seen, inner_axes, is_certain) for below in reversed(body))


def _accesses(
    node: StmtNode, ranges: dict[Var, Interval], axes: frozenset[Var], is_certain: bool, around: Surroundings, own: set[Buffer]
) -> Iterator[Touch]:
    reads, writes = around.regions(node)
    regions = [(region, False) for region in reads] + [(region, True) for region in writes]
    if isinstance(node, Dialect):
        regions += [(element(load.buffer, load.indices), False) for load in loads_in(node)]
    for region, is_write in regions:
        if region.buffer.root in own:
            continue
        spans = []
        for offset, extent, size in zip(region.offsets, region.extents, around.shape(region.buffer)):
            first, length = interval(offset, ranges), interval(extent, ranges).high
            low = 0 if first.low is None else first.low
            spans.append((low, size if first.high is None or length is None else first.high + length))
        is_exact = is_certain and _is_dense(region.offsets, axes)
        touch = _clipped(region.buffer, spans, around, is_write=is_write, is_exact=is_exact)
        if touch is not None:
            yield touch


def _is_dense(indices: tuple[Expr, ...], axes: frozenset[Var]) -> bool:
    """Whether each index is a different axis moved by something that is the same for all points, or has no axis; so the box is filled."""
    seen: set[Var] = set()
    for index in indices:
        pending, moved = [index], 0
        while pending:
            part = pending.pop()
            match part:
                case Binary(op="add", left=left, right=right):
                    pending += [left, right]
                case Var() if part in axes:
                    if part in seen:
                        return False
                    seen.add(part)
                    moved += 1
                case Const() | Var():
                    pass
                case Binary(op="mul", left=left, right=right):
                    if any(isinstance(side, Var) and side in axes for side in (left, right)) or not all(
                        isinstance(side, (Var, Const)) for side in (left, right)
                    ):
                        return False
                case _:
                    return False
        if moved > 1:
            return False
    return True
