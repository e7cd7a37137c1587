"""Reductions: over this lane's registers (several partial results at a time, so that one step need not wait for the step before), then
among the lanes that share a row, then among warps through shared memory.

In: a Reduce and the context. Out: its statements. Elements that lanes hold twice count once. The order is fixed by the distribution alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from zellige.analysis.forms import Form
from zellige.dtypes import DType
from zellige.ir.expr import BOOL, INT32, Binary, BinaryOp, Buffer, Compare, Expr, Load, Var, constant_value
from zellige.ir.reductions import reduction_dtype
from zellige.ir.stmt import Map, Reduce, Shuffle, Store
from zellige.passes import tile_operations
from zellige.simt import elements, maps
from zellige.simt.context import Context, Point, conjunction
from zellige.simt.distribution import (
    Digit,
    Distribution,
    added,
    digit_value,
    distribute,
    moved,
    number,
    times,
)
from zellige.simt.homes import (
    RegisterHome,
    SharedHome,
    dense_strides,
)
from zellige.simt.ir import LANE, WARP

CHAINS = 4
"""Partial results that a lane works on at once: as many steps as an addition takes until its result can be used."""

OWN_SCRATCH_BYTES = 512
"""Shared memory up to which a reduction has its own: the barrier that frees memory of all operations is then not waited for."""


def emit_reduce(ctx: Context, reduce: Reduce) -> None:
    """The reduction of constant extents, combined with what its target holds where the author asks for that."""
    sizes = [int(constant_value(e) or 0) for e in reduce.src.extents]
    source = _source(ctx, reduce, sizes)
    dtype = reduction_dtype(reduce.src.buffer.dtype, reduce.dst.buffer.dtype)
    held = BOOL if reduce.op in ("any", "all") else dtype
    kept = [d for d in range(len(sizes)) if d != reduce.axis]
    result = source.onto(kept)
    sums = ctx.registers(f"{reduce.dst.buffer.name}_part", held, max(1, result.registers))
    combine = tile_operations.combiner(reduce.op, nan_propagate=reduce.nan_propagate)
    start = tile_operations.start_of(reduce.op, held, number(sizes[reduce.axis]), nan_propagate=reduce.nan_propagate)
    chains = _chains(ctx, reduce, source, result)
    parts = sums if chains == 1 else ctx.registers(f"{reduce.dst.buffer.name}_chains", held, chains * result.registers)
    with ctx.loop("r", chains * result.registers, is_unrolled=True) as r:
        ctx.code.emit(Store(buffer=parts, indices=(r,), value=start, span=reduce.span))
    if all(size > 0 for size in sizes):
        _own_elements(ctx, reduce, source, result, kept, parts, chains, combine, dtype)
    if chains > 1:
        with ctx.loop("r", result.registers, is_unrolled=True) as r:
            ctx.code.emit(Store(buffer=sums, indices=(r,), value=_joined(parts, r, chains, combine), span=reduce.span))
    if all(size > 0 for size in sizes):
        _among_lanes(ctx, source, result, reduce.axis, sums, combine)
        _among_warps(ctx, reduce, source, result, kept, sums, combine)
    _finish(ctx, reduce, result, [sizes[d] for d in kept], sums, combine, dtype)


def _source(ctx: Context, reduce: Reduce, sizes: Sequence[int]) -> Distribution:
    """Who reads which element: the lanes that hold it, or lanes along the axis where memory holds it."""
    home = ctx.homes.get(reduce.src.buffer.root)
    if isinstance(home, RegisterHome):
        return home.distribution.with_shape(sizes)
    fastest = [len(sizes) - 1, *reversed(range(len(sizes) - 1))]
    return distribute([max(1, s) for s in sizes], lanes=ctx.lanes, warps=ctx.warps, order=fastest)


def _chains(ctx: Context, reduce: Reduce, source: Distribution, result: Distribution) -> int:
    """How many partial results a row has: a power of two, with at least four elements each."""
    if not isinstance(ctx.homes.get(reduce.src.buffer.root), RegisterHome):
        return 1
    rows = max(1, result.registers)
    chains = 1
    while 2 * chains * rows <= CHAINS and source.registers // rows >= 8 * chains:
        chains *= 2
    return chains


def _joined(parts: Buffer, row: Expr, chains: int, combine: BinaryOp) -> Expr:
    """The partial results of a row as one, in pairs."""
    level: list[Expr] = [Load(buffer=parts, indices=(added((times(row, chains), number(c))),)) for c in range(chains)]
    while len(level) > 1:
        level = [Binary(op=combine, left=a, right=b) for a, b in zip(level[::2], level[1::2])]
    return level[0]


def _own_elements(
    ctx: Context, reduce: Reduce, source: Distribution, result: Distribution, kept: Sequence[int], sums: Buffer, chains: int,
    combine: BinaryOp, dtype: DType,
) -> None:  # fmt: skip
    axes = tuple(Var(name=f"p{d}", dtype=INT32, kind="loop") for d in range(len(source.shape)))
    in_registers = isinstance(ctx.homes.get(reduce.src.buffer.root), RegisterHome)
    with ctx.inner_scope() as scope, ctx.loop("r", source.registers, is_unrolled=in_registers or source.registers <= 32) as r:
        for axis, extent in zip(axes, source.shape):
            scope.add_variable(axis, Form.of(0), Form.of(extent - 1))
        maps.bind_axes(ctx, axes, source, r)
        with ctx.when(maps.inside(axes, source)), ctx.at(Point(axes=axes, distribution=source, register=r)):
            value = elements.value_of(
                ctx, tile_operations.load_at(reduce.src, axes) if not in_registers else Load(buffer=reduce.src.buffer, indices=axes)
            )
            given = tile_operations.contribution(reduce.op, tile_operations.converted(value, dtype))
            place = source.register_at(result, kept, r)
            if chains > 1:
                place = added((times(place, chains), digit_value(r, _ONE_OF[chains], source.registers)))
            total = Binary(op=combine, left=Load(buffer=sums, indices=(place,)), right=given)
            ctx.code.emit(Store(buffer=sums, indices=(place,), value=total, span=reduce.span))


def _among_lanes(ctx: Context, source: Distribution, result: Distribution, axis: int, sums: Buffer, combine: BinaryOp) -> None:
    """Butterflies over the digits of the lane number that move along the axis."""
    steps = [
        digit.divisor << bit for digit in source.of_source("lane") if digit.dimension == axis for bit in range(digit.radix.bit_length() - 1)
    ]
    if not steps:
        return
    with ctx.loop("r", result.registers, is_unrolled=True) as r:
        for step in steps:
            own = ctx.value("own", Load(buffer=sums, indices=(r,)))
            other = Var(name=ctx.fresh("other"), dtype=sums.dtype, kind="value")
            ctx.code.emit(Shuffle(result=other, mode="xor", value=own, operand=number(step), width=ctx.lanes))
            ctx.code.emit(Store(buffer=sums, indices=(r,), value=Binary(op=combine, left=own, right=other)))


def _among_warps(
    ctx: Context, reduce: Reduce, source: Distribution, result: Distribution, kept: Sequence[int], sums: Buffer, combine: BinaryOp
) -> None:
    """Every warp's part to shared memory, and all parts of a row back to every lane that holds it, in the order of the warps."""
    along = [d for d in source.of_source("warp") if d.dimension == reduce.axis]
    if not along:
        return
    parts = 1
    for d in along:
        parts *= d.radix
    count = ctx.warps
    part: Expr = number(0)
    weight = 1
    for d in along:
        part = added((part, times(digit_value(WARP, d, count), weight)))
        weight *= d.radix
    rows = 1
    for dimension in range(len(kept)):
        rows *= result.covered(dimension)
    memory: Buffer
    resource: object
    if rows * parts * max(1, sums.dtype.bytes) <= OWN_SCRATCH_BYTES:
        memory = resource = ctx.kept_memory(f"{reduce.dst.buffer.name}_parts", sums.dtype, rows * parts)
    else:
        memory = ctx.scratch_memory(sums.dtype, rows * parts)
        resource = ctx.scratch
    writes = [
        Compare(op="eq", left=digit_value(LANE, d, ctx.lanes), right=number(0))
        for d in source.of_source("lane")
        if d.dimension is None or d.dimension == reduce.axis
    ]
    writes += [Compare(op="eq", left=digit_value(WARP, d, count), right=number(0)) for d in source.of_source("warp") if d.dimension is None]
    ctx.code.touch(writes=(resource,), span=reduce.span)
    with ctx.when(conjunction(writes)), ctx.loop("r", result.registers, is_unrolled=True) as r:
        place = added((times(_row(ctx, result, r), parts), part))
        ctx.code.emit(Store(buffer=memory, indices=(place,), value=Load(buffer=sums, indices=(r,))))
    ctx.code.touch(reads=(resource,), span=reduce.span)
    with ctx.loop("r", result.registers, is_unrolled=True) as r:
        row = ctx.value("row", times(_row(ctx, result, r), parts))
        total: Expr = Load(buffer=memory, indices=(row,))
        for p in range(1, parts):
            total = Binary(op=combine, left=total, right=Load(buffer=memory, indices=(added((row, number(p))),)))
        ctx.code.emit(Store(buffer=sums, indices=(r,), value=total))


