"""Products by a form of the target: operands to registers, a block of the form at a time, sums in the accumulator's registers.

In: a Gemm with its warps, and the context. Out: its statements. Operands come from shared memory by matrix loads where the form's layout
and the storage allow, element by element where they do not; a fragment whose lanes hold just what the form wants is used as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from zellige.analysis.forms import Form
from zellige.diagnostics import InternalError
from zellige.dtypes import DType, dtype as as_dtype
from zellige.ir.expr import INT32, Binary, Buffer, Compare, Const, Expr, Load, Region, Select, Var, constant_value
from zellige.ir.stmt import Gemm, Map, Store
from zellige.passes import tile_operations
from zellige.plan.edges import is_inside
from zellige.records import dataclass
from zellige.simt import elements, maps
from zellige.simt.context import Context, conjunction
from zellige.simt.distribution import Distribution, added, number, times
from zellige.simt.homes import Home, RegisterHome, SharedHome, narrow, swizzled
from zellige.simt.ir import LANE, WARP, MatrixLoad, Product, ProductForm, Registers
from zellige.simt.reductions import through_shared
from zellige.simt.warps import WarpTiling

UINT32 = as_dtype("uint32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One operand: where its elements are, whether storage has rows (of m or n) or k outermost, and the form's layout with dimensions
    (outer, k): outer is m for a, n for b."""

    name: Literal["a", "b"]
    region: Region
    home: Home
    is_k_inner: bool
    layout: Distribution
    dtype: DType
    outer_tile: int
    k_tile: int


