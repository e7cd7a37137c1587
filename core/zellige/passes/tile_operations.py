"""Tile operations written out as Maps and loops over elements: tile IR to tile IR.

In: one tile operation. Out: a Map with the same meaning. Every operation has such a form; a backend has better ones for the operations,
sizes and types that it knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zellige.dtypes import DType, dtype as as_dtype
from zellige.ir.expr import (
    BOOL,
    INT64,
    Binary,
    BinaryOp,
    Cast,
    Compare,
    Const,
    Expr,
    Load,
    Math,
    Region,
    Select,
    Unary,
    Var,
    constant_value,
)
from zellige.ir.folding import index_as
from zellige.ir.reductions import identity, reduction_dtype
from zellige.ir.stmt import (
    Assign,
    Atomic,
    AtomicTile,
    Bind,
    Copy,
    Fill,
    For,
    Gemm,
    Map,
    Reduce,
    ReduceOp,
    ReducerInit,
    Scan,
    Serial,
    Stmt,
    Store,
    Transpose,
    whole,
)
from zellige.records import dataclass

FLOAT32: Final = as_dtype("float32")
FLOAT64: Final = as_dtype("float64")


def number(value: int) -> Const:
    """A constant index."""
    return Const(value=value, dtype=INT64)


def axis(name: str) -> Var:
    """A fresh loop variable."""
    return Var(name=name, dtype=INT64, kind="loop")


def wide(expr: Expr) -> Expr:
    """An index as int64."""
    return index_as(expr, INT64)


def added(left: Expr, right: Expr) -> Expr:
    """The sum of two indices as int64; the right one alone where the left is 0."""
    left = wide(left)
    if constant_value(left) == 0:
        return right
    return Binary(op="add", left=left, right=right)


def converted(value: Expr, dtype: DType) -> Expr:
    """``value`` cast to ``dtype`` where it has another."""
    return value if value.dtype == dtype else Cast(value=value, dtype=dtype)


def logical_not(value: Expr) -> Expr:
    """The other truth value."""
    if isinstance(value, Const):
        return Const(value=not value.value, dtype=BOOL)
    return Unary(op="not", value=value)


def element_at(region: Region, position: Sequence[Expr]) -> tuple[Expr, ...]:
    """The indices of the element of ``region`` at a position inside it."""
    return tuple(added(offset, place) for offset, place in zip(region.offsets, position))


def load_at(region: Region, position: Sequence[Expr]) -> Load:
    """The element of a region at a position inside it."""
    return Load(buffer=region.buffer, indices=element_at(region, position), span=region.span)


def store_at(region: Region, position: Sequence[Expr], value: Expr) -> Store:
    """Stores to the element of a region at a position inside it."""
    return Store(buffer=region.buffer, indices=element_at(region, position), value=value, span=region.span)


# -- copies --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pairing:
    """Axes over the extents of two regions that are not 1, and the position in each region that the axes name."""

    axes: tuple[Var, ...]
    extents: tuple[Expr, ...]
    source: tuple[Expr, ...]
    target: tuple[Expr, ...]


def agreeing_extents(statement: Copy | Transpose | AtomicTile) -> list[tuple[Expr, Expr]]:
    """The extents of both sides that must be equal when the program runs, where that is not known now."""
    source = [wide(e) for e in statement.src.extents if constant_value(e) != 1]
    target = [wide(e) for e in statement.dst.extents if constant_value(e) != 1]
    if isinstance(statement, Transpose):
        source = source[::-1]
    one = number(1)
    count = max(len(source), len(target))
    padded = [[one] * (count - len(side)) + side for side in (source, target)]
    pairs = list(zip(*padded))
    return [(a, b) for a, b in pairs if constant_value(a) is None or constant_value(b) is None]


def _paired(source: Region, target: Region) -> _Pairing:
    wanted = [d for d, extent in enumerate(target.extents) if constant_value(extent) != 1]
    given = [d for d, extent in enumerate(source.extents) if constant_value(extent) != 1]
    count = max(len(wanted), len(given))
    axes = tuple(axis(f"p{i}") for i in range(count))
    # aligned at the end: an extent without a partner is 1 when the program runs
    target_places = dict(zip(reversed(wanted), reversed(axes)))
    source_places = dict(zip(reversed(given), reversed(axes)))
    extents: dict[Var, Expr] = {v: source.extents[d] for d, v in source_places.items()}
    extents.update((v, target.extents[d]) for d, v in target_places.items() if v not in extents or constant_value(extents[v]) is None)
    return _Pairing(
        axes,
        tuple(wide(extents[v]) for v in axes),
        tuple(source_places.get(d, number(0)) for d in range(len(source.extents))),
        tuple(target_places.get(d, number(0)) for d in range(len(target.extents))),
    )


def copy_as_map(statement: Copy | Transpose) -> Map:
    """A copy or transposition as independent points, one an element."""
    if isinstance(statement, Transpose):
        return _transpose_as_map(statement)
    pair = _paired(statement.src, statement.dst)
    value = converted(load_at(statement.src, pair.source), statement.dst.buffer.dtype)
    return _map(statement, pair.axes, pair.extents, (store_at(statement.dst, pair.target, value),))


def _map(statement: Stmt, axes: tuple[Var, ...], extents: tuple[Expr, ...], body: tuple[Stmt, ...]) -> Map:
    if not axes:
        axes, extents = (axis("p0"),), (number(1),)
    return Map(axes=axes, extents=extents, body=body, span=statement.span)


def matrix_axes(region: Region) -> tuple[int, int]:
    """The two dimensions of a region that are its rows and columns: its only ones, or the two whose extent is not 1."""
    if len(region.extents) == 2:
        return 0, 1
    sizes = [d for d, extent in enumerate(region.extents) if constant_value(extent) != 1]
    return (sizes[0], sizes[1]) if len(sizes) == 2 else (len(region.extents) - 2, len(region.extents) - 1)


def _transpose_as_map(statement: Transpose) -> Map:
    rows, columns = axis("row"), axis("column")
    source_rows, source_columns = matrix_axes(statement.src)
    target_rows, target_columns = matrix_axes(statement.dst)
    source: list[Expr] = [number(0)] * len(statement.src.extents)
    target: list[Expr] = [number(0)] * len(statement.dst.extents)
    source[source_rows], source[source_columns] = columns, rows
    target[target_rows], target[target_columns] = rows, columns
    value = converted(load_at(statement.src, source), statement.dst.buffer.dtype)
    extents = (wide(statement.dst.extents[target_rows]), wide(statement.dst.extents[target_columns]))
    return _map(statement, (rows, columns), extents, (store_at(statement.dst, target, value),))


def _over(region: Region) -> tuple[tuple[Var, ...], tuple[Expr, ...], tuple[Expr, ...]]:
    """Axes over the extents of a region that are not 1, these extents, and the position that the axes name."""
    axes: list[Var] = []
    extents: list[Expr] = []
    position: list[Expr] = []
    for extent in region.extents:
        if constant_value(extent) == 1:
            position.append(number(0))
            continue
        axes.append(axis(f"p{len(axes)}"))
        extents.append(wide(extent))
        position.append(axes[-1])
    return tuple(axes), tuple(extents), tuple(position)


def fill_as_map(statement: Fill) -> tuple[Stmt, ...]:
    """The value is computed once, before the Map."""
    axes, extents, position = _over(statement.dst)
    if isinstance(statement.value, (Const, Var)):
        return (_map(statement, axes, extents, (store_at(statement.dst, position, statement.value),)),)
    value = Var(name="filling", dtype=statement.value.dtype, kind="value")
    return (
        Bind(var=value, value=statement.value, span=statement.span),
        _map(statement, axes, extents, (store_at(statement.dst, position, value),)),
    )


def reducer_fill(statement: ReducerInit) -> Fill:
    """The start of a reducer: its tile filled with the operation's identity."""
    dtype = statement.buffer.dtype
    return Fill(dst=whole(statement.buffer), value=Const(value=identity(statement.op, dtype), dtype=dtype), span=statement.span)


