"""Copies from global to shared memory that land later.

In: a Copy and the context. Out: asynchronous copies of 16 bytes or fewer a lane, or the answer that only a copy through registers will do
(other types on both sides, rows that are not aligned, a mechanism that the target lacks).
"""

from __future__ import annotations

from dataclasses import dataclass

from zellige.analysis.forms import Form
from zellige.ir.expr import Expr, Load, constant_value
from zellige.ir.stmt import Copy, Map, Store
from zellige.passes import tile_operations
from zellige.simt import elements, maps
from zellige.simt.context import Context, Point
from zellige.simt.distribution import distribute, times
from zellige.simt.homes import GlobalHome, SharedHome
from zellige.simt.ir import AsyncCopy


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pieces:
    """A copy as a Map whose points of ``vector`` neighbours are one asynchronous copy each."""

    map: Map
    store: Store
    load: Load
    vector: int


def asynchronous(ctx: Context, copy: Copy) -> _Pieces | None:
    """How a copy can land later; None where it cannot."""
    source, target = ctx.homes.get(copy.src.buffer.root), ctx.homes.get(copy.dst.buffer.root)
    if not isinstance(source, GlobalHome) or not isinstance(target, SharedHome) or copy.src.buffer.dtype != copy.dst.buffer.dtype:
        return None
    if copy.src.buffer.root in ctx.safe_values or copy.src.buffer in ctx.safe_values:
        return None
    written = ctx.as_maps.get(id(copy)) or tile_operations.copy_as_map(copy)
    store = written.body[0]
    if not isinstance(store, Store) or not isinstance(store.value, Load):
        return None
    extents = [constant_value(e) for e in written.extents]
    if not all(isinstance(e, int) and e > 0 for e in extents):
        return None
    size = copy.src.buffer.dtype.storage_bits
    for bytes_of in sorted(ctx.machine.async_copy_bytes, reverse=True):
        vector = bytes_of * 8 // size
        if vector < 1 or bytes_of * 8 % size or int(extents[-1] or 0) % vector:
            continue
        with ctx.inner_scope() as scope:
            for axis, extent in zip(written.axes, extents):
                scope.add_variable(axis, Form.of(0), Form.of(int(extent or 0) - 1))
            if vector == 1 or all(maps.is_wide(ctx, access, written.axes, vector) for access in (store, store.value)):
                return _Pieces(map=written, store=store, load=store.value, vector=vector)
    return None


def emit_copy(ctx: Context, copy: Copy, *, is_async: bool) -> bool:
    """The copy landing later, where that is asked for and possible; whether it was emitted."""
    if not is_async:
        return False
    pieces = asynchronous(ctx, copy)
    if pieces is None:
        return False
    sizes = [int(constant_value(e) or 0) for e in pieces.map.extents]
    distribution = distribute(sizes, lanes=ctx.lanes, warps=ctx.warps, vector=pieces.vector)
    axes = pieces.map.axes
    owner = ctx.is_owner(distribution)
    with ctx.inner_scope() as scope, ctx.when(owner, copy.span):
        for axis, extent in zip(axes, sizes):
            scope.add_variable(axis, Form.of(0), Form.of(extent - 1))
        with ctx.loop("r", distribution.registers // pieces.vector, is_unrolled=True, span=copy.span) as group:
            register = times(group, pieces.vector)
            maps.bind_axes(ctx, axes, distribution, register)
            point = Point(axes=axes, distribution=distribution, register=register)
            with ctx.when(maps.inside(axes, distribution)), ctx.at(point):
                _one(ctx, pieces, copy)
    return True


def _one(ctx: Context, pieces: _Pieces, copy: Copy) -> None:
    source = elements.place_of(ctx, pieces.load.buffer, tuple(elements.value_of(ctx, i) for i in pieces.load.indices))
    target = elements.place_of(ctx, pieces.store.buffer, tuple(elements.value_of(ctx, i) for i in pieces.store.indices))
    size = pieces.vector * copy.src.buffer.dtype.storage_bits // 8
    valid: Expr | None = source.condition
    with ctx.when(target.condition, copy.span):
        ctx.code.emit(
            AsyncCopy(
                target=target.memory, target_index=target.index, source=source.memory, source_index=source.index, size=size,
                is_valid=valid, span=copy.span,
            )
        )  # fmt: skip
