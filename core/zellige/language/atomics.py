"""Atomic operations on elements, short vectors and tiles: T.atomic_add, atomic_max, atomic_min, atomic_or, atomic_load, atomic_store."""

from __future__ import annotations

from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.diagnostics.suggest import closest
from zellige.dtypes import DType
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.regions import adjacent, constant_extents, paired_regions, place_of, positions, region_of
from zellige.frontend.values import Element, Scalar, Tile, TileRegion, bind, here
from zellige.frontend.vectors import AS_SCALARS, Vector, is_vector, lane_places, lanes_of
from zellige.ir.expr import Buffer, Expr, Load, Region, Var
from zellige.ir.stmt import Atomic, AtomicOp, AtomicTile, Hints, Map, MemoryOrder
from zellige.language.keywords import accept, flag

_ORDERS: Final[dict[str, MemoryOrder]] = {
    "relaxed": "relaxed", "consume": "acquire", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel", "seq_cst": "seq_cst",
}  # fmt: skip
_LOADS: Final = ("relaxed", "consume", "acquire", "seq_cst")
_STORES: Final = ("relaxed", "release", "seq_cst")
_KEYWORDS: Final = ("dst", "value", "memory_order", "return_prev")


def order_of(value: Any, operation: str, known: tuple[str, ...] = tuple(_ORDERS)) -> MemoryOrder:
    """A memory order by name, relaxed for None; E238 for one that is unknown or has no meaning for the operation."""
    if value is None:
        return "relaxed"
    if value not in known:
        raise catalogue.E238.error(
            here(), operation=operation, given=repr(value), known=", ".join(known), suggestion=closest(value, known)
        )
    return _ORDERS[value]


def _check_dtype(op: AtomicOp, dtype: DType) -> None:
    is_arithmetic = op in ("add", "max", "min")
    if dtype.lanes != 1:
        raise catalogue.E204.error(here(), operation=f"T.atomic_{op}", dtype=dtype, hint=AS_SCALARS)
    if dtype.storage_bits < 8 or (dtype.is_bool and is_arithmetic) or (op == "or" and dtype.is_float):
        raise catalogue.E204.error(here(), operation=f"T.atomic_{op}", dtype=dtype)


def _element(value: Any, operation: str) -> Element:
    """The single element that an operand names: an element, or a tile or slice of one element. E258 for anything else."""
    value = place_of(value)
    if isinstance(value, Element):
        return value
    if isinstance(value, (Tile, TileRegion)):
        region = region_of(value, operation)
        if constant_extents(region) == (1,) * len(region.extents):
            return _at(region.buffer, region.offsets)
    raise catalogue.E258.error(here(), operation=operation, wanted="one element, such as A[i]", given=arithmetic.describe(value))


def _at(buffer: Buffer, indices: tuple[Expr, ...]) -> Element:
    return Element(Load(buffer=buffer, indices=indices, span=here()))


def _emit(op: AtomicOp, place: Element, value: Any, order: MemoryOrder, *, wants_result: bool, hints: Hints = ()) -> Scalar | None:
    builder = current_builder(f"T.atomic_{op}")
    _check_dtype(op, place.dtype)
    expr = None if op == "load" else arithmetic.stored(value, place.dtype, builder.span)
    result = builder.var("previous", place.dtype, "value") if wants_result else None
    where, indices = place.buffer, place.indices
    builder.emit(Atomic(op=op, buffer=where, indices=indices, value=expr, order=order, result=result, hints=hints, span=builder.span))
    return Scalar(result) if result is not None else None


def _atomic(op: AtomicOp, dst: Any, value: Any, order: Any, return_prev: Any, hints: Hints = ()) -> Scalar | None:
    operation = f"T.atomic_{op}"
    dst, source = place_of(dst), place_of(value)
    wants_result = flag(return_prev, operation, "return_prev")
    memory_order = order_of(order, operation)
    is_tile = isinstance(source, (Tile, TileRegion))
    if isinstance(dst, Element) and not is_tile:
        return _emit(op, dst, value, memory_order, wants_result=wants_result, hints=hints)
    target = region_of(dst, operation)
    _check_dtype(op, target.buffer.dtype)
    if wants_result:
        raise catalogue.E240.error(here(), operation=operation)
    if is_tile or isinstance(source, Element):
        paired, target = paired_regions(source, dst, operation)
        builder = current_builder(operation)
        builder.emit(AtomicTile(op=op, src=paired, dst=target, order=memory_order, hints=hints, span=builder.span))
    elif arithmetic.python_number(value) is not None or isinstance(value, Scalar):
        _spread(op, target, value, memory_order, hints)
    else:
        raise catalogue.E239.error(here(), operation=operation, given=arithmetic.describe(value))
    return None


