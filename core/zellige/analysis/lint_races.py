"""Points of a T.Parallel, and blocks of a grid, that certainly change one element together.

In: a verified kernel. Out: E296, a warning a loop and buffer: every point of an axis reads an element, combines and writes it back, as in
``s[0] += A[i]``, and what the points do to it in between is lost; or every point writes a value computed from its number, as in
``s[0] = A[i]``, and one of them stays. The interpreter reports all other races, see ``ZELLIGE_CHECKS=races``.

It is silent under conditions on the axis, in launches whose blocks can wait for each other, for an element whose place depends on the
axis in any way, for storage of one lane or one point (local, var) or, between blocks, of one block, and for what may be meant so: a value
that is the same in all points and changes nothing the second time. ``i // 64`` is the same where ``i`` counts to 64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import field, replace
from typing import Final, Literal

from zellige.analysis.intervals import ANY, Interval, interval_of_value
from zellige.diagnostics import Diagnostic, catalogue
from zellige.ir.expr import Binary, Buffer, Cast, Compare, Const, Expr, ExprNode, Load, Node, Var
from zellige.ir.stmt import (
    Assign,
    Atomic,
    Barrier,
    Bind,
    Break,
    Continue,
    Dialect,
    Fill,
    For,
    If,
    Kernel,
    Launch,
    Map,
    Return,
    Shuffle,
    Stmt,
    StmtNode,
    Store,
    Vote,
)
from zellige.ir.traverse import children, loads_in, same_structure, walk, walk_into
from zellige.records import dataclass

_SHARED_BY_BLOCKS: Final = frozenset(("global",))
_SHARED_BY_POINTS: Final = frozenset(("global", "shared", "fragment"))
Kind = Literal["combined", "compared", "replaced"]

_IDEMPOTENT: Final = frozenset(("min", "max", "min_nan", "max_nan", "bitand", "bitor", "and", "or"))


def shared_elements(kernel: Kernel) -> Iterator[Diagnostic]:
    """E296, once a loop or launch and buffer, at the statement that writes."""
    for launch in kernel.launches:
        for loop in walk(launch):
            if isinstance(loop, Map):
                axes = zip(loop.axes, loop.extents)
                yield from _told_once(loop.body, axes, launch.lane_vars, _SHARED_BY_POINTS, ("point", "points"))
        if not blocks_may_wait(launch):
            yield from _told_once(launch.body, zip(launch.grid_vars, launch.grid), (), _SHARED_BY_BLOCKS, ("block", "blocks"))


def blocks_may_wait(launch: Launch) -> bool:
    """Whether blocks of the launch can order themselves, by barriers of the grid or by what atomic operations tell them."""
    for node in walk(launch):
        if isinstance(node, Barrier) and node.scope in ("cluster", "grid"):
            return True
        if isinstance(node, Atomic) and (node.result is not None or node.op in ("load", "store", "exchange")):
            return True
    return False


def _told_once(
    body: tuple[Stmt, ...], axes: Iterable[tuple[Var, Expr]], known: tuple[Var, ...], shared: frozenset[str], words: tuple[str, str]
) -> Iterator[Diagnostic]:
    told: set[Buffer] = set()
    counted = [(axis, extent) for axis, extent in axes if not (isinstance(extent, Const) and extent.value <= 1)]
    for axis, extent in counted:
        for meeting in _meetings(body, axis, extent, known, shared):
            if meeting.buffer.root not in told:
                told.add(meeting.buffer.root)
                yield _diagnostic(meeting, axis, extent, *words, is_alone=len(counted) == 1)


def _diagnostic(meeting: _Meeting, axis: Var, extent: Expr, one: str, several: str, *, is_alone: bool) -> Diagnostic:
    """``is_alone``: there is no other axis, whose points may all meet at the element as well."""
    places = [str(i.value) if isinstance(i, Const) else i.label if isinstance(i, Var) else "..." for i in meeting.indices]
    times = f"all {several} of {axis.label}"
    if isinstance(extent, Const):
        times = f"{extent.value} {several}" + ("" if is_alone else " or more")
    does = {
        "combined": "reads it and writes it back",
        "compared": "reads it in a condition and writes it under that",
        "replaced": f"writes what it computes from {axis.label} there",
    }[meeting.kind]
    return catalogue.E296.diagnose(
        meeting.statement.span,
        element=f"{meeting.buffer.label}[{', '.join(places)}]",
        what=f"every {one} of {axis.label}, which {does}",
        times=times,
        severity="warning",
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """A statement of the loop's body. ``compared`` is the element that the condition around it compares with a value of the point."""

    statement: Stmt
    compared: Load | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meeting:
    """A statement by which every point changes one element of ``buffer``, the first of those that it changes: to a value made of what the
    element held, to another one under a comparison with that, or to one computed from the point's number whatever it held."""

    statement: Stmt
    buffer: Buffer
    indices: tuple[Expr, ...]
    kind: Kind


