"""Moving tiles: T.copy, T.async_copy, T.fill, T.clear, T.transpose."""

from __future__ import annotations

from typing import Any

from zellige.diagnostics import catalogue
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.regions import (
    agree,
    fill_vectors,
    paired_regions,
    place_of,
    refuse_other_lanes,
    region_of,
    significant,
    store,
    value_at,
)
from zellige.frontend.slices import shape_text
from zellige.frontend.values import Element, Scalar, Tile, Variable, here
from zellige.frontend.vectors import AS_SCALARS, VectorVariable
from zellige.ir.expr import INT32, Region, Var, const
from zellige.ir.stmt import Copy, Fill, For, Serial, Stmt, Transpose
from zellige.language.keywords import accept, check_hints, count_of, refuse_hints

_KEYWORDS = ("src", "dst", "coalesced_width", "swizzle", "eviction_policy")


def copy(
    src: Any, dst: Any, *, coalesced_width: int | None = None, swizzle: str | None = None, eviction_policy: str | None = None, **hints: Any
) -> None:
    """``dst[...] = src``, cast to dst's dtype. Operands: tiles, slices, or a start point that takes the other side's extents.

    What lies outside src reads as its safe value, what lies outside dst is not written. Two elements are one store. The keyword
    arguments are hints. E222: not a tile; E223: extents other than 1 differ; E258: no eviction policy, or no name of a swizzle.
    """
    wishes = accept("T.copy", hints, _KEYWORDS)
    if _is_scalar_copy(src, dst):
        refuse_hints("T.copy", wishes, "a copy of one element is an assignment")
        _assign(dst, value_at(src), "T.copy")
        return
    source, target = paired_regions(src, dst, "T.copy")
    builder = current_builder("T.copy")
    width = _width(coalesced_width)
    check_hints("T.copy", eviction_policy=eviction_policy, swizzle=swizzle)
    own: dict[str, Any] = {"swizzle": swizzle, "vector_width": width, "eviction": eviction_policy, "hints": wishes}
    builder.emit(Copy(src=source, dst=target, span=builder.span, **own))


def async_copy(src: Any, dst: Any, *, coalesced_width: int | None = None, **hints: Any) -> None:
    """As :func:`copy`; it may complete late and is waited for before the first use of its elements."""
    wishes = accept("T.async_copy", hints, _KEYWORDS[:3])
    source, target = paired_regions(src, dst, "T.async_copy")
    builder = current_builder("T.async_copy")
    builder.emit(Copy(src=source, dst=target, vector_width=_width(coalesced_width), is_async=True, hints=wishes, span=builder.span))


def _width(value: Any) -> int | None:
    return None if value is None else count_of(value, "as coalesced_width")


def _is_single(value: Any) -> bool:
    return isinstance(place_of(value), (Variable, VectorVariable, Element))


def _is_scalar_copy(src: Any, dst: Any) -> bool:
    """Whether both sides are one element or a variable. A number cannot be copied: it has no place."""
    return _is_single(src) and _is_single(dst)


def _assign(dst: Any, value: Any, operation: str) -> None:
    """Gives one element or variable a value, cast to its dtype."""
    place = place_of(dst)
    if isinstance(place, VectorVariable):
        place.assign(value)
        return
    if isinstance(place, Variable):
        is_run_time = isinstance(value, Scalar)
        place.assign(Scalar(arithmetic.cast(value.expr, place.dtype, here())) if is_run_time else value)
        return
    if not isinstance(place, Element):
        raise catalogue.E222.error(here(), operation=operation, given=arithmetic.describe(dst))
    store(place, value)


def fill(buffer: Any, value: Any, annotations: dict[str, Any] | None = None) -> None:
    """Every element of a tile or slice, or one element or variable, becomes ``value``, cast to its dtype; a reducer starts at it.

    E222: not a tile; E254: a number that the dtype cannot hold.
    """
    check_hints("T.fill", annotations=annotations)
    _fill(buffer, value, "T.fill")


def _fill(buffer: Any, value: Any, operation: str) -> None:
    builder = current_builder(operation)
    if _is_single(buffer):
        _assign(buffer, value, operation)
        return
    target = region_of(buffer, operation)
    if isinstance(buffer, Tile) and buffer.node in builder.reducers:
        builder.reducers[buffer.node].start(value, "tile", operation)
        return
    if target.buffer.dtype.lanes > 1:
        fill_vectors(target, value)
        return
    builder.emit(Fill(dst=target, value=arithmetic.stored(value, target.buffer.dtype, builder.span), span=builder.span))


def clear(buffer: Any, annotations: dict[str, Any] | None = None) -> None:
    """Every element becomes 0. A reducer starts at 0. E258: a second operand, as T.fill takes one."""
    check_hints("T.clear", annotations=annotations)
    _fill(buffer, 0, "T.clear")


def transpose(src: Any, dst: Any, annotations: dict[str, Any] | None = None) -> None:
    """``dst = src`` with its last two dimensions exchanged, cast to dst's dtype. Dimensions before them agree. E224 for other shapes."""
    check_hints("T.transpose", annotations=annotations)
    source, target = region_of(src, "T.transpose"), region_of(dst, "T.transpose")
    refuse_other_lanes(source, target)
    if target.buffer.dtype.lanes > 1 and source.buffer.root is target.buffer.root:
        raise catalogue.E204.error(here(), operation="T.transpose of a tile to itself", dtype=target.buffer.dtype, hint=AS_SCALARS)
    left, right = source.extents, target.extents
    leading_left, leading_right = significant(left[:-2]), significant(right[:-2])
    is_matrix = min(len(left), len(right)) >= 2 and agree(leading_left, leading_right)
    if not is_matrix or not agree(left[-2:], right[-2:][::-1]):
        raise catalogue.E224.error(here(), left=shape_text(left), right=shape_text(right))
    builder = current_builder("T.transpose")
    variables = [builder.var("b", extent.dtype, "loop") for extent in leading_left]
    statement: Stmt = Transpose(src=_slice_at(source, variables), dst=_slice_at(target, variables), span=builder.span)
    for var, extent in zip(reversed(variables), reversed(leading_left)):
        zero, one = const(0, var.dtype), const(1, var.dtype)
        statement = For(var=var, start=zero, stop=extent, step=one, kind=Serial(), body=(statement,), span=builder.span)
    builder.emit(statement)


def _slice_at(region: Region, variables: list[Var]) -> Region:
    """The matrix of a region at these indices of its leading dimensions other than 1."""
    rest = list(variables)
    offsets, extents = list(region.offsets), list(region.extents)
    for axis, extent in enumerate(region.extents[:-2]):
        if significant((extent,)):
            offsets[axis] = arithmetic.binary("add", offsets[axis], rest.pop(0), here())
            extents[axis] = const(1, INT32)
    return Region(buffer=region.buffer, offsets=tuple(offsets), extents=tuple(extents), span=region.span)
