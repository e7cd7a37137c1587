"""Sums that are multiplied by factors of their rows between products: where all factors are 1 nothing need be done.

In: a Map of a launch. Out: the tile of factors by whose values a group of lanes may pass it over, or None. An online softmax rescales its
sums when the largest score of a row grows; that is seldom after the first blocks, and ``x * 1`` is x to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping

from zellige.ir.expr import Binary, Buffer, Load, Var
from zellige.ir.stmt import Gemm, Map, Stmt, Store
from zellige.plan.capabilities import Machine
from zellige.plan.facts import LaunchFacts, statements_in
from zellige.plugin.contract import Space


def factor_of(facts: LaunchFacts, operation: Stmt, spaces: Mapping[Buffer, Space], machine: Machine) -> Buffer | None:
    """The tile f of ``x[i, j] *= f[i]`` in a loop whose products add to x, where lanes keep both in registers."""
    if not isinstance(operation, Map) or not machine.has_true_lanes or facts.is_lane_code:
        return None
    match operation.body:
        case (Store(value=Binary(op="mul", left=Load() as left, right=Load() as right)) as store,):
            pass
        case _:
            return None
    own, factor = (left, right) if left.buffer is store.buffer else (right, left)
    if own.buffer is not store.buffer or own.indices != store.indices or tuple(store.indices) != operation.axes:
        return None
    kept = {own.buffer.root, factor.buffer.root}
    if len(kept) != 2 or any(root not in spaces or machine.role_of(spaces[root]) != "register" for root in kept):
        return None
    if not own.buffer.dtype.is_float or factor.buffer.dtype != own.buffer.dtype or factor.buffer.alias is not None:
        return None
    places = [index for index in factor.indices if isinstance(index, Var) and index in operation.axes]
    loop = facts.loop_around(operation)
    if loop is None or len(places) != len(factor.indices) or len(places) >= len(operation.axes):
        return None
    adds = any(isinstance(s, Gemm) and s.c.buffer.root is own.buffer.root for s in statements_in(loop.body))
    return factor.buffer.root if adds else None