def _meetings(body: tuple[Stmt, ...], axis: Var, extent: Expr, lanes: tuple[Var, ...], shared: frozenset[str]) -> Iterator[_Meeting]:
    """What every point of ``axis``, which counts to ``extent``, does to one element. ``shared`` are the spaces that all points see."""
    nodes = [n for part in body for n in walk(part)]
    if any(isinstance(n, (Break, Continue, Return)) for n in nodes):
        return
    numbers = _Numbers({axis: Interval(0, int(extent.value) - 1)} if isinstance(extent, Const) else {})
    varying = _Varying(
        variables=_varying_variables(nodes, (axis, *lanes), numbers, shared),
        numbers=numbers,
        written=frozenset(region.buffer.root for n in nodes if isinstance(n, StmtNode) for region in n.writes()),
        shared=shared,
    )
    taken = _taken(nodes)
    own = _following(nodes, axis, numbers)
    pending = [_Place(s) for s in reversed(body)]
    while pending:
        place = pending.pop()
        statement = place.statement
        match statement:
            case Store(buffer=buffer, indices=indices):
                if varying.is_shared(buffer) and not any(varying.may_differ(i) for i in indices):
                    named = (n for n in walk(statement.value) if isinstance(n, Var))
                    seen = (*loads_in(statement), *(load for var in named for load in taken.get(var, ())))
                    is_read = any(_is_element(load, statement) for load in seen)
                    if place.compared is not None:
                        kind: Kind = "compared"
                        is_certain = _is_element(place.compared, statement) and varying.differs(statement.value)
                    elif is_read:
                        kind, is_certain = "combined", _matters_again(statement, varying)
                    else:
                        kind, is_certain = "replaced", numbers.follow(statement.value, own)
                    if is_certain:
                        yield _Meeting(statement=statement, buffer=buffer, indices=indices, kind=kind)
            case Fill(dst=dst):
                if place.compared is None and varying.is_shared(dst.buffer) and numbers.follow(statement.value, own):
                    if not any(varying.may_differ(e) for e in (*dst.offsets, *dst.extents)):
                        yield _Meeting(statement=statement, buffer=dst.buffer, indices=dst.offsets, kind="replaced")
            case If():
                compared = place.compared
                if varying.may_differ(statement.condition):
                    compared = _compared(statement.condition, varying, taken) if compared is None else None
                    if compared is None:
                        continue
                pending.extend(_Place(s, compared) for s in reversed(statement.then + statement.otherwise))
            case For() | Map():
                pending.extend(_Place(s, place.compared) for s in reversed(statement.body))
            case _:
                pass