_ONE_OF = {n: Digit(source="register", divisor=1, radix=n, dimension=None) for n in (2, 4)}
"""Which partial result a register belongs to: neighbours to different ones."""


def _row(ctx: Context, result: Distribution, register: Expr) -> Expr:
    """The number of a kept position, row-major over what the digits reach."""
    total: Expr = number(0)
    for d in range(len(result.shape)):
        total = added((times(total, result.covered(d)), ctx.coordinate(result, d, register)))
    return total


def _finish(
    ctx: Context, reduce: Reduce, result: Distribution, sizes: Sequence[int], sums: Buffer, combine: BinaryOp, dtype: DType
) -> None:
    """The results to where the target lives."""
    shape = [max(1, s) for s in sizes] or [1]
    held = Buffer(name=f"{reduce.dst.buffer.name}_sums", dtype=sums.dtype, shape=tuple(number(s) for s in shape), space="fragment")
    if not sizes:
        result = Distribution(shape=(1,), digits=tuple(replace(d, dimension=None, stride=0) for d in result.digits))
    ctx.homes[held] = RegisterHome(memory=sums, extents=tuple(shape), distribution=result.with_shape(shape))
    target = ctx.homes.get(reduce.dst.buffer.root)
    if isinstance(target, RegisterHome) and target.distribution.digits != moved(result.digits, _places(reduce, len(shape))):
        held = through_shared(ctx, held)
        _store_map(ctx, reduce, held, shape, combine, dtype, None)
        return
    ctx.code.touch(writes=(reduce.dst.buffer.root,) if not isinstance(target, RegisterHome) else (), span=reduce.span)
    _store_map(ctx, reduce, held, shape, combine, dtype, result.with_shape(shape))


