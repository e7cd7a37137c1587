"""Statements, launches and kernels of the tile IR.

Grammar::

    Kernel = Kernel(name, params, launches, results)
    Param  = TensorParam(buffer, role) | ScalarParam(var)
    Launch = Launch(grid_vars, grid, threads, lane_vars, warp, cluster, hints, body)
    Stmt   = Alloc | Copy | Fill | Gemm | Reduce | Scan | Transpose | Atomic | AtomicTile
           | Map | For | While | If | Break | Continue | Return
           | Bind | Assign | Store | Print | Assert | Assume
           | ReducerInit | ReducerUpdate | ReducerFinalize
           | Barrier | Shuffle | Vote                                     the lane extension
           | Dialect                                                      a plugin's operation

A body is a tuple of statements. A tile operation reads its operands whole before it writes its result, so that the two may have elements
in common. Statements compare by identity (:func:`zellige.ir.traverse.same_structure` compares
two programs up to the names of variables and buffers). What a statement itself reads and writes, apart from
the statements nested in it, is ``reads()`` and ``writes()``; ``BODIES`` names the fields that nest statements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from zellige.diagnostics.span import Span
from zellige.ir.expr import INT32, Buffer, Const, Expr, Node, Region, Var, constant_value
from zellige.ir.traverse import loads_in

ReduceOp = Literal["sum", "prod", "max", "min", "absmax", "abssum", "bitand", "bitor", "bitxor", "any", "all"]
ScanOp = Literal["sum", "prod", "max", "min"]
AtomicOp = Literal["add", "sub", "max", "min", "and", "or", "xor", "exchange", "load", "store"]
MemoryOrder = Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"]
GemmPolicy = Literal["square", "full_row", "full_col"]
Scope = Literal["warp", "block", "cluster", "grid"]
ParamRole = Literal["argument", "output", "workspace"]
Hints: TypeAlias = tuple[tuple[str, bool | int | float | str], ...]
"""Wishes with names of a backend (``Manifest.hints``), for its lowering to read; no other backend has a meaning for them, and none changes
what the statement does. Copy, Gemm, Reduce, Atomic, AtomicTile, Map and Pipelined have them."""

_ONE = Const(value=1, dtype=INT32)


def element(buffer: Buffer, indices: tuple[Expr, ...], span: Span | None = None) -> Region:
    """The region of one element."""
    return Region(buffer=buffer, offsets=indices, extents=(_ONE,) * len(indices), span=span)


def whole(buffer: Buffer, span: Span | None = None) -> Region:
    """The region of all of a buffer."""
    zero = Const(value=0, dtype=INT32)
    return Region(buffer=buffer, offsets=(zero,) * buffer.rank, extents=buffer.shape, span=span)


def is_whole(region: Region) -> bool:
    """Whether a region is all of its buffer, as far as its extents are written like the buffer's."""
    return all(constant_value(offset) == 0 for offset in region.offsets) and all(map(is_same_size, region.extents, region.buffer.shape))


