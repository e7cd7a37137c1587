"""The dependence graph of the statements of one body, with distances where the body is a loop's.

In: the facts of a launch and a body (of a launch, a branch or a loop). Out: :class:`Dependence` edges between positions of the body: the
later end must not run before the earlier one. ``distance`` is the least number of iterations from the source to the sink: 0 within an
iteration, 1 or more where only a later iteration meets the same element.

Two regions meet in iterations that differ by d where, in every dimension, the intervals ``[c i + r, c i + r + extent)`` overlap; with
equal factors c and a constant difference of r that bounds d. What cannot be compared meets at every distance. Two atomic operations of
one kind that give no result may change places in memory but keep their order here: the order of a float sum is part of the bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import Form
from zellige.ir.expr import Buffer, Region, Var
from zellige.ir.stmt import Assign, Bind, For, Map, Stmt
from zellige.plan.facts import Access, LaunchFacts, statements_in
from zellige.records import dataclass

DependenceKind = Literal["RAW", "WAR", "WAW", "atomic", "scalar"]

MOST_COMPARED: Final = 32
"""How many uses of one tensor, tile or variable are compared with each other, which gives an edge for every pair that meets. More are held
to the order in which they stand, whether they meet or not, by edges from which the others follow: their number, and the time it takes to
find them, then grows with the program and no faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependence:
    """``sink`` must not start before ``source`` of ``distance`` iterations earlier has finished. ``subject`` is what both touch."""

    source: int
    sink: int
    kind: DependenceKind
    distance: int
    subject: Buffer | Var


def dependences(facts: LaunchFacts, body: Sequence[Stmt], loop: For | None = None) -> tuple[Dependence, ...]:
    """The edges among ``body``; carried ones where it is the body of ``loop``. All of them are there or follow from those that are."""
    found: dict[tuple[int, int, str, object], Dependence] = {}

    def add(source: int, sink: int, kind: DependenceKind, distance: int, subject: Buffer | Var) -> None:
        key = (source, sink, kind, subject)
        old = found.get(key)
        if old is None or distance < old.distance:
            found[key] = Dependence(source=source, sink=sink, kind=kind, distance=distance, subject=subject)

    varying = varying_variables(body)
    by_root: dict[Buffer, list[tuple[int, Access]]] = {}
    for position, statement in enumerate(body):
        for access in facts.accesses(statement):
            by_root.setdefault(access.root, []).append((position, access))
    for root, uses in by_root.items():
        if not any(a.changes for _, a in uses):
            continue
        if len(uses) > MOST_COMPARED:
            first = {(position, access.changes): access for position, access in reversed(uses)}
            for i, j, least in _in_order(((p, a.changes) for p, a in uses), is_carried=loop is not None):
                one = first.get((i, True)) or first[i, False]
                add(i, j, _kind(one, first.get((j, True)) or first[j, False]), least, root)
            continue
        for i, one in uses:
            for j, other in uses:
                if not (one.changes or other.changes):
                    continue
                least = 0 if i < j else 1
                if least == 1 and loop is None:
                    continue
                distance = meeting_distance(one.region, other.region, loop, facts.scope, least, varying)
                if distance is not None:
                    add(i, j, _kind(one, other), distance, root)
    _scalar_edges(facts, body, loop, add)
    return tuple(sorted(found.values(), key=lambda d: (d.source, d.sink, d.kind, d.distance)))


def _in_order(uses: Iterable[tuple[int, bool]], *, is_carried: bool) -> Iterator[tuple[int, int, int]]:
    """Source, sink and distance of edges that hold uses to the order in which they stand: every other edge between a use and a change
    follows from them. ``uses`` are positions in order, and whether the use is a change."""
    changes: dict[int, bool] = {}
    for position, is_change in uses:
        changes[position] = changes.get(position, False) or is_change
    last: int | None = None
    before: list[int] = []  # uses that no change has followed yet, the last change among them
    head: list[int] = []  # uses up to the first change
    for position, is_change in changes.items():
        if last is None:
            head.append(position)
        if is_change:
            yield from ((use, position, 0) for use in before)
            last, before = position, [position]
        else:
            if last is not None:
                yield last, position, 0
            before.append(position)
    if is_carried and last is not None:
        yield from ((last, use, 1) for use in head)
        yield from ((use, head[-1], 1) for use in before if use != last)