def _following(nodes: list[Node], axis: Var, numbers: _Numbers) -> frozenset[Var]:
    """``axis`` and the names that points give once a value made of it."""
    own = {axis}
    for node in nodes:
        if isinstance(node, Bind) and not node.var.is_mutable and numbers.follow(node.value, own):
            own.add(node.var)
    return frozenset(own)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The numbers that variables may be, where they are known, and so the parts of expressions that are one number whatever those are."""

    ranges: Mapping[Var, Interval]
    _found: dict[ExprNode, Interval] = field(default_factory=dict)

    def follow(self, expr: Expr, variables: Set[Var]) -> bool:
        """Whether ``expr`` is computed from one of ``variables``, in a part that is not the same number for all of its values."""
        if not any(isinstance(n, Var) and n in variables for n in walk(expr)):
            return False
        parts = walk_into((expr,), lambda node: () if self._is_one_number(node) else children(node))
        return any(isinstance(n, Var) and n in variables and not self._is_one_number(n) for n in parts)

    def _is_one_number(self, node: Node) -> bool:
        if not isinstance(node, ExprNode):
            return False
        found = interval_of_value(node, lambda var: self.ranges.get(var, ANY), self._found)  # type: ignore[arg-type]
        return found.low is not None and found.low == found.high


def _taken(nodes: list[Node]) -> dict[Var, tuple[Load, ...]]:
    """The elements that a name's value was made of, for names that points give a value once."""
    taken: dict[Var, tuple[Load, ...]] = {}
    for node in nodes:
        if isinstance(node, Bind) and not node.var.is_mutable:
            named = (n for n in walk(node.value) if isinstance(n, Var))
            taken[node.var] = (*loads_in(node), *(load for var in named for load in taken.get(var, ())))
    return taken


def _compared(condition: Expr, varying: _Varying, taken: dict[Var, tuple[Load, ...]]) -> Load | None:
    """The element that all points share in ``A[i] > s[0]``, also where a name was given its value before; nothing where the condition is
    of another form."""
    if not isinstance(condition, Compare):
        return None
    for side in (condition.left, condition.right):
        while isinstance(side, Cast):
            side = side.value
        loads = (side,) if isinstance(side, Load) else taken.get(side, ()) if isinstance(side, Var) else ()
        for load in loads:
            if varying.is_shared(load.buffer) and not any(varying.may_differ(i) for i in load.indices):
                return load
    return None


def _is_element(load: Load, store: Store) -> bool:
    return load.buffer is store.buffer and all(same_structure(a, b) for a, b in zip(load.indices, store.indices))


def _matters_again(store: Store, varying: _Varying) -> bool:
    """Whether a point that misses what another wrote leaves something else: not so for the maximum with one value."""
    value = store.value
    while isinstance(value, Cast):
        value = value.value
    return varying.differs(value) or (isinstance(value, Binary) and value.op not in _IDEMPOTENT)


@dataclass(frozen=True, slots=True)
class _Varying:
    """What may differ between the points of an axis: variables, and buffers that the points write."""

    variables: frozenset[Var]
    numbers: _Numbers
    written: frozenset[Buffer]
    shared: frozenset[str]

    def is_shared(self, buffer: Buffer) -> bool:
        return buffer.root.space in self.shared

    def differs(self, expr: Expr) -> bool:
        """Whether a variable in ``expr`` may differ, and the value with it."""
        return self.numbers.follow(expr, self.variables)

    def may_differ(self, expr: Expr) -> bool:
        """Whether anything in ``expr`` may differ, or changes while the points run."""
        loads = (n.buffer for n in walk(expr) if isinstance(n, Load))
        return self.differs(expr) or any(buffer.root in self.written or not self.is_shared(buffer) for buffer in loads)


def _varying_variables(nodes: list[Node], known: Iterable[Var], numbers: _Numbers, shared: frozenset[str]) -> frozenset[Var]:
    """``known`` and the variables that follow from them; whatever is assigned in the loop or comes from an operation counts too."""
    varying = _Varying(variables=frozenset(known), numbers=numbers, written=frozenset(), shared=shared)
    while True:
        found = set(varying.variables)
        for node in nodes:
            match node:
                case Bind() if node.var.is_mutable or varying.may_differ(node.value):
                    found.add(node.var)
                case Assign():
                    found.add(node.var)
                case For() if any(varying.may_differ(e) for e in (node.start, node.stop, node.step)):
                    found.add(node.var)
                case Map() if any(varying.may_differ(extent) for extent in node.extents):
                    found.update(node.axes)
                case Atomic() | Shuffle() | Vote() | Dialect() if node.result is not None:
                    found.add(node.result)
                case _:
                    pass
        if len(found) == len(varying.variables):
            return varying.variables
        varying = replace(varying, variables=frozenset(found))
