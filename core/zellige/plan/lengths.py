"""Blocks of different lengths: which grid variable makes a block's loops longer, so that the longest can run first.

In: the facts of a launch. Out: the variable along which blocks should run from the last to the first, or None. Workers take blocks in
their order; where the long ones come last, most workers wait for the few that are left. Causal attention has as many blocks of keys as a
query's place asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

from zellige.ir.expr import Binary, Cast, Compare, Expr, Unary, Var, constant_value
from zellige.ir.stmt import Atomic, AtomicTile, Bind, Dialect, For, While
from zellige.plan.capabilities import Machine
from zellige.plan.draft import Decisions
from zellige.plan.facts import LaunchFacts, statements_in

QUESTION: Final = "in which order do blocks run?"

BESIDE: Final = 16
"""Rows of the grid whose longest blocks run before all shorter ones: a hundred workers are then eight to a row, and they read its operands
from a cache."""

AXES: Final = 2
"""The first grid variables, which all machines of lanes count by themselves."""


def longest_first(facts: LaunchFacts, machine: Machine, decisions: Decisions) -> tuple[Var, int] | None:
    """The first grid variable with which the iterations of a loop become more, and how many blocks along the second one follow each other;
    not where blocks may wait for others, or all run at once."""
    launch = facts.launch
    if not machine.has_true_lanes or launch.lane_vars or launch.cluster is not None:
        return None
    known = [constant_value(extent) for extent in launch.grid]
    if None not in known and prod(int(extent or 0) for extent in known) <= machine.capabilities.threads:
        return None
    body = list(statements_in(launch.body))
    if any(isinstance(s, (While, Atomic, AtomicTile, Dialect)) for s in body):
        return None
    values = {s.var: s.value for s in body if isinstance(s, Bind) and not s.var.is_mutable}
    for var in launch.grid_vars[:AXES]:
        loop = next((s for s in body if isinstance(s, For) and _grows(s, var, values)), None)
        if loop is not None:
            beside = _beside(facts, var)
            sets = f", {beside} along {launch.grid_vars[1].name} beside each other" if beside > 1 else ""
            decisions.take(
                QUESTION, f"along {var.name} from the last to the first{sets}",
                f"the loop over {loop.var.name} has more iterations where {var.name} is larger: long blocks run first, short ones fill up",
                rejected=(("as they are numbered", "at the end workers would wait for the longest"),), where=loop.span,
            )  # fmt: skip
            return var, beside
    return None


def _beside(facts: LaunchFacts, var: Var) -> int:
    """Blocks along the second variable of which the longest run before all others, where the lengths are along the first: with few of them
    the long blocks of the last set would begin late, with many those that read the same would be far from each other."""
    launch = facts.launch
    if var is not launch.grid_vars[0] or len(launch.grid_vars) < 2:
        return 1
    extent = constant_value(launch.grid[1])
    return BESIDE if extent is None else max(1, min(BESIDE, int(extent)))


def _grows(loop: For, var: Var, values: Mapping[Var, Expr]) -> bool:
    return _direction(loop.stop, var, values) == 1 and _direction(loop.start, var, values) == 0


def _direction(expr: Expr, var: Var, values: Mapping[Var, Expr]) -> int | None:
    """1 where the value becomes more as ``var`` grows, -1 where it becomes less, 0 where it does not depend on it; None where that is not
    known. A comparison counts as a number that stays: a division rounded up adds one by it, which is nothing to the order of blocks."""
    pending: list[tuple[Expr, bool]] = [(expr, False)]
    found: list[int | None] = []
    while pending:
        node, is_ready = pending.pop()
        parts = _parts(node, values)
        if parts and not is_ready:
            pending.append((node, True))
            pending += [(part, False) for part in reversed(parts)]
        elif parts:
            taken = [found.pop() for _ in parts][::-1]
            found.append(_joined(node, taken))
        else:
            is_fixed = isinstance(node, (Var, Compare)) or constant_value(node) is not None
            found.append(1 if node is var else 0 if is_fixed else None)
    return found[0]


def _parts(node: Expr, values: Mapping[Var, Expr]) -> tuple[Expr, ...]:
    match node:
        case Var() if node in values:
            return (values[node],)
        case Binary():
            return (node.left, node.right)
        case Unary(op="neg") | Cast():
            return (node.value,)
        case _:
            return ()


def _joined(node: Expr, parts: list[int | None]) -> int | None:
    if None in parts:
        return None
    match node:
        case Binary(op="add" | "min" | "max"):
            return _same(parts[0], parts[1])
        case Binary(op="sub"):
            return _same(parts[0], -(parts[1] or 0))
        case Binary(op="mul" | "floordiv" | "truncdiv", right=right) if isinstance(factor := constant_value(right), int):
            return parts[0] if factor > 0 else 0 if factor == 0 else -(parts[0] or 0)
        case Binary(op="mul", left=left) if isinstance(factor := constant_value(left), int):
            return parts[1] if factor >= 0 else -(parts[1] or 0)
        case Unary(op="neg"):
            return -(parts[0] or 0)
        case Var() | Cast():
            return parts[0]
        case _:
            return 0 if not any(parts) else None


def _same(one: int | None, other: int | None) -> int | None:
    """The direction of what is made of two parts: one of them where the other does not change or changes alike."""
    if one == other or not other:
        return one
    return other if not one else None
