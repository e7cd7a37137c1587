"""Sums of products to global memory by boxes: each warp lays its rows out in shared memory and asks the copy engine to store them.

In: a copy from a tile in registers that a product's warps hold, and the context of a role. Out: its statements, or the answer that lanes
must store (:func:`emit`). A warp has slots of 16 rows for itself: it waits until an earlier store has read the slot, writes its matrices,
shows them to the engine and asks for the box. Nobody else's part is touched, so that no barrier of more than the warp is needed. Rows and
columns outside the tensor are not written.

Boxes arrive at any time until a warp waits for its own: a tensor that the launch uses elsewhere too is stored by lanes, and before a copy
that may write what it wrote in an earlier iteration, all warps of the role wait for what they asked for, and for each other.
"""

from __future__ import annotations

from zellige.diagnostics import Span
from zellige.dtypes import DType
from zellige.ir.expr import Binary, Buffer, Compare, Expr, Load, constant_value
from zellige.ir.stmt import Barrier, Copy, For, Persistent, Store, While
from zellige.ir.traverse import walk
from zellige.passes import tile_operations
from zellige.plan.dependence import meeting_distance, varying_variables
from zellige.records import dataclass
from zellige.simt import elements
from zellige.simt.context import Context
from zellige.simt.distribution import added, number, times
from zellige.simt.engine_tiles import engine_swizzle
from zellige.simt.homes import RegisterHome, swizzled
from zellige.simt.ir import (
    LANE,
    WARP,
    CommitStores,
    Fence,
    MatrixStore,
    Registers,
    TensorBox,
    TensorCopy,
    WaitStores,
)
from zellige.simt.statements import loops_around, statements_of
from zellige.simt.warps import WarpTiling

ROWS = 16
"""Rows of a box: two matrices of a :class:`~zellige.simt.ir.MatrixStore` below each other, as a warp of a group holds its sums."""

SLOTS = 2
"""Boxes of a warp under way at a time."""

