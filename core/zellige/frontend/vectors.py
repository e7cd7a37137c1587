"""Vectors: several scalars handled as one value, lane by lane. They exist only while a kernel is traced.

In: lanes, or slices of tiles with constant extents. Out: scalars and stores of the tile IR, one a lane; adjacent ones become vector
operations where the target has them. An operation on a vector takes each lane's value at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.dtypes import DType
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.values import (
    Element,
    LaneWise,
    Scalar,
    TileRegion,
    Variable,
    bind,
    declare,
    differs_from_numbers,
    here,
    is_volatile,
)
from zellige.ir.expr import INT32, Buffer, CompareOp, Const, Expr, Load, const

_LANES: Final = 64  # the most lanes that a vector can have


class Vector(LaneWise):
    """Scalars of one dtype. Operators work lane by lane; a number or scalar stands for all lanes."""

    __slots__ = ("_lanes",)

    def __init__(self, lanes: Iterable[Scalar]) -> None:
        self._lanes = tuple(lanes)

    @classmethod
    def of(cls, values: Sequence[Any]) -> Vector:
        """A vector of these values as they are now: what is read from memory or a variable is bound to a name."""
        scalars = (v if isinstance(v, Element) else Scalar(arithmetic.as_expr(v, here())) for v in values)
        return cls(bind("lane", s) if is_volatile(s) else s for s in scalars)

    @property
    def dtype(self) -> DType:
        return self._lanes[0].dtype.with_lanes(len(self._lanes))

    @property
    def described(self) -> str:
        return f"a {self.dtype} vector"

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[Scalar]:
        return iter(self._lanes)

    def __getitem__(self, lane: int) -> Scalar:
        return self._lanes[lane]

    def __repr__(self) -> str:
        return f"<{self.described}>"

    def __bool__(self) -> bool:
        raise catalogue.E104.error(here(), given=self.described)

    __hash__ = object.__hash__  # equality gives a vector, so that a vector is one key by being the same object

    def __eq__(self, other: object) -> Any:
        return _compared("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return _compared("ne", self, other)

    def __lt__(self, other: Any) -> Any:
        return _compared("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return _compared("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return _compared("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return _compared("ge", self, other)

    def astype(self, dtype: Any) -> Vector:
        from zellige.dtypes import dtype as as_dtype

        target = as_dtype(dtype).scalar
        return Vector.of([Scalar(arithmetic.cast(lane.expr, target, here())) for lane in self])


def _compared(op: CompareOp, left: Vector, right: Any) -> Any:
    """Lane by lane, a vector of bools; what is no value of a kernel (None, a name) differs from every vector."""
    if differs_from_numbers(op, right):
        return op == "ne"
    return apply(lambda a, b: Scalar(arithmetic.compare(op, a, b, here())), left, right)


class VectorVariable(Vector):
    """A vector that is assigned again: ``T.alloc_var("float16x2")``."""

    __slots__ = ()

    @classmethod
    def declare(cls, dtype: DType, initial: Any) -> VectorVariable:
        """A variable with a first value: a vector, or a number for all lanes."""
        lanes = lanes_of(initial, dtype.lanes)
        name = current_builder("a variable").name_for("vector")
        return cls(declare(f"{name}_{position}", dtype.scalar, lane) for position, lane in enumerate(lanes))

    def assign(self, value: Any) -> None:
        """Stores a vector, or one number in all lanes, cast to the variable's dtype."""
        lanes = Vector.of(lanes_of(value, len(self)))
        for variable, lane in zip(self._lanes, lanes):
            assert isinstance(variable, Variable)
            variable.assign(lane)

    def value(self) -> Vector:
        """The value it has now."""
        return Vector.of(self._lanes)


def lanes_of(value: Any, count: int | None = None) -> list[Any]:
    """The lanes of a vector, slice or element of a vector type; a scalar ``count`` times. E203: number of lanes; E202: no number."""
    span = here()
    if isinstance(value, Vector):
        lanes: list[Any] = list(value)
    elif isinstance(value, TileRegion):
        lanes = _slice_lanes(value)
    elif isinstance(value, Element) and value.dtype.lanes > 1:
        scalars = scalar_view(value.buffer)
        lanes = [Scalar(Load(buffer=scalars, indices=(*value.indices, const(k, INT32)), span=span)) for k in range(value.dtype.lanes)]
    else:
        arithmetic.as_expr(value, span)
        return [value] * (count or 1)
    if count is not None and len(lanes) != count:
        raise catalogue.E203.error(span, left=f"{len(lanes)} lanes", right=f"{count} lanes")
    return lanes


def _slice_lanes(value: TileRegion) -> list[Scalar]:
    region, span = value.region, here()
    extents = [int(e.value) if isinstance(e, Const) else 0 for e in region.extents]
    if not 1 <= math.prod(extents) <= _LANES:
        raise catalogue.E202.error(span, given=f"{value.described}, which is no vector of at most {_LANES} elements")
    found = []
    for steps in product(*(range(e) for e in extents)):
        indices: tuple[Expr, ...] = tuple(arithmetic.binary("add", o, s, span) for o, s in zip(region.offsets, steps))
        found.append(Scalar(Load(buffer=region.buffer, indices=indices, span=span)))
    return found


def scalar_view(buffer: Buffer) -> Buffer:
    """The scalars of a dense buffer of vectors, with the lanes as one more dimension. E237 for declared strides."""
    builder = current_builder("a lane")
    if buffer.strides is not None:
        raise catalogue.E237.error(builder.span, name=buffer.label)
    found = builder.scalar_views.get(buffer)
    if found is None:
        found = Buffer(
            name=builder.unique(f"{buffer.name}_lanes"),
            source_name=buffer.label,
            dtype=buffer.dtype.scalar,
            shape=(*buffer.shape, const(buffer.dtype.lanes, INT32)),
            space=buffer.space,
            alias=buffer,
            span=builder.span,
        )
        builder.scalar_views[buffer] = found
    return found


def is_vector(value: Any) -> bool:
    """Whether an operand has several lanes."""
    return isinstance(value, LaneWise) or (isinstance(value, Element) and value.dtype.lanes > 1)


def apply(function: Callable[..., Any], *operands: Any) -> Vector:
    """``function`` lane by lane; operands of one lane stand for all. E203 where the numbers of lanes differ."""
    count = max(len(lanes_of(o)) for o in operands if is_vector(o))
    columns = [lanes_of(o, count) for o in operands]
    return Vector.of([function(*row) for row in zip(*columns)])