def _kind(one: Access, other: Access) -> DependenceKind:
    if "atomic" in (one.kind, other.kind):
        return "atomic"
    if one.changes:
        return "WAW" if other.changes else "RAW"
    return "WAR"


def _scalar_edges(facts: LaunchFacts, body: Sequence[Stmt], loop: For | None, add: Callable[..., None]) -> None:
    uses: dict[Var, list[tuple[int, bool]]] = {}
    for position, statement in enumerate(body):
        assigned = facts.assigned(statement)
        for var in assigned:
            uses.setdefault(var, []).append((position, True))
        for var in facts.used(statement) - assigned:
            uses.setdefault(var, []).append((position, False))
    for var, places in uses.items():
        is_carried = loop is not None and var.is_mutable  # another is bound anew in every iteration
        if not any(is_change for _, is_change in places):
            continue
        if len(places) > MOST_COMPARED:
            for i, j, distance in _in_order(places, is_carried=is_carried):
                add(i, j, "scalar", distance, var)
            continue
        for i, changes in places:
            for j, also_changes in places:
                if (changes or also_changes) and (i < j or is_carried):
                    add(i, j, "scalar", 0 if i < j else 1, var)


def varying_variables(body: Sequence[Stmt]) -> frozenset[Var]:
    """Variables that may change while ``body`` runs: those of nested loops and points, and those given a value."""
    found: set[Var] = set()
    for statement in statements_in(body):
        match statement:
            case For():
                found.add(statement.var)
            case Map():
                found.update(statement.axes)
            case Bind() | Assign():
                found.add(statement.var)
            case _:
                pass
    return frozenset(found)


def meeting_distance(
    one: Region, other: Region, loop: For | None, scope: Scope, least: int, varying: frozenset[Var] = frozenset()
) -> int | None:
    """The least distance of at least ``least`` iterations of ``loop`` at which ``other``, later, meets ``one``; None where they never meet.

    ``varying`` are the variables whose value is not one throughout an iteration.
    """
    if one.buffer is not other.buffer:
        return least
    low, high = least, None if loop is not None else 0
    for dimension in range(one.buffer.rank):
        bounds = _distances(one, other, dimension, loop, scope, varying)
        if bounds is None:
            continue
        low = max(low, bounds[0])
        high = bounds[1] if high is None else min(high, bounds[1])
    return low if high is None or low <= high else None


def _distances(
    one: Region, other: Region, dimension: int, loop: For | None, scope: Scope, varying: frozenset[Var]
) -> tuple[int, int] | None:
    """The distances at which two intervals overlap in a dimension, None where that is not known; (1, 0) where at none."""
    first, second = scope.form(one.offsets[dimension]), scope.form(other.offsets[dimension])
    extent_one, extent_other = scope.form(one.extents[dimension]).constant, scope.form(other.extents[dimension]).constant
    if extent_one is None or extent_other is None:
        return None
    if not (_is_comparable(first, varying) and _is_comparable(second, varying)):
        return None
    stride = Form.of(0)
    if loop is not None and (first.has(loop.var) or second.has(loop.var)):
        parts, others = first.split(loop.var), second.split(loop.var)
        step = scope.form(loop.step).constant
        if parts is None or others is None or step is None or parts[0] != others[0]:
            return None
        stride = parts[0].scaled(step)
        gap = (others[1] - parts[1]).constant
    else:
        gap = (second - first).constant
    factor = stride.constant
    if gap is None or factor is None:
        return None
    # they overlap where  -extent_other < factor * d + gap < extent_one
    if factor == 0:
        return None if -extent_other < gap < extent_one else (1, 0)
    if factor < 0:
        factor, gap, extent_one, extent_other = -factor, -gap, extent_other, extent_one
    low = -((extent_other - 1 + gap) // factor)
    high = (extent_one - 1 - gap) // factor
    return low, high


def _is_comparable(form: Form, varying: frozenset[Var]) -> bool:
    """Whether a form is made of variables that have one value throughout an iteration."""
    return all(isinstance(atom, Var) and not atom.is_mutable and atom not in varying for atom in form.atoms())
