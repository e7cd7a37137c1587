"""Thread-level programs: what every lane of a block executes, between the plan and a backend's text.

Grammar (one screen; nodes marked ' are those of the tile IR with the meaning below)::

    Module       = Module(name, kernels)                                   one kernel a launch of the tile kernel, in order
    Function     = Function(name, params, grid, threads, cluster, shared_bytes, memories, body, ...)
    Memory       = Memory(buffer, offset)                                  a buffer' of rank 1 in shared memory
    Stmt         = Alloc' | Bind' | Assign' | Store' | If' | For' | While' | Break' | Continue' | Return' | Atomic' | Print' | Assert'
                 | Barrier' | Shuffle' | Vote' | PartedShuffle | PartedVote | Taking   the lane extension of the tile IR
                 | Comment(text)
                 | MatrixLoad | MatrixStore | Product                      a warp together
                 | AsyncCopy | CommitCopies | WaitCopies                   copies that land later, in groups
                 | BarrierInit | Arrive | ExpectBytes | WaitBarrier        transaction barriers, by parity
                 | TensorCopy | CommitStores | WaitStores                  box copies of one lane's asking
                 | AsyncProduct | FenceProducts | CommitProducts | WaitProducts | MoveRegisters
                 | NamedBarrier | Fence | Budget | Opaque
    Expr         = the expressions' of the tile IR

Meaning. Each lane runs the body with its own variables and registers. Buffers have rank 1 and count elements; a buffer with ``alias``
is another dtype over the same bytes (a vector dtype makes one wide access of many elements). Spaces are ``global`` (parameters),
``shared`` (the block's) and ``registers`` (the lane's own; a backend keeps them in registers when every index is a constant after loops
of kind Unrolled are unrolled). **An element outside its buffer is a fault**: lowering predicates every access that may leave, nothing
below it tests again. A wide access is aligned to its own size.

The operand of a shuffle is from 0 to below ``width`` (xor, index) or the lanes of a warp (up, down), and names lanes of the block that
take part; up and down give a lane its own value where there is no other.

Two lanes that touch an element of shared memory, one of them writing, need a barrier of a scope that holds both between them; what an
asynchronous operation touches is touched at any time between its issue and the wait that ends it. ``Barrier``, ``NamedBarrier`` and
statements of "a warp together" stand where control flow is uniform among the lanes they join: the simulator (:mod:`zellige.simt.simulate`)
refuses a run in which it is not.

Variables of kind lane are ``LANE`` (0 to lanes - 1 of the warp), ``WARP`` (of the block, uniform in a warp) and ``THREAD``
(= WARP * lanes + LANE); variables of kind grid are the block's place in ``Function.grid``.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Literal, TypeAlias

from zellige.diagnostics.span import Span
from zellige.dtypes import DType
from zellige.ir.expr import INT32, Buffer, Expr, Node, Var
from zellige.ir.stmt import (
    Alloc,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Bind,
    Break,
    Continue,
    For,
    If,
    Print,
    Return,
    Shuffle,
    StmtNode,
    Store,
    Vote,
    While,
)
from zellige.records import dataclass
from zellige.simt.distribution import Distribution
from zellige.simt.homes import LaneHome, RegisterHome, SharedHome

REGISTERS = "registers"
SHARED = "shared"
GLOBAL = "global"

GRID_AXES = 3
"""Axes along which machines count the blocks of a grid."""

LANE = Var(name="lane", dtype=INT32, kind="lane")
WARP = Var(name="warp", dtype=INT32, kind="lane")
THREAD = Var(name="thread", dtype=INT32, kind="lane")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductForm:
    """A product that the lanes of a warp (or of several warps) execute together, as a target offers it.

    C (``m`` x ``n``, elements of ``c``) += A (``m`` x ``k``) times B (``k`` x ``n``). The distributions say which register of which lane
    holds which element: dimensions (row, column) of the operand as the formula has it. ``name`` is the target's own word and the key of
    the backend's spelling; ``accumulates_in`` the type in which sums are kept.

    An asynchronous product exists with several numbers of columns, ``widths`` in rising order: every least number of columns more has the
    registers of the form with the least. ``reads_along_k``: its operands in memory have k as their contiguous dimension.
    """

    name: str
    m: int
    n: int
    k: int
    a: DType
    b: DType
    c: DType
    a_layout: Distribution
    b_layout: Distribution
    c_layout: Distribution
    accumulates_in: DType
    warps: int = 1
    is_asynchronous: bool = False
    cost: float = 1.0
    widths: tuple[int, ...] = ()
    reads_along_k: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Registers(Node):
    """Consecutive registers of the lane: elements ``start`` ... of ``buffer`` (whose dtype is the operand's element type)."""

    buffer: Buffer
    start: Expr
    CHILDREN: ClassVar[tuple[str, ...]] = ("start",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ThreadStmt(StmtNode):
    """A statement of this family."""

    @property
    def has_effect_beyond_memory(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comment(ThreadStmt):
    """A line of the printed source; it does nothing."""

    text: str


# ---- a warp together ----


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatrixLoad(ThreadStmt):
    """``count`` matrices of 8 rows of 16 bytes from shared memory, spread over the warp's registers.

    Lane 8 i + r gives the element index ``source`` of row r of matrix i (of the lanes beyond 8 * count nothing is read). Afterwards 32-bit
    register i of lane l holds the two 16-bit elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4; where ``is_transposed``, element l / 4 of
    rows 2 (l % 4) and 2 (l % 4) + 1. ``into`` are registers of any dtype that takes 4 bytes a matrix.
    """

    into: Registers
    buffer: Buffer
    source: Expr
    count: int
    is_transposed: bool = False
    CHILDREN: ClassVar[tuple[str, ...]] = ("into", "source")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatrixStore(ThreadStmt):
    """The reverse of :class:`MatrixLoad`."""

    buffer: Buffer
    target: Expr
    registers: Registers
    count: int
    is_transposed: bool = False
    CHILDREN: ClassVar[tuple[str, ...]] = ("target", "registers")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Product(ThreadStmt):
    """c += a @ b by ``form``, all operands in registers."""

    form: ProductForm
    a: Registers
    b: Registers
    c: Registers
    CHILDREN: ClassVar[tuple[str, ...]] = ("a", "b", "c")


# ---- copies in groups ----


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AsyncCopy(ThreadStmt):
    """``size`` bytes (4, 8 or 16) from global to shared memory, landing later; where ``is_valid`` is False zeros land instead and
    nothing is read. Indices count elements of the buffers."""

    target: Buffer
    target_index: Expr
    source: Buffer
    source_index: Expr
    size: int
    is_valid: Expr | None = None
    CHILDREN: ClassVar[tuple[str, ...]] = ("target_index", "source_index", "is_valid")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitCopies(ThreadStmt):
    """This lane's copies since the last commit become its next group (which may be empty)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WaitCopies(ThreadStmt):
    """Returns when at most ``leave`` groups of this lane have not landed. Other lanes see what landed after a barrier."""

    leave: int


# ---- transaction barriers ----


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BarrierInit(ThreadStmt):
    """Barrier ``index`` of ``barriers`` (a shared buffer of uint64) waits for ``arrivals`` and for all bytes expected, then its phase
    changes. The first phase has parity 0."""

    barriers: Buffer
    index: Expr
    arrivals: int
    CHILDREN: ClassVar[tuple[str, ...]] = ("index",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrive(ThreadStmt):
    """One arrival; what this lane did to memory before is visible to who waits. ``peer``: at the barrier of the block of that number in the
    cluster, counted along the axis that its blocks lie along."""

    barriers: Buffer
    index: Expr
    peer: Expr | None = None
    CHILDREN: ClassVar[tuple[str, ...]] = ("index", "peer")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpectBytes(ThreadStmt):
    """One arrival that also says how many ``bytes`` box copies will bring in this phase."""

    barriers: Buffer
    index: Expr
    bytes: Expr
    CHILDREN: ClassVar[tuple[str, ...]] = ("index", "bytes")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WaitBarrier(ThreadStmt):
    """Returns when the phase of this ``parity`` has ended."""

    barriers: Buffer
    index: Expr
    parity: Expr
    CHILDREN: ClassVar[tuple[str, ...]] = ("index", "parity")


# ---- box copies ----


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorBox:
    """A box of a global tensor as a copy engine sees it: ``box`` extents (innermost last), ``swizzle_bytes`` of the storage in shared
    memory, one of the machine's spans (0: rows one after the other)."""

    tensor: Buffer
    box: tuple[int, ...]
    swizzle_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorCopy(ThreadStmt):
    """One lane asks the copy engine for a box at ``origin`` (one element coordinate a dimension of the tensor).

    To shared memory it completes on ``barriers[index]`` in bytes of the whole box, parts outside the tensor arriving as zeros; from shared
    memory (``is_store``) it belongs to the group that the next CommitStores closes, parts outside are not written. Where there are several
    ``peers``, it comes to the same place in each of so many blocks of the cluster, and completes on the same barrier of each."""

    box: TensorBox
    origin: tuple[Expr, ...]
    memory: Buffer
    memory_index: Expr
    is_store: bool = False
    barriers: Buffer | None = None
    index: Expr | None = None
    peers: int = 1
    CHILDREN: ClassVar[tuple[str, ...]] = ("origin", "memory_index", "index")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitStores(ThreadStmt):
    """This lane's box stores since the last commit become its next group."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WaitStores(ThreadStmt):
    """Returns when at most ``leave`` groups are unfinished; ``of_reading``: when their memory may be written again, though the stores
    need not have arrived."""

    leave: int
    of_reading: bool = True


# ---- asynchronous products ----


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOperand(Node):
    """An operand in shared memory: its first element (``advance`` bytes from element ``start`` on), and how it is stored:
    ``swizzle_bytes``, which dimension is contiguous, and the distances in bytes between groups of as many rows as the swizzle repeats after
    and between columns of swizzle spans."""

    buffer: Buffer
    start: Expr
    advance: int
    is_k_contiguous: bool
    swizzle_bytes: int
    row_group_bytes: int
    span_bytes: int
    CHILDREN: ClassVar[tuple[str, ...]] = ("start",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AsyncProduct(ThreadStmt):
    """c = (0 if ``clear`` else c) + a @ b by the warps of a group, finished at a wait; until then c and a's registers are untouched."""

    form: ProductForm
    a: Registers | SharedOperand
    b: SharedOperand
    c: Registers
    clear: Expr
    CHILDREN: ClassVar[tuple[str, ...]] = ("a", "b", "c", "clear")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FenceProducts(ThreadStmt):
    """Registers that lanes read or wrote before are ready for asynchronous products issued after, and sums for those of another shape."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitProducts(ThreadStmt):
    """The warps' asynchronous products since the last commit become the next group."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WaitProducts(ThreadStmt):
    """Returns when at most ``leave`` groups are unfinished. ``settled`` are registers that no unfinished product touches then: who reads
    them later reads them after this statement."""

    leave: int
    settled: tuple[Buffer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MoveRegisters(ThreadStmt):
    """All registers of ``source`` to those of ``into``, here and not later: the next product may write ``source`` as soon as it begins."""

    into: Buffer
    source: Buffer


# ---- order ----


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NamedBarrier(ThreadStmt):
    """A barrier of ``lanes`` lanes of the block, told apart by ``number``. "arrive" goes on at once."""

    number: Expr
    lanes: int
    mode: Literal["join", "arrive"] = "join"
    CHILDREN: ClassVar[tuple[str, ...]] = ("number",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fence(ThreadStmt):
    """What this lane wrote before is visible after to ``to``: asynchronous engines that read shared memory, other blocks, or lanes that
    saw a barrier being made."""

    to: Literal["engines", "grid", "barriers"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Budget(ThreadStmt):
    """The warps of this role hold ``registers`` 32-bit registers a lane from here on. They give the others back to the block; where
    ``is_larger``, they wait until the block has as many as they need more."""

    registers: int
    is_larger: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Taking(ThreadStmt):
    """``result`` of each lane names the lanes of the warp (bit 0 its first) in which the condition holds, of those ``among`` which it is:
    the lanes that a variable of this kind names (None: all of the warp). Of those the ones that have
    not returned come here together."""

    result: Var
    among: Var | None
    condition: Expr
    CHILDREN: ClassVar[tuple[str, ...]] = ("result", "among", "condition")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartedShuffle(Shuffle):
    """A shuffle among some lanes of the warp: others may be elsewhere, or gone. ``among`` names them (:class:`Taking`), and
    perhaps lanes that have returned; None: it is not known who they are, but those that are there."""

    among: Var | None = None
    CHILDREN: ClassVar[tuple[str, ...]] = (*Shuffle.CHILDREN, "among")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartedVote(Vote):
    """A vote of some lanes of the warp, as :class:`PartedShuffle`."""

    among: Var | None = None
    CHILDREN: ClassVar[tuple[str, ...]] = (*Vote.CHILDREN, "among")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opaque(ThreadStmt):
    """It does nothing, and hides from the compiler of the printed source how the lane's variables and registers in ``of`` came about: what
    is computed from them after it is computed after it, and what was equal before it is not known to be equal."""

    of: tuple[Var | Buffer, ...]


Stmt: TypeAlias = (
    Alloc | Bind | Assign | Store | If | For | While | Break | Continue | Return | Atomic | Print | Assert
    | Barrier | Shuffle | Vote | PartedShuffle | PartedVote | Taking
    | Comment
    | MatrixLoad | MatrixStore | Product
    | AsyncCopy | CommitCopies | WaitCopies
    | BarrierInit | Arrive | ExpectBytes | WaitBarrier
    | TensorCopy | CommitStores | WaitStores
    | AsyncProduct | FenceProducts | CommitProducts | WaitProducts | MoveRegisters
    | NamedBarrier | Fence | Budget | Opaque
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A buffer of shared memory at ``offset`` bytes of the block's, whose contents end where another in the same bytes is written;
    ``bytes`` says its size where the buffer's extent is 0."""

    buffer: Buffer
    offset: int
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """Where a tile of the tile IR lives: what is printed and drawn of it, nothing that the program needs."""

    buffer: Buffer
    home: SharedHome | RegisterHome | LaneHome


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """A tensor argument: the address of ``buffer`` (rank 1; its one extent is an expression of the scalars). ``tensor`` is the tile IR's
    buffer. ``alignment`` in bytes is what the caller guarantees, ``is_written`` whether any lane writes it, ``is_aliased`` whether what is
    written through another pointer may be read through this one (a launch with such tensors takes a text without the promise)."""

    buffer: Buffer
    tensor: Buffer
    alignment: int
    is_written: bool
    is_aliased: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A scalar argument or a symbolic size."""

    var: Var


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxMap:
    """What the copy engine must know of a tensor to copy ``box`` es of it: the host makes it for each launch from the tensor's address,
    extents and strides. ``alignment`` in bytes is what the engine wants of the address and of the strides."""

    box: TensorBox
    alignment: int = 16


Parameter: TypeAlias = Pointer | Scalar | BoxMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """How engines have rows in shared memory: pieces of ``piece_bytes`` of a row stand in an order that begins anew after ``rows`` rows; a
    line of memory has a piece for each of them."""

    piece_bytes: int
    rows: int

    @property
    def line_bytes(self) -> int:
        return self.piece_bytes * self.rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Function(Node):
    """The program of one launch. ``grid`` are the extents in blocks (expressions of the scalars, at most 3), ``grid_vars`` the block's
    place; ``threads`` lanes a block; ``shared_bytes`` of shared memory; ``header`` lines that open the printed source (the plan); ``tiles``
    what became of the author's tiles; ``exchange`` how engines have tiles there (None: the target has no engines). ``meeting`` are the
    places of stores that the author wrote for lanes: there lanes may meet at an element, with one value. ``workers``: the blocks stay, so
    many at most, and take the tiles of the kernel's grid in turn (None: a block for each). ``registers``: what each lane has at the
    launch, where roles pass them on by budgets (None: nobody does). ``elsewhere`` are tiles that live elsewhere than the plan has them:
    name, place, reason."""

    name: str
    params: tuple[Parameter, ...]
    grid: tuple[Expr, ...]
    grid_vars: tuple[Var, ...]
    threads: int
    lanes: int
    body: tuple[Stmt, ...]
    memories: tuple[Memory, ...] = ()
    shared_bytes: int = 0
    cluster: tuple[int, ...] | None = None
    min_blocks: int | None = None
    workers: int | None = None
    registers: int | None = None
    header: tuple[str, ...] = ()
    tiles: tuple[Tile, ...] = ()
    exchange: Exchange | None = None
    meeting: frozenset[Span] = frozenset()
    elsewhere: tuple[tuple[str, str, str], ...] = ()
    span: Span | None = field(default=None, repr=False)
    CHILDREN: ClassVar[tuple[str, ...]] = ("grid", "grid_vars")
    BODIES: ClassVar[tuple[str, ...]] = ("body",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Module(Node):
    """The thread-level programs of one tile kernel, launched in order."""

    name: str
    functions: tuple[Function, ...]
    CHILDREN: ClassVar[tuple[str, ...]] = ("functions",)
