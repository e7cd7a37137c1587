"""Maps that multiply by factors which may all be 1: the warps for which they are pass over them.

In: the identity of a Map and the context. Out: the condition under which a warp must run it, or None where it always does.
"""

from __future__ import annotations

from typing import Final

from zellige.ir.expr import BOOL, Binary, Compare, Const, Expr, Load, Var
from zellige.ir.stmt import Vote
from zellige.simt.context import Context
from zellige.simt.distribution import number
from zellige.simt.homes import RegisterHome

MOST: Final = 8
"""Factors a lane up to which looking at them costs little beside multiplying."""


def where_needed(ctx: Context, identity: int) -> Expr | None:
    """Whether any lane of the warp holds a factor other than 1 of the Map that the plan allows to pass over."""
    factor = ctx.factors.get(identity)
    home = None if factor is None else ctx.homes.get(factor)
    if factor is None or not isinstance(home, RegisterHome) or home.distribution.registers > MOST:
        return None
    one = Const(value=1.0, dtype=factor.dtype)
    needed: Expr | None = None
    for register in range(home.distribution.registers):
        differs = Compare(op="ne", left=Load(buffer=home.memory, indices=(number(register),)), right=one)
        needed = differs if needed is None else Binary(op="or", left=needed, right=differs)
    if needed is None:
        return None
    any_lane = Var(name=ctx.fresh("rescales"), dtype=BOOL, kind="value")
    ctx.code.emit(Vote(result=any_lane, mode="any", scope="warp", predicate=needed))
    return any_lane
