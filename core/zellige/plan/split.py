"""Loops split into a main part whose copies stay inside their tensors and a tail whose copies are tested.

In: the body of a role and which of its copies are tested. Out: the body with split loops, the main loops, and the copies that are tested
only outside them. Both parts run the same operations in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zellige.analysis.bounds import Scope
from zellige.ir.expr import Binary, Const, Expr, constant_value
from zellige.ir.stmt import For, Stmt
from zellige.ir.traverse import rebuilt
from zellige.plan.edges import full_until, global_regions, is_inside, moves_with
from zellige.plan.nodes import PlanStmt, operation_of
from zellige.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """``partial`` holds the identity of the operations that are proven inside in every loop of ``full``."""

    body: tuple[Stmt | PlanStmt, ...]
    full: tuple[For, ...]
    partial: frozenset[int]


def split_loops(body: Sequence[Stmt | PlanStmt], tested: Mapping[int, tuple[int, ...]], scopes: Mapping[int, Scope]) -> Split:
    """``body`` with every loop split whose copies need tests in its last iterations only."""
    full: list[For] = []
    partial: set[int] = set()
    made: list[Stmt | PlanStmt] = []
    for statement in body:
        if not isinstance(statement, For):
            changes = {}
            for name in type(statement).BODIES:
                inner = split_loops(getattr(statement, name), tested, scopes)
                full.extend(inner.full)
                partial |= inner.partial
                if inner.full:
                    changes[name] = inner.body
            made.append(rebuilt(statement, **changes) if changes else statement)
            continue
        parts = _split(statement, tested, scopes)
        if parts is None:
            inner = split_loops(statement.body, tested, scopes)
            full.extend(inner.full)
            partial |= inner.partial
            made.append(rebuilt(statement, body=inner.body) if inner.full else statement)
        else:
            main, tail, cleared = parts
            full.append(main)
            partial |= cleared
            made += [main, tail]
    return Split(body=tuple(made), full=tuple(full), partial=frozenset(partial))


def _split(loop: For, tested: Mapping[int, tuple[int, ...]], scopes: Mapping[int, Scope]) -> tuple[For, For, set[int]] | None:
    """The main loop, the tail, and the operations that need no test in the first."""
    operations = [op for op in map(operation_of, loop.body) if tested.get(id(op)) and id(op) in scopes]
    clearing: list[Stmt | PlanStmt] = []
    for operation in operations:
        scope = scopes[id(operation)]
        regions = list(global_regions(operation))
        remaining = [
            (r, d) for r in regions for d in tested[id(operation)] if d < r.buffer.rank and not is_inside(r, d, scope)
        ]  # fmt: skip
        # its other dimensions must be proven anyway, and the offset of the one that moves must not be negative
        if remaining and all(moves_with(r, d, loop.var, scope) and scope.is_nonnegative(scope.form(r.offsets[d])) for r, d in remaining):
            clearing.append(operation)
    if not clearing:
        return None
    scope = scopes[id(clearing[0])]
    end = full_until(loop, clearing, scope)
    if end is None or not _is_fixed(end, loop, scope):
        return None
    middle = clamped(end, loop)
    main = rebuilt(loop, stop=middle)
    tail = rebuilt(loop, start=middle)
    return main, tail, {id(op) for op in clearing}


def _is_fixed(end: Expr, loop: For, scope: Scope) -> bool:
    """Whether the value, and the loop's own bounds, are made of what the loop does not change."""
    return all(scope.is_pure(e) for e in (end, loop.start, loop.stop)) and not scope.mentions(end, frozenset((loop.var,)))


def clamped(end: Expr, loop: For) -> Expr:
    """``max(min(end, stop), start)``: where a loop is cut that would be cut at ``end``."""
    start, stop = constant_value(loop.start), constant_value(loop.stop)
    value = constant_value(end)
    if start is not None and stop is not None and value is not None:
        return Const(value=min(max(int(value), int(start)), max(int(stop), int(start))), dtype=loop.var.dtype)
    low = Binary(op="max", left=end, right=loop.start)
    return Binary(op="max", left=Binary(op="min", left=low, right=loop.stop), right=loop.start)
