"""Loops split where the masks of their iterations hold for all points: classes of iterations, full and partial.

In: the body of a role. Out: the body with such loops split (:func:`split_classes`), and which operation stands for which where no mask is
tested. A mask is a Select at the top of a Map whose condition compares integers: causal attention compares a key's place with a query's,
and only in the blocks at the diagonal do both answers occur.

A condition says that forms are at least 0. The least value of such a form over the points of the Map is ``c k + r`` in the loop's variable
k. With c < 0 it holds for all points exactly for ``k <= r // -c``, with c > 0 from ``-(r // c)`` on: the iterations between are full. They
run the same operations in the same order without the tests that hold, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import Form
from zellige.ir.expr import INT64, Binary, Compare, Const, Expr, Load, Select, Unary, Var, constant_value
from zellige.ir.sizes import ROOM
from zellige.ir.stmt import Assign, Bind, For, If, Map, Stmt, Store
from zellige.ir.traverse import rebuilt, rewrite, walk
from zellige.plan.edges import limit_among
from zellige.plan.facts import LaunchFacts, launch_scope, statements_in
from zellige.plan.nodes import Issue, PlanStmt, Resolved, Slotted
from zellige.plan.split import clamped
from zellige.records import dataclass

Literal: TypeAlias = tuple[Compare, bool]
"""A comparison and the answer that a full iteration gives at every point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """``body`` of a role after the split; ``resolved`` are the operations of its full iterations."""

    body: tuple[Stmt | PlanStmt, ...]
    resolved: tuple[Resolved, ...] = ()
    loops: tuple[For, ...] = ()


def has_masks(facts: LaunchFacts) -> bool:
    """Whether a Map in a loop has a mask at all: planning others costs no more than this look."""
    loops = [s for s in statements_in(facts.launch.body, into_maps=False) if isinstance(s, For)]
    return any(isinstance(s, Map) and any(_masks(s)) for loop in loops for s in statements_in(loop.body, into_maps=False))


def split_classes(facts: LaunchFacts, body: Sequence[Stmt | PlanStmt]) -> Classes:
    """``body`` with every loop split that has full iterations by its masks."""
    return _Splitter(facts).body(tuple(body), launch_scope(facts.kernel, facts.launch))


class _Splitter:
    def __init__(self, facts: LaunchFacts) -> None:
        self._facts = facts

    def body(self, body: tuple[Stmt | PlanStmt, ...], scope: Scope) -> Classes:
        """The statements of a body, which stands in ``scope``."""
        made: list[Stmt | PlanStmt] = []
        resolved: list[Resolved] = []
        loops: list[For] = []
        for statement in body:
            match statement:
                case For():
                    inner = inside(statement, scope)
                    parts = self._parts(statement, inner)
                    if parts is None and (most := _most(statement, scope)) is not None:
                        parts = self._parts(statement, inside(statement, scope, most), most)
                        inner = inside(statement, scope)
                    if parts is not None:
                        made += parts.body
                    else:
                        parts = self.body(statement.body, inner)
                        made.append(rebuilt(statement, body=parts.body) if parts.loops else statement)
                    resolved += parts.resolved
                    loops += parts.loops
                case If():
                    then, otherwise = self.body(statement.then, scope.inner()), self.body(statement.otherwise, scope.inner())
                    changes = then.loops or otherwise.loops
                    made.append(rebuilt(statement, then=then.body, otherwise=otherwise.body) if changes else statement)
                    resolved += then.resolved + otherwise.resolved
                    loops += then.loops + otherwise.loops
                case _:
                    know(statement, scope)
                    made.append(statement)
        return Classes(body=tuple(made), resolved=tuple(resolved), loops=tuple(loops))

    def _parts(self, loop: For, scope: Scope, most: int | None = None) -> Classes | None:
        """The loop in up to three parts; None where its masks leave no range of full iterations. ``most`` is the last one that may be full:
        behind it the masks may wrap."""
        bound = {s.var for s in statements_in(loop.body) if isinstance(s, (Bind, For))}
        if constant_value(loop.step) != 1 or not all(_is_fixed(e, bound) for e in (loop.start, loop.stop)) or _is_once(loop, scope):
            return None
        low: list[Expr] = []
        high: list[Expr] = []
        resolved: dict[int, Resolved] = {}
        for masked in _maps(loop, scope):
            holding: list[Literal] = []
            for literal in masked.literals:
                limits = masked.limits(literal, loop.var, bound)
                if limits is not None:
                    holding.append(literal)
                    low += limits[0]
                    high += limits[1]
            if holding:
                one = Resolved(operation=_without(masked.map, holding), stands_for=masked.map, holds=tuple(holding))
                resolved[id(masked.map)] = one
        if not low and not high:
            return None
        if most is not None:
            high.append(Const(value=most + 1, dtype=loop.var.dtype))
        first = clamped(_extreme("max", low), loop) if low else loop.start
        last = clamped(_extreme("min", high), loop) if high else loop.stop
        if low and high:
            last = Binary(op="max", left=last, right=first)
        main = rewrite(
            rebuilt(loop, start=first, stop=last), lambda node: resolved[id(node)].operation if id(node) in resolved else node
        )  # fmt: skip
        parts: list[Stmt | PlanStmt] = [rebuilt(loop, stop=first)] if low else []
        parts.append(main)
        if high:
            parts.append(rebuilt(loop, start=last))
        return Classes(body=tuple(parts), resolved=tuple(resolved.values()), loops=(main,))