def emit_gemm(ctx: Context, gemm: Gemm, tiling: WarpTiling) -> None:
    """The product by ``tiling.form``."""
    m, n, k = sizes(gemm)
    form = tiling.form
    a = operand_of(ctx, gemm, "a", form)
    b = operand_of(ctx, gemm, "b", form)
    sums, is_own = accumulator(ctx, gemm, tiling)
    read = [o.region.buffer.root for o in (a, b) if held_operand(ctx, o, tiling) is None]
    ctx.code.touch(reads=[root for root in read if ctx.is_shared_by_lanes(root)], span=gemm.span)
    first_row, first_column = warp_place(ctx, tiling)
    a_registers, b_registers = form.a_layout.registers, form.b_layout.registers
    steps = -(-k // form.k)
    covered = tiling.accumulator.covered(0), tiling.accumulator.covered(1)
    is_unrolled = _is_unrolled(ctx, a, k, covered[0] == m) and _is_unrolled(ctx, b, k, covered[1] == n)
    in_registers = any(isinstance(o.home, RegisterHome) or held_operand(ctx, o, tiling) is not None for o in (a, b))
    with ctx.loop("k", steps, is_unrolled=is_unrolled or in_registers, span=gemm.span) as step:
        a_tile = _load_operand(ctx, a, tiling, first_row, step, limit=m, depth=k, is_covered=covered[0] == m)
        b_tile = _load_operand(ctx, b, tiling, first_column, step, limit=n, depth=k, is_covered=covered[1] == n)
        with ctx.loop("i", tiling.row_tiles, is_unrolled=True) as i, ctx.loop("j", tiling.column_tiles, is_unrolled=True) as j:
            place = times(added((times(i, tiling.column_tiles), j)), form.c_layout.registers)
            ctx.code.emit(
                Product(
                    form=form, span=gemm.span,
                    a=Registers(buffer=a_tile.buffer, start=added((times(i, a_registers), a_tile.start))),
                    b=Registers(buffer=b_tile.buffer, start=added((times(j, b_registers), b_tile.start))),
                    c=Registers(buffer=sums, start=place),
                )
            )  # fmt: skip
    if is_own:
        give_back(ctx, gemm, tiling, sums)


def _is_unrolled(ctx: Context, operand: Operand, depth: int, is_covered: bool) -> bool:
    """Whether the steps of k may be written out: where an operand is read element by element, the text of a step is long."""
    home = operand.home
    return not isinstance(home, SharedHome) or matrices_of(ctx, operand, home, depth, is_covered) is not None


def sizes(gemm: Gemm) -> tuple[int, int, int]:
    """m, n, k of a product of constant extents."""
    values = (gemm.c.extents[-2], gemm.c.extents[-1], gemm.a.extents[-2 if gemm.transpose_a else -1])
    found = [constant_value(v) for v in values]
    if not all(isinstance(v, int) for v in found):
        raise InternalError("a product of sizes that are not constant has no form")
    return int(found[0] or 0), int(found[1] or 0), int(found[2] or 0)


def warp_place(ctx: Context, tiling: WarpTiling) -> tuple[Expr, Expr]:
    """The first row and column of this warp."""
    rows = WARP if tiling.columns == 1 and tiling.copies == 1 else _modulo(WARP, tiling.rows, ctx.warps)
    columns = _modulo(_divided(WARP, tiling.rows), tiling.columns, ctx.warps // tiling.rows)
    return times(rows, tiling.row_tiles * tiling.form.m), times(columns, tiling.column_tiles * tiling.form.n)


def _modulo(value: Expr, radix: int, count: int) -> Expr:
    if radix == 1:
        return number(0)
    return value if radix >= count else Binary(op="truncmod", left=value, right=number(radix))


def _divided(value: Expr, by: int) -> Expr:
    return value if by == 1 else Binary(op="truncdiv", left=value, right=number(by))


# ---- the accumulator ----


def accumulator(ctx: Context, gemm: Gemm, tiling: WarpTiling) -> tuple[Buffer, bool]:
    """The registers that sums are kept in, and whether they are a copy that must go back to c."""
    home = ctx.homes.get(gemm.c.buffer.root)
    form = tiling.form
    clear = constant_value(gemm.clear)
    if isinstance(home, RegisterHome) and home.distribution.digits == tiling.accumulator.digits and gemm.c.buffer.dtype == form.c:
        if clear is not False:
            condition = None if clear else elements.value_of(ctx, gemm.clear)
            with ctx.when(condition, gemm.span), ctx.loop("r", home.distribution.registers, is_unrolled=True) as r:
                ctx.code.emit(Store(buffer=home.memory, indices=(r,), value=elements.zero(form.c), span=gemm.span))
        return home.memory, False
    sums = ctx.registers(f"{gemm.c.buffer.name}_sums", form.c, tiling.accumulator.registers)
    with ctx.loop("r", tiling.accumulator.registers, is_unrolled=True) as r:
        ctx.code.emit(Store(buffer=sums, indices=(r,), value=elements.zero(form.c), span=gemm.span))
    if clear is not True:
        condition = None if clear is False else elements.value_of(ctx, tile_operations.logical_not(gemm.clear))
        with ctx.when(condition, gemm.span):
            _exchange(ctx, gemm, tiling, sums, is_back=False)
    return sums, True


def give_back(ctx: Context, gemm: Gemm, tiling: WarpTiling, sums: Buffer) -> None:
    """The sums back to c."""
    _exchange(ctx, gemm, tiling, sums, is_back=True)


def _exchange(ctx: Context, gemm: Gemm, tiling: WarpTiling, sums: Buffer, *, is_back: bool) -> None:
    """Between c and the registers of sums, cast on the way."""
    m, n, _ = sizes(gemm)
    shape = (number(m), number(n))
    distribution = tiling.accumulator.with_shape((m, n))
    held = Buffer(name=sums.name, dtype=sums.dtype, shape=shape, space="fragment")
    ctx.homes[held] = RegisterHome(memory=sums, extents=(m, n), distribution=distribution)
    axes = (Var(name="row", dtype=INT32, kind="loop"), Var(name="column", dtype=INT32, kind="loop"))
    c = gemm.c
    lead = (number(0),) * (len(c.extents) - 2)
    home = ctx.homes.get(c.buffer.root)
    if isinstance(home, RegisterHome):
        if home.distribution.digits == distribution.digits:
            source, target = (held, c.buffer) if is_back else (c.buffer, held)
            body = (Store(buffer=target, indices=axes, value=tile_operations.converted(Load(buffer=source, indices=axes), target.dtype)),)
            maps.emit_map(ctx, Map(axes=axes, extents=shape, body=body, span=gemm.span), distribution=distribution)
            return
        if is_back:
            staged = through_shared(ctx, held)
            body = (
                Store(buffer=c.buffer, indices=axes, value=tile_operations.converted(Load(buffer=staged, indices=axes), c.buffer.dtype)),
            )
            maps.emit_map(ctx, Map(axes=axes, extents=shape, body=body, span=gemm.span), distribution=home.distribution)
            return
        staged = through_shared(ctx, c.buffer)
        body = (Store(buffer=held, indices=axes, value=tile_operations.converted(Load(buffer=staged, indices=axes), sums.dtype)),)
        maps.emit_map(ctx, Map(axes=axes, extents=shape, body=body, span=gemm.span), distribution=distribution)
        return
    root = c.buffer.root
    if is_back:
        ctx.code.touch(writes=(root,), span=gemm.span)
        value = tile_operations.converted(Load(buffer=held, indices=axes), c.buffer.dtype)
        body = (tile_operations.store_at(c, (*lead, *axes), value),)
    else:
        ctx.code.touch(reads=(root,), span=gemm.span)
        value = tile_operations.converted(tile_operations.load_at(c, (*lead, *axes)), sums.dtype)
        body = (Store(buffer=held, indices=axes, value=value),)
    maps.emit_map(ctx, Map(axes=axes, extents=shape, body=body, span=gemm.span), distribution=distribution)


# ---- operands ----


def held_operand(ctx: Context, operand: Operand, tiling: WarpTiling) -> Buffer | None:
    """The registers that hold all steps of k of an operand since before the loop (:mod:`zellige.simt.held_operands`)."""
    for held in ctx.held_operands:
        same = held.name == operand.name and held.tiling == tiling and held.is_k_inner == operand.is_k_inner
        if same and held.region == place_in_tile(operand.region):
            return held.memory
    return None


def place_in_tile(region: Region) -> tuple[Buffer, tuple[Any, ...], tuple[Any, ...]]:
    """The buffer and where in it a region is, of constant offsets and extents."""
    return region.buffer, tuple(map(constant_value, region.offsets)), tuple(map(constant_value, region.extents))


def tiles_of(operand: Operand, tiling: WarpTiling) -> int:
    """Blocks of the form that a warp has of an operand in one step of k."""
    return tiling.row_tiles if operand.name == "a" else tiling.column_tiles


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tile:
    """Registers with the operand of one step: block ``i`` at ``start`` and i times the form's registers."""

    buffer: Buffer
    start: Expr


def operand_of(ctx: Context, gemm: Gemm, name: Literal["a", "b"], form: ProductForm) -> Operand:
    """Where a product finds an operand, in the lanes' order of ``form``: in registers that hold it so, else in shared memory."""
    region = gemm.a if name == "a" else gemm.b
    is_k_inner = (not gemm.transpose_a) if name == "a" else gemm.transpose_b
    layout = form.a_layout if name == "a" else _exchanged(form.b_layout)
    home = ctx.homes.get(region.buffer.root)
    if isinstance(home, RegisterHome) and not _is_held(ctx, home, layout, gemm, name, form):
        staged = through_shared(ctx, region.buffer, is_kept=True)
        region = Region(buffer=staged, offsets=region.offsets, extents=region.extents)
        home = ctx.homes[staged]
    if home is None:
        raise InternalError(f"the operand {region.buffer.name} has no home")
    return Operand(
        name=name, region=region, home=home, is_k_inner=is_k_inner, layout=layout, dtype=form.a if name == "a" else form.b,
        outer_tile=form.m if name == "a" else form.n, k_tile=form.k,
    )  # fmt: skip


def _exchanged(layout: Distribution) -> Distribution:
    return layout.onto((1, 0))


def _is_held(ctx: Context, home: RegisterHome, layout: Distribution, gemm: Gemm, name: str, form: ProductForm) -> bool:
    """Whether each lane holds, register after register, what the form wants of each block: then no data moves."""
    if name != "a" or gemm.transpose_a or home.memory.dtype != form.a:
        return False
    return _block_start(ctx, home.distribution, layout, form, ctx.warps) is not None


def _block_start(ctx: Context, held: Distribution, layout: Distribution, form: ProductForm, warps: int) -> tuple[int, int] | None:
    """(registers from one block of rows to the next, registers from one step of k to the next), where blocks stand so."""
    count = layout.registers
    row_steps = held.covered(0) // form.m
    k_steps = held.covered(1) // form.k
    if held.shape != (held.covered(0), held.covered(1)) or held.covered(1) % form.k or held.registers % count:
        return None
    lane = np.arange(ctx.lanes)[None, :]
    rows, columns = held.coordinates(np.arange(held.registers)[:, None], lane, np.zeros((1, 1), np.int64))
    want_rows, want_columns = layout.coordinates(np.arange(count)[:, None], lane, np.zeros((1, 1), np.int64))
    starts: dict[tuple[int, int], int] = {}
    for start in range(0, held.registers, count):
        base = (int(rows[start, 0] - want_rows[0, 0]), int(columns[start, 0] - want_columns[0, 0]))
        part = slice(start, start + count)
        if not (np.array_equal(rows[part] - base[0], want_rows) and np.array_equal(columns[part] - base[1], want_columns)):
            return None
        starts[base] = start
    in_warp = sorted({r for r, _ in starts})
    if [c for _, c in sorted(starts) if _ == in_warp[0]] != [i * form.k for i in range(k_steps)]:
        return None
    if (
        in_warp != [i * form.m for i in range(len(in_warp))]
        or len(in_warp) * warps // max(1, _row_copies(held)) * form.m < row_steps * form.m
    ):
        return None
    k_stride = starts[0, form.k] if k_steps > 1 else 0
    row_stride = starts[form.m, 0] if len(in_warp) > 1 else 0
    if any(start != r // form.m * row_stride + c // form.k * k_stride for (r, c), start in starts.items()):
        return None
    return row_stride, k_stride


def _row_copies(held: Distribution) -> int:
    copies = 1
    for d in held.of_source("warp"):
        if d.dimension != 0:
            copies *= d.radix
    return copies


def _load_operand(
    ctx: Context, operand: Operand, tiling: WarpTiling, first: Expr, step: Expr, *, limit: int, depth: int, is_covered: bool
) -> _Tile:
    """The blocks of one step of k in registers."""
    tiles, count = tiles_of(operand, tiling), operand.layout.registers
    if (held := held_operand(ctx, operand, tiling)) is not None:
        return _Tile(buffer=held, start=times(step, tiles * count))
    if isinstance(operand.home, RegisterHome):
        return _held_tile(ctx, operand, operand.home, step)
    array = ctx.registers(f"{operand.region.buffer.name}_{operand.name}", operand.dtype, tiles * count)
    home = operand.home
    matrices = matrices_of(ctx, operand, home, depth, is_covered) if isinstance(home, SharedHome) else None
    with ctx.inner_scope():
        if matrices is not None and isinstance(home, SharedHome):
            by_matrix(ctx, operand, home, Registers(buffer=array, start=number(0)), tiles, first, step, matrices)
        else:
            _by_element(ctx, operand, array, tiles, first, step, limit=limit, depth=depth, is_covered=is_covered)
    return _Tile(buffer=array, start=number(0))


def _held_tile(ctx: Context, operand: Operand, home: RegisterHome, step: Expr) -> _Tile:
    """A view of the fragment's registers in which blocks of rows follow each other as the product asks for them."""
    count = operand.layout.registers
    found = held_strides(home.distribution, operand.layout, operand.outer_tile, operand.k_tile)
    row_stride, k_stride = found
    if row_stride in (0, count):
        return _Tile(buffer=home.memory, start=times(step, k_stride))
    blocks = max(1, home.distribution.registers * 1 // row_stride)
    array = ctx.registers(f"{operand.region.buffer.name}_{operand.name}", operand.dtype, blocks * count)
    with ctx.loop("i", blocks, is_unrolled=True) as i, ctx.loop("r", count, is_unrolled=True) as r:
        source = added((times(i, row_stride), times(step, k_stride), r))
        ctx.code.emit(Store(buffer=array, indices=(added((times(i, count), r)),), value=Load(buffer=home.memory, indices=(source,))))
    return _Tile(buffer=array, start=number(0))


def held_strides(held: Distribution, layout: Distribution, outer_tile: int, k_tile: int) -> tuple[int, int]:
    """Registers between blocks of rows and between steps of k of a fragment that holds blocks of the form."""
    zero = np.zeros(1, np.int64)
    rows, columns = held.coordinates(np.arange(0, held.registers, layout.registers), zero, zero)
    starts = {(int(r), int(c)): i * layout.registers for i, (r, c) in enumerate(zip(rows, columns))}
    return starts.get((outer_tile, 0), 0), starts.get((0, k_tile), 0)


# ---- from shared memory, matrices at a time ----


def matrices_of(ctx: Context, operand: Operand, home: SharedHome, depth: int, is_covered: bool) -> Literal["plain", "transposed"] | None:
    """How matrix loads bring a block of this operand, where they can: rows of 16 bytes, whole steps of k, blocks inside the tile."""
    if not is_covered or not ctx.machine.matrix_loads or not lies_inside(ctx, operand.region):
        return None
    if operand.region.buffer.dtype != operand.dtype or operand.region.buffer.alias is not None:
        return None
    size = operand.dtype.bytes
    if operand.dtype.storage_bits % 8 or size > 4 or depth % operand.k_tile:
        return None
    offsets = operand.region.offsets
    chunk = 16 // size
    if any(constant_value(o) is None or int(constant_value(o) or 0) % chunk for o in offsets[-1:]):
        return None
    if any(p * size % 16 for p in home.pitch[:-1]) or home.pitch[-1] != 1 or home.slot_elements * size % 16 or home.slab:
        return None
    if home.swizzle is not None and size << home.swizzle.base < 16:
        return None
    rank = len(operand.region.extents)
    if rank != 2 and any(constant_value(e) != 1 for e in operand.region.extents[:-2]):
        return None
    if operand.is_k_inner:
        return "plain" if _is_matrix_layout(operand.layout, size) else None
    return "transposed" if size == 2 and _is_matrix_layout(operand.layout, size) else None


def _is_matrix_layout(layout: Distribution, size: int) -> bool:
    """Whether lanes hold 4 bytes along k, lane % 4 along k, lane / 4 along the outer dimension, and registers count 8 x 16 bytes."""
    unit = 4 // size
    lanes = layout.of_source("lane")
    registers = layout.of_source("register")
    if len(lanes) != 2 or (lanes[0].radix, lanes[0].dimension, lanes[0].stride) != (4, 1, unit):
        return False
    if (lanes[1].radix, lanes[1].dimension, lanes[1].stride) != (8, 0, 1):
        return False
    if unit > 1:
        if not registers or (registers[0].radix, registers[0].dimension, registers[0].stride) != (unit, 1, 1):
            return False
        registers = registers[1:]
    return all((d.dimension == 0 and d.stride % 8 == 0) or (d.dimension == 1 and d.stride % (4 * unit) == 0) for d in registers)


def by_matrix(
    ctx: Context, operand: Operand, home: SharedHome, into: Registers, tiles: int, first: Expr, step: Expr,
    how: Literal["plain", "transposed"],
) -> None:  # fmt: skip
    """Matrix loads of up to four 8 x 16-byte matrices; the matrices of one load follow each other in the registers."""
    size = operand.dtype.bytes
    per_matrix = 4 // size
    total = tiles * operand.layout.registers // per_matrix
    count = max(c for c in ctx.machine.matrix_loads if c <= 4 and total % c == 0)
    row = ctx.value("r", Binary(op="truncmod", left=LANE, right=number(8)))
    which = ctx.value("m", Binary(op="truncdiv", left=LANE, right=number(8)))
    loads = total // count
    with ctx.loop("l", loads, is_unrolled=True) as load:
        tile, matrix = _tile_and_matrix(load, which, count, operand.layout.registers // per_matrix)
        inner = times(matrix, per_matrix)
        outer = added(times(term, factor * operand.outer_tile) for term, factor in terms_of(tile))
        block_outer = operand.layout.coordinate(0, register=inner, lane=number(0), warp=number(0))
        block_k = operand.layout.coordinate(1, register=inner, lane=number(0), warp=number(0))
        k = added((times(step, operand.k_tile), block_k))
        o = added((first, outer, block_outer))
        if how == "plain":
            indices = (added((o, row)), k)
        else:
            indices = (added((k, row)), o)
        address = shared_offset(ctx, operand.region, home, indices)
        place = Registers(buffer=into.buffer, start=added((into.start, times(load, count * per_matrix))))
        ctx.code.emit(
            MatrixLoad(
                into=place, buffer=home.memory, source=address, count=count, is_transposed=how == "transposed", span=operand.region.span
            )
        )


def _tile_and_matrix(load: Expr, which: Expr, count: int, per_tile: int) -> tuple[Expr, Expr]:
    """The block and the matrix in it that lane group ``which`` of load number ``load`` brings, of ``per_tile`` matrices a block."""
    own = which if count == 4 else _modulo(which, count, 4)
    if count % per_tile == 0:
        return added((times(load, count // per_tile), _divided(own, per_tile))), _modulo(own, per_tile, count)
    steps = per_tile // count
    return _divided(load, steps), added((times(_modulo(load, steps, 1 << 30), count), own))


def lies_inside(ctx: Context, region: Region) -> bool:
    """Whether the region is proven inside its tile, so that several elements may be read at once without a test of each."""
    return all(is_inside(region, d, ctx.scope) for d in range(region.buffer.rank))


def shared_offset(ctx: Context, region: Region, home: SharedHome, indices: Sequence[Expr]) -> Expr:
    """The element offset of a place of the region (its last two dimensions), storage order included."""
    offsets = region.offsets
    terms: list[tuple[Expr, int]] = []
    lead = len(offsets) - 2
    for d, offset in enumerate(offsets):
        terms += ((term, home.pitch[d] * factor) for term, factor in terms_of(narrow(elements.value_of(ctx, offset))))
        if d >= lead:
            terms += ((term, home.pitch[d] * factor) for term, factor in terms_of(indices[d - lead]))
    period = 1 if home.swizzle is None else 1 << (home.swizzle.shift + home.swizzle.bits)
    moved = [times(term, factor) for term, factor in terms if factor % period]
    kept = [times(term, factor) for term, factor in terms if factor % period == 0]
    flat = added(moved) if home.swizzle is None else swizzled(ctx.value("at", added(moved)), home.swizzle)
    flat = added((flat, *kept))
    slot = ctx.slots.get(region.buffer.root)
    if home.slots > 1 and slot is not None:
        flat = added((flat, Binary(op="mul", left=slot, right=number(home.slot_elements))))
    return flat


def terms_of(value: Expr) -> list[tuple[Expr, int]]:
    """An int32 sum as terms and factors: what is a multiple of a swizzle's period passes it unchanged."""
    found: list[tuple[Expr, int]] = []
    pending: list[tuple[Expr, int]] = [(value, 1)]
    while pending:
        top, factor = pending.pop()
        match top:
            case Binary(op="add", left=left, right=right):
                pending += ((right, factor), (left, factor))
            case Binary(op="mul", left=left, right=Const(value=by)):
                pending.append((left, factor * int(by)))
            case Const(value=by):
                found.append((number(1), factor * int(by)))
            case _:
                found.append((top, factor))
    return found


# ---- from shared memory, an element at a time ----


def _by_element(
    ctx: Context, operand: Operand, array: Buffer, tiles: int, first: Expr, step: Expr, *, limit: int, depth: int, is_covered: bool
) -> None:
    """Every register's element by itself; parts of a block beyond the tile are zeros."""
    count = operand.layout.registers
    with ctx.inner_scope(), ctx.loop("t", tiles, is_unrolled=True) as tile, ctx.loop("r", count, is_unrolled=True) as r:
        outer = added((first, times(tile, operand.outer_tile), ctx.coordinate(operand.layout, 0, r)))
        k = added((times(step, operand.k_tile), ctx.coordinate(operand.layout, 1, r)))
        tests: list[Expr] = []
        o = _named(ctx, "o", outer, limit, tests, is_certain=is_covered)
        kk = _named(ctx, "k", k, depth, tests, is_certain=depth % operand.k_tile == 0)
        lead = (number(0),) * (len(operand.region.extents) - 2)
        position = (*lead, o, kk) if operand.is_k_inner else (*lead, kk, o)
        value = elements.value_of(ctx, tile_operations.load_at(operand.region, position))
        value = tile_operations.converted(value, operand.dtype)
        inside = conjunction(tests)
        if inside is not None:
            value = Select(condition=inside, then=value, otherwise=elements.zero(operand.dtype))
        ctx.code.emit(Store(buffer=array, indices=(added((times(tile, count), r)),), value=value, span=operand.region.span))


def _named(ctx: Context, name: str, value: Expr, limit: int, tests: list[Expr], *, is_certain: bool) -> Expr:
    """A coordinate by name, known to be below ``limit``: certainly, or where the test added holds."""
    named = ctx.value(name, value)
    if not is_certain:
        tests.append(Compare(op="lt", left=named, right=number(limit)))
    if isinstance(named, Var):
        ctx.scope.add_variable(named, Form.of(0), Form.of(limit - 1))
    return named
