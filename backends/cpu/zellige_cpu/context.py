"""What an emitter knows while it writes one launch: where values are, what is proven, which lanes and mask are in force.

In: the function under construction and the facts of the launch. Out: :class:`Context`, handed to every emitting function.

A *level* is a stretch of code that everything nested in it is dominated by: the function's start, the body of the loop over grid cells,
each loop body and branch. Pure arithmetic is placed at the outermost level where its operands exist and kept there for reuse, so that
loop-invariant addresses are computed once without any LLVM pass.

With ``lanes`` set, code is written for ``lanes.count`` adjacent points of a Map at once: a value has either one lane (the same for all
points: *uniform*) or that many. ``mask`` says for which points the code runs; it is uniform or has as many lanes, None means all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import Form
from zellige.diagnostics import InternalError
from zellige.dtypes import DType
from zellige.ir.expr import Buffer, Expr, Load, Precision, Var
from zellige.ir.stmt import Stmt
from zellige.ir.traverse import walk
from zellige.records import dataclass
from zellige_cpu.host import Host
from zellige_cpu.lines import Line
from zellige_cpu.planned import Products
from zellige_cpu.program import Site
from zellige_cpu.text import Function, Module
from zellige_cpu.values import Value

if TYPE_CHECKING:
    from zellige_cpu.folds import Partial, Waiting
    from zellige_cpu.next_cells import Following
    from zellige_cpu.storage import ScratchPlan


@dataclass(slots=True)
class Level:
    """``stretch`` lies in the level outside, just before this one begins, where ``scope`` is known; ``memo`` holds values computed at
    this level."""

    stretch: list[Line]
    scope: Scope = field(default_factory=Scope)
    memo: dict[object, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lanes:
    """The axis of a Map of which ``count`` adjacent points are handled at once; its value in ``values`` is that of lane 0."""

    axis: Var
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where a buffer lives. Strides are in elements, or in nibbles where ``is_packed``.

    ``lanes`` above 1: private to a point of a Map, each element is that many adjacent copies, one a lane.
    """

    dtype: DType
    pointer: Value
    level: int
    shape: tuple[Form, ...]
    strides: tuple[Form, ...]
    element_bytes: int
    is_packed: bool = False
    is_global: bool = False
    lanes: int = 1
    safe_value: Expr | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """The stack cell of a mutable variable."""

    pointer: Value
    element: str
    lanes: int


@dataclass(frozen=True, slots=True)
class Way:
    """The grid variable that changes fastest among cells taken together: ``place`` counts its ``count`` cells from 0."""

    var: Var
    place: Value
    count: int


@dataclass(slots=True)
class LoopLabels:
    """Where continue and break of a loop jump to."""

    following: str
    after: str


@dataclass(slots=True)
class MemoryUse:
    """What a launch does to memory, as far as it is written: bytes that a worker needs for tiles and for leaf functions."""

    scratch_bytes: int = 0
    leaf_bytes: int = 0
    state_bytes: int = 0
    shared_bytes: int = 0
    """Bytes of both kinds that all workers share."""
    keeps_apart: bool = False
    """Whether a worker keeps for its later cells what products that are not merged have packed."""
    streams: bool = False
    """Whether some store passes the caches by."""
    uses_tiles: bool = False
    """Whether some product is one of matrix tiles."""
    tile_places: list[tuple[Function, list[Line]]] = field(default_factory=list)
    """Where their registers have to be configured in that case, see :mod:`zellige_cpu.tile_registers`."""


EmitBody: TypeAlias = "Callable[[Context, Sequence[Stmt]], None]"


