"""Which copies may leave their tensors, in which dimensions, and in which iterations of the loops around them they cannot.

In: the facts of a launch. Out: for each operation on global memory the dimensions that need a test, and for a loop the first iteration
that is not full (:func:`full_until`).

An iteration is full for a dimension where ``0 <= offset`` and ``offset + extent <= size``. With an offset ``c k + r`` of a loop variable
k and c > 0 the second holds exactly for ``k <= (size - extent - r) // c``: the loop splits there into a main part without tests and a
tail with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import Form
from zellige.ir.expr import INT64, Binary, Cast, Const, Expr, Region, Var, constant_value
from zellige.ir.folding import minimum
from zellige.ir.stmt import AtomicTile, Bind, Copy, Fill, For, If, Map, Stmt, Transpose
from zellige.plan.facts import LaunchFacts
from zellige.plan.nodes import PlanStmt


def scopes_of(facts: LaunchFacts) -> dict[int, Scope]:
    """What is known at each statement outside Maps, by identity: the ranges of the loops around it and the conditions passed."""
    found: dict[int, Scope] = {}
    pending: list[tuple[Sequence[Stmt], Scope]] = [(facts.launch.body, facts.scope)]
    while pending:
        body, scope = pending.pop()
        for statement in body:
            found[id(statement)] = scope
            match statement:
                case For():
                    inner = scope.inner()
                    _add_loop(statement, inner)
                    pending.append((statement.body, inner))
                case If():
                    for branch, holds in ((statement.then, True), (statement.otherwise, False)):
                        inner = scope.inner()
                        inner.assume(statement.condition, holds=holds)
                        pending.append((branch, inner))
                case Bind() if not statement.var.is_mutable:
                    if not scope.define(statement.var, statement.value):
                        scope.add_data_variable(statement.var)
                case Map():
                    pass
                case _:
                    for name in type(statement).BODIES:
                        pending.append((getattr(statement, name), scope.inner()))
    return found


def _add_loop(loop: For, scope: Scope) -> None:
    step = constant_value(loop.step)
    counts_up = step is not None and step > 0
    scope.add_variable(loop.var, scope.form(loop.start) if counts_up else None, scope.form(loop.stop) - 1 if counts_up else None)


def global_regions(statement: Stmt | PlanStmt) -> Iterator[Region]:
    """The regions of global memory that a copy, fill or tile of atomics moves; an element of a fill's value is tested where it is read."""
    regions: tuple[Region, ...]
    match statement:
        case Copy() | Transpose() | AtomicTile():
            regions = (statement.src, statement.dst)
        case Fill():
            regions = (statement.dst,)
        case _:
            return
    for region in regions:
        if region.buffer.root.space == "global":
            yield region


def tested_dimensions(statement: Stmt, scope: Scope) -> tuple[int, ...]:
    """The dimensions in which a global region is not proven inside its tensor."""
    found: set[int] = set()
    for region in global_regions(statement):
        for dimension in range(region.buffer.rank):
            if not is_inside(region, dimension, scope):
                found.add(dimension)
    return tuple(sorted(found))


def is_inside(region: Region, dimension: int, scope: Scope) -> bool:
    """Whether the region is proven inside its tensor in a dimension."""
    offset, extent, size = (scope.form(e) for e in (region.offsets[dimension], region.extents[dimension], region.buffer.shape[dimension]))
    return scope.is_nonnegative(offset) and scope.is_nonnegative(size - offset - extent)


def full_until(loop: For, statements: Sequence[Stmt | PlanStmt], scope: Scope) -> Expr | None:
    """The first value of the loop's variable from which some of ``statements`` may leave its tensor; None where no such value is known.

    Only dimensions whose offset moves with the loop count. ``scope`` is that of the loop itself. The value is not bounded by the loop's
    own.
    """
    if constant_value(loop.step) != 1:
        return None
    ends: list[Expr] = []
    for statement in statements:
        for region in global_regions(statement):
            for dimension in range(region.buffer.rank):
                end = _end_of_full(region, dimension, loop.var, scope)
                if end is not None:
                    ends.append(end)
    if not ends:
        return None
    least = ends[0]
    for end in ends[1:]:
        if end != least:
            least = minimum(least, end)
    return least


def moves_with(region: Region, dimension: int, var: Var, scope: Scope) -> bool:
    """Whether the offset in a dimension grows with a loop's variable by a positive constant."""
    return _split(region, dimension, var, scope) is not None


def _split(region: Region, dimension: int, var: Var, scope: Scope) -> tuple[int, Form] | None:
    parts = scope.form(region.offsets[dimension]).split(var)
    if parts is None or parts[0].constant is None or parts[0].constant <= 0:
        return None
    if any(scope.mentions(atom, frozenset((var,))) for atom in parts[1].atoms()):
        return None
    return parts[0].constant, parts[1]


def _end_of_full(region: Region, dimension: int, var: Var, scope: Scope) -> Expr | None:
    parts = _split(region, dimension, var, scope)
    if parts is None:
        return None
    factor, rest = parts
    room = scope.form(region.buffer.shape[dimension]) - scope.form(region.extents[dimension]) - rest
    if not scope.fits(room, INT64):
        return None
    return limit_among(var, room, factor, 1, scope)


def limit_among(var: Var, form: Form, divisor: int, more: int, scope: Scope) -> Expr:
    """``form // divisor + more`` in the type of a loop's variable, where the form fits int64. What is no number of the type becomes the
    nearest one, which lies before or behind all iterations as the limit does: narrowed, it might lie among them."""
    least, most = int(var.dtype.min), int(var.dtype.max)
    if (value := form.constant) is not None:
        return Const(value=min(max(value // divisor + more, least), most), dtype=var.dtype)
    end: Expr = Binary(op="floordiv", left=form.expression(), right=Const(value=divisor, dtype=INT64))
    if more:
        end = Binary(op="add", left=end, right=Const(value=more, dtype=INT64))
    if var.dtype == INT64:
        return end
    known = scope.interval(form)
    if known.high is None or known.high // divisor + more > most:
        end = Binary(op="min", left=end, right=Const(value=most, dtype=INT64))
    if known.low is None or known.low // divisor + more < least:
        end = Binary(op="max", left=end, right=Const(value=least, dtype=INT64))
    return Cast(value=end, dtype=var.dtype)
