"""What the interpreter can tell beside the result: races of T.Parallel, reads of undefined elements, accesses out of bounds.

In: accesses as they happen. Out: one :class:`Diagnostic` a kind of mistake, statement and buffer, with the first place where it
happened and how often. Nothing here changes what the program computes.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

import numpy as np

from zellige.diagnostics import Code, Diagnostic, Note, Span, catalogue
from zellige.dtypes import DType
from zellige.elements.conversion import Array
from zellige.interp.memory import Layout, Memory, halves
from zellige.ir.expr import Buffer, Var
from zellige.ir.stmt import Stmt
from zellige.records import dataclass

AccessKind = Literal["read", "write", "atomic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What to look for. ``races``: two points of a Map touch one element and one of them writes it (atomics and reducers apart), or
    lanes of one statement write different values to one element. ``undefined``: an element is read that nobody wrote, or no block
    writes an element of an output. ``bounds``: an index or a part of a region lies outside of its buffer."""

    races: bool = True
    undefined: bool = True
    bounds: bool = True

    @property
    def is_any(self) -> bool:
        return self.races or self.undefined or self.bounds


@dataclass(slots=True)
class _Finding:
    code: Code
    span: Span | None
    notes: tuple[Note, ...]
    fields: dict[str, object]
    times: int


@dataclass(slots=True)
class Findings:
    """Collects findings; those of one code, statement and buffer count as one."""

    _found: dict[tuple[str, int, Buffer | Var], _Finding] = field(default_factory=dict)

    def _add(
        self, code: Code, statement: Stmt | None, subject: Buffer | Var, times: int, notes: tuple[Note, ...] = (), **fields: object
    ) -> None:
        """Note ``times`` occurrences; the first call for a statement and subject decides place and text."""
        key = (code.id, id(statement), subject)
        known = self._found.get(key)
        if known is None:
            span = statement.span if statement is not None else subject.span
            self._found[key] = _Finding(code, span, notes, fields, times)
        else:
            known.times += times

    def race(
        self, statement: Stmt, buffer: Buffer, element: tuple[int, ...], what: str, other: Stmt | None = None, *, times: int = 1
    ) -> None:
        """Two points or lanes meet at an element of ``buffer``; ``other`` is the statement of the second access."""
        notes = () if other is None or other is statement else (Note("the other access", other.span),)
        self._add(catalogue.E296, statement, buffer, times, notes, what=what, element=f"{buffer.label}[{index_text(element)}]")

    def undefined_variable(self, statement: Stmt, var: Var) -> None:
        """A variable is read after several points of a Map gave it a value."""
        self._add(catalogue.E297, statement, var, 1, what=f"{var.label}, which several points of T.Parallel assigned, has no single value")

    def undefined_read(self, statement: Stmt, buffer: Buffer, layout: Layout, elements: Array) -> None:
        """The elements of ``buffer`` at the positions ``elements`` are read and nobody wrote them."""
        first = index_text(layout.index_of(int(elements.flat[0])))
        self._add(catalogue.E297, statement, buffer, elements.size, what=f"{buffer.label}[{first}] is undefined: nothing has written it")

    def outside(self, statement: Stmt, buffer: Buffer, layout: Layout, where: str, times: int) -> None:
        """``where`` is outside of ``buffer``."""
        self._add(catalogue.E298, statement, buffer, times, where=where, shape=f"{buffer.label}({index_text(layout.shape)})")

    def unwritten(self, buffer: Buffer, layout: Layout, elements: Array) -> None:
        """No block wrote the elements of an output at the positions ``elements``."""
        first = index_text(layout.index_of(int(elements.flat[0])))
        self._add(catalogue.E299, None, buffer, elements.size, element=f"{buffer.label}[{first}]", count=elements.size, buffer=buffer.label)

    def result(self) -> tuple[Diagnostic, ...]:
        """The findings in the order of their first occurrence, as warnings."""
        return tuple(
            entry.code.diagnose(entry.span, hint=None, notes=entry.notes, severity="warning", times=_times(entry.times), **entry.fields)
            for entry in self._found.values()
        )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def index_text(index: tuple[int, ...]) -> str:
    """``2, 3`` for messages."""
    return ", ".join(map(str, index))


@dataclass(frozen=True, slots=True)
class _Access:
    statement: Stmt
    buffer: Buffer
    layout: Layout
    dtype: DType
    positions: Array
    points: Array
    kind: AccessKind


@dataclass(slots=True)
class RaceWatch:
    """The accesses of one Map to buffers that its points share; ``roots`` are those that some point may change."""

    roots: frozenset[Buffer]
    _accesses: dict[int, list[_Access]] = field(default_factory=dict)

    def log(
        self, statement: Stmt, buffer: Buffer, layout: Layout, memory: Memory, positions: Array, points: Array, kind: AccessKind
    ) -> None:
        """``points`` access the elements at ``positions``; both are flat."""
        access = _Access(statement, buffer, layout, buffer.dtype.scalar, positions, points, kind)
        self._accesses.setdefault(id(memory), []).append(access)

    def report(self, findings: Findings) -> None:
        """Add a finding for each statement that races."""
        for accesses in self._accesses.values():
            if any(access.kind == "write" for access in accesses) or len({access.kind for access in accesses}) > 1:
                _report_races(accesses, findings)


def _units(access: _Access, *, by_half: bool) -> tuple[Array, Array]:
    if not by_half:
        return access.positions, access.points
    width = halves(access.dtype)
    return (access.positions[:, None] * width + np.arange(width)).ravel(), np.repeat(access.points, width)


def _report_races(accesses: list[_Access], findings: Findings) -> None:
    by_half = len({halves(access.dtype) for access in accesses}) > 1
    parts = [_units(access, by_half=by_half) for access in accesses]
    unit = np.concatenate([part[0] for part in parts])
    point = np.concatenate([part[1] for part in parts])
    source = np.repeat(np.arange(len(accesses)), [part[0].size for part in parts])
    if unit.size == 0:
        return
    order = np.argsort(unit, kind="stable")
    unit, point, source = unit[order], point[order], source[order]
    start = np.flatnonzero(np.r_[True, unit[1:] != unit[:-1]])
    kinds = np.array([access.kind for access in accesses])[source]

    def any_of(flags: Array) -> Array:
        return np.logical_or.reduceat(flags, start)

    is_shared = np.minimum.reduceat(point, start) != np.maximum.reduceat(point, start)
    is_race = is_shared & (any_of(kinds == "write") | (any_of(kinds == "atomic") & any_of(kinds == "read")))
    stop = np.r_[start[1:], unit.size]
    changes = np.minimum.reduceat(np.where(kinds != "read", np.arange(unit.size), unit.size - 1), start)
    for writer in np.unique(source[changes[is_race]]):
        access = accesses[writer]
        groups = np.flatnonzero(is_race & (source[changes] == writer))
        first = int(changes[groups[0]])
        members = slice(start[groups[0]], stop[groups[0]])
        other = int(start[groups[0]] + np.flatnonzero(point[members] != point[first])[0])
        position = int(unit[first]) // (halves(access.dtype) if by_half else 1)
        verb = "changes" if access.kind == "atomic" else "writes"
        findings.race(
            access.statement,
            access.buffer,
            access.layout.index_of(position // access.buffer.dtype.lanes),
            f"points {point[first]} and {point[other]} of T.Parallel, of which the first {verb} it",
            accesses[source[other]].statement,
            times=groups.size,
        )
