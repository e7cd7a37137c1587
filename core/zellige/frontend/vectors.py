"""Vectors: several scalars handled as one value, lane by lane. They exist only while a kernel is traced.

In: lanes, elements of vector types, or slices of tiles with constant extents. Out: scalars and stores of the tile IR, one a lane; adjacent
ones become vector operations where the target has them. An operation on a vector takes each lane's value at once. Names, choices, carried
variables, arguments and results hold vectors as they hold numbers, one scalar or variable of the kernel a lane.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, Final, NoReturn, TypeGuard

from zellige.diagnostics import catalogue
from zellige.dtypes import DType
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.values import (
    Element,
    ElementReference,
    LaneWise,
    Scalar,
    TileRegion,
    Variable,
    bind,
    declare,
    differs_from_numbers,
    here,
    is_number,
    is_volatile,
    taken,
)
from zellige.ir.expr import BOOL, INT32, Buffer, CompareOp, Const, Expr, Load, Var, const
from zellige.ir.stmt import Stmt

AS_SCALARS: Final = "T.view(A, shape, dtype) shows the numbers of a tile of vectors, their lanes as its last dimension"
"""The hint where an operation takes no vectors."""

_LANES: Final = 64  # the most lanes that a vector can have


class Vector(LaneWise):
    """Scalars of one dtype. Operators work lane by lane; a number or scalar stands for all lanes."""

    __slots__ = ("_lanes",)

    def __init__(self, lanes: Iterable[Scalar]) -> None:
        self._lanes: Sequence[Scalar] = tuple(lanes)

    @property
    def lanes(self) -> Sequence[Scalar]:
        """The scalars, one a lane."""
        return self._lanes

    @classmethod
    def of(cls, values: Sequence[Any]) -> Vector:
        """A vector of these values as they are now: what is read from memory or a variable is bound to a name."""
        scalars = (v if isinstance(v, Element) else Scalar(arithmetic.as_expr(v, here())) for v in values)
        return Vector(bind("lane", s) if is_volatile(s) else s for s in scalars)

    @property
    def dtype(self) -> DType:
        return self.lanes[0].dtype.with_lanes(len(self.lanes))

    @property
    def described(self) -> str:
        return f"a {self.dtype} vector"

    def __len__(self) -> int:
        return len(self.lanes)

    def __iter__(self) -> Iterator[Scalar]:
        return iter(self.lanes)

    def __getitem__(self, lane: Any) -> Any:
        """One lane, or a vector of some of them. E105: known only at run time; E241: there is none."""
        if isinstance(lane, slice):
            found = self.lanes[lane]
            if not found:
                raise catalogue.E241.error(here(), what="lane", given=lane, count=len(self))
            return Vector(found)
        position = operator.index(lane)
        if not -len(self) <= position < len(self):
            raise catalogue.E241.error(here(), what="lane", given=position, count=len(self))
        return self.lanes[position]

    def __setitem__(self, lane: Any, value: Any) -> NoReturn:
        instead = f"make the vector anew, as in v = T.{self.dtype}(...) of v[0], v[1] and so on"
        raise catalogue.E111.error(here(), what=f"an assignment to a lane of {self.described}", instead=instead)

    def __repr__(self) -> str:
        return f"<{self.described}>"

    def __bool__(self) -> bool:
        raise catalogue.E104.error(here(), given=self.described, hint=_ONE_LANE)

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
        """The lanes as another dtype: a scalar type, or a vector type of as many lanes. E203: of others."""
        target = arithmetic.type_of(dtype, here())
        if target.lanes not in (1, len(self)):
            raise catalogue.E203.error(here(), left=self.described, right=f"the lanes of {target}", hint="take as many lanes as are wanted")
        return Vector.of([Scalar(arithmetic.cast(lane.expr, target.scalar, here())) for lane in self])

    def taken(self, mark: tuple[list[Stmt], int] | None = None) -> Vector:
        """What it is now (or was at ``mark``): no later statement changes it."""
        return Vector(taken(lane, mark) for lane in self) if self._is_volatile else self

    def named(self, name: str) -> Vector:
        """What it is now under a name, one of the kernel's a lane, so that expressions stay small."""
        lanes = [bind(f"{name}_{at}", lane, label=name) for at, lane in enumerate(self)]
        return self if all(new is lane for new, lane in zip(lanes, self)) else Vector(lanes)

    @property
    def _is_volatile(self) -> bool:
        return any(is_volatile(lane) for lane in self)


