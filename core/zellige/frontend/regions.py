"""How operands of tile operations become regions, and stores to slices.

In: tiles, slices, elements as the author wrote them. Out: regions of the tile IR whose extents agree, apart from extents of 1. A
start point (one element) takes the other side's extents.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any, Final

from zellige.diagnostics import Span, catalogue
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.slices import shape_text
from zellige.frontend.values import Address, Element, NamedElement, Scalar, Tile, TileRegion, bind, here, is_volatile
from zellige.frontend.vectors import AS_SCALARS, PlacedVector, Vector, VectorReference, lane_places, lanes_of, scalar_view
from zellige.ir.expr import INT32, Const, Expr, Load, Region, const
from zellige.ir.stmt import Copy, Fill, Store, whole

_POINTWISE: Final = 64  # the largest slice that a point of T.Parallel stores element by element


def place_of(value: Any) -> Any:
    """The element whose value a name was given, and what an address is of, for what takes places; anything else as it is."""
    return value.place if isinstance(value, (NamedElement, PlacedVector, VectorReference, Address)) else value


def value_at(value: Any) -> Any:
    """The element at an address; anything else as it is."""
    place = value.place if isinstance(value, Address) else value
    return PlacedVector(place) if type(place) is Element and place.dtype.lanes > 1 else place


def region_of(value: Any, operation: str) -> Region:
    """The region that an operand names: a whole tile, a slice of one, or one element; E222 for anything else."""
    value = place_of(value)
    if isinstance(value, Tile):
        return whole(value.node, here())
    if isinstance(value, TileRegion):
        return value.region
    if isinstance(value, Element):
        return Region(buffer=value.buffer, offsets=value.indices, extents=(const(1, INT32),) * len(value.indices), span=here())
    tile = getattr(value, "tile", None)  # a tensor parameter whose shape the call's argument gives
    if callable(tile):
        return whole(tile().node, here())
    hint = "a number is no place: write A[i, j] itself, or keep T.address_of(A[i, j]) under a name that nothing else is assigned to"
    raise catalogue.E222.error(
        here(), operation=operation, given=arithmetic.describe(value), hint=hint if isinstance(value, Scalar) else None
    )


def significant(extents: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The extents without those that are 1."""
    return tuple(e for e in extents if not (isinstance(e, Const) and e.value == 1))


def agree(left: tuple[Expr, ...], right: tuple[Expr, ...]) -> bool:
    """Whether extents are the same wherever they are constants."""
    return len(left) == len(right) and all(
        not (isinstance(a, Const) and isinstance(b, Const)) or a.value == b.value for a, b in zip(left, right)
    )


def _grown(place: Element, extents: tuple[Expr, ...], operation: str) -> Region:
    """A start point with the other side's extents: aligned at the last dimensions, unit dimensions dropped where the ranks differ."""
    rank = len(place.indices)
    wanted = extents if len(extents) <= rank else significant(extents)
    if len(wanted) > rank:
        raise catalogue.E223.error(here(), operation=operation, left=shape_text(extents), right=f"{place.buffer.label} of rank {rank}")
    padded = (const(1, INT32),) * (rank - len(wanted)) + wanted
    return Region(buffer=place.buffer, offsets=place.indices, extents=padded, span=here())


def paired_regions(src: Any, dst: Any, operation: str) -> tuple[Region, Region]:
    """The regions of a movement: a start point takes the other side's extents, then extents must match without their 1s (E223).
    E203: elements of different numbers of lanes."""
    src, dst = place_of(src), place_of(dst)
    if isinstance(src, Element) and not isinstance(dst, Element):
        target = region_of(dst, operation)
        source = _grown(src, target.extents, operation)
    elif isinstance(dst, Element) and not isinstance(src, Element):
        source = region_of(src, operation)
        target = _grown(dst, source.extents, operation)
    else:
        source, target = region_of(src, operation), region_of(dst, operation)
    refuse_other_lanes(source, target)
    if not agree(significant(source.extents), significant(target.extents)):
        raise catalogue.E223.error(here(), operation=operation, left=shape_text(source.extents), right=shape_text(target.extents))
    return source, target


def refuse_other_lanes(source: Region, target: Region) -> None:
    """E203 where the elements of two regions have different numbers of lanes."""
    left, right = source.buffer.dtype, target.buffer.dtype
    if left.lanes != right.lanes:
        raise catalogue.E203.error(here(), left=f"{left} elements", right=f"{right} ones", hint=AS_SCALARS)


def adjacent(place: Element, count: int) -> Region:
    """The region of ``count`` elements from an element on, side by side along the last dimension."""
    extents = (const(1, INT32),) * (len(place.indices) - 1) + (const(count, INT32),)
    return Region(buffer=place.buffer, offsets=place.indices, extents=extents, span=here())


def constant_extents(region: Region) -> tuple[int, ...] | None:
    """The extents as Python ints, None where one is known only at run time."""
    if not all(isinstance(e, Const) for e in region.extents):
        return None
    return tuple(int(e.value) for e in region.extents if isinstance(e, Const))


def positions(region: Region, extents: tuple[int, ...], span: Span | None) -> list[tuple[Expr, ...]]:
    """The indices of every element of a region of constant extents, in row-major order."""
    return [
        tuple(arithmetic.binary("add", offset, step, span) for offset, step in zip(region.offsets, steps))
        for steps in product(*(range(extent) for extent in extents))
    ]