def _spread(op: AtomicOp, target: Region, value: Any, order: MemoryOrder, hints: Hints) -> None:
    """One number into every element of a region, as independent points."""
    builder = current_builder(f"T.atomic_{op}")
    span = builder.span
    fitted = bind("value", Scalar(arithmetic.stored(value, target.buffer.dtype, span))).expr
    axes: tuple[Var, ...] = tuple(builder.var("i", extent.dtype, "loop") for extent in target.extents)
    indices: tuple[Expr, ...] = tuple(arithmetic.binary("add", offset, axis, span) for offset, axis in zip(target.offsets, axes))
    update = Atomic(op=op, buffer=target.buffer, indices=indices, value=fitted, order=order, hints=hints, span=span)
    builder.emit(Map(axes=axes, extents=target.extents, body=(update,), span=span))


def atomic_add(dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False, **hints: Any) -> Scalar | None:
    """``dst += value`` indivisibly for an element, or point by point for tiles; with ``return_prev`` the element's value before.

    A number as value of a tile goes to every element. E238: order; E204: dtype; E223: shapes; E239, E240: wrong value, previous value of
    a tile.
    """
    wishes = accept("T.atomic_add", hints, _KEYWORDS)
    return _atomic("add", dst, value, memory_order, return_prev, wishes)


def atomic_max(dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False, **hints: Any) -> Scalar | None:
    """``dst = max(dst, value)`` indivisibly. Errors as :func:`atomic_add`."""
    wishes = accept("T.atomic_max", hints, _KEYWORDS)
    return _atomic("max", dst, value, memory_order, return_prev, wishes)


def atomic_min(dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False, **hints: Any) -> Scalar | None:
    """``dst = min(dst, value)`` indivisibly. Errors as :func:`atomic_add`."""
    wishes = accept("T.atomic_min", hints, _KEYWORDS)
    return _atomic("min", dst, value, memory_order, return_prev, wishes)


def atomic_or(dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False) -> Scalar | None:
    """``dst |= value`` indivisibly, of integers. Errors as :func:`atomic_add`."""
    return _atomic("or", dst, value, memory_order, return_prev)


def atomic_load(src: Any, memory_order: str = "seq_cst") -> Scalar:
    """The value of one element, read indivisibly. E258: no single element; E238: order (relaxed, consume, acquire, seq_cst)."""
    result = _emit("load", _element(src, "T.atomic_load"), None, order_of(memory_order, "T.atomic_load", _LOADS), wants_result=True)
    assert result is not None
    return result


def atomic_store(dst: Any, src: Any, memory_order: str = "seq_cst") -> None:
    """One element written indivisibly. E258: no single element; E238: order (relaxed, release, seq_cst)."""
    _emit("store", _element(dst, "T.atomic_store"), src, order_of(memory_order, "T.atomic_store", _STORES), wants_result=False)


def _run(place: Any, count: int, operation: str) -> list[Element]:
    """``count`` elements: adjacent ones from a start point on, a slice of that many, ``A[T.Ramp(...)]``. E258 for another number."""
    place = place_of(place)
    if isinstance(place, Element) and place.dtype.lanes == count:
        return [Element(lane) for lane in lane_places(place)]
    if isinstance(place, Vector) and len(place) == count:
        lanes = [place_of(lane) for lane in place]
        if all(isinstance(lane, Element) for lane in lanes):
            return lanes
    if isinstance(place, Element):
        region = adjacent(place, count)
    else:
        region = region_of(place, operation)
    sizes = constant_extents(region)
    found = positions(region, sizes, here()) if sizes is not None else []
    if len(found) != count:
        raise catalogue.E258.error(
            here(), operation=operation, wanted=f"a start element or a slice of {count} elements", given=arithmetic.describe(place)
        )
    return [_at(region.buffer, at) for at in found]


def _vector(dst: Any, value: Any, count: int, return_prev: Any) -> Vector | None:
    operation = f"T.atomic_addx{count}"
    wants_result = flag(return_prev, operation, "return_prev")
    places = _run(dst, count, operation)
    source = value if isinstance(value, Vector) else place_of(value)
    if isinstance(source, Element):
        given: list[Any] = list(_run(source, count, operation))
    elif isinstance(source, Tile):
        given = list(_run(source, count, operation))
    elif is_vector(source):
        given = lanes_of(source, count)
    else:
        raise catalogue.E239.error(here(), operation=operation, given=arithmetic.describe(value))
    results = [_emit("add", at, v, "relaxed", wants_result=wants_result) for at, v in zip(places, Vector.of(given))]
    return Vector([r for r in results if r is not None]) if wants_result else None


def atomic_addx2(dst: Any, value: Any, return_prev: bool = False) -> Vector | None:
    """Two adjacent elements from ``dst`` on, each added indivisibly; with ``return_prev`` the vector of their values before. E258, E239."""
    return _vector(dst, value, 2, return_prev)


def atomic_addx4(dst: Any, value: Any, return_prev: bool = False) -> Vector | None:
    """As :func:`atomic_addx2` of four adjacent elements."""
    return _vector(dst, value, 4, return_prev)
