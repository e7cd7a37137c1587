"""Products that no unit of the target executes: every lane multiplies and adds a block of elements of its own.

In: a Gemm and the warps of its block. Out: a :class:`~zellige.simt.warps.WarpTiling` whose form is one step of k by single lanes, and the
statements: a loop over k in which a lane reads a few elements of its rows and columns, by wide accesses where storage allows, and adds
their products to sums in its registers. The loop stays a loop, so that the text does not grow with k.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Final, Literal

from zellige.analysis.forms import Form
from zellige.dtypes import DType
from zellige.ir.expr import Binary, Buffer, Const, Expr, Load, Region, Var, constant_value
from zellige.ir.stmt import Gemm, Store
from zellige.passes import tile_operations
from zellige.records import dataclass
from zellige.simt import elements, products
from zellige.simt.context import Context
from zellige.simt.distribution import Digit, Distribution, added, digit_value, number, times
from zellige.simt.homes import RegisterHome, SharedHome
from zellige.simt.ir import LANE, ProductForm
from zellige.simt.reductions import through_shared
from zellige.simt.warps import WarpTiling, tile_warps

MULTIPLY_ADD: Final = "multiply-add"
"""The name of the form."""

STEP_BYTES: Final = 16
"""What a lane reads along k at once, at most."""

WRITTEN_OUT: Final = 1024
"""Multiplications of one step of the loop over k that are written out, at most."""

READ_COST: Final = 2.0
"""What a read of shared memory costs beside a multiplication, for the choice of the lanes' block."""


def form_of(dtype: DType, lanes: int, columns: int, neighbours: int) -> ProductForm:
    """``lanes / columns`` rows by ``columns * neighbours`` columns of one step of k, ``neighbours`` columns a lane."""
    rows, n = lanes // columns, columns * neighbours

    def layout(shape: tuple[int, int], row: int | None, column: int | None) -> Distribution:
        digits: list[Digit] = []
        if column is not None:
            digits.append(Digit(source="register", divisor=1, radix=neighbours, dimension=column, stride=1))
        across = Digit(source="lane", divisor=1, radix=columns, dimension=column, stride=0 if column is None else neighbours)
        down = Digit(source="lane", divisor=columns, radix=rows, dimension=row, stride=0 if row is None else 1)
        return Distribution(shape=shape, digits=(*digits, across, down))

    return ProductForm(
        name=MULTIPLY_ADD, m=rows, n=n, k=1, a=dtype, b=dtype, c=dtype, accumulates_in=dtype,
        a_layout=layout((rows, 1), 0, None), b_layout=layout((1, n), None, 1), c_layout=layout((rows, n), 0, 1),
    )  # fmt: skip