@dataclass(slots=True)
class Context:
    """All that the emitters of one launch share: the function, the scope of names, the memory, the lanes."""

    fn: Function
    evaluate: Callable[[Context, Expr], Value]
    """Emits an expression (:mod:`zellige_cpu.expressions`), here so that the modules below it can."""
    freeze: Callable[[Context, Expr], Form]
    freeze_offset: Callable[[Context, Expr], Form]
    give: Callable[[Context, Var, Value], None]
    scope: Scope
    values: dict[Var, Value] = field(default_factory=dict)
    var_levels: dict[Var, int] = field(default_factory=dict)
    levels: list[Level] = field(default_factory=lambda: [Level([])])
    storages: dict[Buffer, Storage] = field(default_factory=dict)
    slots: dict[Var, Slot] = field(default_factory=dict)
    lanes: Lanes | None = None
    mask: Value | None = None
    has_idle_lanes: bool = False
    """Whether some lanes lie beyond the end of the axis: they are out of the mask, and the range of the axis does not hold for them."""
    loaded: dict[tuple[Load, str | None], Value] = field(default_factory=dict)
    """Elements read by the statement at hand, with the mask they were read under; memory does not change within a statement."""
    may_stream: bool = False
    streaming: frozenset[Buffer] = frozenset()
    """Tensors whose whole vectors are stored past the caches here, see :mod:`zellige_cpu.streaming`."""
    partials: dict[int, Partial] = field(default_factory=dict)
    """Of each Fold (by its id) of the Map at hand: its partial results."""
    waiting: dict[int, Waiting] = field(default_factory=dict)
    """Of each Fold whose rows are folded together: where their vectors wait."""
    zeroed: dict[int, Value] = field(default_factory=dict)
    """Of a product (by its id) that comes next: where it begins at zero, see :mod:`zellige_cpu.zeroed`."""
    following: tuple[Following, ...] = ()
    """What Maps before the code at hand have read that the next cell will read further on, see :mod:`zellige_cpu.next_cells`."""
    asks: tuple[Following, ...] = ()
    """What of it the Map at hand asks for."""
    loops: list[LoopLabels] = field(default_factory=list)
    granted: frozenset[Form] = frozenset()
    """Forms tested to be at least 0 before the code at hand, by a run-time test around it."""
    cell_end: str = ""
    sites: list[Site] = field(default_factory=list)
    precision: Precision = "default"
    float_flags: str = ""
    status: Value | None = None
    """The word in which the first failed assertion leaves its number."""
    printer: Value | None = None
    """The runtime's function that prints a record."""
    stop: str = ""
    """The label at which the whole call ends."""
    plan: ScratchPlan | None = None
    scratch: Value | None = None
    """This worker's memory for tiles."""
    leaf: Value | None = None
    """This worker's memory for the leaf function at work."""
    states: Value | None = None
    """Words that all workers of the launch share, zero when it begins."""
    shared: Value | None = None
    """Memory that all workers of the launch share."""
    is_first: Value | None = None
    """Not 0 in the first call that this worker makes for the launch, where its memory holds what other launches left; None where code may
    be reached in later calls alone."""
    grid: dict[Var, int | None] = field(default_factory=dict)
    """The grid's variables and their extents, None where not constant."""
    memory: MemoryUse = field(default_factory=MemoryUse)
    safe_values: dict[Buffer, Expr] = field(default_factory=dict)
    products: Products = field(default_factory=Products)
    """What the plan says of products."""
    way: Way | None = None

    @property
    def module(self) -> Module:
        return self.fn.module

    @property
    def host(self) -> Host:
        return self.fn.module.host

    @property
    def level(self) -> int:
        """The number of the current level; 0 is the function's start."""
        return len(self.levels) - 1

    @contextmanager
    def nested(self, stretch: list[Line] | None = None) -> Iterator[None]:
        """A new level begins here: open it before the branch or loop whose body it is, or give a stretch reserved there."""
        outer, following = self.scope, self.following
        self.levels.append(Level(self.fn.reserve() if stretch is None else stretch, outer))
        self.scope = outer.inner()
        yield
        self.scope, self.following = outer, following
        self.levels.pop()

    @contextmanager
    def masked(self, mask: Value | None, condition: Expr | None = None, *, holds: bool = True) -> Iterator[None]:
        """Code for the points where ``mask`` holds; ``condition`` is what it says, for the proofs of bounds."""
        outer_mask, outer_scope = self.mask, self.scope
        self.mask = mask
        self.scope = outer_scope.inner(is_masked=True)
        if condition is not None:
            self.scope.assume(condition, holds=holds)
        yield
        self.mask, self.scope = outer_mask, outer_scope

    @contextmanager
    def at(self, level: int) -> Iterator[None]:
        """Code goes to ``level``, which encloses the current one: before the construct in it that we are inside of. What is known inside of
        that, by a branch or a test, is not known there: the value may be used again behind the branch."""
        if level >= self.level:
            yield
            return
        within, granted = self.scope, self.granted
        outside = self.levels[level + 1]
        self.scope, self.granted = outside.scope, frozenset()
        with self.fn.inside(outside.stretch):
            yield
        self.scope, self.granted = within, granted

    def set_index(self, var: Var, value: Value) -> None:
        """Give an index variable its 64-bit value, which exists from the current level on."""
        self.values[var] = value
        self.var_levels[var] = self.level

    def reserve_scratch(self, size: int) -> Value:
        """More of the worker's tile memory, for as long as the launch lives."""
        assert self.scratch is not None
        start = self.memory.scratch_bytes
        self.memory.scratch_bytes += -(-size // 64) * 64
        with self.at(0):
            return self.fn.offset(self.scratch, start)

    def storage(self, buffer: Buffer) -> Storage:
        found = self.storages.get(buffer)
        if found is None:
            raise InternalError(f"buffer {buffer.name} is used where it has no storage")
        return found

    # -- what varies between the points of a Map --------------------------------------------------------------------------

    def is_varying(self, expr: Expr) -> bool:
        """Whether lanes may see different values of ``expr``."""
        if self.lanes is None:
            return False
        if isinstance(expr, Var):
            return self._varies(expr)
        return any(self._varies(node) for node in walk(expr))

    def _varies(self, node: object) -> bool:
        if isinstance(node, Var):
            assert self.lanes is not None
            if node is self.lanes.axis:
                return True
            value = self.values.get(node)
            if value is not None:
                return value.lanes > 1
            slot = self.slots.get(node)
            if slot is not None:
                return slot.lanes > 1
            definition = self.scope.definition(node)
            return definition is not None and any(self.is_varying(atom) for atom in definition.atoms())
        return isinstance(node, Load) and self.storage(node.buffer).lanes > 1