def atomic_as_map(statement: AtomicTile) -> Map:
    """An atomic operation of tiles as one atomic operation a point."""
    pair = _paired(statement.src, statement.dst)
    value = converted(load_at(statement.src, pair.source), statement.dst.buffer.dtype)
    update = Atomic(
        op=statement.op,
        buffer=statement.dst.buffer,
        indices=element_at(statement.dst, pair.target),
        value=value,
        order=statement.order,
        span=statement.span,
    )
    return _map(statement, pair.axes, pair.extents, (update,))


# -- products ------------------------------------------------------------------------------------------------------------


def gemm_dtype(a: DType, b: DType, c: DType) -> DType:
    """float64 where an operand is, float32 for all other floats, 64-bit integers (which wrap to c's dtype alike) for integers."""
    if a.is_float or b.is_float or c.is_float:
        return FLOAT64 if any(t == FLOAT64 for t in (a, b, c)) else FLOAT32
    return INT64


def gemm_as_map(statement: Gemm) -> tuple[Stmt, ...]:
    """Any product: dynamic extents, block scales, structured sparsity."""
    a, b, c = statement.a, statement.b, statement.c
    total_dtype = gemm_dtype(a.buffer.dtype, b.buffer.dtype, c.buffer.dtype)
    row, column, step = axis("row"), axis("column"), axis("k")
    clear = Var(name="clear", dtype=BOOL, kind="value")
    total = Var(name="total", dtype=total_dtype, kind="mutable")

    def at(region: Region, first: Expr, second: Expr, *, swap: bool = False) -> tuple[Expr, ...]:
        lead: tuple[Expr, ...] = (number(0),) * (len(region.extents) - 2)
        return (*lead, second, first) if swap else (*lead, first, second)

    depth: Expr = wide(a.extents[-2] if statement.transpose_a else a.extents[-1])
    place: Expr = step
    if statement.metadata is not None:
        place = _sparse_column(statement.metadata, row, step)
    left = _scaled(a, statement.scale_a, at(a, row, step, swap=statement.transpose_a), total_dtype)
    right = _scaled(b, statement.scale_b, at(b, place, column, swap=statement.transpose_b), total_dtype)
    product = Binary(op="mul", left=left, right=right)
    before = converted(load_at(c, at(c, row, column)), total_dtype)
    zero = Const(value=0 if total_dtype.is_integer else 0.0, dtype=total_dtype)
    position = at(c, row, column)
    body: tuple[Stmt, ...] = (
        Bind(var=total, value=zero),
        For(
            var=step, start=number(0), stop=depth, step=number(1), kind=Serial(),
            body=(Assign(var=total, value=Binary(op="add", left=total, right=product)),),
        ),
        Assign(var=total, value=Select(condition=clear, then=total, otherwise=Binary(op="add", left=before, right=total))),
        store_at(c, position, converted(total, c.buffer.dtype)),
    )  # fmt: skip
    return (
        Bind(var=clear, value=statement.clear, span=statement.span),
        _map(statement, (row, column), (wide(c.extents[-2]), wide(c.extents[-1])), body),
    )