def tile_lanes(gemm: Gemm, lanes: int, warps: int) -> WarpTiling | None:
    """The sharing with the least multiplications and reads a lane; None for sizes not known now, scales and sparse operands."""
    if gemm.metadata is not None or gemm.scale_a is not None or gemm.scale_b is not None:
        return None
    extents = (*gemm.a.extents, *gemm.b.extents, *gemm.c.extents)
    if any(not isinstance(constant_value(e), int) or not constant_value(e) for e in extents):
        return None
    m, n, _ = products.sizes(gemm)
    dtype = tile_operations.gemm_dtype(gemm.a.buffer.dtype, gemm.b.buffer.dtype, gemm.c.buffer.dtype)
    best: tuple[float, WarpTiling] | None = None
    widest = 1 if gemm.transpose_b else max(1, 16 // max(1, dtype.bytes))
    for columns in (1 << bit for bit in range(lanes.bit_length())):
        for neighbours in {1, widest}:
            tiling = tile_warps(form_of(dtype, lanes, columns, neighbours), m, n, warps, gemm.policy)
            reads = tiling.row_tiles + tiling.column_tiles
            cost = tiling.row_tiles * tiling.column_tiles * neighbours + READ_COST * reads
            if best is None or cost < best[0]:
                best = (cost, tiling)
    return None if best is None else best[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One operand: ``limit`` rows (a) or columns (b) exist, a lane has ``tiles`` groups of ``neighbours`` of them, ``pitch`` apart,
    the first at ``first``; ``steps`` of k are read at once."""

    name: Literal["a", "b"]
    region: Region
    is_k_inner: bool
    limit: int
    tiles: int
    neighbours: int
    pitch: int
    first: Expr
    covers_more: bool
    steps: int
    depth: int
    dtype: DType


def emit_gemm(ctx: Context, gemm: Gemm, tiling: WarpTiling) -> None:
    """The product by single lanes."""
    m, n, depth = products.sizes(gemm)
    form = tiling.form
    a_region, b_region = _readable(ctx, gemm.a), _readable(ctx, gemm.b)
    sums, is_own = products.accumulator(ctx, gemm, tiling)
    roots = (a_region.buffer.root, b_region.buffer.root)
    ctx.code.touch(reads=[root for root in roots if ctx.is_shared_by_lanes(root)], span=gemm.span)
    neighbours = form.c_layout.registers
    steps = _steps(tiling, depth, form.c, neighbours)
    first_row, first_column = _first(ctx, tiling)
    sides = (
        _Side(
            name="a", region=a_region, is_k_inner=not gemm.transpose_a, limit=m, tiles=tiling.row_tiles, neighbours=1, pitch=form.m,
            first=first_row, covers_more=tiling.accumulator.covered(0) != m, steps=steps, depth=depth, dtype=form.c,
        ),
        _Side(
            name="b", region=b_region, is_k_inner=gemm.transpose_b, limit=n, tiles=tiling.column_tiles, neighbours=neighbours,
            pitch=form.n, first=first_column, covers_more=tiling.accumulator.covered(1) != n, steps=steps, depth=depth, dtype=form.c,
        ),
    )  # fmt: skip
    with ctx.inner_scope(), ctx.code.quiet(), ctx.loop("k", depth // steps, is_unrolled=False, span=gemm.span) as step:
        a, b = (_read(ctx, side, step) for side in sides)
        with (
            ctx.loop("s", steps, is_unrolled=True) as s,
            ctx.loop("i", tiling.row_tiles, is_unrolled=True) as i,
            ctx.loop("j", tiling.column_tiles, is_unrolled=True) as j,
            ctx.loop("e", neighbours, is_unrolled=True) as e,
        ):
            place = added((times(added((times(i, tiling.column_tiles), j)), neighbours), e))
            left = Load(buffer=a, indices=(_place(sides[0], i, number(0), s),))
            right = Load(buffer=b, indices=(_place(sides[1], j, e, s),))
            total = Binary(op="add", left=Load(buffer=sums, indices=(place,)), right=Binary(op="mul", left=left, right=right))
            ctx.code.emit(Store(buffer=sums, indices=(place,), value=total, span=gemm.span))
    if is_own:
        products.give_back(ctx, gemm, tiling, sums)


def _readable(ctx: Context, region: Region) -> Region:
    """The operand where every lane can read it."""
    if not isinstance(ctx.homes.get(region.buffer.root), RegisterHome):
        return region
    staged = through_shared(ctx, region.buffer, is_kept=True)
    return Region(buffer=staged, offsets=region.offsets, extents=region.extents)


def _steps(tiling: WarpTiling, depth: int, dtype: DType, neighbours: int) -> int:
    """How many steps of k one iteration makes."""
    each = tiling.row_tiles * tiling.column_tiles * neighbours
    steps = gcd(depth, max(1, STEP_BYTES // max(1, dtype.bytes)))
    while steps > 1 and each * steps > WRITTEN_OUT:
        steps //= 2
    return steps


def _first(ctx: Context, tiling: WarpTiling) -> tuple[Expr, Expr]:
    """This lane's first row and column."""
    form = tiling.form
    row, column = products.warp_place(ctx, tiling)
    lane_digits = form.c_layout.of_source("lane")
    in_form = [
        added(times(digit_value(LANE, d, ctx.lanes), d.stride) for d in lane_digits if d.dimension == dimension) for dimension in (0, 1)
    ]
    return ctx.value("row", added((row, in_form[0]))), ctx.value("column", added((column, in_form[1])))


def _place(side: _Side, tile: Expr, neighbour: Expr, step: Expr) -> Expr:
    """The register of an element: what one wide read brings stands together."""
    if side.is_k_inner:
        return added((times(added((times(tile, side.neighbours), neighbour)), side.steps), step))
    return added((times(added((times(step, side.tiles), tile)), side.neighbours), neighbour))


def _read(ctx: Context, side: _Side, step: Expr) -> Buffer:
    """The operand's elements of one iteration in registers."""
    array = ctx.registers(f"{side.region.buffer.name}_{side.name}", side.dtype, side.tiles * side.neighbours * side.steps)
    run = side.steps if side.is_k_inner else side.neighbours
    width = _width(ctx, side, run)
    with ctx.loop("t", side.tiles, is_unrolled=True) as tile:
        if side.is_k_inner:
            with ctx.loop("e", side.neighbours, is_unrolled=True) as e:
                _run(ctx, side, array, step, tile, e, None, run, width)
        else:
            with ctx.loop("s", side.steps, is_unrolled=True) as s:
                _run(ctx, side, array, step, tile, None, s, run, width)
    return array


def _run(
    ctx: Context, side: _Side, array: Buffer, step: Expr, tile: Expr, neighbour: Expr | None, s: Expr | None, run: int, width: int
) -> None:
    """``run`` successive elements along the contiguous dimension, ``width`` at once."""
    with ctx.loop("v", run // width, is_unrolled=True) as part:
        at = times(part, width)
        e, k = (neighbour, at) if neighbour is not None else (at, s if s is not None else number(0))
        outer = _outer(ctx, side, added((side.first, times(tile, side.pitch), e)))
        depth = _named(ctx, "kk", added((times(step, side.steps), k)), side.depth)
        target = _place(side, tile, e, k)
        position = (outer, depth) if side.is_k_inner else (depth, outer)
        if width > 1:
            _wide(ctx, side, array, position, target, width)
        else:
            lead = (number(0),) * (len(side.region.extents) - 2)
            value = elements.value_of(ctx, tile_operations.load_at(side.region, (*lead, *position)))
            ctx.code.emit(Store(buffer=array, indices=(target,), value=tile_operations.converted(value, side.dtype), span=side.region.span))


def _outer(ctx: Context, side: _Side, place: Expr) -> Expr:
    """A row or column that exists: what lanes beyond the tile add up is nobody's."""
    if side.covers_more:
        place = Binary(op="min", left=place, right=number(side.limit - 1))
    return _named(ctx, "o", place, side.limit)


def _named(ctx: Context, name: str, value: Expr, limit: int) -> Expr:
    named = ctx.value(name, value)
    if isinstance(named, Var):
        ctx.scope.add_variable(named, Form.of(0), Form.of(limit - 1))
    return named


def _width(ctx: Context, side: _Side, run: int) -> int:
    """How many neighbours one access reads: as many as alignment is certain for, those of one run."""
    home = ctx.homes.get(side.region.buffer.root)
    buffer = side.region.buffer
    if not isinstance(home, SharedHome) or buffer.alias is not None or buffer.dtype != side.dtype or buffer.dtype.storage_bits < 16:
        return 1
    if (not side.is_k_inner and side.covers_more) or not products.lies_inside(ctx, side.region):
        return 1
    offset = constant_value(side.region.offsets[-1])
    width = gcd(run, ctx.machine.access_bytes // buffer.dtype.bytes)
    while width > 1:
        pitches = (*home.pitch[:-1], home.slot_elements)
        fits = (home.swizzle is None or width <= 1 << home.swizzle.base) and not home.slab
        if fits and home.pitch[-1] == 1 and isinstance(offset, int) and offset % width == 0 and all(p % width == 0 for p in pitches):
            return width
        width //= 2
    return 1


def _wide(ctx: Context, side: _Side, array: Buffer, position: Sequence[Expr], target: Expr, width: int) -> None:
    home = ctx.homes[side.region.buffer.root]
    assert isinstance(home, SharedHome)
    address = products.shared_offset(ctx, side.region, home, position)
    shift = number(width.bit_length() - 1)
    source = ctx.view(home.memory, side.dtype.with_lanes(width))
    into = ctx.view(array, side.dtype.with_lanes(width))
    value = Load(buffer=source, indices=(Binary(op="shr", left=address, right=shift),))
    place = number(int(target.value) // width) if isinstance(target, Const) else Binary(op="truncdiv", left=target, right=number(width))
    ctx.code.emit(Store(buffer=into, indices=(place,), value=value, span=side.region.span))
