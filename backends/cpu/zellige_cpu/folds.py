"""Reductions inside a Map: partial results in registers while the points along the last axis go by, one element at the end.

In: the :class:`zellige_cpu.fusion.Fold` statements of a Map's body. Out: code before, in and after the loop over its last axis.

Each width of vector that the loop uses has a partial result of its own, a stack cell that LLVM turns into a register; they start as the
operation's identity, so that lanes beyond the end change nothing. The order in which floats are added is open
(:class:`zellige.ir.stmt.Reduce`), and depends on the sizes alone. Where neighbouring rows give neighbouring elements their vectors wait on
the stack until all rows are through, and are then folded together (:func:`zellige_cpu.leaf.reduce.folded_together`), in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Final

from zellige.analysis.forms import ZERO, Form
from zellige.diagnostics import InternalError
from zellige.dtypes import DType
from zellige.ir.expr import Cast, Expr, Var, constant_value
from zellige.ir.reductions import reduction_dtype
from zellige.records import dataclass
from zellige_cpu import accesses
from zellige_cpu.context import Context, Lanes
from zellige_cpu.expressions import evaluate
from zellige_cpu.fusion import Fold
from zellige_cpu.indexes import uniform
from zellige_cpu.leaf import convert, reduce
from zellige_cpu.lines import Line
from zellige_cpu.types import element_bytes, register_type, vector_type
from zellige_cpu.values import Value, constant


@dataclass(slots=True)
class Partial:
    """The partial results of one Fold: the place where they get their first value, and a cell for each width."""

    start: list[Line]
    cells: dict[int, Value] = field(default_factory=dict)


@dataclass(slots=True)
class Waiting:
    """The vectors of one Fold in all rows of ``axis``, each of ``lanes``, in ``memory``; ``is_used`` says whether rows leave them there."""

    axis: Var
    rows: int
    lanes: int
    memory: Value
    is_used: bool = False


SHORT_ROW: Final = 256
"""Elements of a row up to which rows wait for each other: the end of a longer one does not count."""

_MOST_BYTES: Final = 8192
"""Bytes of the stack that the vectors of all rows may take."""


def accumulator(fold: Fold) -> DType:
    """The type in which the values are combined."""
    return reduction_dtype(fold.value.dtype, fold.dst.buffer.dtype)


@contextmanager
def folding(ctx: Context, folds: Sequence[Fold]) -> Iterator[None]:
    """Around the loop over the last axis: the results are stored behind it."""
    outer = ctx.partials
    ctx.partials = {id(fold): Partial(ctx.fn.reserve()) for fold in folds}
    yield
    partials, ctx.partials = ctx.partials, outer
    for fold in folds:
        _finish(ctx, fold, partials[id(fold)])


@contextmanager
def waiting(ctx: Context, folds: Sequence[Fold], axis: Var, extent: Form) -> Iterator[None]:
    """Around the loop over the last axis but one, whose every turn is a row: what rows leave is folded behind it."""
    outer = ctx.waiting
    found = {id(fold): _place(ctx, fold, axis, extent) for fold in folds}
    ctx.waiting = {number: place for number, place in found.items() if place is not None}
    yield
    places, ctx.waiting = ctx.waiting, outer
    for fold in folds:
        place = places.get(id(fold))
        if place is not None and place.is_used:
            _finish_rows(ctx, fold, place)


def _place(ctx: Context, fold: Fold, axis: Var, extent: Form) -> Waiting | None:
    """Memory for the vectors of all rows, where their results are neighbours in a tile; None where each row is finished for itself."""
    tile, rows = fold.dst.buffer, extent.constant
    kind = register_type(accumulator(fold))
    lanes = ctx.host.lanes(element_bytes(accumulator(fold)))
    if rows is None or rows % lanes or lanes == 1 or rows * ctx.host.vector_bytes > _MOST_BYTES or kind == "i1":
        return None
    is_tile = tile.space != "global" and tile.rank == 1 and constant_value(tile.shape[0]) == rows
    if ctx.lanes is not None or ctx.mask is not None or not is_tile or _uncast(fold.dst.offsets[0]) is not axis:
        return None
    return Waiting(axis, rows, lanes, ctx.fn.alloca(vector_type(kind, lanes), rows))


def _uncast(expr: Expr) -> Expr:
    while isinstance(expr, Cast):
        expr = expr.value
    return expr


def _finish_rows(ctx: Context, fold: Fold, place: Waiting) -> None:
    """The results of all rows, a vector of them at a time."""
    fn, lanes = ctx.fn, place.lanes
    kind, size = register_type(accumulator(fold)), ctx.host.vector_bytes
    with ctx.nested(), fn.loop(constant("i64", 0), constant("i64", place.rows), lanes) as loop:
        first = fn.offset(place.memory, fn.binary("mul", loop.index, constant("i64", size)))
        rows = (fn.load(fn.offset(first, row * size), kind, lanes, align=size) for row in reduce.order_of_rows(lanes))
        total = reduce.folded_together(fn, rows, lanes, lambda left, right: _combined(ctx, fold, left, right))
        ctx.scope.add_variable(place.axis, ZERO, Form.of(place.rows - 1))
        ctx.set_index(place.axis, loop.index)
        ctx.lanes = Lanes(place.axis, lanes)
        _store(ctx, fold, total)
        ctx.lanes = None


def emit_fold(ctx: Context, fold: Fold) -> None:
    """Combine the value of the current points with the partial result of their width."""
    fn = ctx.fn
    partial = ctx.partials.get(id(fold))
    if partial is None:
        raise InternalError("a fold stands outside the Map that it belongs to")
    total_type = accumulator(fold)
    lanes = 1 if ctx.lanes is None else ctx.lanes.count
    nothing = reduce.identity(fold.op, total_type, lanes, fold.nan_propagate)
    cell = partial.cells.get(lanes)
    if cell is None:
        cell = partial.cells[lanes] = fn.alloca(vector_type(register_type(total_type), lanes))
        with fn.inside(partial.start):
            fn.store(nothing, cell, align=64)
    value = fn.splat(convert.cast(fn, evaluate(ctx, fold.value), fold.value.dtype, total_type), lanes)
    if fold.op in ("absmax", "abssum"):
        value = reduce.absolute(fn, value, total_type)
    if ctx.mask is not None:
        value = fn.select(fn.splat(ctx.mask, lanes), value, nothing)
    before = fn.load(cell, register_type(total_type), lanes, align=64)
    fn.store(reduce.combined(fn, fold.op, before, value, total_type, fold.nan_propagate), cell, align=64)


def _combined(ctx: Context, fold: Fold, left: Value, right: Value) -> Value:
    return reduce.combined(ctx.fn, fold.op, left, right, accumulator(fold), fold.nan_propagate)


def _finish(ctx: Context, fold: Fold, partial: Partial) -> None:
    fn = ctx.fn
    kind = register_type(accumulator(fold))
    parts = [fn.load(cell, kind, lanes, align=64) for lanes, cell in sorted(partial.cells.items(), reverse=True)]
    place = ctx.waiting.get(id(fold))
    if place is not None and len(parts) == 1 and parts[0].lanes % place.lanes == 0:
        _leave(ctx, fold, place, parts[0])
        return
    total: Value | None = None
    for vector in parts:
        part = reduce.folded(fn, vector, lambda left, right: _combined(ctx, fold, left, right))
        total = part if total is None else _combined(ctx, fold, total, part)
    if total is None:
        raise InternalError("a fold of no points")
    _store(ctx, fold, total)


def _leave(ctx: Context, fold: Fold, place: Waiting, vector: Value) -> None:
    """This row's vector, folded to one register, to where all rows leave theirs."""
    fn, size = ctx.fn, ctx.host.vector_bytes
    while vector.lanes > place.lanes:
        half = vector.lanes // 2
        vector = _combined(ctx, fold, fn.shuffle(vector, None, range(half)), fn.shuffle(vector, None, range(half, 2 * half)))
    row = uniform(ctx, ctx.scope.form(place.axis))
    fn.store(vector, fn.offset(place.memory, fn.binary("mul", row, constant("i64", size))), align=size)
    place.is_used = True


def _store(ctx: Context, fold: Fold, total: Value) -> None:
    """The result, or a vector of results, combined with what was there where the fold says so."""
    fn, total_type, kind = ctx.fn, accumulator(fold), fold.dst.buffer.dtype
    ctx.loaded = {}
    if not fold.clear:
        old = accesses.load(ctx, fold.dst.buffer, fold.dst.offsets)
        total = _combined(ctx, fold, convert.cast(fn, old, kind, total_type), total)
    accesses.store(ctx, fold.dst.buffer, fold.dst.offsets, convert.cast(fn, total, total_type, kind))
    ctx.loaded = {}
