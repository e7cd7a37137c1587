"""Code of products as the plan has them: operands packed straight from tensors, loops that are one product.

In: a product or loop and :class:`zellige_cpu.planned.Products`. Out: calls of packings and of the loops over packed operands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from zellige.diagnostics import InternalError
from zellige.dtypes import DType
from zellige.ir.expr import Region, constant_value
from zellige.ir.stmt import For, Gemm
from zellige.plan.direct import matrix_dimensions
from zellige.plan.nodes import Choice
from zellige_cpu.accesses import base_pointer
from zellige_cpu.context import Context
from zellige_cpu.host import Host
from zellige_cpu.indexes import i64, is_nonnegative, uniform
from zellige_cpu.leaf.blocks import Macro, emit_macro
from zellige_cpu.leaf.gemm import lies_ready
from zellige_cpu.leaf.packing import Packing, emit_packing, round_up
from zellige_cpu.leaf.units import Unit
from zellige_cpu.planned import Operand, unit_of
from zellige_cpu.text import FALSE, Value
from zellige_cpu.types import element_bytes


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
    c_stride: int, along: tuple[bool, bool],
) -> Layout:  # fmt: skip
    m, n, k = sizes
    lanes = host.lanes(unit.word_bytes)
    vectors = block[1] // lanes
    common = {"unit": unit, "depth": k * merge, "granule": k, "lanes": lanes}
    a = Packing(operand="a", dtype=types[0], extent=m, is_along=along[0], **common)  # type: ignore[arg-type]
    b = Packing(operand="b", dtype=types[1], extent=n, is_along=along[1], vectors=vectors, **common)  # type: ignore[arg-type]
    macro = Macro(
        unit=unit, m=m, n=n, c=types[2], c_stride=c_stride, lanes=lanes, rows=block[0], vectors=vectors, a_row_step=a.row_step,
        a_k_step=unit.word_bytes, panel_step=b.panel_step, header=b.header, multiple=-(-k // unit.group),
    )  # fmt: skip
    return Layout(a=a, b=b, macro=macro)


def layout_of(ctx: Context, gemm: Gemm, choice: Choice, c_stride: int) -> Layout:
    """The packed form of both operands of a product that has a tiling."""
    m, n = (_size(gemm.c.extents[d]) for d in (-2, -1))
    k = _size(gemm.a.extents[-2 if gemm.transpose_a else -1])
    if choice.tiling is None:
        raise InternalError("a product without a block of registers reached the packing of operands")
    types = (gemm.a.buffer.dtype, gemm.b.buffer.dtype, gemm.c.buffer.dtype)
    block = (choice.tiling.m, choice.tiling.n)
    along = (not gemm.transpose_a, gemm.transpose_b)
    return _layout(ctx.host, unit_of(ctx.host, gemm, choice), types, (m, n, k), block, choice.merge, c_stride, along)


def _size(extent: object) -> int:
    value = constant_value(extent)  # type: ignore[arg-type]
    if value is None:
        raise InternalError("the size of a planned product is not constant")
    return int(value)


def pack_source(ctx: Context, packing: Packing, region: Region, depth: Value, target: Value, spare: Value) -> None:
    """Code that packs ``depth`` elements of k from a region of a tensor; what lies beyond the tensor is zero."""
    fn = ctx.fn
    dimensions = matrix_dimensions(region)
    assert dimensions is not None, "a direct operand is a matrix"
    storage = ctx.storage(region.buffer)
    offsets = tuple(ctx.freeze(ctx, offset) for offset in region.offsets)
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
    fn.call(emit_packing(ctx.module, packing), pointer, pitch, lines, reach, depth, target, spare)


# -- merged loops --------------------------------------------------------------------------------------------------------


def emit_merged_loop(ctx: Context, loop: For, gemm: Gemm, c: Tile) -> None:
    """The loop as products of several iterations each, added to ``c``."""
    fn = ctx.fn
    choice = ctx.products.choices[id(gemm)]
    layout = layout_of(ctx, gemm, choice, c.strides[-2])
    sources = {operand: ctx.products.sources[id(gemm)][operand] for operand in ("a", "b")}
    k = layout.a.granule
    start, stop = ctx.freeze(ctx, loop.start), ctx.freeze(ctx, loop.stop)
    end = uniform(ctx, stop)
    a, b, spare = _leaf_places(ctx, layout)
    with ctx.nested(), fn.loop(uniform(ctx, start), end, choice.merge) as at:
        ctx.scope.add_variable(loop.var, start, stop - 1)
        ctx.set_index(loop.var, at.index)
        iterations = fn.intrinsic("llvm.smin", fn.binary("sub", end, at.index), i64(choice.merge))
        depth = fn.binary("mul", iterations, i64(k))
        pack_source(ctx, layout.a, sources["a"].src, depth, a, spare)
        pack_source(ctx, layout.b, sources["b"].src, depth, b, spare)
        group = layout.macro.unit.group
        steps = depth if group == 1 else fn.binary("udiv", depth, i64(group))
        name = emit_macro(ctx.module, layout.macro)
        fn.call(name, a, b, c.pointer, steps, i64(layout.macro.m), i64(layout.macro.n), FALSE)


def _leaf_places(ctx: Context, layout: Layout) -> tuple[Value, Value, Value]:
    """Addresses of packed a, packed b and spare lines in the leaf's memory."""
    assert ctx.leaf is not None
    ctx.memory.leaf_bytes = max(ctx.memory.leaf_bytes, layout.leaf_bytes)
    return ctx.leaf, ctx.fn.offset(ctx.leaf, layout.b_offset), ctx.fn.offset(ctx.leaf, layout.spare_offset)


def emit_direct(ctx: Context, gemm: Gemm, a: Tile | None, b: Tile | None, c: Tile, clear: Value) -> None:
    """A product of which at least one operand is direct; ``a`` and ``b`` are the tiles of the others."""
    fn = ctx.fn
    layout = layout_of(ctx, gemm, ctx.products.choices[id(gemm)], c.strides[-2])
    macro, unit = layout.macro, layout.macro.unit
    depth = i64(layout.a.depth)
    place_a, place_b, spare = _leaf_places(ctx, layout)
    if a is not None and lies_ready(a.dtype, unit, layout.a.depth, is_transposed=gemm.transpose_a):
        size = element_bytes(a.dtype)
        steps = (size, a.strides[-2] * size) if gemm.transpose_a else (a.strides[-2] * size, unit.word_bytes)
        macro = replace(macro, a_row_step=steps[0], a_k_step=steps[1])
        place_a = a.pointer
    else:
        _pack(ctx, gemm, "a", layout.a, a, depth, place_a, spare)
    _pack(ctx, gemm, "b", layout.b, b, depth, place_b, spare)
    words = i64(-(-layout.a.depth // unit.group))
    fn.call(emit_macro(ctx.module, macro), place_a, place_b, c.pointer, words, i64(macro.m), i64(macro.n), clear)


def _pack(
    ctx: Context, gemm: Gemm, operand: Operand, packing: Packing, tile: Tile | None, depth: Value, place: Value, spare: Value
) -> None:
    copy = ctx.products.source(gemm, operand)
    if copy is not None:
        pack_source(ctx, packing, copy.src, depth, place, spare)
        return
    assert tile is not None, "an operand that is not direct is a tile"
    across = i64(packing.extent)
    lines, reach = (across, depth) if packing.is_along else (depth, across)
    pitch = i64(tile.strides[-2] * element_bytes(packing.dtype))
    ctx.fn.call(emit_packing(ctx.module, packing), tile.pointer, pitch, lines, reach, depth, place, spare)
