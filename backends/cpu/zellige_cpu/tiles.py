"""Tile operations: products, reductions and scans by leaf functions where the sizes are constants, everything else as Maps.

In: the statement. Out: a call of a leaf, or code of the Map that :mod:`zellige.passes.tile_operations` writes out.

A leaf takes whole tiles in row-major memory. A region that is not one (packed, strided, possibly reaching outside its buffer, of a
row length known at run time) is copied into scratch memory before, and back after. No operation reads what it writes, a scan in its place
apart: the plan sees to that (:mod:`zellige.plan.separate`).
"""

from __future__ import annotations

from zellige.diagnostics import InternalError
from zellige.ir.expr import Buffer, Region, constant_value
from zellige.ir.stmt import Copy, Fill, For, Gemm, Reduce, Scan, whole
from zellige.passes import tile_operations
from zellige_cpu import products, zeroed
from zellige_cpu.accesses import base_pointer
from zellige_cpu.context import Context, EmitBody
from zellige_cpu.expressions import evaluate
from zellige_cpu.indexes import uniform
from zellige_cpu.leaf import gemm, reduce
from zellige_cpu.planned import unit_of
from zellige_cpu.products import Tile
from zellige_cpu.storage import describe
from zellige_cpu.tile_registers import used_by
from zellige_cpu.types import element_bytes
from zellige_cpu.values import TRUE, Value


def constant_extents(region: Region) -> tuple[int, ...] | None:
    """The extents where all are constants and none is 0."""
    values = [constant_value(extent) for extent in region.extents]
    return tuple(int(v) for v in values if v is not None) if all(v is not None and v > 0 for v in values) else None


def direct_tile(ctx: Context, region: Region) -> Tile | None:
    """The region where it lies, if all of it exists and its strides are known."""
    storage = ctx.storage(region.buffer)
    extents = constant_extents(region)
    strides = [stride.constant for stride in storage.strides]
    if extents is None or storage.is_packed or storage.lanes != 1 or any(s is None for s in strides):
        return None
    offsets = tuple(ctx.freeze_offset(ctx, offset) for offset in region.offsets)
    for offset, extent, size in zip(offsets, extents, storage.shape):
        if not ctx.scope.is_nonnegative(offset) or not ctx.scope.is_nonnegative(size - offset - extent):
            return None
    return Tile(base_pointer(ctx, storage, offsets), extents, tuple(s for s in strides if s is not None), storage.dtype)


def staged_tile(ctx: Context, region: Region, emit_body: EmitBody, *, loads: bool) -> Tile:
    """A copy of the region in scratch memory; ``loads`` False leaves its content undefined."""
    extents = constant_extents(region)
    assert extents is not None
    dtype = region.buffer.dtype
    shape = tuple(tile_operations.number(e) for e in extents)
    buffer = Buffer(name=f"{region.buffer.name}_staged", dtype=dtype, shape=shape, space="local")
    size = element_bytes(dtype)
    for extent in extents:
        size *= extent
    pointer = ctx.reserve_scratch(size)
    ctx.storages[buffer] = describe(ctx, buffer, pointer, 0, packed=False)
    if loads:
        emit_body(ctx, (Copy(src=region, dst=whole(buffer), span=region.span),))
    strides = [1]
    for extent in reversed(extents[1:]):
        strides.append(strides[-1] * extent)
    return Tile(pointer, extents, tuple(reversed(strides)), dtype, whole(buffer))


def _tile(ctx: Context, region: Region, emit_body: EmitBody) -> Tile:
    return direct_tile(ctx, region) or staged_tile(ctx, region, emit_body, loads=True)


def _target(ctx: Context, region: Region, emit_body: EmitBody, *, loads: bool) -> Tile:
    """Where a leaf writes; ``loads`` says whether it also reads there."""
    return direct_tile(ctx, region) or staged_tile(ctx, region, emit_body, loads=loads)


def _write_back(ctx: Context, tile: Tile, region: Region, emit_body: EmitBody) -> None:
    if tile.staged is not None:
        emit_body(ctx, (Copy(src=tile.staged, dst=region, span=region.span),))


# -- products ------------------------------------------------------------------------------------------------------------


def emit_gemm(ctx: Context, statement: Gemm, emit_body: EmitBody) -> None:
    """Emits a product: a leaf function where all sizes are known, loops otherwise."""
    regions = (statement.a, statement.b, statement.c)
    zero = zeroed.taken(ctx, statement)
    is_special = any(extra is not None for extra in (statement.scale_a, statement.scale_b, statement.metadata))
    if ctx.lanes is not None or is_special or any(constant_extents(region) is None for region in regions):
        _emit_points(ctx, statement, zero, emit_body)
        return
    clear = evaluate(ctx, statement.clear)
    if zero is not None:
        clear = ctx.fn.binary("or", clear, zero)
    is_direct = [ctx.products.source(statement, operand) is not None for operand in ("a", "b")]
    a = None if is_direct[0] else _tile(ctx, statement.a, emit_body)
    b = None if is_direct[1] else _tile(ctx, statement.b, emit_body)
    c = _target(ctx, statement.c, emit_body, loads=clear.name != "true")
    if any(tile is not None and tile.strides[-1] != 1 for tile in (a, b, c)):
        if any(is_direct):
            raise InternalError("a product with a direct operand has a tile whose elements are apart")
        _emit_points(ctx, statement, zero, emit_body)
        return
    if a is None or b is None:
        products.emit_direct(ctx, statement, a, b, c, clear)
    else:
        _emit_tiles(ctx, statement, a, b, c, clear)
    _write_back(ctx, c, statement.c, emit_body)


