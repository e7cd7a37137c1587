"""Turns that the copies of one role take: at one time one of them may start products.

In: a Turn of a role and the context. Out: barriers of two copies' lanes. Copy c joins the barrier of its own number, at which the copy
before it arrives when it passes the turn on; the last one's first pass is made before the role begins, so the first turn is copy 0's. All
copies run the same loops, so each joins as often as the one before it arrives, but for one arrival that is left at the end.
"""

from __future__ import annotations

from zellige.ir.expr import Binary, Compare, Expr
from zellige.plan.nodes import Role, Turn
from zellige.simt.context import Context
from zellige.simt.distribution import added, number
from zellige.simt.engine_tiles import NotLowered
from zellige.simt.ir import WARP, NamedBarrier
from zellige.simt.statements import statements_of


def declare(ctx: Context, role: Role, first: int) -> None:
    """The barriers from number ``first`` on, where the role takes turns."""
    if not any(isinstance(s, Turn) for s in statements_of(role.body, into_maps=True)):
        return
    ctx.turn_barriers, ctx.copies = first, role.count
    with ctx.when(Compare(op="eq", left=_copy(ctx), right=number(role.count - 1))):
        ctx.code.emit(NamedBarrier(number=number(first), lanes=_pair(ctx), mode="arrive"))


def emit(ctx: Context, statement: Turn) -> None:
    """Wait for this copy's turn, or give it to the next. Raises NotLowered for turns that several roles take."""
    if len(statement.order) != 1:
        raise NotLowered("turns between its roles are not lowered")
    copy = _copy(ctx)
    if statement.phase == "pass":
        copy = Binary(op="truncmod", left=Binary(op="add", left=copy, right=number(1)), right=number(ctx.copies))
    mode = "join" if statement.phase == "take" else "arrive"
    ctx.code.emit(
        NamedBarrier(number=added((number(ctx.turn_barriers), copy)), lanes=_pair(ctx), mode=mode, span=statement.span)  # type: ignore[arg-type]
    )


def _copy(ctx: Context) -> Expr:
    return Binary(op="truncdiv", left=WARP, right=number(ctx.warps // ctx.copies))


def _pair(ctx: Context) -> int:
    """The lanes of two copies."""
    return 2 * ctx.threads // ctx.copies
