"""What is known of a Map before its loops: what its body touches and asks, and which of that can be tested once for all points.

In: a Map. Out: the scope inside of it, the accesses of its body with the bounds that are not proven, what its comparisons hold for, and
tests before the loops under which these hold at every point.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import ZERO, Form
from zellige.ir.expr import INT64, Buffer, Compare, Expr, Node, Var
from zellige.ir.stmt import Alloc, Assume, Atomic, Bind, For, If, Map, ReducerUpdate, Stmt, Store
from zellige.ir.traverse import loads_in, walk
from zellige.records import dataclass
from zellige_cpu.context import Context
from zellige_cpu.indexes import is_stable

_VERSIONED_NODES = 300
"""Bodies up to this many nodes are emitted twice where that saves the tests of bounds."""

_TESTS = 16
"""Run-time tests before a Map; with more, each access tests for itself."""


@dataclass(frozen=True, slots=True)
class Known:
    """What can be known of all points of a Map before its loops: ``holding`` are at least 0 at each where all ``tests`` are. ``scope``
    knows the variables of the body."""

    scope: Scope
    holding: frozenset[Form]
    tests: tuple[Form, ...]


def known_of_points(ctx: Context, statement: Map) -> Known:
    """What the comparisons of a Map's body hold for."""
    scope, found = declared(ctx, statement, [ctx.freeze(ctx, extent) for extent in statement.extents])
    return Known(scope, *run_time_tests(ctx, scope, statement, list(walk(statement)), found.conditions, drops_never=True))


def declared(ctx: Context, statement: Map, extents: list[Form]) -> tuple[Scope, Findings]:
    """The scope inside of a Map, and what its body touches and asks."""
    scope = ctx.scope.inner()
    for axis, extent in zip(statement.axes, extents):
        scope.add_variable(axis, ZERO, extent - 1)
    found = Findings()
    _declare(ctx, scope, statement.body, found)
    return scope, found


@dataclass(frozen=True, slots=True)
class Access:
    """An element access of the body: its index forms, which bounds are not proven, and whether it writes."""

    buffer: Buffer
    forms: tuple[Form, ...]
    open_bounds: tuple[Form, ...]
    is_store: bool


@dataclass(slots=True)
class Findings:
    """Accesses of buffers that exist outside of a body, and what its comparisons of indices hold for: forms that are at least 0."""

    accesses: list[Access] = field(default_factory=list)
    conditions: dict[Form, None] = field(default_factory=dict)


def _declare(ctx: Context, scope: Scope, body: Sequence[Stmt], found: Findings) -> None:
    """Make the variables of the body known to the analyses and list what it touches and asks."""
    own: set[Buffer] = set()
    pending: list[tuple[Stmt, Scope]] = [(s, scope) for s in reversed(body)]
    while pending:
        statement, place = pending.pop()
        _note_accesses(ctx, place, statement, own, found.accesses)
        _note_conditions(ctx, place, statement, found.conditions)
        match statement:
            case Alloc(buffer=buffer):
                own.add(buffer)
            case Bind(var=var, value=value):
                if var.is_mutable or not place.define(var, value, may_wrap=True):
                    place.add_data_variable(var)
            case Atomic(result=result) if result is not None:
                place.add_data_variable(result)
            case Assume(condition=condition):
                place.assume(condition)
            case For():
                _declare_loop(place, statement)
                inner = place.inner()
                pending.extend((s, inner) for s in reversed(statement.body))
            case If():
                taken, other = place.inner(), place.inner()
                taken.assume(statement.condition)
                other.assume(statement.condition, holds=False)
                pending.extend((s, other) for s in reversed(statement.otherwise))
                pending.extend((s, taken) for s in reversed(statement.then))
            case _:
                for name in type(statement).BODIES:
                    inner = place.inner()
                    pending.extend((s, inner) for s in reversed(getattr(statement, name)))
                if isinstance(statement, Map):
                    for axis, extent in zip(statement.axes, statement.extents):
                        place.add_variable(axis, ZERO, _stable_form(place, extent, -1))


