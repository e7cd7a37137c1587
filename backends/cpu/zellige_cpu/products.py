"""Code of products as the plan has them: operands packed straight from tensors, loops that are one product.

In: a product or loop and :class:`zellige_cpu.planned.Products`. Out: calls of packings and of the loops over packed operands.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from zellige.analysis.forms import Form
from zellige.diagnostics import InternalError
from zellige.dtypes import DType
from zellige.ir.expr import INT64, Expr, Region, constant_value
from zellige.ir.stmt import Copy, For, Gemm
from zellige.plan.direct import matrix_dimensions
from zellige.plan.nodes import Choice
from zellige.records import dataclass
from zellige_cpu import effects
from zellige_cpu.accesses import base_pointer
from zellige_cpu.context import Context
from zellige_cpu.host import Host
from zellige_cpu.indexes import conjunction, i64, is_nonnegative, is_stable, uniform
from zellige_cpu.kept import Kept, Need, kept, kept_apart
from zellige_cpu.leaf.blocks import Macro, emit_macro
from zellige_cpu.leaf.gemm import lies_ready, narrow_rows
from zellige_cpu.leaf.packing import Packing, emit_packing, round_up
from zellige_cpu.leaf.units import Unit
from zellige_cpu.planned import Operand, unit_of
from zellige_cpu.prefetch import LINE, prefetch
from zellige_cpu.steps import Asked, Results, Rows, Step, emit_step
from zellige_cpu.text import Function
from zellige_cpu.tile_registers import used_by
from zellige_cpu.types import element_bytes
from zellige_cpu.values import FALSE, TRUE, Value


@dataclass(frozen=True, slots=True)
class Tile:
    """A region as a leaf sees it: the address of its first element, extents and strides (in elements) of all dimensions.

    ``staged`` is the copy that it is of a region which is no such tile."""

    pointer: Value
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    staged: Region | None = None


# -- packing from tensors ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Both packings and the loops over them, with offsets in the leaf's memory. A packing is of at most ``depth`` elements of k."""

    a: Packing
    b: Packing
    macro: Macro
    k: int
    """Elements of k of the product itself."""

    @property
    def lies(self) -> bool:
        """Whether the unit takes whole rows of a from where the user has them, if it can. Only a matrix unit does, which reads a line of
        each of many rows at once. A vector unit goes along few rows, which lie in one set of the first level where they are a power of two
        bytes apart, and push the panel out of it: 2 to 3 percent slower at 1024 and 2048 than packed rows (float32, 8 ways)."""
        unit = self.macro.unit
        return unit.is_matrix and self.a.is_along and lies_ready(self.a.dtype, unit, self.macro.m, unit.depth, is_transposed=False)

    def whole(self, fn: Function, depth: Value) -> Value:
        """``depth`` elements of k, up to whole instructions of a matrix unit; what is added is zero."""
        unit = self.macro.unit
        if not unit.is_matrix:
            return depth
        return fn.binary("and", fn.binary("add", depth, i64(unit.depth - 1)), i64(-unit.depth))

    @property
    def b_offset(self) -> int:
        return round_up(self.a.target_bytes, 64)

    @property
    def spare_offset(self) -> int:
        return self.b_offset + round_up(self.b.target_bytes, 64)

    @property
    def leaf_bytes(self) -> int:
        return self.spare_offset + max(self.a.spare_bytes, self.b.spare_bytes)


