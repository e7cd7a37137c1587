"""The lane extension: barriers, shuffles and votes that the author writes, and which code the lanes do not run together.

In: lane statements and the context. Out: thread-level statements. Where the lanes of a block may part, no barrier is inserted: what the
code there touches is said before it, and after it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zellige.ir.expr import Buffer, Expr, Load
from zellige.ir.lanes import PRIVATE
from zellige.ir.stmt import Alloc, Atomic, Barrier, Print, ReducerUpdate, Shuffle, Stmt, StmtNode, Vote
from zellige.ir.traverse import rebuilt, walk
from zellige.simt import elements
from zellige.simt.context import Context


def emit(ctx: Context, statement: Barrier | Shuffle | Vote) -> None:
    """The statement, with its operands read from where they live."""
    match statement:
        case Barrier():
            ctx.code.emit(statement)
        case Shuffle():
            value, operand = elements.value_of(ctx, statement.value), elements.value_of(ctx, statement.operand)
            ctx.code.emit(rebuilt(statement, value=value, operand=operand))
        case Vote():
            ctx.code.emit(rebuilt(statement, predicate=elements.value_of(ctx, statement.predicate)))


def is_private(ctx: Context, statement: Stmt) -> bool:
    """Whether each lane runs a Map or a tile operation for itself."""
    if not ctx.has_lanes or ctx.dependence is None:
        return _writes_own_copies(statement)
    return ctx.dependence.is_private(statement)


def _writes_own_copies(statement: Stmt) -> bool:
    """Whether all that a block's operation changes are tiles of which every lane has a copy: then each lane makes all of them, since
    any lane may read any element later. What reads fragments is shared out as they are."""
    written: set[Buffer] = set()
    own: set[Buffer] = set()
    for node in walk(statement):
        match node:
            case Print():
                return False
            case Alloc(buffer=buffer):
                own.add(buffer)
            case Load(buffer=buffer) if buffer.root.space == "fragment":
                return False
            case StmtNode():
                if any(r.buffer.root.space == "fragment" for r in node.reads()):
                    return False
                written.update(r.buffer.root for r in node.writes())
            case _:
                pass
    written -= own
    return bool(written) and all(root.space in PRIVATE for root in written)


def may_differ(ctx: Context, expr: Expr) -> bool:
    """Whether lanes may see different values of an expression."""
    if ctx.point is not None:
        return True
    return ctx.dependence is not None and ctx.dependence.differs(expr)


@contextmanager
def maybe_divergent(ctx: Context, statement: Stmt, condition: Expr) -> Iterator[None]:
    """Code whose reach depends on ``condition``: where lanes may part, its touches stand before it and no barrier in it."""
    if not may_differ(ctx, condition):
        yield
        return
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()
    atomics: set[Buffer] = set()
    for node in walk(statement):
        if isinstance(node, Load):
            reads.add(node.buffer.root)
        elif isinstance(node, (Atomic, ReducerUpdate)):
            atomics.add(node.buffer.root)
        elif isinstance(node, StmtNode):
            writes.update(r.buffer.root for r in node.writes())
            reads.update(r.buffer.root for r in node.reads())
    shared = ctx.is_shared_by_lanes
    ctx.code.touch(
        reads=[b for b in reads if shared(b)], writes=[b for b in writes - atomics if shared(b)],
        atomics=[b for b in atomics if shared(b)], span=statement.span,
    )  # fmt: skip
    with ctx.code.quiet():
        yield
