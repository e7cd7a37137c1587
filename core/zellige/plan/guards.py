"""Loops whose iterations run under a condition of the loop's variable, cut to those in which it holds: the class of empty iterations.

In: a launch. Out: the same with such loops shorter (:func:`without_empty_iterations`), and a decision for each.

The author writes ``if k * 32 <= last:`` around all of a loop's body, or ``continue`` or ``break`` at its begin. Where the condition says
that forms are at least 0 that grow or fall with the variable, it holds between two iterations that are known before the loop, and nowhere
else (:func:`zellige.plan.classes.limits_of`). The others run nothing, so no bit changes, and what stood under a condition is the body of a
loop again: its copies run ahead, its products are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from zellige.analysis.bounds import Scope
from zellige.diagnostics.span import Span
from zellige.ir.expr import BOOL, Binary, Compare, Expr, Load, Unary, Var, constant_value
from zellige.ir.folding import maximum, minimum
from zellige.ir.stmt import Bind, Break, Continue, For, If, Kernel, Launch, Pipelined, Serial, Stmt
from zellige.ir.traverse import rebuilt, walk
from zellige.plan.classes import inside, know, limits_of
from zellige.plan.draft import Decisions
from zellige.plan.facts import launch_scope, statements_in
from zellige.plan.split import clamped
from zellige.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guard:
    """A body as what stands ``before`` (values of names), a condition, and the ``rest``, which runs where the condition is ``answer``.
    ``ends`` says that no iteration follows one in which it is not."""

    before: tuple[Stmt, ...]
    condition: Expr
    answer: bool
    rest: tuple[Stmt, ...]
    ends: bool
    span: Span | None


def without_empty_iterations(kernel: Kernel, launch: Launch, decisions: Decisions) -> Launch:
    """``launch`` with loops cut to the iterations that do something, where these are known before."""
    loops = [s for s in statements_in(launch.body, into_maps=False) if isinstance(s, For) and _guard(s) is not None]
    if launch.lane_vars or not loops:
        return launch
    body = _body(launch.body, launch_scope(kernel, launch), decisions)
    return launch if body is launch.body else rebuilt(launch, body=body)


def _body(body: tuple[Stmt, ...], scope: Scope, decisions: Decisions) -> tuple[Stmt, ...]:
    made: list[Stmt] = []
    for statement in body:
        match statement:
            case For():
                shorter = _cut(statement, scope, decisions) or statement
                inner = _body(shorter.body, inside(shorter, scope), decisions)
                made.append(shorter if inner is shorter.body else rebuilt(shorter, body=inner))
            case If():
                then, otherwise = (_body(side, scope.inner(), decisions) for side in (statement.then, statement.otherwise))
                is_same = then is statement.then and otherwise is statement.otherwise
                made.append(statement if is_same else rebuilt(statement, then=then, otherwise=otherwise))
            case _:
                know(statement, scope)
                made.append(statement)
    return body if all(one is other for one, other in zip(made, body)) else tuple(made)


def _guard(loop: For) -> _Guard | None:
    """The guard of a loop's body; None where it has none, or its iterations are not counted one by one."""
    match loop.kind:
        case Serial() | Pipelined(order=(), stage=()) if constant_value(loop.step) == 1:
            pass
        case _:
            return None
    at = next((i for i, s in enumerate(loop.body) if not isinstance(s, Bind) or s.var.is_mutable), len(loop.body))
    before, rest = loop.body[:at], loop.body[at + 1 :]
    match loop.body[at:]:
        case (If(otherwise=()) as first, *_) if len(first.then) == 1 and isinstance(first.then[0], (Break, Continue)):
            ends = isinstance(first.then[0], Break)
            return _Guard(before=before, condition=first.condition, answer=False, rest=rest, ends=ends, span=first.span)
        case (If(otherwise=()) as first,):
            return _Guard(before=before, condition=first.condition, answer=True, rest=first.then, ends=False, span=first.span)
        case _:
            return None


def _cut(loop: For, scope: Scope, decisions: Decisions) -> For | None:
    """The loop over the iterations in which its guard lets something run; None where that is not known before."""
    guard = _guard(loop)
    if guard is None:
        return None
    inner = inside(loop, scope)
    for statement in guard.before:
        know(statement, inner)
    bound = {s.var for s in statements_in(loop.body) if isinstance(s, (Bind, For))}
    low: list[Expr] = []
    high: list[Expr] = []
    tested: list[Expr] = []
    for part, answer in _parts(guard):
        limits = _limits(part, answer, loop.var, inner, bound)
        if limits is None:
            tested.append(part if answer else Unary(op="not", value=part))
        else:
            low += limits[0]
            high += limits[1]
    if not (low or high) or (guard.ends and (low or tested)):
        return None
    rest = guard.rest
    if tested:
        condition = reduce(lambda left, right: Binary(op="and", left=left, right=right), tested)
        rest = (If(condition=condition, then=rest, span=guard.span),)
    decisions.take(
        f"which iterations of {loop.var.name} run?", "those in which the condition lets them",
        "where it begins and ends to hold is known before the loop",
        rejected=(("all, each with a test", "what stands under a condition is neither copied ahead nor merged"),), where=guard.span,
    )  # fmt: skip
    start = clamped(reduce(maximum, low), loop) if low else loop.start
    stop = clamped(reduce(minimum, high), loop) if high else loop.stop
    return rebuilt(loop, start=start, stop=stop, body=(*guard.before, *rest))


def _parts(guard: _Guard) -> Sequence[tuple[Expr, bool]]:
    """What must all have the answer beside it where the rest runs."""
    found: list[tuple[Expr, bool]] = []
    pending: list[tuple[Expr, bool]] = [(guard.condition, guard.answer)]
    while pending:
        expr, answer = pending.pop()
        match expr:
            case Unary(op="not", value=value):
                pending.append((value, not answer))
            case Binary(op="and" | "or" as op, left=left, right=right) if (op == "and") is answer and expr.dtype == BOOL:
                pending += [(right, answer), (left, answer)]
            case _:
                found.append((expr, answer))
    return found


def _limits(part: Expr, answer: bool, var: Var, scope: Scope, bound: set[Var]) -> tuple[list[Expr], list[Expr]] | None:
    """From and to which iteration a comparison has the answer; None where that is not known before the loop."""
    if not isinstance(part, Compare) or any(isinstance(n, Load) for n in walk(part)):
        return None
    forms = scope.differences(part, holds=answer)
    return None if not forms else limits_of([form.split(var) for form in forms], var, scope, bound)