def _is_once(loop: For, scope: Scope) -> bool:
    """Whether the loop has one iteration at most: software pipelines give an operation its iteration by such loops."""
    return scope.is_nonnegative(scope.form(loop.start) + 1 - scope.form(loop.stop))


def _most(loop: For, scope: Scope) -> int | None:
    """The last of so many iterations that nobody waits for more, where the loop may take as many; None where it cannot."""
    first, last = scope.interval(scope.form(loop.start)), scope.interval(scope.form(loop.stop) - 1)
    if constant_value(loop.step) != 1 or first.high is None or last.high is None or last.high <= first.high + ROOM:
        return None
    return first.high + ROOM


def inside(loop: For, scope: Scope, most: int | None = None) -> Scope:
    """What is known in the loop, up to the iteration ``most``."""
    inner = scope.inner()
    start, last = scope.form(loop.start), scope.form(loop.stop) - 1 if most is None else Form.of(most)
    if constant_value(loop.step) != 1:
        inner.add_variable(loop.var, None, None)
    elif _is_once(loop, scope):
        inner.add_named(loop.var, start, last)  # its only value is put in its place
    else:
        inner.add_variable(loop.var, start, last)
    return inner


def know(statement: Stmt | PlanStmt, scope: Scope) -> None:
    """Behind a statement that names a value: the scope has the name, by its value where it can follow that, else as data."""
    if isinstance(statement, Bind) and not statement.var.is_mutable and not scope.define(statement.var, statement.value):
        scope.add_data_variable(statement.var)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Masked:
    """A Map with masks in a loop, what is known within it, and the variables that loops of one iteration give a value, inner ones last."""

    map: Map
    scope: Scope
    literals: tuple[Literal, ...]
    points: tuple[tuple[Var, Form], ...]

    def limits(self, literal: Literal, var: Var, bound: set[Var]) -> tuple[list[Expr], list[Expr]] | None:
        """From and to which value of the loop's variable the literal holds at all points; None where that is not known."""
        forms = self.scope.differences(literal[0], holds=literal[1])
        return None if not forms else limits_of([self._in_loop(form, var) for form in forms], var, self.scope, bound)

    def _in_loop(self, form: Form, var: Var) -> tuple[Form, Form] | None:
        """Factor and rest of the least value over the points."""
        least = self.scope.minimum(form, frozenset(self.map.axes))
        for inner, value in reversed(self.points):
            least = least.replaced(inner, value) if least is not None else None
        return least.split(var) if least is not None else None


def limits_of(
    parts: Sequence[tuple[Form, Form] | None], var: Var, scope: Scope, bound: set[Var]
) -> tuple[list[Expr], list[Expr]] | None:
    """From and to which value of the variable all forms are at least 0, each given by its factor and rest; None where that is not known
    before the loop, which gives the variables ``bound`` their values."""
    low: list[Expr] = []
    high: list[Expr] = []
    for part in parts:
        if part is None or (factor := part[0].constant) is None or not _is_stable(part[1], scope, bound | {var}):
            return None
        if not scope.fits(part[1], INT64) or not scope.fits(part[1].scaled(-1) + abs(factor), INT64):
            return None
        if factor < 0:
            high.append(limit_among(var, part[1], -factor, 1, scope))
        elif factor > 0:
            low.append(limit_among(var, part[1].scaled(-1) + (factor - 1), factor, 0, scope))
        elif not scope.is_nonnegative(part[1]):
            return None
    return low, high