_ONE_LANE: Final = "ask of one of its lanes, as in T.extract_lane(vector, 0) > 0"


def _compared(op: CompareOp, left: Vector, right: Any) -> Any:
    """Lane by lane, a vector of bools; what is no value of a kernel (None, a name) differs from every vector."""
    if differs_from_numbers(op, right):
        return op == "ne"
    return apply(lambda a, b: Scalar(arithmetic.compare(op, a, b, here())), left, right)


class PlacedVector(Vector):
    """An element of a vector type: its lanes, or what they were when it was given a name. Where an operation takes a place it is that
    element's position."""

    __slots__ = ("place",)

    def __init__(self, place: Element, lanes: Iterable[Scalar] = ()) -> None:
        super().__init__(lanes)
        self.place = place

    @property
    def lanes(self) -> Sequence[Scalar]:
        """The scalars, one a lane. E237 where they are read from a tensor with declared strides."""
        if not self._lanes:
            self._lanes = [Scalar(lane) for lane in lane_places(self.place)]
        return self._lanes

    @property
    def dtype(self) -> DType:
        return self.place.dtype

    def taken(self, mark: tuple[list[Stmt], int] | None = None) -> Vector:
        lanes = super().taken(mark)
        return self if lanes is self else PlacedVector(self.place.taken_place(mark), lanes)

    def named(self, name: str) -> Vector:
        lanes = super().named(name)
        return lanes if lanes is self or any(is_volatile(Scalar(i)) for i in self.place.indices) else PlacedVector(self.place, lanes)


class VectorVariable(Vector):
    """A vector that is assigned again: ``T.alloc_var("float16x2")``, or a name rebound under run-time control."""

    __slots__ = ()
    _lanes: Sequence[Variable]

    @classmethod
    def declare(cls, name: str, dtype: DType, initial: Any, *, depth: int | None = None, is_implied: bool = False) -> VectorVariable:
        """A variable with a first value, a vector or a number for all lanes; as :func:`~zellige.frontend.values.declare`."""
        lanes = lanes_of(initial, dtype.lanes)
        called = current_builder("a variable").name_for(name)
        return cls(
            declare(f"{called}_{at}", dtype.scalar, lane, depth=depth, is_implied=is_implied, label=called) for at, lane in enumerate(lanes)
        )

    @property
    def depth(self) -> int:
        return self._lanes[0].depth

    @property
    def is_implied(self) -> bool:
        return self._lanes[0].is_implied

    def assign(self, value: Any) -> None:
        """Stores a vector, or one number in all lanes, cast to the variable's dtype; E206 where the variable is implied and the value's
        dtype is another one."""
        given = value.dtype if isinstance(value, Vector) else arithmetic.as_expr(value, here()).dtype
        if self.is_implied and given not in (self.dtype, BOOL.with_lanes(len(self))):
            raise catalogue.E206.error(here(), name=self._lanes[0].expr.label, old=self.dtype, new=given)
        lanes = Vector.of(lanes_of(value, len(self)))
        for variable, lane in zip(self._lanes, lanes):
            variable.assign(lane)

    def value(self) -> Vector:
        """The value it has now."""
        return Vector.of(self._lanes)


class VectorReference(VectorVariable):
    """An element of a vector type passed for a macro's T.Ref parameter: assigning to the parameter stores to the element."""

    __slots__ = ("place",)

    def __init__(self, place: Element) -> None:
        super().__init__(ElementReference(lane) for lane in lane_places(place))
        self.place = place


