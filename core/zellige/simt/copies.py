"""Copies from global to shared memory that land later.

In: a Copy and the context. Out: asynchronous copies of 16 bytes or fewer a lane, or the answer that only a copy through registers will do
(other types on both sides, rows that are not aligned, a mechanism that the target lacks).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zellige.analysis.forms import Form
from zellige.ir.expr import INT32, INT64, Binary, Buffer, Cast, Compare, Const, Expr, Load, Var, constant_value
from zellige.ir.stmt import Copy, Map, Store
from zellige.ir.traverse import walk
from zellige.passes import tile_operations
from zellige.records import dataclass
from zellige.simt import elements, maps
from zellige.simt.context import Context, Point, conjunction
from zellige.simt.distribution import Digit, Distribution, added, digit_value, distribute, times
from zellige.simt.homes import GlobalHome, SharedHome, flat_form, form_expression
from zellige.simt.ir import LANE, WARP, AsyncCopy

MOST_ROOM: Final = 1 << 30
"""More than any tile has elements along a dimension."""


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


def emit_copy(ctx: Context, copy: Copy) -> bool:
    """The copy landing later, where that is possible; whether it was emitted."""
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
        if _in_steps(ctx, pieces, copy, distribution):
            return True
        with ctx.loop("r", distribution.registers // pieces.vector, is_unrolled=True, span=copy.span) as group:
            register = times(group, pieces.vector)
            maps.bind_axes(ctx, axes, distribution, register)
            point = Point(axes=axes, distribution=distribution, register=register)
            with ctx.when(maps.inside(axes, distribution)), ctx.at(point):
                _one(ctx, pieces, copy)
    return True


def _one(ctx: Context, pieces: _Pieces, copy: Copy) -> None:
    source, target = _places(ctx, pieces)
    with ctx.when(target.condition, copy.span):
        _emit(ctx, pieces, copy, source.memory, source.index, target.memory, target.index, source.condition)


def _places(ctx: Context, pieces: _Pieces) -> tuple[elements.Place, elements.Place]:
    """Where an element comes from and goes to."""
    source = elements.place_of(ctx, pieces.load.buffer, tuple(elements.value_of(ctx, i) for i in pieces.load.indices))
    target = elements.place_of(ctx, pieces.store.buffer, tuple(elements.value_of(ctx, i) for i in pieces.store.indices))
    return source, target


def _emit(
    ctx: Context, pieces: _Pieces, copy: Copy, source: Buffer, source_index: Expr, target: Buffer, target_index: Expr, valid: Expr | None
) -> None:
    size = pieces.vector * copy.src.buffer.dtype.storage_bits // 8
    ctx.code.emit(
        AsyncCopy(
            target=target, target_index=target_index, source=source, source_index=source_index, size=size, is_valid=valid, span=copy.span
        )
    )


# ---- pieces at constant distances ----


def _in_steps(ctx: Context, pieces: _Pieces, copy: Copy, distribution: Distribution) -> bool:
    """The pieces of a lane by their distances from its first, so that its place in the tensor, its swizzled place in the tile and what is
    left of the tensor from there on are computed once; whether the distances are constant and that was done.

    A place in swizzled storage moves by a distance that leaves alone the bits which the swizzle reads or changes."""
    axes, groups = pieces.map.axes, distribution.registers // pieces.vector
    if groups == 1 or not distribution.is_exact:
        return False
    digits = [d for d in distribution.of_source("register") if d.divisor >= pieces.vector]
    moving = [axes[d.dimension] for d in digits if d.dimension is not None]
    home = ctx.homes[pieces.store.buffer.root]
    if not isinstance(home, SharedHome) or home.slab or pieces.store.buffer.alias is not None:
        return False
    by_target = _slopes(form_expression(flat_form(ctx.scope, pieces.store.indices, home.pitch), is_wide=False), moving)
    swizzle = home.swizzle
    period = 1 if swizzle is None or swizzle.bits == 0 else 1 << max(swizzle.shift, swizzle.base) + swizzle.bits
    if by_target is None or any(d.dimension is not None and d.stride * by_target[axes[d.dimension]] % period for d in digits):
        return False
    with ctx.code.nested() as before:
        maps.bind_axes(ctx, axes, distribution, _ZERO)
        with ctx.at(Point(axes=axes, distribution=distribution, register=_ZERO)):
            source, target = _places(ctx, pieces)
        by_source = _slopes(source.index, moving)
        rooms = [_room(c, axes) for c in source.conditions]
        is_constant = by_source is not None and target.condition is None and None not in rooms and _are_near(digits, axes, by_source)
        if is_constant:
            source_at, target_at = ctx.value("from", source.index), ctx.value("to", target.index)
            left = [(axis, ctx.value("left", room)) for axis, room in (r for r in rooms if r is not None)]
            first = {axis: ctx.value("first", _coordinate(axes, distribution, axis, _ZERO)) for axis, _ in left if axis is not None}
    if not is_constant or by_source is None:
        return False
    ctx.code.emit(*before)
    with ctx.loop("r", groups, is_unrolled=True, span=copy.span) as group:
        register = times(group, pieces.vector)

        def distance(slopes: dict[Var, int]) -> Expr:
            count = distribution.registers
            along = ((d, axes[d.dimension]) for d in digits if d.dimension is not None)
            return added(times(digit_value(register, d, count), d.stride * slopes[axis]) for d, axis in along)

        tests = [
            room if axis is None else Compare(op="lt", left=_sum(first[axis], distance({a: int(a is axis) for a in axes})), right=room)
            for axis, room in left
        ]
        _emit(
            ctx, pieces, copy, source.memory, _sum(source_at, distance(by_source)), target.memory, _sum(target_at, distance(by_target)),
            conjunction(tests),
        )  # fmt: skip
    return True


_ZERO: Final = Const(value=0, dtype=INT32)


def _are_near(digits: Sequence[Digit], axes: Sequence[Var], slopes: dict[Var, int]) -> bool:
    """Whether the distances of a lane's pieces from its first are numbers of 32 bits, in which they are computed."""
    farthest = sum((d.radix - 1) * d.stride * abs(slopes[axes[d.dimension]]) for d in digits if d.dimension is not None)
    return farthest <= int(INT32.max)


