"""Reductions inside a Map: partial results in registers while the points along the last axis go by, one element at the end.

In: the :class:`zellige_cpu.fusion.Fold` statements of a Map's body. Out: code before, in and after the loop over its last axis.

Each width of vector that the loop uses has a partial result of its own, a stack cell that LLVM turns into a register; they start as the
operation's identity, so that lanes beyond the end change nothing. The order in which floats are added is open
(:class:`zellige.ir.stmt.Reduce`), and depends on the sizes alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field

from zellige.diagnostics import InternalError
from zellige.dtypes import DType
from zellige.ir.reductions import reduction_dtype
from zellige.records import dataclass
from zellige_cpu import accesses
from zellige_cpu.context import Context
from zellige_cpu.expressions import evaluate
from zellige_cpu.fusion import Fold
from zellige_cpu.leaf import convert, reduce
from zellige_cpu.lines import Line
from zellige_cpu.types import register_type, vector_type
from zellige_cpu.values import Value


@dataclass(slots=True)
class Partial:
    """The partial results of one Fold: the place where they get their first value, and a cell for each width."""

    start: list[Line]
    cells: dict[int, Value] = field(default_factory=dict)


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


def _finish(ctx: Context, fold: Fold, partial: Partial) -> None:
    fn = ctx.fn
    total_type = accumulator(fold)
    kind = fold.dst.buffer.dtype

    def combined(left: Value, right: Value) -> Value:
        return reduce.combined(fn, fold.op, left, right, total_type, fold.nan_propagate)

    total: Value | None = None
    for lanes, cell in sorted(partial.cells.items(), reverse=True):
        part = reduce.folded(fn, fn.load(cell, register_type(total_type), lanes, align=64), combined)
        total = part if total is None else combined(total, part)
    if total is None:
        raise InternalError("a fold of no points")
    ctx.loaded = {}
    if not fold.clear:
        old = accesses.load(ctx, fold.dst.buffer, fold.dst.offsets)
        total = combined(convert.cast(fn, old, kind, total_type), total)
    accesses.store(ctx, fold.dst.buffer, fold.dst.offsets, convert.cast(fn, total, total_type, kind))
    ctx.loaded = {}