def _places(reduce: Reduce, rank: int) -> tuple[int | None, ...]:
    """The dimension of the target that each of the ``rank`` dimensions of the result is; None for one that the target does not have."""
    axes = tuple(Var(name=f"q{d}", dtype=INT32, kind="loop") for d in range(rank))
    spread = tile_operations.aligned(reduce.src, reduce.dst, axes if len(reduce.src.extents) > 1 else (), reduce.axis)
    return tuple(next((place for place, index in enumerate(spread) if index is axis), None) for axis in axes)


def _seen_from_result(target: Distribution, places: Sequence[int | None], shape: Sequence[int]) -> Distribution:
    """The distribution of the target as one of the result's points."""
    found = [axis for axis, place in enumerate(places) if place is not None]
    narrow = target.onto([place for place in places if place is not None])
    return Distribution(shape=tuple(shape), digits=moved(narrow.digits, found))


def _store_map(
    ctx: Context, reduce: Reduce, held: Buffer, shape: Sequence[int], combine: BinaryOp, dtype: DType, distribution: Distribution | None
) -> None:
    axes = tuple(Var(name=f"q{d}", dtype=INT32, kind="loop") for d in range(len(shape)))
    position = axes if len(reduce.src.extents) > 1 else ()
    spread = tile_operations.aligned(reduce.src, reduce.dst, position, reduce.axis)
    value: Expr = Load(buffer=held, indices=axes)
    if not reduce.clear:
        before = tile_operations.converted(tile_operations.load_at(reduce.dst, spread), dtype)
        value = Binary(op=combine, left=tile_operations.converted(before, held.dtype), right=value)
    value = tile_operations.converted(tile_operations.converted(value, dtype), reduce.dst.buffer.dtype)
    body = (tile_operations.store_at(reduce.dst, spread, value),)
    written = Map(axes=axes, extents=tuple(number(s) for s in shape), body=body, span=reduce.span)
    if distribution is None:
        home = ctx.homes[reduce.dst.buffer.root]
        assert isinstance(home, RegisterHome)
        distribution = _seen_from_result(home.distribution, _places(reduce, len(shape)), shape)
    maps.emit_map(ctx, written, distribution=distribution)


def through_shared(ctx: Context, buffer: Buffer, *, is_kept: bool = False) -> Buffer:
    """A copy of a tile in registers that every lane can read: a tile in shared memory, filled by the lanes that hold it. Unless it
    ``is_kept``, the next operation that needs memory of its own takes the same."""
    home = ctx.homes[buffer]
    assert isinstance(home, RegisterHome)
    count, pitch = prod(home.extents), dense_strides(home.extents)
    name = f"{buffer.name}_staged"
    memory = ctx.kept_memory(name, buffer.dtype, count) if is_kept else ctx.scratch_memory(buffer.dtype, count)
    staged = Buffer(name=name, dtype=buffer.dtype, shape=buffer.shape, space="shared")
    ctx.homes[staged] = SharedHome(memory=memory, extents=home.extents, pitch=tuple(pitch))
    axes = tuple(Var(name=f"q{d}", dtype=INT32, kind="loop") for d in range(len(home.extents)))
    body = (Store(buffer=staged, indices=axes, value=Load(buffer=buffer, indices=axes)),)
    written = Map(axes=axes, extents=buffer.shape, body=body)
    resource = staged if is_kept else ctx.scratch
    ctx.code.touch(writes=(resource,))
    maps.emit_map(ctx, written, distribution=home.distribution.with_shape(home.extents))
    ctx.code.touch(reads=(resource,))
    return staged
