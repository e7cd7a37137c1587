"""E281: elements of a written tensor that no block of the launches writes; E294: a tail of a tensor that no loop reads.

In: what the launches write, with the ranges of the variables at each place. Out: for a tensor, what is certainly not written, or nothing.

A write's offset along a dimension is a sum of a constant and of multiples of variables, so that it covers runs of elements at regular
distances: :class:`_Line`. What is no such sum (a quotient, a minimum, a product of variables) counts as every number of its range, and a
condition as true: what is found here is missing whatever happens. Three questions are asked, the cheapest first: is a coordinate missing
along some dimension; do the writes have fewer elements in all than the tensor (tiles along a diagonal); do boxes, where all writes are
boxes, leave a part of the tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, Final

import numpy as np

from zellige.analysis.forms import Division, Form, Monomial, form_of
from zellige.analysis.intervals import Interval, interval
from zellige.diagnostics import Span
from zellige.ir.expr import INT64, Const, Expr, Region, Var
from zellige.ir.stmt import Bind, For, StmtNode
from zellige.ir.traverse import walk
from zellige.records import dataclass

_LONGEST: Final = 1 << 20
"""Dimensions longer than this are not looked at element by element, which only writes at distances ask for."""
_MOST_CELLS: Final = 1 << 22
"""What more places than this leave open is not looked for."""
_MOST_TERMS: Final = 32
"""A name that stands for a longer sum is taken as any number of its range: a bound on compile time."""
_FEW: Final = 64
"""Fewer runs than this are marked one by one."""
_SHOWN: Final = 2
"""So many runs are named in a message."""


@dataclass(frozen=True, slots=True)
class Write:
    """A region that a statement of a launch writes, the ranges of the variables there, and what names of the launch stand for."""

    region: Region
    ranges: Mapping[Var, Interval]
    names: Names
    span: Span | None


@dataclass(frozen=True, slots=True)
class Missing:
    """Elements that nothing writes: what is written instead, in words, and the place of a write. ``axis`` is the dimension along which they
    are missing, ``tile`` how many elements a block writes there and ``step`` how far apart tiles begin (0: they end too early)."""

    written: str
    span: Span | None
    axis: int | None = None
    tile: int = 1
    step: int = 0


class Names:
    """What the names of one launch stand for: bound names, and variables of loops with a step. Forms are made when they are asked for."""

    def __init__(self, grid: Sequence[Var]) -> None:
        self.grid = frozenset(grid)
        self._bound: dict[Var, tuple[Expr, Mapping[Var, Interval]]] = {}
        self._forms: dict[Var, Form] = {}
        self._iterations: dict[Var, Interval] = {}

    def note(self, statement: StmtNode, ranges: Mapping[Var, Interval]) -> None:
        """Take in a statement, outer ones and earlier ones first."""
        if isinstance(statement, Bind) and not statement.var.is_mutable and statement.var.dtype.is_integer:
            self._bound[statement.var] = statement.value, ranges
        elif isinstance(statement, For) and isinstance(statement.step, Const) and abs(statement.step.value) > 1:
            step, start, stop = int(statement.step.value), interval(statement.start, ranges), interval(statement.stop, ranges)
            if start.low is not None and start.low == start.high and stop.low is not None and stop.low == stop.high:
                iteration = Var(name=statement.var.name, dtype=INT64, kind="loop")
                self._iterations[iteration] = Interval(0, len(range(start.low, stop.low, step)) - 1)
                self._forms[statement.var] = Form.of(iteration).scaled(step) + start.low

    def form(self, expr: Expr, ranges: Mapping[Var, Interval]) -> Form:
        """``expr`` with names replaced by what they stand for and variables of a single value by that."""
        for var in self._needed(expr):
            value, around = self._bound[var]
            found = self._combined(value, around)
            self._forms[var] = found if len(found.terms) <= _MOST_TERMS else Form.of(var)
        return self._combined(expr, ranges)

    def range_of(self, factor: Expr, ranges: Mapping[Var, Interval]) -> Interval:
        return self._iterations.get(factor) or interval(factor, ranges) if isinstance(factor, Var) else interval(factor, ranges)

    def _needed(self, expr: Expr) -> list[Var]:
        """The bound names in ``expr`` and in what they stand for that have no form yet, inner ones first."""
        found: dict[Var, None] = {}
        pending = [expr]
        while pending:
            for node in walk(pending.pop()):
                if isinstance(node, Var) and node in self._bound and node not in self._forms:
                    found.pop(node, None)
                    found[node] = None
                    pending.append(self._bound[node][0])
        return list(reversed(found))

    def _combined(self, expr: Expr, ranges: Mapping[Var, Interval]) -> Form:
        def known(var: Var) -> Form | None:
            found = ranges.get(var)
            if found is not None and found.low is not None and found.low == found.high:
                return Form.of(found.low)
            return self._forms.get(var)

        return form_of(expr, definition=known, divide=lambda form, _: Division(Form({}), form, False), memo={})


@dataclass(frozen=True, slots=True)
class _Term:
    """``step`` times each number from 0 to ``count - 1``; ``factor`` is what is counted, ``is_of_grid`` that blocks differ in it."""

    step: int
    count: int
    factor: Monomial
    is_of_grid: bool


@dataclass(frozen=True)
class _Line:
    """What one write covers along one dimension: ``extent`` elements from ``start`` plus a sum of a multiple of every term on, for all
    multiples; the terms in the order of their steps."""

    start: int
    extent: int
    terms: tuple[_Term, ...]

    @cached_property
    def run(self) -> tuple[int, int]:
        """How many elements lie side by side from the start on, and how many terms make them. A larger step leaves a gap behind them, which
        nothing fills, since what follows has larger steps still."""
        length = self.extent
        for number, term in enumerate(self.terms):
            if term.step > length:
                return length, number
            length += term.step * (term.count - 1)
        return length, len(self.terms)

    @property
    def is_box(self) -> bool:
        return self.run[1] == len(self.terms)

    @property
    def stop(self) -> int:
        return self.start + self.extent + sum(term.step * (term.count - 1) for term in self.terms)

    @property
    def reach(self) -> int:
        """From the first to behind the last element of one block."""
        return self.extent + sum(term.step * (term.count - 1) for term in self.terms if not term.is_of_grid)

    @property
    def is_divided(self) -> bool:
        """Whether blocks write different elements."""
        return any(term.is_of_grid for term in self.terms)

    def mark(self, covered: Any) -> None:
        """Set the elements of an array that are covered."""
        length, first = self.run
        size = len(covered)
        starts = np.array([self.start] if self.start < size else [], np.int64)
        for term in self.terms[first:] if len(starts) else ():
            within = min(term.count, (size - int(starts[0])) // term.step + 1)
            if len(starts) * within > _MOST_CELLS:
                covered[:] = True  # not known
                return
            reached = np.unique(starts[:, None] + term.step * np.arange(within))
            starts = reached[reached < size]
        for start in starts if len(starts) < _FEW else ():
            covered[max(start, 0) : max(start + length, 0)] = True
        if len(starts) >= _FEW:
            change = np.zeros(size + 1, np.int64)
            np.add.at(change, np.clip(starts, 0, size), 1)
            np.add.at(change, np.clip(starts + length, 0, size), -1)
            covered |= np.cumsum(change[:-1]) > 0


def missing(writes: Sequence[Write], shape: Sequence[int], *, is_output: bool, is_sample: bool) -> Missing | None:
    """What of a tensor of that shape no write covers; None where everything may be covered, or it is not known.

    Of an output every element matters. Of another tensor only what lies behind or between the tiles of blocks that divide it among them
    does: whoever passes it may have filled the rest. ``is_sample``: a size is one of many, so that a dimension that blocks do not divide
    may be meant to be short.
    """
    found = [_lines(write) for write in writes]
    pairs = [(write, lines) for write, lines in zip(writes, found) if lines]
    if not pairs or any(lines is None for lines in found) or not all(size > 0 for size in shape):
        return None
    for axis, size in enumerate(shape):
        along = [(write, lines[axis]) for write, lines in pairs]
        covered = _covered(size, [line for _, line in along])
        if covered is not None:
            return _missing_along(axis, covered, along, is_whole=is_output and not is_sample, is_output=is_output)
    if not is_output and not any(line.is_divided for _, lines in pairs for line in lines):
        return None
    span, most = pairs[-1][0].span, sum(_most(lines, shape) for _, lines in pairs)
    if most < prod(shape):
        return Missing(f"at most {most} of the {prod(shape)} elements", span)
    left = _left_by_boxes([lines for _, lines in pairs], shape)
    return None if left is None else Missing(f"nothing of [{', '.join(f'{a}:{b}' for a, b in left)}]", span)


def dropped_tail(reads: Sequence[Write], shape: Sequence[int]) -> Missing | None:
    """A part of a tile, less than a whole one, behind the tiles that a loop reads side by side: its count was rounded down. None where
    anything else reads the tensor."""
    found = [_lines(read) for read in reads]
    pairs = [(read, lines) for read, lines in zip(reads, found) if lines]
    if not pairs or len(pairs) < len(found):
        return None
    for axis, size in enumerate(shape):
        lines = [lines[axis] for _, lines in pairs]
        stop = lines[0].stop
        is_tiled = all(
            line.is_box and line.start == 0 and line.stop == stop and 0 < size - stop < line.extent and not line.is_divided and line.terms
            for line in lines
        )
        if is_tiled:
            return Missing(f"[0:{stop}] along dimension {axis}", pairs[0][0].span, axis, lines[0].extent)
    return None


# ---- one write


def line_of(access: Write, axis: int) -> _Line | None:
    """What an access covers along one dimension; None where it is not known."""
    length = interval(access.region.extents[axis], access.ranges).high
    return None if length is None else _line(access, access.region.offsets[axis], length)


def _lines(write: Write) -> tuple[_Line, ...] | None:
    """What a write covers along each dimension; nothing at all where it never happens, None where it is not known."""
    lines: list[_Line] = []
    for offset, extent in zip(write.region.offsets, write.region.extents):
        length = interval(extent, write.ranges).high
        counted = None if length is None else _line(write, offset, length)
        if counted is None:
            return None
        if counted.extent < 1 or any(term.count < 1 for term in counted.terms):
            return ()
        lines.append(counted)
    return tuple(lines)


def _line(write: Write, offset: Expr, extent: int) -> _Line | None:
    form = write.names.form(offset, write.ranges)
    start, terms = form.offset, []
    for factor, step in form.terms.items():
        if not factor:
            continue
        low, high = 1, 1
        for atom in factor:
            ends = write.names.range_of(atom, write.ranges)
            if ends.low is None or ends.high is None:
                return None
            corners = [a * b for a in (low, high) for b in (ends.low, ends.high)]
            low, high = (min(corners), max(corners)) if ends.low <= ends.high else (0, -1)
        start += step * (low if step > 0 else high)
        is_of_grid = any(node in write.names.grid for atom in factor for node in walk(atom) if isinstance(node, Var))
        if high != low:
            terms.append(_Term(abs(step), high - low + 1, factor, is_of_grid))
    return _Line(start, extent, tuple(sorted(terms, key=lambda term: term.step)))


# ---- all writes together


def _covered(size: int, lines: Sequence[_Line]) -> Any:
    """Which coordinates along a dimension some write has, as an array of bool, or where they end in a dimension too long for that; None for
    all of them, or where it is not known."""
    if any(line.is_box and line.start <= 0 and line.stop >= size for line in lines):
        return None
    if size > _LONGEST:
        stop = max(line.stop for line in lines)
        return stop if stop < size else None
    covered = np.zeros(size, np.bool_)
    for line in lines:
        line.mark(covered)
    return None if covered.all() else covered


def _missing_along(axis: int, covered: Any, pairs: Sequence[tuple[Write, _Line]], *, is_whole: bool, is_output: bool) -> Missing | None:
    """What is told of a dimension in which coordinates are missing; ``is_whole``: even where blocks do not divide it."""
    chosen = [(write, line) for write, line in pairs if line.is_divided and (is_output or line.reach > 1)]
    stop = covered if isinstance(covered, int) else int(np.flatnonzero(covered)[-1]) + 1 if covered.any() else 0
    if stop <= 0 or not (chosen or is_whole):
        return None
    write, line = max(chosen or pairs, key=lambda pair: pair[1].reach)
    if isinstance(covered, int) or covered[:stop].all():
        return Missing(f"[0:{stop}] along dimension {axis}", write.span, axis, line.reach)
    gaps = [term for _, one in chosen or pairs for term in one.terms[one.run[1] : one.run[1] + 1]]
    if not is_output and not any(term.is_of_grid for term in gaps):
        return None
    step = next((term.step for term in line.terms[line.run[1] :]), 0)
    return Missing(f"{_runs(covered)} along dimension {axis}", write.span, axis, line.run[0] if step else line.reach, step)


def _runs(covered: Any) -> str:
    """The first runs of covered elements, in words."""
    changes = np.flatnonzero(np.diff(np.concatenate(([False], covered, [False]))))
    runs = [f"[{a}:{b}]" for a, b in zip(changes[::2], changes[1::2])]
    return ", ".join(runs[:_SHOWN]) + (" and so on" if len(runs) > _SHOWN else "")


def _most(lines: Sequence[_Line], shape: Sequence[int]) -> int:
    """At most how many elements a write covers: an element for each combination of what is counted, once."""
    counts = {term.factor: term.count for line in lines for term in line.terms}
    return min(prod(counts.values()) * prod(line.extent for line in lines), prod(shape))


def _left_by_boxes(writes: Sequence[Sequence[_Line]], shape: Sequence[int]) -> list[tuple[int, int]] | None:
    """A box that none of the writes covers, where each covers no more than a box."""
    if len(writes) < 2 or not all(line.is_box for lines in writes for line in lines):
        return None
    boxes = [[(max(line.start, 0), min(line.stop, size)) for line, size in zip(lines, shape)] for lines in writes]
    ends = [sorted({0, size, *(end for box in boxes for end in box[axis] if 0 < end < size)}) for axis, size in enumerate(shape)]
    if prod(len(places) for places in ends) * len(boxes) > _MOST_CELLS:
        return None
    cells = np.zeros([len(places) - 1 for places in ends], np.bool_)
    for box in boxes:
        if all(low < high for low, high in box):
            cells[tuple(slice(places.index(low), places.index(high)) for places, (low, high) in zip(ends, box))] = True
    if cells.all():
        return None
    first = np.argwhere(~cells)[0]
    return [(places[at], places[at + 1]) for places, at in zip(ends, first)]