@cache
def _layout(
    host: Host, unit: Unit, types: tuple[DType, DType, DType], sizes: tuple[int, int, int], block: tuple[int, int], merge: int,
    c_stride: int, along: tuple[bool, bool], ahead: tuple[bool, bool], is_cut: bool,
) -> Layout:  # fmt: skip
    m, n, k = sizes
    lanes = unit.lanes(host)
    vectors = block[1] // lanes
    step = unit.depth if unit.is_matrix else 1  # packed up to whole instructions
    granule = step if k % step else k
    common = {"unit": unit, "depth": round_up(k * merge, step), "granule": granule, "lanes": lanes}
    narrower = narrow_rows(host, unit, m, block[0], vectors)
    beyond = max(block[0], narrower) if is_cut else None
    a = Packing(operand="a", dtype=types[0], extent=m, is_along=along[0], asks_ahead=ahead[0], beyond=beyond, **common)  # type: ignore[arg-type]
    b = Packing(operand="b", dtype=types[1], extent=n, is_along=along[1], vectors=vectors, asks_ahead=ahead[1], **common)  # type: ignore[arg-type]
    macro = Macro(
        unit=unit, m=m, n=n, c=types[2], c_stride=c_stride, lanes=lanes, rows=block[0],
        narrow_rows=narrower, vectors=vectors, a_row_step=a.row_step, a_k_step=unit.word_bytes,
        panel_step=b.panel_step, narrow_step=b.panel_step, header=b.header, multiple=-(-granule // unit.group),
    )  # fmt: skip
    return Layout(a=a, b=b, macro=macro, k=k)


def layout_of(ctx: Context, gemm: Gemm, choice: Choice, c_stride: int) -> Layout:
    """The packed form of both operands of a product that has a tiling."""
    m, n = (_size(gemm.c.extents[d]) for d in (-2, -1))
    k = _size(gemm.a.extents[-2 if gemm.transpose_a else -1])
    if choice.tiling is None:
        raise InternalError("a product without a block of registers reached the packing of operands")
    types = (gemm.a.buffer.dtype, gemm.b.buffer.dtype, gemm.c.buffer.dtype)
    block = (choice.tiling.m, choice.tiling.n)
    along = (not gemm.transpose_a, gemm.transpose_b)
    silent = {at.operand for at in choice.layouts if at.ahead == ""}
    ahead = ("a" not in silent, "b" not in silent)
    return _layout(ctx.host, unit_of(ctx.host, gemm, choice), types, (m, n, k), block, choice.merge, c_stride, along, ahead,
                   "m" in choice.unread)  # fmt: skip


def _size(extent: object) -> int:
    value = constant_value(extent)  # type: ignore[arg-type]
    if value is None:
        raise InternalError("the size of a planned product is not constant")
    return int(value)


@dataclass(frozen=True, slots=True)
class _Source:
    """What a packing reads: the address of its first element, bytes from line to line, lines and elements of a line that exist."""

    pointer: Value
    pitch: Value
    lines: Value
    reach: Value

    def across(self, packing: Packing) -> Value:
        """How many rows of a or columns of b exist."""
        return self.lines if packing.is_along else self.reach

    def along(self, packing: Packing) -> Value:
        """How many elements of k exist."""
        return self.reach if packing.is_along else self.lines


def _begin(ctx: Context, region: Region, offset: Expr) -> Form:
    """Where a region of a tensor begins that is packed from there: nothing lies before its tensor, and what lies behind reads as zeros.
    A loop that goes on for so long that the offset wraps is told instead."""
    form = ctx.scope.counted(offset)
    is_number = form == ctx.scope.place(offset)
    if not all(is_stable(atom) for atom in form.atoms()):
        form, is_number = ctx.freeze_offset(ctx, offset), True
    if not is_number or not ctx.scope.is_nonnegative(form):
        effects.check_reach(ctx, uniform(ctx, form), offset.dtype if not is_number else INT64, region)
    return form


def _source(ctx: Context, packing: Packing, region: Region, depth: Value) -> _Source:
    """A region of a tensor, ``depth`` elements of k of it; what lies beyond the tensor does not exist."""
    fn = ctx.fn
    dimensions = matrix_dimensions(region)
    assert dimensions is not None, "a direct operand is a matrix"
    storage = ctx.storage(region.buffer)
    offsets = tuple(_begin(ctx, region, offset) for offset in region.offsets)
    pointer = base_pointer(ctx, storage, offsets)
    pitch = uniform(ctx, storage.strides[dimensions[0]].scaled(storage.element_bytes))
    sizes = [uniform(ctx, storage.shape[d] - offsets[d]) for d in dimensions]
    extent = i64(packing.extent)
    limits = (extent, depth) if packing.is_along else (depth, extent)
    lines, reach = (fn.intrinsic("llvm.smin", size, limit) for size, limit in zip(sizes, limits))
    for d, (offset, size) in enumerate(zip(offsets, storage.shape)):
        inside = size - offset - 1
        if d not in dimensions and not ctx.scope.is_nonnegative(inside):
            lines = fn.select(is_nonnegative(ctx, inside), lines, i64(0))
    return _Source(pointer, pitch, lines, reach)


def _emit_packing(ctx: Context, packing: Packing, source: _Source, depth: Value, target: Value, spare: Value) -> None:
    name = emit_packing(ctx.module, packing)
    ctx.fn.call(name, source.pointer, source.pitch, source.lines, source.reach, depth, target, spare)


def pack_source(ctx: Context, packing: Packing, region: Region, depth: Value, target: Value, spare: Value) -> None:
    """Code that packs ``depth`` elements of k from a region of a tensor; what lies beyond the tensor is zero."""
    _emit_packing(ctx, packing, _source(ctx, packing, region, depth), i64(packing.depth), target, spare)


# -- merged loops --------------------------------------------------------------------------------------------------------


def _results(ctx: Context, out: Copy) -> Results:
    region = out.dst
    dimensions = matrix_dimensions(region)
    assert dimensions is not None, "results are stored as a matrix"
    storage = ctx.storage(region.buffer)
    offsets = tuple(ctx.freeze_offset(ctx, offset) for offset in region.offsets)
    pitch = uniform(ctx, storage.strides[dimensions[0]].scaled(storage.element_bytes))
    tests: list[Value] = []
    for offset, extent, size in zip(offsets, region.extents, storage.shape):
        for form in (offset, size - offset - _size(extent)):
            if not ctx.scope.is_nonnegative(form):
                tests.append(is_nonnegative(ctx, form))
    return Results(out, base_pointer(ctx, storage, offsets), pitch, conjunction(ctx, *tests) or TRUE)


def emit_merged_loop(ctx: Context, loop: For, gemm: Gemm, c: Tile, *, replaces: bool, out: Copy | None) -> Value:
    """The loop as products of several iterations each, added to ``c``, or the first of them replacing it.

    The last one stores what ``out`` copies where the whole region exists. The value says whether it did: c is undefined then.
    """
    fn = ctx.fn
    choice = ctx.products.choices[id(gemm)]
    layout = layout_of(ctx, gemm, choice, c.strides[-2])
    used_by(ctx, layout.macro.unit)
    sources = {operand: ctx.products.sources[id(gemm)][operand] for operand in ("a", "b")}
    start, stop = ctx.freeze(ctx, loop.start), ctx.freeze(ctx, loop.stop)
    first, end = uniform(ctx, start), uniform(ctx, stop)
    count = (stop - start).constant
    steps = None if count is None else max(1, -(-count // choice.merge))
    by_operand = {at.operand: at for at in choice.layouts}
    places = [kept(ctx, p, by_operand[p.operand], sources[p.operand].src, steps) for p in (layout.a, layout.b)]
    spare = _leaf(ctx, max(layout.a.spare_bytes, layout.b.spare_bytes))
    results = None if out is None else _results(ctx, out)
    with ctx.nested(), fn.loop(first, end, choice.merge) as at:
        ctx.scope.add_variable(loop.var, start, stop - 1)
        ctx.set_index(loop.var, at.index)
        iterations = fn.intrinsic("llvm.smin", fn.binary("sub", end, at.index), i64(choice.merge))
        depth = fn.binary("mul", iterations, i64(layout.k))
        packed = layout.whole(fn, depth)
        step = fn.binary("udiv", fn.binary("sub", at.index, first), i64(choice.merge))
        from_a, from_b = (_source(ctx, p, sources[p.operand].src, depth) for p in (layout.a, layout.b))
        needs = (_need(ctx, layout.a, from_a, packed, step, spare), _need(ctx, layout.b, from_b, packed, step, spare))
        a, b = _operands(ctx, layout, places, needs, from_a, depth)
        words = _words(ctx, layout, packed, (from_a, from_b))
        clear = fn.compare("eq", at.index, first) if replaces else FALSE
        rows, columns = from_a.across(layout.a), from_b.across(layout.b)
        rows = rows if "m" in choice.unread else i64(layout.macro.m)
        columns = columns if "n" in choice.unread else i64(layout.macro.n)
        is_last = fn.compare("sge", fn.binary("add", at.index, i64(choice.merge)), end)
        asked = _asked(ctx, layout, places, needs, (from_a, from_b), is_last)
        emit_step(ctx, Step(layout.macro, a, b, c.pointer, words, rows, columns, clear, asked), results, is_last)
    return FALSE if results is None else fn.binary("and", results.exists, fn.compare("slt", first, end))


def _operands(
    ctx: Context, layout: Layout, places: list[Kept], needs: tuple[Need, Need], source: _Source, depth: Value
) -> tuple[Rows, Value]:
    """Where both operands of a step are: b packed, a too unless its rows can be multiplied where the user has them."""
    place_a, place_b = places
    need_a, need_b = needs
    row_step = i64(layout.a.row_step)
    if not layout.lies:
        for place, need in zip(places, needs):
            place.begin(ctx, need)
        return Rows(place_a.end(ctx, need_a), row_step, is_pitched=False), place_b.end(ctx, need_b)
    fn = ctx.fn
    place_b.begin(ctx, need_b)
    exists = fn.binary("and", fn.compare("sge", source.lines, i64(layout.macro.m)), fn.compare("sge", source.reach, depth))
    # Rows of its tiles are whole lines: lying elsewhere each would be two. And it takes whole instructions along k.
    bits = fn.binary("or", fn.convert("ptrtoint", source.pointer, "i64"), source.pitch)
    for value, multiple in ((bits, LINE), (depth, layout.macro.unit.depth)):
        exists = fn.binary("and", exists, fn.compare("eq", fn.binary("and", value, i64(multiple - 1)), i64(0)))
    packing, ready = fn.fresh_label("packing"), fn.fresh_label("ready")
    before = fn.current
    fn.branch_if(exists, ready, packing)
    fn.label(packing)
    place_a.begin(ctx, need_a)
    packed = place_a.end(ctx, need_a)
    end = fn.current
    fn.label(ready)
    a = fn.phi((source.pointer, before), (packed, end))
    pitch = fn.phi((source.pitch, before), (row_step, end))
    return Rows(a, pitch, is_pitched=True), place_b.end(ctx, need_b)


def _asked(
    ctx: Context, layout: Layout, places: list[Kept], needs: tuple[Need, Need], sources: tuple[_Source, _Source], is_last: Value
) -> tuple[Asked, ...]:
    """What the next step will pack, or read where it lies, and is asked for in this one; no lines where that is packed already.
    Iterations of a merged loop lie next to each other."""
    fn, found = ctx.fn, []
    if prefetch(ctx.module.host) is None:
        return ()
    for packing, place, need, source in zip((layout.a, layout.b), places, needs, sources):
        if not packing.asks_ahead:
            continue
        size = element_bytes(packing.dtype)
        distance = i64(packing.depth * size) if packing.is_along else fn.binary("mul", source.pitch, i64(packing.depth))
        width = packing.depth if packing.is_along else packing.extent
        if packing.operand == "a" and layout.lies:
            is_wanted = fn.compare("eq", is_last, FALSE)
        else:
            step = fn.select(is_last, need.step, fn.binary("add", need.step, i64(1)))
            is_lacking = place.lacks(ctx, replace(need, address=fn.binary("add", need.address, distance), step=step))
            is_wanted = fn.select(is_last, FALSE, is_lacking)
        wanted = fn.select(is_wanted, source.lines, i64(0))
        found.append(Asked(fn.offset(source.pointer, distance), source.pitch, wanted, width * size))
    return tuple(found)


def _words(ctx: Context, layout: Layout, depth: Value, sources: tuple[_Source, _Source]) -> Value:
    """Words of k of a step. Of what is zero in both ``sources`` one element is added and the rest left out, in whole rounds of the
    micro-kernel's loop: adding 0 turns -0 into 0, after which it changes nothing."""
    fn, macro = ctx.fn, layout.macro
    group = macro.unit.group
    words = depth if group == 1 else fn.binary("udiv", depth, i64(group))
    if macro.multiple % macro.unroll:
        return words
    there = [source.along(packing) for source, packing in zip(sources, (layout.a, layout.b))]
    most = fn.intrinsic("llvm.smax", fn.intrinsic("llvm.smax", *there), i64(0))
    round_size = group * macro.unroll
    rounds = fn.binary("udiv", fn.binary("add", most, i64(round_size)), i64(round_size))
    return fn.intrinsic("llvm.smin", words, fn.binary("mul", rounds, i64(macro.unroll)))


def _need(ctx: Context, packing: Packing, source: _Source, depth: Value, step: Value, spare: Value) -> Need:
    address = ctx.fn.convert("ptrtoint", source.pointer, "i64")
    return Need(
        address=address, lines=source.lines, step=step, pack=lambda target: _emit_packing(ctx, packing, source, depth, target, spare)
    )  # fmt: skip


def _leaf(ctx: Context, size: int) -> Value:
    """The memory of the leaf at work, at least ``size`` bytes."""
    assert ctx.leaf is not None
    ctx.memory.leaf_bytes = max(ctx.memory.leaf_bytes, size)
    return ctx.leaf


def _leaf_places(ctx: Context, layout: Layout) -> tuple[Value, Value, Value]:
    """Addresses of packed a, packed b and spare lines in the leaf's memory."""
    leaf = _leaf(ctx, layout.leaf_bytes)
    return leaf, ctx.fn.offset(leaf, layout.b_offset), ctx.fn.offset(leaf, layout.spare_offset)


def emit_direct(ctx: Context, gemm: Gemm, a: Tile | None, b: Tile | None, c: Tile, clear: Value) -> None:
    """A product of which at least one operand is direct; ``a`` and ``b`` are the tiles of the others."""
    fn = ctx.fn
    layout = layout_of(ctx, gemm, ctx.products.choices[id(gemm)], c.strides[-2])
    macro, unit = layout.macro, layout.macro.unit
    used_by(ctx, unit)
    depth = i64(layout.k)
    place_a, place_b, spare = _leaf_places(ctx, layout)
    if a is not None and lies_ready(a.dtype, unit, macro.m, layout.k, is_transposed=gemm.transpose_a):
        size = element_bytes(a.dtype)
        steps = (size, a.strides[-2] * size) if gemm.transpose_a else (a.strides[-2] * size, unit.word_bytes)
        macro = replace(macro, a_row_step=steps[0], a_k_step=steps[1])
        place_a = a.pointer
    else:
        place_a = _pack(ctx, gemm, "a", layout.a, a, depth, place_a, spare)
    place_b = _pack(ctx, gemm, "b", layout.b, b, depth, place_b, spare)
    words = -(-layout.a.depth // unit.group)
    fn.call(emit_macro(ctx.module, macro, words), place_a, place_b, c.pointer, i64(words), i64(macro.m), i64(macro.n), clear)


def _pack(
    ctx: Context, gemm: Gemm, operand: Operand, packing: Packing, tile: Tile | None, depth: Value, place: Value, spare: Value
) -> Value:
    """The address of the packed operand: ``place``, or one where the worker keeps it."""
    copy = ctx.products.source(gemm, operand)
    if copy is not None:
        layout = next(at for at in ctx.products.choices[id(gemm)].layouts if at.operand == operand)
        if layout.kept != "worker":
            pack_source(ctx, packing, copy.src, depth, place, spare)
            return place
        loop = ctx.products.loops[id(gemm)]
        count = (ctx.freeze(ctx, loop.stop) - ctx.freeze(ctx, loop.start)).constant
        keeper, step = kept_apart(ctx, packing, uniform(ctx, ctx.scope.form(loop.var)), count)
        need = _need(ctx, packing, _source(ctx, packing, copy.src, depth), i64(packing.depth), step, spare)
        keeper.begin(ctx, need)
        return keeper.end(ctx, need)
    assert tile is not None, "an operand that is not direct is a tile"
    across = i64(packing.extent)
    lines, reach = (across, depth) if packing.is_along else (depth, across)
    pitch = i64(tile.strides[-2] * element_bytes(packing.dtype))
    ctx.fn.call(emit_packing(ctx.module, packing), tile.pointer, pitch, lines, reach, i64(packing.depth), place, spare)
    return place
