"""The plan: what is decided for one target from its capabilities, with no vendor name and every decision with its reason.

Grammar (one screen)::

    PlannedKernel = (kernel, target, launches)
    PlannedLaunch = (launch, roles, channels, placements, choices, order, decisions)
    Role          = (name, engine, count, registers, body)                 the program of one role, in its own order
    Channel       = (name, buffers, depth, producers, consumers, ...)      bounded, first in first out: acquire / put / get / release
    Placement     = (buffer, space, offset, bytes, slots, alignment)
    Choice        = (operation, executor, tiling, layouts, mechanism, is_native)
    Decision      = (question, chosen, because, rejected)

    PlanStmt      = Acquire(channel) | Put(channel) | Get(channel) | Release(channel)
                  | Issue(operation, token) | Wait(token, leave_in_flight) | Turn(name, phase)
                  | Slotted(operation, lags)
    Body          = (Stmt | PlanStmt, ...)                                  For, If and While nest bodies as in the tile IR

Meaning. Every role of a block runs its body; roles run at the same time and meet only at channels and turns. A channel has ``depth``
slots, each one version of all of its buffers. A producer *acquires* the next slot (waits until all consumers have released its last use),
writes it and *puts* it; a consumer *gets* the next slot (waits until all producers have put it), reads it and *releases* it. Slot number
n of a channel is version ``n % depth``.

Which slot an operation means by a channel's buffer, whether it reads or writes it: in a role that only produces, the slot acquired last;
in a role that only consumes, the slot got last; in a role that does both (scope "role"), the slot acquired last, or the slot got last
where the operation is Slotted; ``lag`` gets earlier where Slotted says so. All operations nested in a Slotted statement are meant.
Buffers of no channel have one version and belong to the roles that touch them. A channel without buffers hands over the right to touch
the buffers that it ``orders``: they have one version, and what the producer did to them before its put happens before what the consumer
does after its get. An edge between two roles is always a channel.

Every role runs the launch's control flow that it needs, with variables of its own: a Bind or Assign that several roles hold is run by
each of them. Operations are the objects of ``PlannedLaunch.launch``, each standing once in one role, except that a software pipeline (its
prologue, steady state and drain) and a loop that is split hold an operation several times, with the loop's variable given by a loop of at
most one iteration or by the parts. In a part whose masks hold at every point a Map may stand for another one (Resolved).

``Issue`` starts an asynchronous operation: it may read its sources and write its destination at any time until a ``Wait`` on its token
with ``leave_in_flight = n`` returns, which leaves at most the n operations issued last unfinished. Products of one token take effect in
the order of their issue; copies of one token write in any order, and so never where another may still write. A ``Put`` of a transaction
channel completes by itself when the operations issued before it on the channel's ``token`` have finished.

All synchronisation between roles is channels and turns, inside a role tokens: nothing else orders two operations of different engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar, Final, Literal, TypeAlias

from zellige.diagnostics.span import Span
from zellige.dtypes import DType
from zellige.ir.expr import Buffer, Compare, Expr, Node, Var
from zellige.ir.stmt import For, Kernel, Launch, Map, Stmt, StmtNode
from zellige.records import dataclass

ChannelScope = Literal["role", "block", "cluster"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Token:
    """Names one sequence of asynchronous operations of a role: they are waited for in the order of their issue."""

    name: str
    engine: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Channel:
    """A bounded queue of slots between roles (or, in scope "role", inside one role that runs ahead of itself).

    ``buffers`` have ``depth`` versions. ``arrivals`` is how many puts complete a slot (one a producer), ``releases`` how many releases
    free it (one a consumer). ``is_transaction``: the slot is complete when the copies issued on ``token`` have landed, counted in
    ``bytes`` a slot. ``orders`` are buffers of one version whose use the channel hands over; a channel has either buffers or those.
    Slots are there from the start: what allocates a channel's buffers stands before what uses them and in no loop.
    ``mechanism`` is the target's own word for what implements it.

    In scope "cluster" it joins the roles of all blocks of a cluster, which are neighbours along one axis of the grid: each has slots of its
    own, and what producers copy into a buffer of ``spread`` is the same in all of them, so each producer copies its share of the rows, into
    the slots of all blocks. A slot is then free when the consumers of all blocks have released it, and full when the producers of all
    blocks have put it (:mod:`zellige.plan.clusters`). ``arrivals``, ``releases`` and ``bytes`` are those of one block.
    """

    name: str
    buffers: tuple[Buffer, ...]
    depth: int
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    is_transaction: bool = False
    bytes: int = 0
    scope: ChannelScope = "block"
    mechanism: str = "order"
    token: Token | None = None
    orders: tuple[Buffer, ...] = ()
    spread: tuple[Buffer, ...] = ()

    @property
    def arrivals(self) -> int:
        return len(self.producers)

    @property
    def releases(self) -> int:
        return len(self.consumers)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PlanStmt(StmtNode):
    @property
    def has_effect_beyond_memory(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Acquire(_PlanStmt):
    """Waits until the channel's next slot is free, then owns it for writing."""

    channel: Channel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Put(_PlanStmt):
    """Hands the slot acquired first and not yet put to the consumers."""

    channel: Channel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Get(_PlanStmt):
    """Waits until the channel's next slot has been put, then owns it for reading."""

    channel: Channel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Release(_PlanStmt):
    """Gives the slot got first and not yet released back to the producers."""

    channel: Channel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Issue(_PlanStmt):
    """Starts an asynchronous operation (Copy, Gemm, AtomicTile, Dialect)."""

    operation: Stmt
    token: Token
    CHILDREN: ClassVar[tuple[str, ...]] = ("operation",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wait(_PlanStmt):
    """Returns when at most ``leave_in_flight`` operations of the token are unfinished."""

    token: Token
    leave_in_flight: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turn(_PlanStmt):
    """Roles that share the turn ``name`` pass it on in ``order``: "take" waits for one's turn, "pass" gives it to the next role. Each copy
    of a role has a place in the order, after the copy before it."""

    name: str
    order: tuple[str, ...]
    phase: Literal["take", "pass"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slotted(_PlanStmt):
    """A statement (or an Issue of one) that means, by the buffers of each channel listed, the slot got ``lag`` gets before the last one."""

    operation: Stmt | Issue
    lags: tuple[tuple[Channel, int], ...]
    CHILDREN: ClassVar[tuple[str, ...]] = ("operation",)


def operation_of(statement: Stmt | PlanStmt) -> Stmt | PlanStmt:
    """The statement itself, without the Issue and Slotted around it."""
    while isinstance(statement, (Issue, Slotted)):
        statement = statement.operation
    return statement


PlanStmt: TypeAlias = Acquire | Put | Get | Release | Issue | Wait | Turn | Slotted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Role(Node):
    """One program of a block. ``engine`` names the capability set's engine that runs its scalar statements; ``count`` copies of the role
    share its tiles by rows (which part of an operation a copy does is the target's business: they need nothing of each other). ``lanes`` is
    how many lanes one copy has (0: the target has none, or the launch's own threads), ``registers`` the budget a lane, where there is one.
    """

    name: str
    engine: str
    body: tuple[Stmt | PlanStmt, ...]
    count: int = 1
    lanes: int = 0
    registers: int | None = None
    BODIES: ClassVar[tuple[str, ...]] = ("body",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a buffer lives: ``slots`` versions of ``bytes`` each (already rounded up to ``alignment``) from ``offset`` of ``space``.

    Two buffers may overlap only where their live ranges do not.
    """

    buffer: Buffer
    space: str
    offset: int
    bytes: int
    slots: int = 1
    alignment: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """How a product is cut: blocks of m x n held in registers, steps of k, operands padded to multiples of them."""

    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandLayout:
    """How one operand is stored for its consumer.

    ``kind`` is rows (``parameters``: interleave), panels (width, interleave), swizzled (none), blocks (rows, columns), or the
    user's own. ``dtype`` is the type of the elements there, None where it is the buffer's: operands may be widened for their unit.
    ``is_direct``: the operand is brought into this form straight from what the copy of the buffer reads, and the buffer is not stored.
    ``kept`` says for whom such an operand of a product in a loop stays in this form (:mod:`zellige.plan.sharing`; empty: for this product),
    ``places`` of which variables of the grid it is a function. ``ahead`` is what asks for the elements of such an operand, in a loop with
    stages, before they are brought into this form (empty: nothing does; None: there was nothing to choose).
    """

    operand: str
    buffer: Buffer
    kind: str
    parameters: tuple[int, ...] = ()
    dtype: DType | None = None
    is_direct: bool = False
    kept: Literal["", "cell", "worker", "launch"] = ""
    places: tuple[Var, ...] = ()
    ahead: str | None = None


PACKED: Final = "packed"
"""How the operands of a product arrive that the loop around it packs and does nothing else with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What executes one tile operation: ``executor`` is an engine of the capabilities, ``unit`` the name of its product unit (empty: none),
    ``mechanism`` how operands arrive.

    ``edge`` says when parts of a global region outside its tensor must be kept out: "none" where the region is proven inside, "always"
    where it may leave, "partial" for an operation that is proven inside in the iterations that stand in ``full_loops`` and may leave in
    all others. ``tested`` are the dimensions of the global region that may leave (of an edge "partial": in the iterations that are not
    full). ``merge`` is how many iterations of the loop around it the executor takes at once without changing a bit: several, or each by
    itself (1) where k is long enough as written.
    ``unread`` names dimensions of a product (m, n) in which results beyond its tensors need not be computed, since nobody reads them.
    ``fill`` is the fill with zero of the result which the first step of the product's loop replaces (a loop without steps still fills).
    ``out`` is the copy of the result to its tensor which the last step makes by itself where the region lies wholly inside the tensor.
    ``rejected`` are ways that stood before this one, and why the operation does not go them.
    ``factor`` is the tile by whose elements a Map multiplies what it stores: where all of them are 1 it may be passed over.
    """

    operation: Stmt
    executor: str
    unit: str = ""
    mechanism: str = ""
    tiling: Tiling | None = None
    layouts: tuple[OperandLayout, ...] = ()
    edge: Literal["none", "partial", "always"] = "always"
    is_native: bool = True
    tested: tuple[int, ...] = ()
    merge: int = 1
    unread: tuple[str, ...] = ()
    fill: Stmt | None = None
    out: Stmt | None = None
    rejected: tuple[tuple[str, str], ...] = ()
    factor: Buffer | None = None

    @property
    def is_merged(self) -> bool:
        """Whether the loop around a product does nothing but multiply what it packs from tensors."""
        return self.mechanism == PACKED


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resolved:
    """``operation`` does what ``stands_for`` does wherever the comparisons of ``holds`` have the answers given there, at every point: it
    stands in loops over such iterations alone."""

    operation: Map
    stands_for: Map
    holds: tuple[tuple[Compare, bool], ...]


Topic = Literal["", "roles", "style", "programs", "memory", "tiles"]
"""What a decision is about, for what asks plans: how many roles a launch has by itself ("roles") or by the capabilities that it is planned
for ("style"), whether roles run programs of their own, how much memory tiles get, whether blocks stay. Most are for people only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One answer of the planner. ``where`` is the place in the user's source that it is about. One that says where tiles live has their
    names in ``tiles`` and the ``space``."""

    question: str
    chosen: str
    because: str
    rejected: tuple[tuple[str, str], ...] = ()
    where: Span | None = None
    topic: Topic = ""
    tiles: tuple[str, ...] = ()
    space: str = ""

    @staticmethod
    def of_homes(tiles: Sequence[str], space: str) -> str:
        """How ``chosen`` says where tiles live."""
        return f"{', '.join(tiles)} in {space}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """A launch whose blocks stay: ``workers`` of them at most, and each takes every so-many-eth tile of ``grid``, which is the kernel's.

    ``tile`` is the variable of the loop over tiles, ``blocks`` are those that stand for the grid's variables in it; tiles follow each other
    in panels of ``panel`` along ``order``.
    """

    workers: int
    tile: Var
    blocks: tuple[Var, ...]
    grid: tuple[Expr, ...]
    panel: int = 1
    order: Literal["row", "column"] = "row"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """How the grid is walked: ``panel`` blocks side by side along ``order``; ``coarsen`` cells a worker takes at once, the last variable
    of more than one fastest (empty: one); ``is_persistent``: blocks take tile after tile, as the author wrote, or as the planner decided
    (``tiles``); ``cluster``, the blocks that are placed together along each axis; ``splits``, the blocks that share the sum of a tile, and
    ``workspace_bytes`` that they write (1 and 0: none do); ``from_last``, the variable along which blocks run from last to first."""

    order: Literal["row", "column"] = "row"
    panel: int = 1
    coarsen: tuple[int, ...] = ()
    is_persistent: bool = False
    tiles: Tiles | None = None
    cluster: tuple[int, ...] | None = None
    splits: int = 1
    workspace_bytes: int = 0
    from_last: Var | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedLaunch(Node):
    """One launch with its roles and everything decided about it.

    ``launch`` is the launch after legalisation, whose operations the roles hold. ``full_loops`` are the loops of role bodies whose every
    iteration keeps the operations of edge "partial" inside their tensors. ``resolved`` are the operations of full iterations that do
    without the masks of those they stand for.
    """

    launch: Launch
    roles: tuple[Role, ...]
    full_loops: tuple[For, ...] = ()
    channels: tuple[Channel, ...] = ()
    placements: tuple[Placement, ...] = ()
    choices: tuple[Choice, ...] = ()
    resolved: tuple[Resolved, ...] = ()
    order: LaunchPlan = field(default_factory=LaunchPlan)
    decisions: tuple[Decision, ...] = ()
    CHILDREN: ClassVar[tuple[str, ...]] = ("roles",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedKernel(Node):
    """A kernel of the tile IR planned for one target. ``kernel`` is what the user wrote."""

    kernel: Kernel
    target: str
    launches: tuple[PlannedLaunch, ...]
    CHILDREN: ClassVar[tuple[str, ...]] = ("launches",)