def store(place: Element | TileRegion, value: Any) -> None:
    """``place = value``: one element, or a slice by a copy from a tile or a fill with a number."""
    builder = current_builder("a store")
    span = builder.span
    if isinstance(place, TileRegion):
        store_region(place, value)
        return
    if place.buffer in builder.reducers and builder.reducers[place.buffer].takes(place, value):
        return
    if place.dtype.lanes > 1:
        lanes = Vector.of([arithmetic.stored(lane, place.dtype.scalar, span) for lane in lanes_of(value, place.dtype.lanes)])
        fixed = Element(Load(buffer=place.buffer, indices=_fixed(place.indices), span=span))
        for at, lane in zip(lane_places(fixed), lanes):
            builder.emit(Store(buffer=at.buffer, indices=at.indices, value=lane.expr, span=span))
        return
    builder.emit(Store(buffer=place.buffer, indices=place.indices, value=arithmetic.stored(value, place.dtype, span), span=span))


def _store_vectors(place: TileRegion, values: list[Any], extents: tuple[int, ...]) -> None:
    """One value into each element of a slice of vectors, all taken before the first is stored."""
    values = [value.named("element") if isinstance(value, Vector) else bind("element", value) for value in values]
    region = Region(buffer=place.buffer, offsets=_fixed(place.region.offsets), extents=place.region.extents, span=place.region.span)
    for at, value in zip(positions(region, extents, here()), values):
        store(Element(Load(buffer=place.buffer, indices=at, span=here())), value)


def _fixed(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Indices for several stores, none of which changes where the others go."""
    return tuple(bind("index", Scalar(index)).expr if is_volatile(Scalar(index)) else index for index in indices)


def store_region(place: TileRegion, value: Any) -> None:
    """``tile[a:b] = value``: a copy from a tile or slice, a vector's lanes one by one, or a number into every element.

    In a point of T.Parallel, which has no tile operations, a slice of at most 64 elements is stored element by element. E223: shapes.
    """
    builder = current_builder("a store")
    span = builder.span
    extents = constant_extents(place.region)
    is_pointwise = bool(builder.point_depths) and extents is not None and math.prod(extents) <= _POINTWISE
    if isinstance(value, (Tile, TileRegion)):
        source, target = paired_regions(value, place, "an assignment")
        is_same = source.buffer.root is target.buffer.root and extents is not None and math.prod(extents) <= _POINTWISE
        if not is_pointwise and not is_same:  # within one buffer the slices may overlap: all is read first, as in Python
            builder.emit(Copy(src=source, dst=target, span=span))
            return
        given = constant_extents(source)
        if given is None or math.prod(given) != math.prod(extents or ()):
            raise catalogue.E223.error(span, operation="an assignment", left=shape_text(source.extents), right=shape_text(target.extents))
        loads = [Load(buffer=source.buffer, indices=at, span=span) for at in positions(source, given, span)]
        if source.buffer.dtype.lanes > 1 or place.dtype.lanes > 1:
            _store_vectors(place, [value_at(Address(Element(load))) for load in loads], extents or ())
            return
        value = Vector.of(loads)
    if place.dtype.lanes > 1:
        fill_vectors(place.region, value)
        return
    if isinstance(value, Vector):
        value = value.taken()
        if extents is None or math.prod(extents) != len(value):
            raise catalogue.E223.error(span, operation="an assignment", left=value.described, right=shape_text(place.region.extents))
        values: list[Any] = list(value)
    elif is_pointwise:
        values = [value] * math.prod(extents or ())
    else:
        fitted = arithmetic.stored(value, place.dtype, span)
        builder.emit(Fill(dst=place.region, value=fitted, span=span))
        return
    region = Region(buffer=place.buffer, offsets=_fixed(place.region.offsets), extents=place.region.extents, span=place.region.span)
    for at, item in zip(positions(region, extents or (), span), values):
        fitted = arithmetic.stored(item, place.dtype, span)
        builder.emit(Store(buffer=place.buffer, indices=at, value=fitted, span=span))


def fill_vectors(target: Region, value: Any) -> None:
    """Every element of a region of a vector type becomes ``value``: a vector, or a number in every lane. In a point of T.Parallel, which
    has no tile operations, of at most 64 elements one by one."""
    builder = current_builder("a fill")
    span, dtype = builder.span, target.buffer.dtype
    lanes = Vector.of([arithmetic.stored(lane, dtype.scalar, span) for lane in lanes_of(value, dtype.lanes)])
    target = Region(buffer=target.buffer, offsets=_fixed(target.offsets), extents=_fixed(target.extents), span=span)
    extents = constant_extents(target)
    if builder.point_depths and extents is not None and math.prod(extents) <= _POINTWISE:
        for at in positions(target, extents, span):
            store(Element(Load(buffer=target.buffer, indices=at, span=span)), lanes)
        return
    scalars, one = scalar_view(target.buffer), const(1, INT32)
    for position, lane in enumerate(lanes):
        offsets, sizes = (*target.offsets, const(position, INT32)), (*target.extents, one)
        builder.emit(Fill(dst=Region(buffer=scalars, offsets=offsets, extents=sizes, span=span), value=lane.expr, span=span))
