"""Vectors of a few lanes: T.extract_lane and arithmetic on packed pairs. Operators work on vectors of every length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.diagnostics.wording import counted
from zellige.frontend import arithmetic
from zellige.frontend.regions import place_of, region_of
from zellige.frontend.values import Address, Element, Scalar, Tile, TileRegion, bind, here, is_volatile
from zellige.frontend.vectors import PlacedVector, Vector, apply, is_vector, lanes_of
from zellige.ir.expr import INT32, BinaryOp, Load, Region, const
from zellige.language.elementwise import call
from zellige.language.keywords import count_of, without


@without("dtype", "span")
def extract_lane(vector: Any, lane: Any) -> Scalar:
    """One lane of a vector. E258: no vector; E105: ``lane`` is not a constant; E241: there is no such lane."""
    if not is_vector(vector):
        raise catalogue.E258.error(here(), operation="T.extract_lane", wanted="a vector", given=arithmetic.describe(vector))
    lanes = lanes_of(vector)
    position = arithmetic.whole_number(lane)
    if position is None:
        raise catalogue.E105.error(here(), given="the lane of T.extract_lane")
    if not 0 <= position < len(lanes):
        raise catalogue.E241.error(here(), what="lane", given=position, count=len(lanes))
    return Scalar(arithmetic.as_expr(lanes[position], here()))


def Broadcast(value: Any, lanes: Any) -> Vector:
    """A vector with ``value`` in each of ``lanes`` lanes. E245: a number of lanes that is no positive Python int."""
    return Vector.of([Scalar(arithmetic.as_expr(value, here()))] * _count(lanes, "Broadcast"))


def Ramp(base: Any, stride: Any, lanes: Any) -> Vector:
    """The vector ``base, base + stride, base + 2 * stride`` ... of ``lanes`` lanes; as an index it names that many elements. E245."""
    span = here()
    steps = [arithmetic.binary("mul", stride, k, span) for k in range(_count(lanes, "Ramp"))]
    return Vector.of([Scalar(arithmetic.binary("add", base, step, span)) for step in steps])


def _count(lanes: Any, name: str) -> int:
    return count_of(lanes, f"as the lanes of T.{name}")


def _pairwise(name: str, function: Callable[..., Any], count: int) -> Callable[..., Vector]:
    def packed(*operands: Any) -> Vector:
        if len(operands) != count:
            raise TypeError(f"T.{name}() takes {count} vectors, {len(operands)} were given")
        for operand in operands:
            if not is_vector(operand) or len(lanes_of(operand)) != 2:
                raise catalogue.E258.error(here(), operation=f"T.{name}", wanted="vectors of two lanes", given=arithmetic.describe(operand))
        return apply(function, *operands)

    packed.__name__ = packed.__qualname__ = name
    packed.__doc__ = f"{name[:-1]} of the lanes of vectors of two lanes. E258 for others."
    return packed


def _binary(op: BinaryOp) -> Callable[[Any, Any], Scalar]:
    return lambda a, b: Scalar(arithmetic.binary(op, a, b, here()))


PAIRS: Final = {
    "add2": _pairwise("add2", _binary("add"), 2),
    "sub2": _pairwise("sub2", _binary("sub"), 2),
    "mul2": _pairwise("mul2", _binary("mul"), 2),
    "max2": _pairwise("max2", _binary("max"), 2),
    "min2": _pairwise("min2", _binary("min"), 2),
    "fma2": _pairwise("fma2", lambda a, b, c: call("fma", a, b, c), 3),
    "abs2": _pairwise("abs2", lambda a: call("abs", a), 1),
}
"""Arithmetic on packed pairs, by name."""


@without("dtype", "span")
def address_of(obj: Any) -> Address:
    """The place of an element, or of a tile's first element, for operations that take places. E222 for anything else.

    It is no number: E204 where one is wanted.
    """
    place = place_of(obj)
    if isinstance(place, Tile):
        return Address(Element(Load(buffer=place.node, indices=(const(0, INT32),) * place.ndim, span=here())))
    if not isinstance(place, Element):
        raise catalogue.E222.error(here(), operation="T.address_of", given=arithmetic.describe(obj))
    if any(is_volatile(Scalar(index)) for index in place.indices):  # the place of now, whatever its indices are read from later
        indices = tuple(bind("index", Scalar(index)).expr for index in place.indices)
        return Address(Element(Load(buffer=place.buffer, indices=indices, span=here())))
    return Address(place)


def access_ptr(
    base: Any, access_type: str | int = "r", *extents: Any, offset: Any = 0, extent: Any = None, ignore_last_ndim: int = 0
) -> Address:
    """A tile, slice or start element as an operand; ``extents`` give a start element, or the start of a tile, a size.

    It is no number: E204 where one is wanted. E402: a flat offset or extent; E258: no kind of access, or a slice, which has its extents.
    """
    place = place_of(base)
    if access_type not in ("r", "w", "rw", 1, 2, 3) or isinstance(access_type, bool):
        wanted = '"r", "w" or "rw" as access_type'
        raise catalogue.E258.error(here(), operation="T.access_ptr", wanted=wanted, given=arithmetic.describe(access_type))
    if offset != 0 or extent is not None or ignore_last_ndim:
        hint = "slice the tile: A[i:i + n, :]"
        raise catalogue.E402.error(here(), name="T.access_ptr with a flat offset or extent", hint=hint)
    if not extents:
        region_of(place, "T.access_ptr")
        return Address(place)
    if isinstance(place, Tile):
        place = Element(Load(buffer=place.node, indices=(const(0, INT32),) * place.ndim, span=here()))
    if not isinstance(place, Element):
        wanted = "a start element for its extents"
        raise catalogue.E258.error(here(), operation="T.access_ptr", wanted=wanted, given=arithmetic.describe(base))
    sizes = extents[0] if len(extents) == 1 and isinstance(extents[0], (tuple, list)) else extents
    counts = tuple(arithmetic.index(e, here()) for e in sizes)
    padding = len(place.indices) - len(counts)
    if padding < 0:
        dimensions = counted(len(place.indices), "dimension")
        raise catalogue.E208.error(here(), name=place.buffer.label, dimensions=dimensions, given=len(counts))
    shape = (const(1, INT32),) * padding + counts
    region = Region(buffer=place.buffer, offsets=place.indices, extents=shape, span=here())
    return Address(TileRegion(region, (True,) * len(shape)))


def read(load_or_buf: Any, index: Any = None) -> Scalar | Vector:
    """``T.__ldg``: the value of an element, or of ``load_or_buf[index]``. E222 for anything else."""
    place = place_of(load_or_buf if index is None else load_or_buf[index])
    if not isinstance(place, Element):
        raise catalogue.E222.error(here(), operation="T.__ldg", given=arithmetic.describe(load_or_buf))
    return PlacedVector(place).named("value") if place.dtype.lanes > 1 else bind("value", place)
