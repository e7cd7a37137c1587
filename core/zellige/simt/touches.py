"""What a statement is about to read, write and change atomically, said before it so that barriers stand where lanes depend on each other.

In: statements, regions or expressions of the tile IR. Out: calls of ``touch`` of :mod:`zellige.simt.code` with the memory that lanes share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zellige.ir.expr import Buffer, Expr, Load, Region
from zellige.ir.stmt import Atomic, For, If, Map, ReducerUpdate, Stmt, StmtNode, While
from zellige.ir.traverse import loads_in, walk
from zellige.simt.context import Context


def loads_of(expr: Expr) -> list[Load]:
    """The elements that an expression reads."""
    return [node for node in walk(expr) if isinstance(node, Load)]


def touch_map(ctx: Context, written: Map) -> None:
    """Say what a Map is about to read, write and change atomically."""
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()
    atomics: set[Buffer] = set()
    for node in walk(written):
        match node:
            case Load(buffer=buffer):
                reads.add(buffer.root)
            case Atomic(buffer=buffer) | ReducerUpdate(buffer=buffer):
                atomics.add(buffer.root)
            case _:
                if isinstance(node, StmtNode) and not isinstance(node, (Map, For, If, While)):
                    writes.update(r.buffer.root for r in node.writes())
                    reads.update(r.buffer.root for r in node.reads())
    touch_roots(ctx, reads - atomics, writes - atomics, atomics, written.span)


def touch(ctx: Context, reads: Sequence[Region], writes: Sequence[Region], span: Any = None) -> None:
    """Say which regions are about to be read and written."""
    touch_roots(ctx, {r.buffer.root for r in reads}, {r.buffer.root for r in writes}, set(), span)


def loaded(statement: Stmt) -> set[Buffer]:
    """The storage that the statement's own expressions read from."""
    return {load.buffer.root for load in loads_in(statement)}


def touch_loads(ctx: Context, statement: Stmt) -> None:
    """Say which elements the statement's own expressions are about to read; inside a point its Map has said it."""
    if ctx.point is None:
        touch_roots(ctx, loaded(statement), set(), set(), statement.span)


def touch_roots(ctx: Context, reads: set[Buffer], writes: set[Buffer], atomics: set[Buffer], span: Any) -> None:
    """Say which memory is about to be read, written and changed atomically, as far as lanes share it."""
    ctx.code.touch(
        reads=[b for b in reads if ctx.is_shared_by_lanes(b)],
        writes=[b for b in writes if ctx.is_shared_by_lanes(b)],
        atomics=[b for b in atomics if ctx.is_shared_by_lanes(b)],
        span=span,
    )
