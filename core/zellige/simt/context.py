"""What lowering knows at a place of the program: where buffers live, what is proven about numbers, the point of a Map at hand.

In: the plan of a launch and a machine. Out: :class:`Context`, which the other modules of lowering pass around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, Literal

from zellige.analysis.bounds import Scope
from zellige.diagnostics.span import Span
from zellige.dtypes import DType, dtype as as_dtype
from zellige.ir.expr import INT32, Binary, Buffer, Cast, Compare, Const, Expr, Load, Var, constant_value
from zellige.ir.lanes import LaneDependence
from zellige.ir.stmt import Alloc, Bind, For, If, Kernel, Map, Serial, Stmt, Unrolled
from zellige.plan.nodes import Channel, PlannedLaunch, Token
from zellige.records import dataclass
from zellige.simt.code import Code
from zellige.simt.distribution import Distribution, added, digit_value, number, times
from zellige.simt.engine_tiles import Boxes
from zellige.simt.homes import GlobalHome, Home, RegisterHome, SharedHome
from zellige.simt.ir import LANE, THREAD, WARP, Memory
from zellige.simt.machine import LaneMachine
from zellige.simt.packing import aligned
from zellige.simt.warps import WarpTiling


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The point of a Map that the code at hand is for: ``register`` of the Map's distribution on this lane. ``hoisted`` are values of
    global or shared elements that were loaded together, by the Load they stand for. ``owner``: whether this lane is the one of several
    with the same point that changes what lanes share (None: it is)."""

    axes: tuple[Var, ...]
    distribution: Distribution
    register: Expr
    hoisted: Mapping[Load, Expr] = field(default_factory=dict)
    owner: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelBarriers:
    """The transaction barriers of a channel between roles, one a slot: ``full`` waits for ``arrivals``, ``empty`` for ``releases``.
    ``peers``: the blocks of a cluster whose copies fill a slot together, and whose readers free it."""

    full: Buffer
    empty: Buffer
    arrivals: int
    releases: int
    peers: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelState:
    """The slot acquired last and the slot got last of a channel in one role; of a channel between roles also its barriers, the parity of
    each slot's phase, and the slots put and released last. ``held`` are the versions in registers that have been put: registers have no
    numbers that could change, so what was made moves there."""

    acquired_slot: Var
    got_slot: Var
    barriers: ChannelBarriers | None = None
    acquired_parity: Var | None = None
    got_parity: Var | None = None
    put_slot: Var | None = None
    freed_slot: Var | None = None
    held: dict[Buffer, RegisterHome] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOperand:
    """An operand of products in a loop that the loop does not change: ``region`` of its tile, as the side ``name`` of a product shared out
    by ``tiling``, all steps of k one after the other in the registers ``memory``."""

    name: Literal["a", "b"]
    region: tuple[Buffer, tuple[Any, ...], tuple[Any, ...]]
    is_k_inner: bool
    tiling: WarpTiling
    memory: Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """The statements behind the one in work, in one of the bodies around it; ``is_loop``: the body of a loop."""

    statements: Sequence[Stmt]
    is_loop: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRow:
    """What ``loop`` reads of ``tensor`` with one copy, in ``memory`` that each of ``threads`` lanes filled for itself: ``pieces`` of
    ``vector`` elements an iteration, those of the lanes side by side."""

    tensor: Buffer
    memory: Buffer
    pieces: int
    vector: int
    loop: For
    threads: int

    def piece(self, group: Expr) -> Expr:
        """The number of this lane's piece ``group`` of the iteration at hand, counted in pieces."""
        start, step = int(constant_value(self.loop.start) or 0), int(constant_value(self.loop.step) or 1)
        along: Expr = self.loop.var if self.loop.var.dtype == INT32 else Cast(value=self.loop.var, dtype=INT32)
        if start:
            along = Binary(op="sub", left=along, right=number(start))
        if step != 1:
            along = Binary(op="truncdiv", left=along, right=number(step))
        return added((times(added((times(along, self.pieces), group)), self.threads), THREAD))