def _declare_loop(scope: Scope, statement: For) -> None:
    step = scope.form(statement.step).constant
    low = high = None
    if step is not None and step > 0:
        low, high = _stable_form(scope, statement.start), _stable_form(scope, statement.stop, -1)
    elif step is not None and step < 0:
        low, high = _stable_form(scope, statement.stop, 1), _stable_form(scope, statement.start)
    scope.add_variable(statement.var, low, high)


def _stable_form(scope: Scope, expr: Expr, plus: int = 0) -> Form | None:
    form = scope.form(expr)
    return form + plus if all(is_stable(atom) for atom in form.atoms()) else None


def _note_accesses(ctx: Context, scope: Scope, statement: Stmt, own: set[Buffer], accesses: list[Access]) -> None:
    found: list[tuple[Buffer, tuple[Expr, ...], bool]] = [(x.buffer, x.indices, False) for x in loads_in(statement)]
    if isinstance(statement, (Store, ReducerUpdate, Atomic)):
        found.append((statement.buffer, statement.indices, True))
    for buffer, indices, is_store in found:
        storage = ctx.storages.get(buffer)
        if buffer.root in own or storage is None:
            continue
        forms = tuple(scope.place(i) for i in indices)
        bounds = [b for form, extent in zip(forms, storage.shape) for b in (form, extent - form - 1)]
        unproven = tuple(b for b in bounds if b not in ctx.granted and not scope.is_nonnegative(b))
        accesses.append(Access(buffer, forms, unproven, is_store))


def _note_conditions(ctx: Context, scope: Scope, statement: Stmt, conditions: dict[Form, None]) -> None:
    """Add the comparisons in the statement's own expressions that may hold for all points; a test of equality does not."""
    for node in walk(statement, bodies=False):
        if isinstance(node, Compare) and node.op not in ("eq", "ne"):
            for form in scope.differences(node) or ():
                if form in ctx.granted or not scope.fits(form, INT64):
                    continue
                if not scope.is_nonnegative(form) and not scope.is_nonnegative(form.scaled(-1) - 1):
                    conditions[form] = None


def run_time_tests(
    ctx: Context, scope: Scope, statement: Map, nodes: Sequence[Node], wanted: Iterable[Form], *, drops_never: bool = False
) -> tuple[frozenset[Form], tuple[Form, ...]]:
    """The wanted forms that are at least 0 at every point if the tests pass (forms that must be at least 0), and these tests.

    ``drops_never`` leaves out forms that are known to fail. For bounds they stay: where one fails, the version for edges runs, with masks
    no wider than a register (LLVM 22 aborts on some wider ones that are constant: "Getting value from an unknown LocationSize").
    """
    if not wanted or len(nodes) > _VERSIONED_NODES:
        return frozenset(), ()
    inner = set(statement.axes)
    inner.update(node.var for node in nodes if isinstance(node, For))
    variables = frozenset(inner)
    granted: set[Form] = set()
    tests: dict[Form, None] = {}
    for form in wanted:
        smallest = scope.minimum(form, variables)
        if smallest is None or not all(is_available(ctx, atom) for atom in smallest.atoms()):
            continue
        if drops_never and not scope.fits(smallest, INT64):
            continue
        if drops_never and ctx.scope.is_nonnegative(smallest.scaled(-1) - 1):
            continue
        granted.add(form)
        if not ctx.scope.is_nonnegative(smallest):
            tests.setdefault(smallest)
    return (frozenset(granted), tuple(tests)) if len(tests) <= _TESTS else (frozenset(), ())


def is_available(ctx: Context, atom: Expr) -> bool:
    """Whether the atom can be computed before the Map and stays the same in it."""
    pending: list[Expr] = [atom]
    seen: set[Var] = set()
    while pending:
        top = pending.pop()
        if not is_stable(top):
            return False
        for node in walk(top):
            if not isinstance(node, Var) or node in ctx.values or node in seen:
                continue
            seen.add(node)
            definition = ctx.scope.definition(node)
            if definition is None:
                return False
            pending.extend(definition.atoms())
    return True
