"""The lane extension: barriers, shuffles and votes that the author writes, and which code the lanes do not run together.

In: lane statements and the context. Out: thread-level statements. Where the lanes of a block may part, no barrier is inserted: what the
code there touches is said before it, and after it again. A shuffle of the tile IR has a meaning for every operand, a machine's only for
those that name a lane of the group: where an operand is not proven to, the lane to read is computed first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from zellige.ir.expr import INT32, INT64, Binary, Buffer, Cast, Compare, Expr, Load, Select, const
from zellige.ir.lanes import PRIVATE
from zellige.ir.stmt import (
    Alloc,
    Atomic,
    Barrier,
    Break,
    Continue,
    For,
    If,
    Print,
    ReducerUpdate,
    Return,
    Shuffle,
    Stmt,
    StmtNode,
    Vote,
    While,
)
from zellige.ir.traverse import walk
from zellige.simt import elements
from zellige.simt.context import Context, conjunction
from zellige.simt.distribution import added, number
from zellige.simt.ir import LANE, THREAD, PartedShuffle, PartedVote

_FAR: Final = 1 << 30
"""Numbers nearer to 0 give no sum with a lane's that leaves 32 bits."""


def emit(ctx: Context, statement: Barrier | Shuffle | Vote) -> None:
    """The statement, with its operands read from where they live."""
    match statement:
        case Barrier():
            ctx.code.emit(statement)
        case Shuffle():
            ctx.code.emit(_shuffle(ctx, statement))
        case Vote():
            ctx.code.emit(_vote(ctx, statement))


def _is_parted(ctx: Context, statement: Shuffle | Vote) -> bool:
    return ctx.dependence is not None and ctx.dependence.is_divergent(statement)


def _vote(ctx: Context, statement: Vote) -> Vote:
    """The vote; one of a warp that not all lanes may reach says so."""
    kind = PartedVote if statement.scope == "warp" and _is_parted(ctx, statement) else Vote
    predicate = elements.value_of(ctx, statement.predicate)
    return kind(result=statement.result, mode=statement.mode, scope=statement.scope, predicate=predicate, span=statement.span)


def _shuffle(ctx: Context, statement: Shuffle) -> Shuffle:
    """The shuffle as machines have it; one that not all lanes may reach says so."""
    value, operand, mode = elements.value_of(ctx, statement.value), elements.value_of(ctx, statement.operand), statement.mode
    if not _names_lanes(ctx, statement):
        mode, operand = "index", _lane_to_read(ctx, statement, operand)
    kind = PartedShuffle if _is_parted(ctx, statement) else Shuffle
    return kind(result=statement.result, mode=mode, value=value, operand=operand, width=statement.width, span=statement.span)


def _names_lanes(ctx: Context, statement: Shuffle) -> bool:
    """Whether the operand is proven to be one that machines take: a lane of the group, or less than a warp up or down; and whether every
    lane that it may name exists."""
    known = ctx.scope.interval(ctx.scope.form(statement.operand))
    end = statement.width if statement.mode in ("xor", "index") else ctx.lanes
    is_in_range = known.low is not None and known.low >= 0 and known.high is not None and known.high < end
    return is_in_range and (statement.mode == "up" or ctx.threads % statement.width == 0)


def _lane_to_read(ctx: Context, statement: Shuffle, operand: Expr) -> Expr:
    """The lane of the group that a shuffle reads, the own one where that lies outside the group or the block."""
    width = statement.width
    own: Expr = LANE if width == ctx.lanes else Binary(op="truncmod", left=LANE, right=number(width))
    known = ctx.scope.interval(ctx.scope.form(statement.operand))
    is_near = known.low is not None and known.low > -_FAR and known.high is not None and known.high < _FAR
    dtype = INT32 if is_near and statement.operand.dtype == INT32 else INT64
    counted = operand if operand.dtype == dtype else Cast(value=operand, dtype=dtype)
    lane = own if dtype == INT32 else Cast(value=own, dtype=dtype)
    match statement.mode:
        case "xor":
            other: Expr = Binary(op="bitxor", left=lane, right=counted)
        case "up":
            other = Binary(op="sub", left=lane, right=counted)
        case "down":
            other = Binary(op="add", left=lane, right=counted)
        case "index":
            other = counted
    other = ctx.value("other", other)
    tests: list[Expr] = [Compare(op="ge", left=other, right=const(0, dtype)), Compare(op="lt", left=other, right=const(width, dtype))]
    narrow = other if dtype == INT32 else Cast(value=other, dtype=INT32)
    if ctx.threads % width:
        source = added((Binary(op="sub", left=THREAD, right=own), narrow))
        tests.append(Compare(op="lt", left=source, right=number(ctx.threads)))
    is_inside = conjunction(tests)
    assert is_inside is not None
    return ctx.value("source", Select(condition=is_inside, then=narrow, otherwise=own))


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


def parts_lanes(ctx: Context, statement: If | For | While) -> bool:
    """Whether lanes may go different ways at the statement, or leave its loop at different times."""
    if ctx.point is not None:
        return True
    bodies = (getattr(statement, name) for name in type(statement).BODIES)
    return ctx.dependence is not None and any(body and ctx.dependence.is_divergent(body[0]) for body in bodies)


@contextmanager
def maybe_divergent(ctx: Context, statement: If | For | While) -> Iterator[None]:
    """Code that lanes may part in: what it touches is said before it, with what its jumps make some lanes leave out, and no barrier
    stands in it."""
    if ctx.code.is_quiet or not parts_lanes(ctx, statement):
        yield
        return
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()
    atomics: set[Buffer] = set()
    for node in (node for part in (statement, *_left_out(ctx, statement)) for node in walk(part)):
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


def _left_out(ctx: Context, statement: Stmt) -> Iterator[Stmt]:
    """The statements behind it that lanes leave out which jump in it: to the end of the loop's body, or of everything."""
    jumps: set[type[Stmt]] = set()
    pending: list[tuple[Stmt, bool]] = [(statement, False)]
    while pending:
        top, has_loop = pending.pop()
        if isinstance(top, Return) or (isinstance(top, (Break, Continue)) and not has_loop):
            jumps.add(type(top))
        inside = has_loop or isinstance(top, (For, While))
        pending.extend((below, inside) for name in type(top).BODIES for below in getattr(top, name))
    for following in reversed(ctx.following if jumps else []):
        yield from following.statements
        if following.is_loop and Return not in jumps:
            return