@dataclass(slots=True, kw_only=True)
class Context:
    """``homes`` by root buffer; ``maps`` the distribution of each Map or Reduce that registers decide, by identity. In a role among several
    ``threads`` are the role's, ``boxes`` its copies by boxes, ``bytes_a_slot`` what they bring to each slot of a channel,
    ``read_by_engines`` the channels that only engines read, ``product_tokens`` the tokens of its products,
    ``products_begun`` the registers that each of those begun so far
    uses, ``engine_operands`` the tiles in shared memory that they read,
    ``box_stores`` the copies to tensors that boxes may make, ``stores_by_boxes`` whether one did, ``is_one_lane`` whether one lane runs the
    role alone, ``copies`` how many of the role there are, and ``turn_barriers`` the number of the first barrier by which they take turns.
    ``following``: what stands behind the statement in work, in each of the bodies around it, the innermost last.
    ``synchronises``: barriers stand where the program's accesses to shared memory need them, not only where its author put them.
    ``factors`` are the tiles by whose elements a Map multiplies, by its identity. ``sums_in_parts`` are the sums that an asynchronous
    product keeps in several blocks of registers, ``held_operands`` the operands that lanes hold in registers over the loop at
    hand. ``kept_rows`` is, by the identity of a loop and of a copy in it, where what the copy reads was brought to, ``kept_here`` those of
    the loop at hand and ``kept_row`` that of the copy at hand; ``waiting_loops`` are the loops that wait for what is brought."""

    kernel: Kernel
    planned: PlannedLaunch
    machine: LaneMachine
    threads: int
    homes: dict[Buffer, Home]
    maps: dict[int, Distribution]
    code: Code
    scope: Scope
    safe_values: dict[Buffer, Expr]
    written_tensors: frozenset[Buffer]
    has_lanes: bool
    emit_body: Callable[[Context, Sequence[Stmt]], None]
    tilings: dict[int, WarpTiling] = field(default_factory=dict)
    as_maps: dict[int, Map] = field(default_factory=dict)
    factors: dict[int, Buffer] = field(default_factory=dict)
    turn_barriers: int = 0
    copies: int = 1
    dependence: LaneDependence | None = None
    following: list[Following] = field(default_factory=list)
    synchronises: bool = True
    channels: dict[Channel, ChannelState] = field(default_factory=dict)
    boxes: dict[int, Boxes] = field(default_factory=dict)
    bytes_a_slot: dict[Channel, int] = field(default_factory=dict)
    read_by_engines: frozenset[Channel] = frozenset()
    product_tokens: frozenset[Token] = frozenset()
    products_begun: list[tuple[Buffer, ...]] = field(default_factory=list)
    engine_operands: tuple[Buffer, ...] = ()
    is_one_lane: bool = False
    box_stores: frozenset[int] = frozenset()
    stores_by_boxes: bool = False
    sums_in_parts: frozenset[Buffer] = frozenset()
    held_operands: tuple[HeldOperand, ...] = ()
    kept_rows: dict[int, dict[int, KeptRow]] = field(default_factory=dict)
    kept_here: Mapping[int, KeptRow] = field(default_factory=dict)
    kept_row: KeptRow | None = None
    waiting_loops: set[int] = field(default_factory=set)
    point: Point | None = None
    memories: list[Memory] = field(default_factory=list)
    sizes: dict[Buffer, int] = field(default_factory=dict)
    shared_bytes: int = 0
    scratch_bytes: int = 0
    scratch: Buffer | None = None
    slots: dict[Buffer, Expr] = field(default_factory=dict)
    serial: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def lanes(self) -> int:
        return self.machine.lanes

    @property
    def warps(self) -> int:
        return self.threads // self.machine.lanes

    @property
    def is_among_roles(self) -> bool:
        """Whether the block has several roles."""
        return any(state.barriers is not None for state in self.channels.values())

    @property
    def asking_lane(self) -> Expr | None:
        """Which lane of the role asks engines for boxes; None where only that one is here."""
        return None if self.is_one_lane else Compare(op="eq", left=THREAD, right=number(0))

    def is_shared_by_lanes(self, root: Buffer) -> bool:
        """Whether lanes may meet at the buffer: shared memory, and tensors that the kernel writes. Slots of a channel are ordered by it."""
        if any(root in channel.buffers for channel in self.channels):
            return False
        match self.homes.get(root):
            case SharedHome():
                return True
            case GlobalHome():
                return root in self.written_tensors
            case _:
                return False

    # ---- names and small declarations ----

    def fresh(self, name: str) -> str:
        self.serial += 1
        return f"{name}_{self.serial}"

    def value(self, name: str, expr: Expr) -> Expr:
        """A name for a value, unless it is one or a constant."""
        if isinstance(expr, (Var, Const)):
            return expr
        var = Var(name=self.fresh(name), dtype=expr.dtype, kind="value")
        self.code.emit(Bind(var=var, value=expr))
        return var

    def registers(self, name: str, dtype: DType, count: int) -> Buffer:
        """An array of this lane's registers, declared here."""
        buffer = Buffer(name=self.fresh(name), dtype=dtype, shape=(number(count),), space="registers")
        self.code.emit(Alloc(buffer=buffer))
        return buffer

    def view(self, memory: Buffer, dtype: DType) -> Buffer:
        """The same bytes as elements of another dtype."""
        if memory.dtype == dtype:
            return memory
        return Buffer(name=memory.name, dtype=dtype, shape=memory.shape, space=memory.space, alias=memory.root)

    def scratch_memory(self, dtype: DType, elements: int) -> Buffer:
        """Shared memory for one operation, the same bytes for all of them."""
        self.scratch_bytes = max(self.scratch_bytes, elements * dtype.bytes)
        if self.scratch is None:
            self.scratch = Buffer(name="scratch", dtype=as_dtype("uint8"), shape=(number(0),), space="shared")
        return Buffer(name="scratch", dtype=dtype, shape=(number(elements),), space="shared", alias=self.scratch)

    def kept_memory(self, name: str, dtype: DType, elements: int) -> Buffer:
        """Shared memory that nothing else uses."""
        memory = Buffer(name=self.fresh(name), dtype=dtype, shape=(number(elements),), space="shared")
        self.memories.append(Memory(buffer=memory, offset=self.shared_bytes))
        self.shared_bytes += aligned(elements * max(1, dtype.bytes))
        return memory

    def engine_memory(self, name: str, dtype: DType, elements: int) -> Buffer:
        """The same, beginning where the widest swizzle of an engine does."""
        assert self.machine.engines is not None, "an engine asks for it"
        self.shared_bytes = aligned(self.shared_bytes, self.machine.engines.alignment)
        return self.kept_memory(name, dtype, elements)

    # ---- structure ----

    @contextmanager
    def inner_scope(self) -> Iterator[Scope]:
        before = self.scope
        self.scope = before.inner()
        try:
            yield self.scope
        finally:
            self.scope = before

    @contextmanager
    def at(self, point: Point | None) -> Iterator[None]:
        before = self.point
        self.point = point
        try:
            yield
        finally:
            self.point = before

    @contextmanager
    def loop(self, name: str, count: int, *, is_unrolled: bool, span: Span | None = None) -> Iterator[Expr]:
        """A counted loop of this lane; of one iteration, no loop."""
        if count == 1:
            yield number(0)
            return
        var = Var(name=self.fresh(name), dtype=INT32, kind="loop")
        with self.code.nested() as body:
            yield var
        kind = Unrolled() if is_unrolled else Serial()
        self.code.emit(For(var=var, start=number(0), stop=number(count), step=number(1), kind=kind, body=tuple(body), span=span))

    @contextmanager
    def when(self, condition: Expr | None, span: Span | None = None) -> Iterator[None]:
        """Code under a condition (None: always)."""
        if condition is None:
            yield
            return
        with self.code.nested() as body:
            yield
        if body:
            self.code.emit(If(condition=condition, then=tuple(body), span=span))

    def coordinate(self, distribution: Distribution, dimension: int, register: Expr) -> Expr:
        """The coordinate of what ``register`` holds on this lane."""
        return distribution.coordinate(dimension, register=register, lane=LANE, warp=WARP)

    def is_owner(self, distribution: Distribution) -> Expr | None:
        """Whether this lane is the one of those that hold the same elements that acts for them; None where each holds its own."""
        conditions: list[Expr] = []
        for digit in distribution.replicated:
            source: Expr = LANE if digit.source == "lane" else WARP
            count = distribution.count(digit.source)
            value = digit_value(source, digit, count)
            conditions.append(Compare(op="eq", left=value, right=number(0)))
        return conjunction(conditions)


def conjunction(conditions: Sequence[Expr]) -> Expr | None:
    """All of them; None of none."""
    total: Expr | None = None
    for condition in conditions:
        total = condition if total is None else Binary(op="and", left=total, right=condition)
    return total