def _scaled(region: Region, scale: Region | None, position: tuple[Expr, ...], dtype: DType) -> Expr:
    value = converted(load_at(region, position), dtype)
    if scale is None:
        return value
    places: list[Expr] = [number(0)] * (len(scale.extents) - 2)
    for back in (2, 1):
        block = Binary(op="floordiv", left=wide(region.extents[-back]), right=wide(scale.extents[-back]))
        size = constant_value(region.extents[-back]), constant_value(scale.extents[-back])
        blocks: Expr = number(int(size[0]) // int(size[1])) if size[0] is not None and size[1] else block
        places.append(Binary(op="floordiv", left=position[-back], right=blocks))
    return Binary(op="mul", left=value, right=converted(load_at(scale, places), dtype))


def _sparse_column(metadata: Region, row: Expr, kept: Expr) -> Expr:
    """Where along k the kept element lies: of every four, two bits of the row's metadata name each of two."""
    bits = metadata.buffer.dtype.bits
    first = Binary(op="mul", left=kept, right=number(2))
    word = Binary(op="floordiv", left=first, right=number(bits))
    shift = Binary(op="floormod", left=first, right=number(bits))
    lead: tuple[Expr, ...] = (number(0),) * (len(metadata.extents) - 2)
    value = Cast(value=load_at(metadata, (*lead, row, word)), dtype=INT64)
    pair = Binary(op="bitand", left=Binary(op="shr", left=value, right=shift), right=number(3))
    group = Binary(op="mul", left=Binary(op="floordiv", left=kept, right=number(2)), right=number(4))
    return Binary(op="add", left=group, right=pair)


# -- reductions and scans ------------------------------------------------------------------------------------------------


COMBINE: dict[ReduceOp, BinaryOp] = {
    "sum": "add", "abssum": "add", "prod": "mul", "max": "max", "absmax": "max", "min": "min",
    "bitand": "bitand", "bitor": "bitor", "bitxor": "bitxor", "any": "or", "all": "and",
}  # fmt: skip


def combiner(op: ReduceOp, *, nan_propagate: bool) -> BinaryOp:
    """The operation that combines two partial results."""
    word = COMBINE[op]
    return f"{word}_nan" if nan_propagate and word in ("max", "min") else word  # type: ignore[return-value]


def contribution(op: ReduceOp, value: Expr) -> Expr:
    """What one element adds to a partial result."""
    if op in ("absmax", "abssum"):
        return Math(function="abs", args=(value,), dtype=value.dtype)
    if op in ("any", "all"):
        return converted(value, BOOL)
    return value


def reduce_as_map(statement: Reduce) -> Map:
    """A reduction as a point for each result, with a serial loop along the reduced axis in it."""
    source, target, op = statement.src, statement.dst, statement.op
    dtype = reduction_dtype(source.buffer.dtype, target.buffer.dtype)
    held = BOOL if op in ("any", "all") else dtype
    combine = combiner(op, nan_propagate=statement.nan_propagate)
    axes, extents, position = _over_all(source, statement.axis)
    step = axis("r")
    value = contribution(op, converted(load_at(source, (*position[: statement.axis], step, *position[statement.axis :])), dtype))
    length = wide(source.extents[statement.axis])
    total = Var(name="total", dtype=held, kind="mutable")
    result: Expr = total
    spread = aligned(source, target, position, statement.axis)
    if not statement.clear:
        result = Binary(op=combine, left=_held(load_at(target, spread), held, dtype), right=total)
    body: tuple[Stmt, ...] = (
        Bind(var=total, value=start_of(op, held, length, nan_propagate=statement.nan_propagate)),
        For(
            var=step, start=number(0), stop=length, step=number(1), kind=Serial(),
            body=(Assign(var=total, value=Binary(op=combine, left=total, right=value)),),
        ),
        store_at(target, spread, converted(converted(result, dtype), target.buffer.dtype)),
    )  # fmt: skip
    return _map(statement, axes, extents, body)


def _held(value: Expr, held: DType, dtype: DType) -> Expr:
    return converted(converted(value, dtype), held)


def start_of(op: ReduceOp, held: DType, length: Expr, *, nan_propagate: bool) -> Expr:
    """What the accumulation begins with. A maximum that skips NaN begins with NaN, so that only a row without numbers gives NaN."""
    neutral = Const(value=identity(op, held), dtype=held)
    if not held.is_float or op not in ("max", "min", "absmax") or nan_propagate:
        return neutral
    missing = Const(value=float("nan"), dtype=held)
    count = constant_value(length)
    if count is not None:
        return missing if count > 0 else neutral
    return Select(condition=Compare(op="gt", left=length, right=number(0)), then=missing, otherwise=neutral)


def _over_all(source: Region, skipped: int) -> tuple[tuple[Var, ...], tuple[Expr, ...], tuple[Expr, ...]]:
    """Axes over all dimensions of ``source`` but one."""
    kept = [d for d in range(len(source.extents)) if d != skipped]
    axes = tuple(axis(f"p{i}") for i in range(len(kept)))
    return axes, tuple(wide(source.extents[d]) for d in kept), axes


def _keeps_axis(source: Region, target: Region, axis: int) -> bool:
    """Whether the target has the source's extents with 1 at the axis."""
    if len(target.extents) != len(source.extents) or constant_value(target.extents[axis]) != 1:
        return False
    pairs = [(constant_value(s), constant_value(t)) for d, (s, t) in enumerate(zip(source.extents, target.extents)) if d != axis]
    return all(s == t or s is None or t is None for s, t in pairs)


def aligned(source: Region, target: Region, position: tuple[Expr, ...], axis: int) -> tuple[Expr, ...]:
    """A position in the source without its axis as one in ``target``, which may keep an extent of 1 there and add or drop others."""
    if _keeps_axis(source, target, axis):
        return (*position[:axis], number(0), *position[axis:])
    kept = [extent for d, extent in enumerate(source.extents) if d != axis]
    indices = [index for extent, index in zip(kept, position) if constant_value(extent) != 1]
    places = [d for d, extent in enumerate(target.extents) if constant_value(extent) != 1]
    spread: list[Expr] = [number(0)] * len(target.extents)
    for place, index in zip(reversed(places), reversed(indices)):
        spread[place] = index
    return tuple(spread)


def scan_as_map(statement: Scan) -> Map:
    """A scan as a point for each line, with a serial loop along the axis in it."""
    source, target = statement.src, statement.dst
    dtype = reduction_dtype(source.buffer.dtype, target.buffer.dtype)
    axes, extents, position = _over_all(source, statement.axis)
    step = axis("r")
    length = wide(source.extents[statement.axis])
    at: Expr = step
    if statement.reverse:
        at = Binary(op="sub", left=Binary(op="sub", left=length, right=number(1)), right=step)
    place = (*position[: statement.axis], at, *position[statement.axis :])
    total = Var(name="total", dtype=dtype, kind="mutable")
    start = start_of(statement.op, dtype, number(1), nan_propagate=False)
    body: tuple[Stmt, ...] = (
        Bind(var=total, value=start),
        For(
            var=step, start=number(0), stop=length, step=number(1), kind=Serial(),
            body=(
                Assign(var=total, value=Binary(op=COMBINE[statement.op], left=total, right=converted(load_at(source, place), dtype))),
                store_at(target, place, converted(total, target.buffer.dtype)),
            ),
        ),
    )  # fmt: skip
    return _map(statement, axes, extents, body)