COLUMNS = 8
"""Elements of a row of a matrix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """``width`` columns a box, ``slabs`` of them side by side, for each of ``row_tiles`` blocks of rows of a warp."""

    source: RegisterHome
    tiling: WarpTiling
    dtype: DType
    width: int
    slabs: int
    memory: Buffer

    @property
    def boxes(self) -> int:
        return self.slabs * self.tiling.row_tiles


def emit(ctx: Context, copy: Copy) -> bool:
    """The copy by boxes, where that is possible; whether it was emitted. The header says why it is not."""
    reason = _why_not(ctx, copy)
    if reason is not None:
        ctx.notes.append(f"{copy.dst.buffer.name} is stored by lanes: {reason}")
        return False
    source = ctx.homes[copy.src.buffer.root]
    assert isinstance(source, RegisterHome)
    tiling, width = _tiling(ctx, source), _width(ctx, copy)
    assert tiling is not None
    memory = ctx.engine_memory(f"{copy.dst.buffer.name}_rows", copy.dst.buffer.dtype, ctx.warps * SLOTS * ROWS * width)
    if _may_meet_itself(ctx, copy):
        _wait_for_all(ctx, copy.span)
        ctx.code.emit(Barrier(scope="block", span=copy.span))
    made = _Plan(source=source, tiling=tiling, dtype=copy.dst.buffer.dtype, width=width, slabs=source.extents[-1] // width, memory=memory)
    for tile in range(tiling.row_tiles):
        for slab in range(made.slabs):
            _box(ctx, copy, made, tile, slab)
    ctx.stores_by_boxes = True
    return True


def finish(ctx: Context) -> None:
    """Before the role ends: shared memory is not given back while boxes are read, and what they store has arrived."""
    if ctx.stores_by_boxes:
        _wait_for_all(ctx, None)


def _wait_for_all(ctx: Context, span: Span | None) -> None:
    """Each warp waits until all boxes that it asked for have arrived."""
    with ctx.when(_first_lane(), span):
        ctx.code.emit(WaitStores(leave=0, of_reading=False, span=span))


def _why_not(ctx: Context, copy: Copy) -> str | None:
    source, target = ctx.homes.get(copy.src.buffer.root), copy.dst.buffer
    if target.dtype.bytes != 2 or target.dtype.storage_bits != 16:
        return f"matrices of {target.dtype} are not moved between registers and rows"
    if not isinstance(source, RegisterHome) or _tiling(ctx, source) is None:
        return "no product holds it"
    if not _is_whole(copy):
        return "a part of it is copied"
    if _is_used_elsewhere(ctx, copy):
        return "the launch uses it elsewhere too, and nothing orders that with boxes"
    engines = ctx.machine.engines
    assert engines is not None, "boxes are chosen where an engine copies them"
    if (reason := engines.why_no_boxes(target)) is not None:
        return reason
    if target.alias is not None or _width(ctx, copy) == 0:
        return f"its columns are no multiple of {engines.spans[-1] // 2}"
    inner = ctx.scope.form(target.shape[-1])
    if any(coefficient * 2 % engines.piece_bytes for coefficient in inner.terms.values()):
        return f"its rows do not end at multiples of {engines.piece_bytes} bytes, which a box would write beyond"
    needed = ctx.shared_bytes + ctx.scratch_bytes + ctx.warps * SLOTS * ROWS * _width(ctx, copy) * 2 + engines.alignment
    if needed > ctx.machine.shared_bytes:
        return "shared memory has no room for its rows beside the stages"
    return None


def _is_used_elsewhere(ctx: Context, copy: Copy) -> bool:
    """Whether another statement of the launch reads or writes what the copy may write."""
    root = copy.dst.buffer.root
    statements = [s for role in ctx.planned.roles for s in statements_of(role.body, into_maps=True)]
    others = [s for s in statements if s is not copy and any(_names(node, root) for node in walk(s, bodies=False))]
    if not others:
        return False
    varying = varying_variables(ctx.planned.launch.body)
    return any(
        not isinstance(s, Copy) or s.src.buffer.root is root
        or meeting_distance(copy.dst, s.dst, None, ctx.scope, 0, varying) is not None
        for s in others
    )  # fmt: skip


def _names(node: object, root: Buffer) -> bool:
    buffer = getattr(node, "buffer", None)
    return isinstance(buffer, Buffer) and buffer.root is root


def _may_meet_itself(ctx: Context, copy: Copy) -> bool:
    """Whether the copy may write where it wrote in an earlier iteration of a loop of the author's around it. Loops of the plan's own run
    those, or take tiles of the grid in turn, which write to places of their own."""
    places = [loops for role in ctx.planned.roles for loops in loops_around(role.body, copy)]
    over_tiles = Persistent if ctx.planned.order.tiles is not None else ()
    own = {s.var for s in statements_of(ctx.planned.launch.body) if isinstance(s, For) and not isinstance(s.kind, over_tiles)}
    return len(places) != 1 or any(_meets_later(ctx, copy, loop) for loop in places[0] if not isinstance(loop, For) or loop.var in own)


def _meets_later(ctx: Context, copy: Copy, loop: For | While) -> bool:
    if isinstance(loop, While):
        return True
    return meeting_distance(copy.dst, copy.dst, loop, ctx.scope, 1, varying_variables(loop.body)) is not None


def _tiling(ctx: Context, source: RegisterHome) -> WarpTiling | None:
    """The asynchronous product that holds its sums as the tile is held."""
    candidates = (t for t in ctx.tilings.values() if t.form.is_asynchronous and t.form.m == ROWS * t.form.warps)
    return next((t for t in candidates if t.columns == t.column_tiles == 1 and t.accumulator.digits == source.distribution.digits), None)


def _is_whole(copy: Copy) -> bool:
    source = copy.src
    extents = [constant_value(e) for e in source.extents]
    wanted = [constant_value(e) for e in copy.dst.extents]
    return (
        len(extents) == 2
        and all(constant_value(o) == 0 for o in source.offsets)
        and extents == [constant_value(s) for s in source.buffer.shape]
        and [e for e in wanted if e != 1] == [e for e in extents if e != 1]
        and wanted[-2:] == extents
    )


def _width(ctx: Context, copy: Copy) -> int:
    """Columns of a box: the widest swizzle span that divides the tile; 0 where none does."""
    size = copy.dst.buffer.dtype.bytes
    engines = ctx.machine.engines
    span = None if engines is None else engines.span_of(int(constant_value(copy.src.extents[-1]) or 0) * size)
    return 0 if span is None else span // size


def _first_lane() -> Expr:
    return Compare(op="eq", left=LANE, right=number(0))


def _box(ctx: Context, copy: Copy, made: _Plan, tile: int, slab: int) -> None:
    """One box of 16 rows: its values narrowed and packed, laid out, shown, asked for."""
    span, size = copy.span, made.dtype.bytes
    place = tile * made.slabs + slab
    count = made.width // 2
    packed = ctx.registers(f"{copy.dst.buffer.name}_part", made.dtype, count)
    first = tile * made.tiling.form.c_layout.registers + slab * count
    with ctx.loop("r", count, is_unrolled=True) as r:
        value = Load(buffer=made.source.memory, indices=(added((number(first), r)),))
        narrowed = elements.value_of(ctx, tile_operations.converted(value, made.dtype))
        ctx.code.emit(Store(buffer=packed, indices=(r,), value=narrowed, span=span))
    slot = ctx.value("slot", added((times(WARP, SLOTS * ROWS * made.width), number(place % SLOTS * ROWS * made.width))))
    with ctx.when(_first_lane(), span):
        leave = SLOTS - 1 if made.boxes % SLOTS == 0 else 0
        ctx.code.emit(WaitStores(leave=leave, span=span))
    ctx.code.emit(Barrier(scope="warp", span=span))
    engines = ctx.machine.engines
    assert engines is not None, "an engine stores the box"
    swizzle = engine_swizzle(engines, made.width * size, size)
    row = Binary(op="truncmod", left=LANE, right=number(ROWS))
    half = Binary(op="truncdiv", left=LANE, right=number(ROWS))
    for block in range(made.width // 16):
        flat = added((slot, times(row, made.width), times(half, COLUMNS), number(16 * block)))
        target = swizzled(ctx.value("at", flat), swizzle)
        registers = Registers(buffer=packed, start=number(8 * block))
        ctx.code.emit(MatrixStore(buffer=made.memory, target=target, registers=registers, count=4, span=span))
    ctx.code.emit(Fence(to="engines", span=span), Barrier(scope="warp", span=span))
    box = TensorBox(
        tensor=copy.dst.buffer.root, box=(*[1] * (len(copy.dst.extents) - 2), ROWS, made.width), swizzle_bytes=made.width * size,
    )  # fmt: skip
    with ctx.when(_first_lane(), span):
        origin = _origin(ctx, copy, made.tiling, tile, slab * made.width)
        ctx.code.emit(TensorCopy(box=box, origin=origin, memory=made.memory, memory_index=slot, is_store=True, span=span))
        ctx.code.emit(CommitStores(span=span))


def _origin(ctx: Context, copy: Copy, tiling: WarpTiling, tile: int, column: int) -> tuple[Expr, ...]:
    """The first row and column of a warp's box in the tensor."""
    form = tiling.form
    group = Binary(op="truncdiv", left=WARP, right=number(form.warps))
    member = Binary(op="truncmod", left=WARP, right=number(form.warps))
    row = added((times(group, tiling.row_tiles * form.m), times(member, ROWS), number(tile * form.m)))
    offsets = [elements.coordinate(ctx, offset) for offset in copy.dst.offsets]
    return (*offsets[:-2], added((offsets[-2], row)), added((offsets[-1], number(column))))