def _emit_points(ctx: Context, statement: Gemm, zero: Value | None, emit_body: EmitBody) -> None:
    """A product as loops, which add to what is there."""
    if zero is not None:
        zeroed.fill(ctx, statement, zero, emit_body)
    emit_body(ctx, tile_operations.gemm_as_map(statement))


def _emit_tiles(ctx: Context, statement: Gemm, a: Tile, b: Tile, c: Tile, clear: Value) -> None:
    """A product of tiles by a leaf."""
    spec = gemm.GemmSpec(
        m=c.extents[-2],
        n=c.extents[-1],
        k=a.extents[-2] if statement.transpose_a else a.extents[-1],
        a=a.dtype,
        b=b.dtype,
        c=c.dtype,
        a_stride=a.strides[-2],
        b_stride=b.strides[-2],
        c_stride=c.strides[-2],
        transpose_a=statement.transpose_a,
        transpose_b=statement.transpose_b,
        unit=unit_of(ctx.host, statement, ctx.products.choices.get(id(statement))),
    )
    if spec.unit is not None:
        used_by(ctx, spec.unit)
    name = gemm.emit_gemm(ctx.module, spec)
    ctx.memory.leaf_bytes = max(ctx.memory.leaf_bytes, gemm.scratch_bytes(ctx.host, spec))
    assert ctx.leaf is not None
    ctx.fn.call(name, a.pointer, b.pointer, c.pointer, clear, ctx.leaf)


def emit_loop(ctx: Context, loop: For, emit_body: EmitBody) -> bool:
    """The loop, if its plan makes one product of several iterations."""
    statement = ctx.products.merged.get(id(loop))
    if statement is None:
        return False
    c = direct_tile(ctx, statement.c)
    if c is None or c.strides[-1] != 1:
        c = staged_tile(ctx, statement.c, emit_body, loads=True)
    fill, out = ctx.products.fills.get(id(loop)), ctx.products.outs.get(id(loop))
    is_stored = products.emit_merged_loop(ctx, loop, statement, c, replaces=fill is not None, out=out)
    if fill is not None:
        _fill_if_empty(ctx, loop, fill, emit_body)
    if out is not None:
        with ctx.nested(), ctx.fn.when(ctx.fn.binary("xor", is_stored, TRUE)):
            emit_body(ctx, (tile_operations.copy_as_map(out),))
    _write_back(ctx, c, statement.c, emit_body)
    return True


def _fill_if_empty(ctx: Context, loop: For, fill: Fill, emit_body: EmitBody) -> None:
    """The fill that the loop's first step replaces, where there is no step."""
    start, stop = ctx.freeze(ctx, loop.start), ctx.freeze(ctx, loop.stop)
    if not ctx.scope.is_nonnegative(stop - start - 1):
        with ctx.nested(), ctx.fn.when(ctx.fn.compare("sge", uniform(ctx, start), uniform(ctx, stop))):
            emit_body(ctx, tile_operations.fill_as_map(fill))


# -- reductions and scans ------------------------------------------------------------------------------------------------


def emit_reduce(ctx: Context, statement: Reduce, emit_body: EmitBody) -> None:
    """Emits a reduction: a leaf function where all sizes are known, loops otherwise."""
    source, target = constant_extents(statement.src), constant_extents(statement.dst)
    if ctx.lanes is not None or source is None or target is None:
        emit_body(ctx, (tile_operations.reduce_as_map(statement),))
        return
    src = _tile(ctx, statement.src, emit_body)
    dst = _target(ctx, statement.dst, emit_body, loads=not statement.clear)
    spec = reduce.ReduceSpec(
        shape=src.extents,
        axis=statement.axis,
        src_strides=src.strides,
        dst_strides=_kept_strides(src.extents, dst, statement.axis),
        src=src.dtype,
        dst=dst.dtype,
        op=statement.op,
        clear=statement.clear,
        nan_propagate=statement.nan_propagate,
    )
    ctx.fn.call(reduce.emit_reduce(ctx.module, spec), src.pointer, dst.pointer)
    _write_back(ctx, dst, statement.dst, emit_body)


def _kept_strides(extents: tuple[int, ...], dst: Tile, axis: int) -> tuple[int, ...]:
    """The strides of ``dst`` for the dimensions of the source but the axis; dst may keep an extent of 1 there or drop extents of 1."""
    kept = [extent for d, extent in enumerate(extents) if d != axis]
    if len(dst.extents) == len(extents) and [*dst.extents[:axis], *dst.extents[axis + 1 :]] == kept:
        return dst.strides[:axis] + dst.strides[axis + 1 :]
    if list(dst.extents) == kept:
        return dst.strides
    strides = iter([stride for extent, stride in zip(dst.extents, dst.strides) if extent != 1])
    return tuple(next(strides) if extent != 1 else 0 for extent in kept)


def emit_scan(ctx: Context, statement: Scan, emit_body: EmitBody) -> None:
    """Emits a scan: a leaf function where all sizes are known, loops otherwise."""
    if ctx.lanes is not None or constant_extents(statement.src) is None or constant_extents(statement.dst) is None:
        emit_body(ctx, (tile_operations.scan_as_map(statement),))
        return
    from zellige_cpu.leaf import scan  # few kernels have scans

    src = _tile(ctx, statement.src, emit_body)
    dst = _target(ctx, statement.dst, emit_body, loads=False)  # in its place, a scan reads each element before it writes it
    spec = scan.ScanSpec(
        shape=src.extents,
        axis=statement.axis,
        src_strides=src.strides,
        dst_strides=dst.strides,
        src=src.dtype,
        dst=dst.dtype,
        op=statement.op,
        reverse=statement.reverse,
    )
    ctx.fn.call(scan.emit_scan(ctx.module, spec), src.pointer, dst.pointer)
    _write_back(ctx, dst, statement.dst, emit_body)