def _maps(loop: For, scope: Scope) -> Iterator[_Masked]:
    """The Maps with masks that each iteration may run, outside of loops of several iterations within."""
    pending: list[tuple[tuple[Stmt | PlanStmt, ...], Scope, tuple[tuple[Var, Form], ...]]] = [(loop.body, scope, ())]
    seen: set[int] = set()
    while pending:
        body, known, points = pending.pop()
        for statement in body:
            know(statement, known)
            inner = statement
            while isinstance(inner, (Issue, Slotted)):
                inner = inner.operation
            match inner:
                case Map() if id(inner) not in seen and any(_masks(inner)):
                    seen.add(id(inner))
                    yield _masked(inner, known, points)
                case If():
                    pending += [(inner.then, known.inner(), points), (inner.otherwise, known.inner(), points)]
                case For() if _is_once(inner, known):
                    pending.append((inner.body, inside(inner, known), (*points, (inner.var, known.form(inner.start)))))
                case _:
                    pass


def _masked(statement: Map, scope: Scope, points: tuple[tuple[Var, Form], ...]) -> _Masked:
    inner = scope.inner()
    for axis, extent in zip(statement.axes, statement.extents):
        inner.add_variable(axis, Form.of(0), scope.form(extent) - 1)
    for one in statement.body:
        know(one, inner)
    literals = dict.fromkeys(literal for select in _masks(statement) for literal in _literals(select))
    return _Masked(map=statement, scope=inner, literals=tuple(literals), points=points)


def _masks(statement: Map) -> Iterator[Select]:
    """The Selects in what the Map stores and assigns, outside of bodies within, that choose by comparisons."""
    for inner in statement.body:
        if isinstance(inner, (Store, Assign, Bind)):
            yield from (n for n in walk(inner.value) if isinstance(n, Select) and any(_literals(n)))


def _literals(select: Select) -> Iterator[Literal]:
    """The comparisons that must all have the given answer for the mask to keep its value: the Select then gives one side everywhere."""
    kept = _keeps_first(select)
    pending: list[tuple[Expr, bool]] = [(select.condition, kept)]
    while pending:
        expr, holds = pending.pop()
        match expr:
            case Unary(op="not", value=value):
                pending.append((value, not holds))
            case Binary(op="and" | "or" as op, left=left, right=right) if (op == "and") is holds:
                pending += [(right, holds), (left, holds)]
            case Compare():
                yield expr, holds
            case _:
                pass


def _keeps_first(select: Select) -> bool:
    """Whether the first value is what a full iteration has. What masked points get is a constant beside a value, or the lesser of two."""
    first, second = (constant_value(side) for side in (select.then, select.otherwise))
    if first is not None and second is not None:
        return first >= second
    return first is None


def _is_stable(form: Form, scope: Scope, inside: set[Var]) -> bool:
    """Whether the form has its value before the loop already: it is made of nothing that changes ``inside``."""
    return all(_is_fixed(atom, inside) and not scope.mentions(atom, frozenset(inside)) for atom in form.atoms())


def _is_fixed(expr: Expr, inside: set[Var]) -> bool:
    return not any(isinstance(n, Load) or (isinstance(n, Var) and (n.is_mutable or n in inside)) for n in walk(expr))


def _extreme(op: str, values: list[Expr]) -> Expr:
    unique = list(dict.fromkeys(values))
    found = unique[0]
    for other in unique[1:]:
        found = Binary(op="min" if op == "min" else "max", left=found, right=other)
    return found


def _without(statement: Map, holding: Sequence[Literal]) -> Map:
    """The Map with the answers of the literals in their places."""
    answers = dict(holding)

    def resolve(node: object) -> object:
        match node:
            case Compare() if node in answers:
                return Const(value=answers[node], dtype=node.dtype)
            case Unary(op="not", value=Const(value=value)) if isinstance(value, bool):
                return Const(value=not value, dtype=node.dtype)
            case Binary(op="and" | "or" as op, left=left, right=right):
                for known, other in ((left, right), (right, left)):
                    if isinstance(known, Const):
                        return other if bool(known.value) is (op == "and") else known
                return node
            case Select(condition=Const(value=value)):
                return node.then if value else node.otherwise
            case _:
                return node

    return rewrite(statement, resolve)