def is_variable(value: Any) -> TypeGuard[Variable | VectorVariable]:
    """Whether a value is a variable of the kernel: of a number or of a vector."""
    return isinstance(value, (Variable, VectorVariable))


def names_of(variable: Variable | VectorVariable) -> list[Var]:
    """The variables of the kernel that hold it."""
    lanes = variable.lanes if isinstance(variable, VectorVariable) else [variable]
    return [lane.expr for lane in lanes if isinstance(lane.expr, Var)]


def can_vary(value: Any) -> bool:
    """Whether a variable of the kernel could hold ``value``: a number or a vector."""
    return is_number(value) or isinstance(value, Vector)


def variable_for(name: str, value: Any, *, depth: int | None = None) -> Variable | VectorVariable:
    """An implied variable of the type of ``value``: with its value, or where it is declared in the open body number ``depth`` with 0."""
    if isinstance(value, Vector):
        return VectorVariable.declare(name, value.dtype, value if depth is None else _zero(value.dtype), depth=depth, is_implied=True)
    expr = arithmetic.as_expr(value, here())
    return declare(name, expr.dtype, Scalar(expr) if depth is None else _zero(expr.dtype), depth=depth, is_implied=True)


def empty_like(name: str, variable: Variable | VectorVariable, initial: Any = None) -> Variable | VectorVariable:
    """A variable as another one, in the innermost open body; it begins with ``initial``, or 0."""
    start = _zero(variable.dtype) if initial is None else initial
    if isinstance(variable, VectorVariable):
        return VectorVariable.declare(name, variable.dtype, start, is_implied=variable.is_implied)
    return declare(name, variable.dtype, start, is_implied=variable.is_implied)


def _zero(dtype: DType) -> int | float:
    return 0.0 if dtype.is_float else 0


def stored(value: Any, target: DType) -> Any:
    """``value`` in a place of dtype ``target``: of a vector type its lanes, or one number for all of them. E202, E203, E254: no fit."""
    if target.lanes == 1:
        return Scalar(arithmetic.stored(value, target, here()))
    return Vector.of([Scalar(arithmetic.stored(lane, target.scalar, here())) for lane in lanes_of(value, target.lanes)])


def lanes_of(value: Any, count: int | None = None) -> list[Any]:
    """The lanes of a vector, or slice; a scalar ``count`` times. E203: number of lanes; E202: no number."""
    span = here()
    if isinstance(value, Vector):
        lanes: list[Any] = list(value)
    elif isinstance(value, TileRegion):
        lanes = _slice_lanes(value)
    else:
        arithmetic.as_expr(value, span)
        return [value] * (count or 1)
    if count is not None and len(lanes) != count:
        raise catalogue.E203.error(span, left=f"{len(lanes)} lanes", right=f"{count} lanes", hint="take as many lanes as are wanted")
    return lanes


def lane_places(place: Element) -> list[Load]:
    """The scalars of an element of a vector type."""
    scalars, span = scalar_view(place.buffer), here()
    return [Load(buffer=scalars, indices=(*place.indices, const(k, INT32)), span=span) for k in range(place.dtype.lanes)]


def _slice_lanes(value: TileRegion) -> list[Scalar]:
    region, span = value.region, here()
    if region.buffer.dtype.lanes > 1:
        given = f"{value.described}, whose elements are vectors themselves"
        raise catalogue.E202.error(span, given=given, hint="take one of them, as in A[i], or loop over them")
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
    return isinstance(value, LaneWise)


def apply(function: Callable[..., Any], *operands: Any) -> Vector:
    """``function`` lane by lane; operands of one lane stand for all. E203 where the numbers of lanes differ."""
    count = max(len(lanes_of(o)) for o in operands if is_vector(o))
    columns = [lanes_of(o, count) for o in operands]
    return Vector.of([function(*row) for row in zip(*columns)])
