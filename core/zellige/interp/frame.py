"""The points that run a body together, and the state of one interpretation.

A body runs once for all points of a :class:`Frame`: the one point of a block, the lanes of a block, or the points of a Map. A value is an
array without axes (the same for every point) or with one entry a point; a vector type adds its lanes as the last axis.
Storage is a :class:`Place` a buffer: the memory, and which copy of it each point uses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from zellige.diagnostics import Span
from zellige.elements.conversion import Array
from zellige.interp.blocks import BlockWatch
from zellige.interp.memory import Layout, Memory
from zellige.interp.report import Findings, RaceWatch, Report
from zellige.ir.expr import Buffer, Var
from zellige.ir.lanes import LaneDependence
from zellige.ir.stmt import Stmt
from zellige.records import dataclass

if TYPE_CHECKING:
    from zellige.interp.expressions import Program
    from zellige.interp.masks import Mask
    from zellige.interp.names import Names


@dataclass(slots=True, kw_only=True)
class Place:
    """Where a buffer is for the points of a frame: ``copies`` is one copy for all or one a point.

    ``layouts`` are those of the buffer and its aliases, as far as they were asked for.
    """

    memory: Memory
    copies: int | Array = 0
    layouts: dict[Buffer, Layout] = field(default_factory=dict)

    def of_points(self, parents: int | Array) -> Place:
        """The same storage for points whose parents in the outer frame are given, or for one of them."""
        if isinstance(self.copies, int):
            return self
        copies = int(self.copies[parents]) if isinstance(parents, int) else self.copies[parents]
        return Place(memory=self.memory, copies=copies, layouts=self.layouts)


@dataclass(slots=True, kw_only=True)
class Frame:
    """``count`` points; ``values`` of the variables in scope; ``places`` of the buffers that own storage.

    ``watch`` collects accesses when races are looked for, with points numbered from ``first_point``. ``assignments`` says which points have
    assigned an outer variable of the Map. ``undefined_variables`` are those that several points of a Map assigned.
    """

    kind: Literal["block", "lanes", "points"]
    count: int
    values: dict[Var, Array]
    places: dict[Buffer, Place]
    watch: RaceWatch | None = None
    first_point: int = 0
    undefined_variables: set[Var] = field(default_factory=set)
    assignments: dict[Var, Array] = field(default_factory=dict)

    def single(self, point: int, names: Names) -> Frame:
        """A frame of one of the points, with what ``names`` lists."""
        return Frame(
            kind="block",
            count=1,
            values={var: value[point] if is_per_point(value, var) else value for var, value in self.named_values(names)},
            places={root: self.places[root].of_points(point) for root in names.buffers},
            undefined_variables=self.undefined_variables,
        )

    def named_values(self, names: Names) -> list[tuple[Var, Array]]:
        """The variables that ``names`` lists, with their values."""
        return [(var, self.values[var]) for var in names.reads | names.assigned]


class Observer(Protocol):
    """Is told of each statement before it runs, and of a while loop before each test of its condition; it changes nothing."""

    def __call__(self, run: Run, frame: Frame, statement: Stmt, mask: Mask) -> None: ...


@dataclass(slots=True, kw_only=True)
class Run:
    """What one interpretation of a kernel carries along.

    ``statement`` is the one in work, for reports. ``safe_values`` are those of the block in work. ``dependence`` says what differs
    between the lanes of the launch in work; None where it has no lanes. ``warp`` is the number of lanes of a warp. ``observer`` looks on.
    """

    report: Report
    warp: int
    random: np.random.Generator
    findings: Findings = field(default_factory=Findings)
    statement: Stmt | None = None
    safe_values: dict[Buffer, Array] = field(default_factory=dict)
    dependence: LaneDependence | None = None
    observer: Observer | None = None
    barrier: Callable[[], None] | None = None
    """Waits for all other blocks; None while blocks run one after the other."""
    blocks: BlockWatch | None = None
    """Looks for races between the blocks of the launch in work, where that is asked for."""
    programs: dict[int, Program] = field(default_factory=dict)
    names: dict[int, Names] = field(default_factory=dict)
    lanewise: dict[int, bool] = field(default_factory=dict)

    @property
    def span(self) -> Span | None:
        """The place of the statement in work."""
        return self.statement.span if self.statement is not None else None


def is_per_point(value: Array, var: Var) -> bool:
    """Whether a variable's value has one entry a point."""
    return bool(value.ndim > (var.dtype.lanes > 1))
