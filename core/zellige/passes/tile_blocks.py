"""Tile operations for machines with a few instructions of their own: a product cut into blocks of one size, the rest as maps and loops.

In: one tile operation. Out: statements with the same meaning. A backend lowers what it has an instruction for, and asks for others here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zellige.analysis.map_changes import outer_changes
from zellige.dtypes import DType
from zellige.ir.expr import BOOL, INT64, Binary, Buffer, Const, Expr, Region, Var, constant_value
from zellige.ir.stmt import (
    Alloc,
    Atomic,
    AtomicOp,
    AtomicTile,
    Copy,
    Fill,
    For,
    Gemm,
    If,
    Map,
    Reduce,
    ReducerInit,
    ReducerUpdate,
    Scan,
    Serial,
    Stmt,
    Store,
    Transpose,
    whole,
)
from zellige.ir.traverse import rebuilt
from zellige.passes import tile_operations as tiles
from zellige.records import dataclass


def as_maps(statement: object) -> tuple[Stmt, ...] | None:
    """A tile operation element by element; None for another statement."""
    match statement:
        case Gemm():
            return tiles.gemm_as_map(statement)
        case Copy() | Transpose():
            return (tiles.copy_as_map(statement),)
        case AtomicTile():
            return (tiles.atomic_as_map(statement),)
        case Fill():
            return tiles.fill_as_map(statement)
        case ReducerInit():
            return tiles.fill_as_map(tiles.reducer_fill(statement))
        case Reduce():
            return (tiles.reduce_as_map(statement),)
        case Scan():
            return (tiles.scan_as_map(statement),)
        case _:
            return None


_CHANGES: Final[dict[AtomicOp, str]] = {"and": "bitand", "or": "bitor", "xor": "bitxor"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One element of a buffer changed: by ``name``, an operation of two operands or one of "store", "exchange" and "load", with ``value``
    (None: nothing is given). ``result`` takes what the element held before, where it is asked for."""

    name: str
    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr | None
    result: Var | None = None


def as_change(statement: Store | Atomic | ReducerUpdate) -> Change:
    """A statement that changes one element, in one form. Only atomics and updates of reducers happen indivisibly."""
    match statement:
        case Store():
            return Change(name="store", buffer=statement.buffer, indices=statement.indices, value=statement.value)
        case Atomic():
            name = _CHANGES.get(statement.op, statement.op)
            return Change(name=name, buffer=statement.buffer, indices=statement.indices, value=statement.value, result=statement.result)
        case ReducerUpdate():
            value = tiles.converted(tiles.contribution(statement.op, statement.value), statement.buffer.dtype)
            return Change(name=tiles.COMBINE[statement.op], buffer=statement.buffer, indices=statement.indices, value=value)


def private_changes(statement: Map) -> tuple[Var | Buffer, ...]:
    """Variables and private buffers from outside that the points of a map change: each point works on a copy of its own."""
    found = outer_changes(statement)
    return (*found.variables, *found.buffers)


def map_as_loops(statement: Map) -> tuple[Stmt, ...] | None:
    """A map whose points follow one another; None where somebody could see that: points with values of their own that they read."""
    found = outer_changes(statement)
    if found.variables or not found.read.isdisjoint(found.buffers):
        return None
    return _nested(statement.axes, statement.extents, (1,) * len(statement.axes), statement.body)


def _nested(axes: Sequence[Var], ends: Sequence[Expr], steps: Sequence[int], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Loops from 0, the first axis outermost."""
    for var, end, step in reversed(list(zip(axes, ends, steps))):
        body = (For(var=var, start=tiles.number(0), stop=end, step=tiles.number(step), kind=Serial(), body=body),)
    return body


def gemm_in_blocks(gemm: Gemm, sizes: tuple[int, int, int], total: DType) -> tuple[tuple[Stmt, ...], Gemm]:
    """A product (without scales or metadata) as loops over blocks of at most ``sizes`` (m, n, k), and the product of one block, which
    stands in them and adds to c. Where c has another type than the sum (``total``), a tile of its own holds that and is rounded once."""
    c = gemm.c
    if c.buffer.dtype != total:
        sums = whole(Buffer(name="sums", dtype=total, shape=c.extents, space="local"))
        body, block = gemm_in_blocks(rebuilt(gemm, c=sums), sizes, total)
        return (Alloc(buffer=sums.buffer), Copy(src=c, dst=sums), *body, Copy(src=sums, dst=c)), block
    clear, fill = constant_value(gemm.clear), Fill(dst=c, value=Const(value=0, dtype=total))
    begin: tuple[Stmt, ...] = () if clear is False else (fill,) if clear else (If(condition=gemm.clear, then=(fill,), otherwise=()),)
    rows, columns, steps = axes = tuple(Var(name=name, dtype=INT64, kind="loop") for name in ("row", "column", "step"))
    ends = (c.extents[-2], c.extents[-1], gemm.a.extents[-2 if gemm.transpose_a else -1])
    m, n, k = (_left(end, at, size) for end, at, size in zip(ends, axes, sizes))
    block = rebuilt(
        gemm,
        a=_part(gemm.a, (steps, rows) if gemm.transpose_a else (rows, steps), (k, m) if gemm.transpose_a else (m, k)),
        b=_part(gemm.b, (columns, steps) if gemm.transpose_b else (steps, columns), (n, k) if gemm.transpose_b else (k, n)),
        c=_part(c, (rows, columns), (m, n)),
        clear=Const(value=False, dtype=BOOL),
    )
    return (*begin, *_nested(axes, ends, sizes, (block,))), block


def _left(end: Expr, at: Var, size: int) -> Expr:
    """The extent of a block: its size, or what is left where the end comes before."""
    known = constant_value(end)
    if known is not None and int(known) % size == 0:
        return tiles.number(size)
    return Binary(op="min", left=tiles.number(size), right=Binary(op="sub", left=tiles.wide(end), right=at))


def _part(region: Region, places: tuple[Var, Var], extents: tuple[Expr, Expr]) -> Region:
    """A box of the last two dimensions."""
    offsets = tuple(tiles.added(offset, place) for offset, place in zip(region.offsets[-2:], places))
    return rebuilt(region, offsets=(*region.offsets[:-2], *offsets), extents=(*region.extents[:-2], *extents))