def _coordinate(axes: Sequence[Var], distribution: Distribution, axis: Var, register: Expr) -> Expr:
    dimension = next(i for i, a in enumerate(axes) if a is axis)
    return distribution.coordinate(dimension, register=register, lane=LANE, warp=WARP)


def _slopes(place: Expr, axes: Sequence[Var]) -> dict[Var, int] | None:
    """By how many elements a place moves for each step along an axis; None where that is no constant."""
    found = dict.fromkeys(axes, 0)
    pending = [(place, 1)]
    while pending:
        top, factor = pending.pop()
        if not _mentions(top, axes):
            continue
        match top:
            case Var():
                found[top] += factor
            case Cast(value=Var(), dtype=dtype) if dtype in (INT32, INT64):  # an axis ends before either does
                pending.append((top.value, factor))
            case Binary(op="add" | "sub"):
                pending += [(top.left, factor), (top.right, factor if top.op == "add" else -factor)]
            case Binary(op="mul", right=Const(value=value)):
                pending.append((top.left, factor * int(value)))
            case Binary(op="mul", left=Const(value=value)):
                pending.append((top.right, factor * int(value)))
            case _:
                return None
    return found


def _room(condition: Expr, axes: Sequence[Var]) -> tuple[Var | None, Expr] | None:
    """A test ``rest + axis < extent`` as the axis and the number, of 32 bits, that it must be below; of a test that depends on no axis
    (None, the test). None of any other test."""
    if not _mentions(condition, axes):
        return None, condition
    if not isinstance(condition, Compare) or condition.op != "lt" or condition.left.dtype != INT64 or _mentions(condition.right, axes):
        return None
    rest: Expr = condition.right
    left = condition.left
    while not isinstance(left, Var):
        match left:
            case Binary(op="add", dtype=dtype) if dtype == INT64:
                with_axis, other = (left.left, left.right) if _mentions(left.left, axes) else (left.right, left.left)
                if _mentions(other, axes):
                    return None
                rest, left = Binary(op="sub", left=rest, right=other), with_axis
            case Cast(value=value) if left.dtype.is_integer and value.dtype.is_integer and left.dtype.bits >= value.dtype.bits:
                left = value
            case _:
                return None
    least = Binary(op="max", left=rest, right=Const(value=0, dtype=INT64))
    return left, Cast(value=Binary(op="min", left=least, right=Const(value=MOST_ROOM, dtype=INT64)), dtype=INT32)


def _mentions(expr: Expr, axes: Sequence[Var]) -> bool:
    return any(any(node is axis for axis in axes) for node in walk(expr))


def _sum(first: Expr, distance: Expr) -> Expr:
    if constant_value(distance) == 0:
        return first
    return Binary(op="add", left=first, right=distance if first.dtype == INT32 else Cast(value=distance, dtype=first.dtype))