def is_same_size(left: Expr, right: Expr) -> bool:
    """Whether two sizes are the same: constants of any type by their values, others by how they are written."""
    if isinstance(left, Const) and isinstance(right, Const):
        return left.value == right.value
    return left == right


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StmtNode(Node):
    """What statements share. ``READS`` and ``WRITES`` name fields that hold regions; ``BODIES`` those that hold nested statements."""

    span: Span | None = field(default=None, repr=False)
    BODIES: ClassVar[tuple[str, ...]] = ()
    READS: ClassVar[tuple[str, ...]] = ()
    WRITES: ClassVar[tuple[str, ...]] = ()

    def reads(self) -> tuple[Region, ...]:
        """Regions whose elements this statement reads, nested statements apart."""
        found = [r for name in self.READS if (r := getattr(self, name)) is not None and isinstance(r, Region)]
        found.extend(element(load.buffer, load.indices, load.span) for load in loads_in(self))
        return tuple(found)

    def writes(self) -> tuple[Region, ...]:
        """Regions whose elements this statement writes, nested statements apart."""
        return tuple(r for name in self.WRITES if (r := getattr(self, name)) is not None)

    @property
    def has_effect_beyond_memory(self) -> bool:
        """Whether it does something other than read and write memory: output, control, synchronisation."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alloc(StmtNode):
    """A fresh buffer with undefined elements, new each time this statement runs. NumPy: ``np.empty(shape, dtype)``."""

    buffer: Buffer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Copy(StmtNode):
    """NumPy: ``dst[...] = src.astype(dst.dtype)`` after dropping unit dimensions; the part of src outside its buffer reads as the
    safe value, the part of dst outside is not written.

    Hints: ``swizzle`` (a named layout wish for the on-chip side), ``vector_width`` in elements, ``eviction`` (a cache
    priority), ``is_async`` (the author's ``async_copy``: may complete late, is waited for before its first use).
    """

    src: Region
    dst: Region
    swizzle: str | None = None
    vector_width: int | None = None
    eviction: str | None = None
    is_async: bool = False
    hints: Hints = ()
    CHILDREN: ClassVar[tuple[str, ...]] = ("src", "dst")
    READS: ClassVar[tuple[str, ...]] = ("src",)
    WRITES: ClassVar[tuple[str, ...]] = ("dst",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fill(StmtNode):
    """NumPy: ``dst[...] = value`` (value has dst's dtype); the part outside the buffer is not written."""

    dst: Region
    value: Expr
    CHILDREN: ClassVar[tuple[str, ...]] = ("dst", "value")
    WRITES: ClassVar[tuple[str, ...]] = ("dst",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gemm(StmtNode):
    """NumPy: ``c = (0 if clear else c) + op(a) @ op(b)`` with op the transposition asked for.

    Floats of 8 and 16 bits multiply and accumulate in float32 and round once to c's dtype; float32 and tfloat32
    accumulate in float32, float64 (in any operand) in float64; integers wrap in c's dtype. ``policy`` and ``k_pack`` are hints.

    ``scale_a`` / ``scale_b`` are block scales: each element multiplies a block of a or b as it is stored (before the transposition), whose
    extents are those of the operand divided by those of the scale: ``a * np.repeat(np.repeat(scale, bm, 0), bk, 1)``.
    ``metadata`` makes a structured sparse along k: a holds the two elements of every four that are kept. A row of metadata is a string of
    bits, the least significant of its first element first, in which each element kept has two bits: its place among its four.
    """

    a: Region
    b: Region
    c: Region
    transpose_a: bool = False
    transpose_b: bool = False
    clear: Expr
    policy: GemmPolicy = "square"
    k_pack: int = 1
    scale_a: Region | None = None
    scale_b: Region | None = None
    metadata: Region | None = None
    hints: Hints = ()
    CHILDREN: ClassVar[tuple[str, ...]] = ("a", "b", "c", "clear", "scale_a", "scale_b", "metadata")
    READS: ClassVar[tuple[str, ...]] = ("a", "b", "c", "scale_a", "scale_b", "metadata")
    WRITES: ClassVar[tuple[str, ...]] = ("c",)

    def reads(self) -> tuple[Region, ...]:
        regions = StmtNode.reads(self)
        return tuple(r for r in regions if r is not self.c) if constant_value(self.clear) is True else regions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reduce(StmtNode):
    """NumPy: ``dst = op.reduce(src, axis)``, combined with what dst holds unless ``clear``.

    dst has src's extents without ``axis`` or with 1 there. Both are converted to their common type (a float of either side, else the
    wider integer, unsigned of two of one width; at least float32 for floats), reduced and combined there, and the result is cast
    to dst's dtype: floats below 32 bits accumulate in float32 and round once. The order of a float sum or product is open.
    max and min skip NaN (all NaN: NaN) unless ``nan_propagate``. Of no elements: 0 (sum, absmax, abssum, bitor, bitxor, any), 1 (prod,
    all), all bits (bitand), the lowest or highest value or infinity (max, min). any and all take what is not 0 for true.
    """

    src: Region
    dst: Region
    axis: int
    op: ReduceOp
    clear: bool = True
    nan_propagate: bool = False
    hints: Hints = ()
    CHILDREN: ClassVar[tuple[str, ...]] = ("src", "dst")
    WRITES: ClassVar[tuple[str, ...]] = ("dst",)

    def reads(self) -> tuple[Region, ...]:
        operands = (self.src,) if self.clear else (self.src, self.dst)
        return operands + StmtNode.reads(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scan(StmtNode):
    """NumPy: ``dst = op.accumulate(src, axis)``, from the end when ``reverse``.

    Types as in Reduce: floats below 32 bits accumulate in float32, each output rounded once. max and min skip NaN.
    """

    src: Region
    dst: Region
    axis: int
    op: ScanOp
    reverse: bool = False
    CHILDREN: ClassVar[tuple[str, ...]] = ("src", "dst")
    READS: ClassVar[tuple[str, ...]] = ("src",)
    WRITES: ClassVar[tuple[str, ...]] = ("dst",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transpose(StmtNode):
    """NumPy: ``dst[...] = src.T.astype(dst.dtype)`` of a two-dimensional region."""

    src: Region
    dst: Region
    CHILDREN: ClassVar[tuple[str, ...]] = ("src", "dst")
    READS: ClassVar[tuple[str, ...]] = ("src",)
    WRITES: ClassVar[tuple[str, ...]] = ("dst",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Atomic(StmtNode):
    """One element changed indivisibly: ``result = buffer[indices]; buffer[indices] = op(buffer[indices], value)``.

    ``load`` only reads (value is None), ``store`` only writes. Outside the buffer nothing happens and result is 0.
    """

    op: AtomicOp
    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr | None
    order: MemoryOrder = "relaxed"
    result: Var | None = None
    hints: Hints = ()
    CHILDREN: ClassVar[tuple[str, ...]] = ("indices", "value", "result")

    def reads(self) -> tuple[Region, ...]:
        own = () if self.op == "store" else (element(self.buffer, self.indices, self.span),)
        return own + StmtNode.reads(self)

    def writes(self) -> tuple[Region, ...]:
        return () if self.op == "load" else (element(self.buffer, self.indices, self.span),)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AtomicTile(StmtNode):
    """``dst[p] = op(dst[p], src[p])`` for every point of a region, each point indivisibly; casts src to dst's dtype."""

    op: AtomicOp
    src: Region
    dst: Region
    order: MemoryOrder = "relaxed"
    hints: Hints = ()
    CHILDREN: ClassVar[tuple[str, ...]] = ("src", "dst")
    READS: ClassVar[tuple[str, ...]] = ("src", "dst")
    WRITES: ClassVar[tuple[str, ...]] = ("dst",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Map(StmtNode):
    """T.Parallel: the body once for each point of ``extents``, the points independent and in any order.

    Variables and buffers made in the body belong to the point. So do, while the Map runs, outer variables that the body assigns and
    outer buffers of space ``local`` and ``var`` that it writes (atomics and reducers apart): each point starts with what they
    held before the Map and sees its own changes only. After the Map an element that exactly one point wrote has that value, and so has
    a variable that exactly one point assigned; what several points wrote is undefined, all else is as before.
    ``vector_width`` is a hint.
    """

    axes: tuple[Var, ...]
    extents: tuple[Expr, ...]
    body: tuple[Stmt, ...]
    vector_width: int | None = None
    hints: Hints = ()
    CHILDREN: ClassVar[tuple[str, ...]] = ("axes", "extents")
    BODIES: ClassVar[tuple[str, ...]] = ("body",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serial:
    """Iterations in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrolled:
    """In order; the author asks for unrolling, wholly where ``factor`` is None."""

    factor: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectorised:
    """In order as far as can be seen; the author promises independent iterations of adjacent elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipelined:
    """In order as far as can be seen; copies may run ahead by ``stages``. order / stage: the author's schedule by hand."""

    stages: int = 0
    order: tuple[int, ...] = ()
    stage: tuple[int, ...] = ()
    hints: Hints = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Persistent:
    """In order; the tiles of one block of a persistent launch."""


LoopKind: TypeAlias = Serial | Unrolled | Vectorised | Pipelined | Persistent


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class For(StmtNode):
    """``for var in range(start, stop, step)``: the meaning is the same for every kind. A step of 0 runs nothing; the bounds are
    evaluated once, before the first iteration, and the iterations counted in unbounded integers."""

    var: Var
    start: Expr
    stop: Expr
    step: Expr
    kind: LoopKind
    body: tuple[Stmt, ...]
    CHILDREN: ClassVar[tuple[str, ...]] = ("var", "start", "stop", "step")
    BODIES: ClassVar[tuple[str, ...]] = ("body",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class While(StmtNode):
    """``while condition``: the condition is evaluated before each iteration."""

    condition: Expr
    body: tuple[Stmt, ...]
    CHILDREN: ClassVar[tuple[str, ...]] = ("condition",)
    BODIES: ClassVar[tuple[str, ...]] = ("body",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class If(StmtNode):
    """``then`` where the condition holds, else ``otherwise``."""

    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()
    CHILDREN: ClassVar[tuple[str, ...]] = ("condition",)
    BODIES: ClassVar[tuple[str, ...]] = ("then", "otherwise")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Control(StmtNode):
    @property
    def has_effect_beyond_memory(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Break(_Control):
    """Leaves the innermost For or While."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Continue(_Control):
    """Goes on with the next iteration of the innermost For or While."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Return(_Control):
    """Ends this block (this lane, where the launch has lanes)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bind(StmtNode):
    """Gives a variable its (first) value; it lives to the end of the enclosing body."""

    var: Var
    value: Expr
    CHILDREN: ClassVar[tuple[str, ...]] = ("var", "value")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assign(StmtNode):
    """Gives a mutable variable another value of its dtype."""

    var: Var
    value: Expr
    CHILDREN: ClassVar[tuple[str, ...]] = ("var", "value")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Store(StmtNode):
    """NumPy: ``buffer[indices] = value`` inside the buffer, nothing outside; value has the buffer's dtype."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    CHILDREN: ClassVar[tuple[str, ...]] = ("indices", "value")

    def writes(self) -> tuple[Region, ...]:
        return (element(self.buffer, self.indices, self.span),)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Print(_Control):
    """Writes a line to the standard output: ``message``, then a value or the elements of a region as :mod:`zellige.runtime.printing`
    shows them. A value is printed for every active point or lane, a region by a block once (by a lane where it is the lane's)."""

    value: Expr | Region | None
    message: str = ""
    CHILDREN: ClassVar[tuple[str, ...]] = ("value",)
    READS: ClassVar[tuple[str, ...]] = ("value",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assert(_Control):
    """Stops the launch with an error when ``condition`` is False."""

    condition: Expr
    message: str = ""
    CHILDREN: ClassVar[tuple[str, ...]] = ("condition",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assume(StmtNode):
    """The author promises ``condition``; the compiler may use it (bounds tests, alignment)."""

    condition: Expr
    CHILDREN: ClassVar[tuple[str, ...]] = ("condition",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReducerInit(StmtNode):
    """NumPy: ``buffer[...] = identity of op``; afterwards only ReducerUpdate touches it, until ReducerFinalize."""

    buffer: Buffer
    op: ReduceOp
    replication: str | None = None

    def writes(self) -> tuple[Region, ...]:
        return (whole(self.buffer, self.span),)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReducerUpdate(StmtNode):
    """``buffer[indices] = op(buffer[indices], value)``: points of a Map may update one element, in any order.

    Between updates a float below 32 bits may be kept in float32. max and min skip NaN. Outside the buffer nothing happens.
    """

    buffer: Buffer
    op: ReduceOp
    indices: tuple[Expr, ...]
    value: Expr
    CHILDREN: ClassVar[tuple[str, ...]] = ("indices", "value")

    def reads(self) -> tuple[Region, ...]:
        return (element(self.buffer, self.indices, self.span), *StmtNode.reads(self))

    def writes(self) -> tuple[Region, ...]:
        return (element(self.buffer, self.indices, self.span),)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReducerFinalize(StmtNode):
    """From here on the buffer holds the reduced values and is read and written as any other."""

    buffer: Buffer

    def reads(self) -> tuple[Region, ...]:
        return (whole(self.buffer, self.span),)

    def writes(self) -> tuple[Region, ...]:
        return (whole(self.buffer, self.span),)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Barrier(_Control):
    """Every lane of the scope that has not returned arrives before any goes on; their memory effects are visible to all of them."""

    scope: Scope


LARGEST_WARP = 128
"""The most lanes that values are exchanged among."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shuffle(_Control):
    """``result`` of a lane is ``value`` of another lane of its group of ``width`` lanes (a power of two, at most the warp; 0: the warp).

    The other lane: lane ^ operand (xor), lane - operand (up), lane + operand (down), operand (index), counted in the group; outside
    the group, or of the block's lanes: own value. What a lane that does not take part would give is undefined.
    """

    result: Var
    mode: Literal["xor", "up", "down", "index"]
    value: Expr
    operand: Expr
    width: int
    CHILDREN: ClassVar[tuple[str, ...]] = ("result", "value", "operand")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vote(_Control):
    """``result``: whether the predicate holds in any / all lanes of the scope, their count, or (warp only) the mask of them, bit 0 the
    first lane of the warp. Lanes that do not take part count neither way."""

    result: Var
    mode: Literal["any", "all", "count", "ballot"]
    scope: Scope
    predicate: Expr
    CHILDREN: ClassVar[tuple[str, ...]] = ("result", "predicate")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dialect(_Control):
    """A plugin's own operation: ``op`` is ``plugin.name``. ``inputs`` are read, ``outputs`` written (a region may be in both)."""

    op: str
    inputs: tuple[Region, ...] = ()
    outputs: tuple[Region, ...] = ()
    operands: tuple[Expr, ...] = ()
    attributes: tuple[tuple[str, bool | int | float | str], ...] = ()
    result: Var | None = None
    body: tuple[Stmt, ...] = ()
    CHILDREN: ClassVar[tuple[str, ...]] = ("inputs", "outputs", "operands", "result")
    BODIES: ClassVar[tuple[str, ...]] = ("body",)

    def reads(self) -> tuple[Region, ...]:
        return self.inputs + StmtNode.reads(self)

    def writes(self) -> tuple[Region, ...]:
        return self.outputs


Stmt: TypeAlias = (
    Alloc | Copy | Fill | Gemm | Reduce | Scan | Transpose | Atomic | AtomicTile
    | Map | For | While | If | Break | Continue | Return
    | Bind | Assign | Store | Print | Assert | Assume
    | ReducerInit | ReducerUpdate | ReducerFinalize
    | Barrier | Shuffle | Vote | Dialect
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorParam(Node):
    """A tensor: given by the caller (argument), made by the runtime and returned (output), or made and kept (workspace)."""

    buffer: Buffer
    role: ParamRole = "argument"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScalarParam(Node):
    """A number by value; ``var.kind`` is "scalar" (or "size" where it also names a symbolic size)."""

    var: Var


TileOperation: TypeAlias = Copy | Fill | Gemm | Reduce | Scan | Transpose | AtomicTile | Map
"""What works on regions or on the points of a space as a whole: each is executed by something that a plan chooses."""

Param: TypeAlias = TensorParam | ScalarParam


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SafeValue(Node):
    """What elements of ``buffer`` outside its shape read as, instead of 0."""

    buffer: Buffer
    value: Expr
    span: Span | None = field(default=None, repr=False)
    CHILDREN: ClassVar[tuple[str, ...]] = ("value",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayoutHint(Node):
    """A wish for how a buffer is stored: ``kind`` "swizzle", "padded", "bank", or "map" with forward index expressions of ``axes``."""

    buffer: Buffer
    kind: str
    axes: tuple[Var, ...] = ()
    forward: tuple[Expr, ...] = ()
    lane: Expr | None = None
    replicate: int = 1
    span: Span | None = field(default=None, repr=False)
    CHILDREN: ClassVar[tuple[str, ...]] = ("axes", "forward", "lane")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RasterHint(Node):
    """The wish to walk the grid in panels of ``panel`` blocks, by "row" or "column" (T.use_swizzle)."""

    panel: int
    order: Literal["row", "column"] = "row"
    span: Span | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NamedHint(Node):
    """A wish with one value that some targets know: min_blocks_per_core, compile_flag, l2_hit_ratio ..."""

    name: str
    value: bool | int | float | str
    buffer: Buffer | None = None
    span: Span | None = field(default=None, repr=False)


Hint: TypeAlias = LayoutHint | RasterHint | NamedHint


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Launch(Node):
    """One T.Kernel block: ``body`` once for each point of ``grid`` (extents), blocks independent, in any order.

    ``threads`` is a hint while ``lane_vars`` is empty; with lane variables there are exactly that many lanes, and lane variable i
    counts along threads[i] (the first fastest). ``warp``, where the program asks for it, is how many lanes a warp of the target has:
    a number that is known once the target is (:mod:`zellige.ir.warp_width` puts it there).
    """

    grid_vars: tuple[Var, ...]
    grid: tuple[Expr, ...]
    threads: tuple[Expr, ...] | None = None
    lane_vars: tuple[Var, ...] = ()
    warp: Var | None = None
    cluster: tuple[int, ...] | None = None
    safe_values: tuple[SafeValue, ...] = ()
    hints: tuple[Hint, ...] = ()
    body: tuple[Stmt, ...] = ()
    span: Span | None = field(default=None, repr=False)
    CHILDREN: ClassVar[tuple[str, ...]] = ("grid_vars", "grid", "threads", "lane_vars", "warp", "safe_values", "hints")
    BODIES: ClassVar[tuple[str, ...]] = ("body",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kernel(Node):
    """A function of tensors and scalars: its launches run in order, global writes visible to the next.

    ``results`` are indices into ``params`` of the tensors that a call returns, in order.
    """

    name: str
    params: tuple[Param, ...]
    launches: tuple[Launch, ...]
    results: tuple[int, ...] = ()
    span: Span | None = field(default=None, repr=False)
    CHILDREN: ClassVar[tuple[str, ...]] = ("params", "launches")


