"""Who holds which element of a tile: registers, lanes and warps as digits of the element's coordinates.

In: digits. Out: a :class:`Distribution`, which says the coordinates of a register of a lane as numbers or as expressions, and the
distributions that follow from it: without a dimension, with dimensions exchanged, of a part.

A *digit* is ``(source // divisor) % radix`` of the number of a register, lane or warp; it moves along one dimension by ``stride`` elements,
or along none, and then the lanes that differ in it hold the same elements. Radices need not be powers of two: 80 rows are 5 x 16. This is
the form that index arithmetic is made from; :mod:`zellige.layouts` holds the general algebra.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from zellige.diagnostics import InternalError
from zellige.ir.expr import INT32, Binary, Const, Expr
from zellige.records import dataclass

Source = Literal["register", "lane", "warp"]

SOURCES: Final[tuple[Source, ...]] = ("register", "lane", "warp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Digit:
    """``(source // divisor) % radix``, which moves by ``stride`` elements along ``dimension`` (None: along none)."""

    source: Source
    divisor: int
    radix: int
    dimension: int | None
    stride: int = 0


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """A tile of ``shape`` elements spread over registers, lanes and warps.

    The digits of one source count it in full, those of one dimension cover it without gaps; what they cover beyond ``shape`` is nobody's
    element and must be predicated. Digits stand in the order register, lane, warp, each by rising divisor; digits of radix 1 are left
    out, and neighbours among those of lanes or warps that move on as one made one, so that equal distributions compare equal.
    """

    shape: tuple[int, ...]
    digits: tuple[Digit, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "digits", _merged(self.digits))
        for source in SOURCES:
            expected = 1
            for digit in self.of_source(source):
                if digit.divisor != expected:
                    raise InternalError(f"the digits of {source} in {self} do not count it: {digit}")
                expected *= digit.radix
        for dimension, extent in enumerate(self.shape):
            expected = 1
            for digit in self.of_dimension(dimension):
                if digit.stride != expected:
                    raise InternalError(f"the digits of dimension {dimension} in {self} leave a gap: {digit}")
                expected *= digit.radix
            if expected < extent:
                raise InternalError(f"the digits of dimension {dimension} in {self} cover {expected} of {extent}")

    def of_source(self, source: Source) -> tuple[Digit, ...]:
        """Its digits by rising divisor."""
        return tuple(d for d in self.digits if d.source == source)

    def of_dimension(self, dimension: int) -> tuple[Digit, ...]:
        """Its digits by rising stride."""
        return tuple(sorted((d for d in self.digits if d.dimension == dimension), key=lambda d: d.stride))

    def count(self, source: Source) -> int:
        """How many registers (a lane), lanes (a warp) or warps there are."""
        return prod(d.radix for d in self.of_source(source))

    @property
    def registers(self) -> int:
        return self.count("register")

    def covered(self, dimension: int) -> int:
        """How far the digits reach along a dimension: its extent, or more."""
        return reach(self.digits, dimension)

    @cached_property
    def is_exact(self) -> bool:
        """Whether every position that the digits reach is an element."""
        return all(self.covered(d) == extent for d, extent in enumerate(self.shape))

    @cached_property
    def replicated(self) -> tuple[Digit, ...]:
        """The digits of lanes and warps along which the same elements are held again."""
        return tuple(d for d in self.digits if d.dimension is None and d.source != "register")

    # ---- numbers ----

    def coordinates(self, register: NDArray[np.int64], lane: NDArray[np.int64], warp: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """The element that a register of a lane of a warp holds, one array a dimension (broadcast)."""
        numbers = {"register": np.asarray(register), "lane": np.asarray(lane), "warp": np.asarray(warp)}
        zero = np.zeros(np.broadcast_shapes(*(n.shape for n in numbers.values())), np.int64)
        found = []
        for dimension in range(len(self.shape)):
            total = zero
            for d in self.of_dimension(dimension):
                total = total + numbers[d.source] // d.divisor % d.radix * d.stride
            found.append(total)
        return tuple(found)

    # ---- expressions ----

    def coordinate(self, dimension: int, *, register: Expr, lane: Expr, warp: Expr) -> Expr:
        """The coordinate along a dimension of what ``register`` of this lane holds, as an int32 expression."""
        numbers = {"register": register, "lane": lane, "warp": warp}
        return added(times(digit_value(numbers[d.source], d, self.count(d.source)), d.stride) for d in self.of_dimension(dimension))

    def register_at(self, target: Distribution, dimensions: Sequence[int], register: Expr) -> Expr:
        """The register of ``target`` that holds the element of ``register`` of this distribution, where ``target`` is this one's
        :meth:`onto` those dimensions."""
        mine = [d for d in self.of_source("register") if d.dimension in dimensions]
        theirs = target.of_source("register")
        if len(mine) != len(theirs):
            raise InternalError(f"{target} is not a projection of {self}")
        count = self.registers
        return added(times(digit_value(register, d, count), t.divisor) for d, t in zip(mine, theirs))

    # ---- distributions that follow ----

    def onto(self, dimensions: Sequence[int]) -> Distribution:
        """The distribution of a tile of only these dimensions, in this order: lanes that differ along the others hold the same."""
        digits: list[Digit] = []
        divisor = 1
        for d in self.of_source("register"):
            if d.dimension in dimensions:
                new = dimensions.index(d.dimension)
                digits.append(Digit(source="register", divisor=divisor, radix=d.radix, dimension=new, stride=d.stride))
                divisor *= d.radix
        for d in self.digits:
            if d.source != "register":
                kept = dimensions.index(d.dimension) if d.dimension in dimensions else None
                digits.append(replace(d, dimension=kept, stride=0 if kept is None else d.stride))
        return Distribution(shape=tuple(self.shape[d] for d in dimensions), digits=tuple(digits))

    def with_shape(self, shape: Sequence[int]) -> Distribution:
        """The same digits over a tile of other extents that they cover."""
        return Distribution(shape=tuple(shape), digits=self.digits)


def reach(digits: Iterable[Digit], dimension: int) -> int:
    """How far digits reach along a dimension."""
    return prod(d.radix for d in digits if d.dimension == dimension)


def moved(digits: Iterable[Digit], places: Sequence[int | None]) -> tuple[Digit, ...]:
    """The digits with dimension ``d`` called ``places[d]``; those that move along none stay so."""
    return tuple(replace(d, dimension=None if d.dimension is None else places[d.dimension]) for d in digits)


def _merged(digits: Iterable[Digit]) -> tuple[Digit, ...]:
    """Neighbouring digits of one source that move on as one digit would, or along none, made one."""
    out: list[Digit] = []
    for d in sorted((d for d in digits if d.radix != 1), key=lambda d: (SOURCES.index(d.source), d.divisor)):
        last = out[-1] if out else None
        if last is not None and last.source == d.source and last.dimension == d.dimension:
            follows = d.dimension is None or d.stride == last.stride * last.radix
            if follows and last.source != "register":
                out[-1] = replace(last, radix=last.radix * d.radix)
                continue
        out.append(d)
    return tuple(out)


def distribute(shape: Sequence[int], *, lanes: int, warps: int, vector: int = 1, order: Sequence[int] | None = None) -> Distribution:
    """A tile of any shape over ``lanes * warps`` lanes: ``vector`` neighbours of the fastest dimension in one lane, then lanes, then
    warps, then further registers. ``order`` lists the dimensions from the fastest; the last dimension is the fastest unless given.

    Lanes beyond the tile hold the same elements again; where the tile does not divide, the digits reach beyond it.
    """
    order = tuple(reversed(range(len(shape)))) if order is None else tuple(order)
    left = {d: max(int(shape[d]), 1) for d in order}
    reached = dict.fromkeys(order, 1)
    digits: list[Digit] = []

    def take(source: Source, divisor: int, wanted: int) -> int:
        """Give ``wanted`` numbers of a source to the dimensions, the fastest first; returns the divisor after them."""
        for d in order:
            if wanted == 1:
                break
            if left[d] == 1:
                continue
            radix = _part(wanted, left[d])
            digits.append(Digit(source=source, divisor=divisor, radix=radix, dimension=d, stride=reached[d]))
            divisor, wanted = divisor * radix, wanted // radix
            reached[d] *= radix
            left[d] = -(-left[d] // radix)
        if wanted > 1:
            digits.append(Digit(source=source, divisor=divisor, radix=wanted, dimension=None))
            divisor *= wanted
        return divisor

    register = 1
    if vector > 1:
        digits.append(Digit(source="register", divisor=1, radix=vector, dimension=order[0], stride=1))
        register, reached[order[0]] = vector, vector
        left[order[0]] = -(-left[order[0]] // vector)
    take("lane", 1, lanes)
    take("warp", 1, warps)
    for d in order:
        if left[d] > 1:
            digits.append(Digit(source="register", divisor=register, radix=left[d], dimension=d, stride=reached[d]))
            register *= left[d]
    return Distribution(shape=tuple(int(s) for s in shape), digits=tuple(digits))


def _part(wanted: int, extent: int) -> int:
    """How many of ``wanted`` lanes go along a dimension of which ``extent`` steps are left: a divisor of wanted, the next at least
    extent where little is lost, so that 24 steps take 32 lanes and 33 take 32 and two registers."""
    divisors = [d for d in range(1, wanted + 1) if wanted % d == 0]
    enough = next((d for d in divisors if d >= extent), wanted)
    fewer = max((d for d in divisors if d <= extent), default=1)
    if enough == extent or extent % fewer:
        return enough
    return fewer if fewer * 2 > extent or extent % fewer == 0 else enough


# ---- small expressions ----


def number(value: int) -> Const:
    """A constant int32."""
    return Const(value=value, dtype=INT32)


def digit_value(source: Expr, digit: Digit, count: int) -> Expr:
    """``(source // divisor) % radix`` of a non-negative int32 below ``count``, without operations that change nothing."""
    if isinstance(source, Const):
        return number(int(source.value) // digit.divisor % digit.radix)
    value = source if digit.divisor == 1 else Binary(op="truncdiv", left=source, right=number(digit.divisor))
    if digit.divisor * digit.radix >= count:
        return value
    return Binary(op="truncmod", left=value, right=number(digit.radix))


def times(value: Expr, factor: int) -> Expr:
    """``value * factor``, folded for a constant value and for 1."""
    if isinstance(value, Const):
        return number(int(value.value) * factor)
    return value if factor == 1 else Binary(op="mul", left=value, right=number(factor))


def added(parts: Iterable[Expr]) -> Expr:
    """The sum of int32 expressions, constants collected."""
    constant, total = 0, None
    for part in parts:
        if isinstance(part, Const):
            constant += int(part.value)
        else:
            total = part if total is None else Binary(op="add", left=total, right=part)
    if total is None:
        return number(constant)
    return total if constant == 0 else Binary(op="add", left=total, right=number(constant))
