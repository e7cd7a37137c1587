"""What a kernel author handles while a kernel is traced: scalars, mutable variables, tiles and regions of tiles.

Each wraps a node of the tile IR; operators and indexing make new nodes at the place where the evaluator is (the builder's span).
Nothing here knows the language's operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from zellige.diagnostics import Span, catalogue
from zellige.diagnostics.wording import counted
from zellige.dtypes import DType
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder, tracing
from zellige.frontend.operators import Operators
from zellige.frontend.slices import from_end, shape_text, slice_extent
from zellige.ir.expr import INT32, INT64, BinaryOp, Buffer, CompareOp, Const, Expr, Load, Region, Var, const
from zellige.ir.stmt import Assign, Bind, Stmt
from zellige.ir.traverse import walk


def here() -> Span | None:
    """The place in the user's source that is being traced."""
    builder = tracing()
    return builder.span if builder is not None else None


class LaneWise(Operators):
    """What stands for several elements at once: operators give a vector, lane by lane (:mod:`zellige.frontend.vectors`)."""

    __slots__ = ()

    def taken(self, mark: tuple[list[Stmt], int] | None = None) -> LaneWise:
        """What it is now (or was at ``mark``): no later statement changes it."""
        raise NotImplementedError

    def operate(self, op: BinaryOp, left: Any, right: Any) -> Any:
        from zellige.frontend.vectors import apply

        return apply(lambda a, b: Scalar(arithmetic.binary(op, a, b, here())), left, right)

    def __neg__(self) -> Any:
        return self._each(lambda a: Scalar(arithmetic.unary("neg", a, here())))

    def __pos__(self) -> Any:
        return self._each(lambda a: Scalar(arithmetic.as_expr(a)))

    def __invert__(self) -> Any:
        return self._each(lambda a: Scalar(arithmetic.unary("invert", a, here())))

    def __abs__(self) -> Any:
        return self._each(lambda a: Scalar(arithmetic.absolute(a, here())))

    def _each(self, function: Callable[[Any], Scalar]) -> Any:
        from zellige.frontend.vectors import apply

        return apply(function, self)

    def __pow__(self, other: Any) -> Any:
        from zellige.frontend.vectors import apply

        return apply(power, self, other)

    def __rpow__(self, other: Any) -> Any:
        from zellige.frontend.vectors import apply

        return apply(power, other, self)


class Scalar(Operators):
    """A number known only when the kernel runs. Operators follow :mod:`zellige.frontend.arithmetic`."""

    __slots__ = ("expr",)

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def operate(self, op: BinaryOp, left: Any, right: Any) -> Any:
        if isinstance(left, LaneWise) or isinstance(right, LaneWise):
            return NotImplemented  # the vector's own operator works lane by lane
        return Scalar(arithmetic.binary(op, left, right, here()))

    @property
    def dtype(self) -> DType:
        return self.expr.dtype

    @property
    def described(self) -> str:
        return f"a run-time {self.expr.dtype} value"

    @property
    def constant(self) -> bool | int | float | None:
        """The value where it is known while compiling."""
        return self.expr.value if isinstance(self.expr, Const) else None

    def astype(self, dtype: Any) -> Any:
        """The value as another dtype; as one of a vector type it stands in every lane."""
        from zellige.frontend.vectors import Vector

        target = arithmetic.type_of(dtype, here())
        found = Scalar(arithmetic.cast(self.expr, target.scalar, here()))
        return found if target.lanes == 1 else Vector.of([found] * target.lanes)

    def __repr__(self) -> str:
        return f"<{self.described}>"

    def __hash__(self) -> int:
        return hash(self.expr)

    def __bool__(self) -> bool:
        if isinstance(self.expr, Const):
            return bool(self.expr.value)
        raise catalogue.E104.error(here() or self.expr.span, given=self.described)

    def __index__(self) -> int:
        if isinstance(self.expr, Const) and not self.expr.dtype.is_float:
            return int(self.expr.value)
        raise catalogue.E105.error(here() or self.expr.span, given=self.described)

    def __int__(self) -> int:
        if isinstance(self.expr, Const):
            return int(self.expr.value)
        raise catalogue.E105.error(here() or self.expr.span, given=self.described)

    def __float__(self) -> float:
        if isinstance(self.expr, Const):
            return float(self.expr.value)
        raise catalogue.E105.error(here() or self.expr.span, given=self.described)

    def __iter__(self) -> NoReturn:
        raise catalogue.E106.error(here() or self.expr.span, given=self.described)

    def __neg__(self) -> Scalar:
        return Scalar(arithmetic.unary("neg", self, here()))

    def __pos__(self) -> Scalar:
        return self

    def __invert__(self) -> Scalar:
        return Scalar(arithmetic.unary("invert", self, here()))

    def __abs__(self) -> Scalar:
        return Scalar(arithmetic.absolute(self, here()))

    def __pow__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, LaneWise) else power(self, other)

    def __rpow__(self, other: Any) -> Scalar:
        return power(other, self)

    def __eq__(self, other: object) -> Any:
        return _compare("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return _compare("ne", self, other)

    def __lt__(self, other: Any) -> Any:
        return _compare("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return _compare("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return _compare("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return _compare("ge", self, other)


def _compare(op: CompareOp, left: Any, right: Any) -> Any:
    if isinstance(right, LaneWise):
        return NotImplemented  # the vector's own comparison works lane by lane
    if differs_from_numbers(op, right):
        return op == "ne"
    return Scalar(arithmetic.compare(op, left, right, here()))


def differs_from_numbers(op: CompareOp, other: Any) -> bool:
    """Whether equality alone is asked of what is no value of a kernel (None, a name). It has no order, in Python as here."""
    return op in ("eq", "ne") and (other is None or isinstance(other, str))


def power(base: Any, exponent: Any) -> Scalar:
    """``base ** exponent``."""
    return Scalar(arithmetic.power(base, exponent, here()))


class Variable(Scalar):
    """A scalar that is assigned again: ``T.alloc_var`` or a name rebound under run-time control. Reading it takes the value it has then.

    ``is_implied`` marks the second kind: its dtype comes from the first value and does not change silently. ``depth`` is the number
    of the body that declares it.
    """

    __slots__ = ("is_implied", "depth")
    expr: Var

    def __init__(self, expr: Var, *, is_implied: bool = False, depth: int = 0) -> None:
        super().__init__(expr)
        self.is_implied = is_implied
        self.depth = depth

    @property
    def described(self) -> str:
        return f"the {self.expr.dtype} variable {self.expr.label}"

    def assign(self, value: Any) -> None:
        """Stores ``value``, cast to the variable's dtype; E206 where the variable is implied and the value's dtype is another one."""
        builder = current_builder("an assignment")
        expr = arithmetic.as_expr(value, builder.span, self.expr.dtype)
        if any(depth > self.depth for depth in builder.point_depths):
            reason = "belongs to all points of T.Parallel and cannot be assigned in one of them"
            raise catalogue.E115.error(builder.span, name=self.expr.label, reason=reason)
        if self.is_implied and not _keeps_dtype(value, expr.dtype, self.expr.dtype):
            loses = expr.dtype.is_float and not self.expr.dtype.is_float
            hint = f"begin with a number of that type, as in {self.expr.label} = 0.0: a cast to {self.expr.dtype} cuts off the fraction"
            raise catalogue.E206.error(
                builder.span, name=self.expr.label, old=self.expr.dtype, new=expr.dtype, hint=hint if loses else None
            )
        stored = arithmetic.stored(value, self.expr.dtype, builder.span)
        builder.emit(Assign(var=self.expr, value=stored, span=builder.span))

    def at(self, position: Any) -> Scalar:
        """``variable[0]``, the variable itself. E207: another index."""
        if position not in (0, (0,)):
            raise catalogue.E207.error(here(), name=self.expr.label)
        return self

    def __getitem__(self, position: Any) -> Scalar:
        return taken(self.at(position))  # type: ignore[no-any-return]

    def __setitem__(self, position: Any, value: Any) -> None:
        self.at(position)
        self.assign(value)

    def value(self) -> Scalar:
        """The value it has now, as a name of its own."""
        return bind(self.expr.name, self, label=self.expr.label)


def _keeps_dtype(value: Any, given: DType, declared: DType) -> bool:
    """Whether a value of dtype ``given`` goes into an implied variable: the same dtype, a bool, or a Python number that the dtype holds."""
    if given == declared or given.is_bool:
        return True
    return isinstance(value, (int, float)) and (declared.is_float or (declared.is_integer and isinstance(value, int)))


def is_number(value: Any) -> bool:
    """Whether a variable of the kernel could hold ``value``."""
    return isinstance(value, (bool, int, float, Scalar))


def is_volatile(value: Any) -> bool:
    """Whether reading ``value`` later may give something else: it loads from memory or reads a mutable variable."""
    if not isinstance(value, Scalar):
        return False
    return any(isinstance(n, Load) or (isinstance(n, Var) and n.is_mutable) for n in walk(value.expr))


def bind(name: str, value: Any, *, label: str = "") -> Scalar:
    """Gives ``value`` a name, so that expressions stay small; constants and immutable variables are names already. ``label`` is what the
    author calls it, where that is another name.

    Outside T.Kernel nothing runs: sizes stay the expressions that they are.
    """
    expr = arithmetic.as_expr(value, here())
    if isinstance(expr, Const) or (isinstance(expr, Var) and not expr.is_mutable):
        return value if isinstance(value, Scalar) else Scalar(expr)
    builder = current_builder("an assignment")
    if not builder.is_inside_launch:
        return Scalar(expr)
    var = builder.var(name, expr.dtype, "value", label=label)
    builder.emit(Bind(var=var, value=expr, span=builder.span))
    if isinstance(value, Element) and not any(is_volatile(Scalar(i)) for i in value.indices):
        return NamedElement(var, value)
    return Scalar(var)


def taken(value: Any, mark: tuple[list[Stmt], int] | None = None) -> Any:
    """What ``value`` is now (or was at ``mark``), for a value that leaves the expression in which it is read.

    No later statement changes it. A value that can change is bound, a variable gives its value; operations that take places still know
    the place that an element or a variable is. Of a slice of a tile, which is a place, the position is taken. The launch keeps the name
    only where it is needed.
    """
    builder = tracing()
    if builder is None or not builder.is_inside_launch:
        return value
    if isinstance(value, LaneWise):
        return value.taken(mark)
    if not is_volatile(value):
        return value
    place: Element | Variable | None = None
    if isinstance(value, Variable) and not isinstance(value, Element):
        place = value
    elif isinstance(value, Element):
        place = value.taken_place(mark)
    var = builder.reading(value.expr, mark)
    if isinstance(place, Variable):
        return NamedVariable(var, place)
    return Scalar(var) if place is None else NamedElement(var, place)


def _taken(exprs: tuple[Expr, ...], mark: tuple[list[Stmt], int] | None) -> tuple[Expr, ...]:
    if not any(is_volatile(Scalar(expr)) for expr in exprs):
        return exprs
    return tuple(taken(Scalar(expr), mark).expr for expr in exprs)


def declare(
    name: str, dtype: DType, initial: Any, *, depth: int | None = None, is_implied: bool = False, label: str = ""
) -> Variable:
    """A mutable variable with a first value; declared in the open body number ``depth`` when given (then ``initial`` is a number). The
    author calls it ``name``, or ``label``."""
    builder = current_builder("a variable")
    var = builder.var(builder.name_for(name), dtype, "mutable", label=label)
    expr = arithmetic.stored(initial, dtype, builder.span)
    statement = Bind(var=var, value=expr, span=builder.span)
    builder.emit(statement) if depth is None else builder.emit_at(depth, statement)
    return Variable(var, is_implied=is_implied, depth=builder.depth if depth is None else depth)


class Element(Scalar):
    """``tile[i, j]``: the value of one element; where an operation takes a place it is that element's position."""

    __slots__ = ()
    expr: Load

    @property
    def described(self) -> str:
        return f"an element of {self.expr.buffer.label}"

    @property
    def buffer(self) -> Buffer:
        return self.expr.buffer

    @property
    def indices(self) -> tuple[Expr, ...]:
        return self.expr.indices

    def taken_place(self, mark: tuple[list[Stmt], int] | None) -> Element:
        """The place that it is now (or was at ``mark``), whatever its indices are read from later."""
        indices = _taken(self.indices, mark)
        return self if indices is self.indices else Element(Load(buffer=self.buffer, indices=indices, span=self.expr.span))


class NamedElement(Scalar):
    """The value that an element had when it was given a name. Where an operation takes a place it is still that element's position."""

    __slots__ = ("place",)

    def __init__(self, expr: Var, place: Element | Variable) -> None:
        super().__init__(expr)
        self.place = place


class NamedVariable(NamedElement):
    """The value that a variable had when it was given to a function or a container. Element 0 of it, and what an operation takes for a
    place, is the variable."""

    __slots__ = ()
    place: Variable

    def at(self, position: Any) -> Scalar:
        """The variable. E207: an index that is not 0."""
        return self.place.at(position)

    def __getitem__(self, position: Any) -> Scalar:
        return self.place[position]

    def __setitem__(self, position: Any, value: Any) -> None:
        self.place[position] = value


class ElementReference(Variable, Element):
    """An element passed for a macro's T.Ref parameter: assigning to the parameter stores to the element."""

    __slots__ = ()
    expr: Load  # type: ignore[assignment]

    def __init__(self, expr: Load) -> None:
        Scalar.__init__(self, expr)
        self.is_implied = False
        self.depth = 0

    @property
    def described(self) -> str:
        return f"an element of {self.expr.buffer.label}"

    def assign(self, value: Any) -> None:
        from zellige.frontend.regions import store

        store(self, value)

    def value(self) -> Scalar:
        return bind(self.expr.buffer.name, Scalar(self.expr), label=self.expr.buffer.label)


class TileRegion(LaneWise):
    """``tile[a:b, i, :]``: a box of a tile. ``kept`` marks the dimensions given by slices (the others have one index)."""

    __slots__ = ("region", "kept")

    def __init__(self, region: Region, kept: tuple[bool, ...]) -> None:
        self.region = region
        self.kept = kept

    @property
    def buffer(self) -> Buffer:
        return self.region.buffer

    @property
    def dtype(self) -> DType:
        return self.region.buffer.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(from_expr(e) for e, keep in zip(self.region.extents, self.kept) if keep)

    @property
    def described(self) -> str:
        return f"a slice of {self.region.buffer.label}"

    def taken(self, mark: tuple[list[Stmt], int] | None = None) -> TileRegion:
        """The same box, wherever its offsets are read from later."""
        region = self.region
        offsets, extents = _taken(region.offsets, mark), _taken(region.extents, mark)
        if offsets is region.offsets and extents is region.extents:
            return self
        return TileRegion(Region(buffer=region.buffer, offsets=offsets, extents=extents, span=region.span), self.kept)

    def __repr__(self) -> str:
        return f"<{self.described}>"

    def __bool__(self) -> bool:
        raise catalogue.E104.error(here(), given=self.described)

    def __iter__(self) -> NoReturn:
        raise catalogue.E106.error(here(), given=self.described)

    def __getitem__(self, position: Any) -> NoReturn:
        raise self._indexed()

    def __setitem__(self, position: Any, value: Any) -> NoReturn:
        raise self._indexed()

    def _indexed(self) -> Exception:
        instead = f"write all indices in one pair of brackets, as in {self.buffer.label}[i, j]"
        return catalogue.E111.error(here(), what=f"an index of {self.described}", instead=instead)


class Address(Operators):
    """A place where an operation wants one, and no number: what T.address_of and T.access_ptr give. E204 where a number is wanted."""

    __slots__ = ("place",)

    def __init__(self, place: Element | TileRegion | Tile) -> None:
        self.place = place

    @property
    def described(self) -> str:
        return f"the address of {self.place.described}"

    @property
    def expr(self) -> NoReturn:
        """Raises E204: there is no number."""
        self._refuse("a calculation")

    def _refuse(self, operation: str) -> NoReturn:
        hint = "an address names a place for T.copy, an atomic operation and the like; A[i] itself is the element's value"
        raise catalogue.E204.error(here(), operation=operation, dtype=self.described, hint=hint)

    def operate(self, op: BinaryOp, left: Any, right: Any) -> NoReturn:
        self._refuse("arithmetic")

    def _calculated(self, *others: Any) -> NoReturn:
        self._refuse("arithmetic")

    __neg__ = __pos__ = __invert__ = __abs__ = __pow__ = __rpow__ = _calculated

    def _ordered(self, other: Any) -> NoReturn:
        self._refuse("an order")

    __lt__ = __le__ = __gt__ = __ge__ = _ordered

    def __getitem__(self, position: Any) -> NoReturn:
        self._refuse("an index")

    def __setitem__(self, position: Any, value: Any) -> NoReturn:
        self._refuse("an index")

    def __repr__(self) -> str:
        return f"<{self.described}>"

    def __bool__(self) -> NoReturn:
        self._refuse("a condition")

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return not differs_from_numbers("eq", other) and self._refuse("a comparison")

    def __ne__(self, other: object) -> bool:
        return differs_from_numbers("ne", other) or self._refuse("a comparison")


class Tile:
    """A tensor or an on-chip buffer as the author sees it."""

    __slots__ = ("node",)

    def __init__(self, node: Buffer) -> None:
        self.node = node

    @property
    def name(self) -> str:
        return self.node.label

    @property
    def dtype(self) -> DType:
        return self.node.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes: Python ints where they are known, scalars otherwise."""
        return tuple(from_expr(e) for e in self.node.shape)

    @property
    def data(self) -> Tile:
        """The storage, as a view names it: ``T.Tensor(shape, dtype, data=tile.data)``."""
        return self

    @property
    def strides(self) -> tuple[Any, ...]:
        """Strides in elements; those of dense row-major storage where none were declared."""
        if self.node.strides is not None:
            return tuple(from_expr(e) for e in self.node.strides)
        result: list[Any] = []
        step: Any = 1
        for size in reversed(self.shape):
            result.append(step)
            step = step * size
        return tuple(reversed(result))

    @property
    def ndim(self) -> int:
        return self.node.rank

    def scope(self) -> str:
        """The memory space: global, shared, fragment, local ..."""
        return self.node.space

    @property
    def described(self) -> str:
        return f"{self.node.label}, a {self.node.space} {self.node.dtype} tile of shape {shape_text(self.node.shape)}"

    def __repr__(self) -> str:
        return f"<{self.described}>"

    def __bool__(self) -> bool:
        raise catalogue.E104.error(here(), given=self.described)

    def __len__(self) -> int:
        size = self.shape[0] if self.node.shape else 0
        if not isinstance(size, int):
            raise catalogue.E105.error(here(), given=f"the length of {self.node.label}")
        return size

    def __iter__(self) -> NoReturn:
        raise catalogue.E106.error(here(), given=self.described)

    def __getitem__(self, position: Any) -> Any:
        """As :meth:`at`, for functions that Python runs, which keep what they read in names that are Python's: the value of now."""
        return taken(self.at(position))

    def at(self, position: Any) -> Any:
        """An element, a region, or with a vector as an index the vector of the elements that its lanes name."""
        from zellige.frontend.vectors import PlacedVector, Vector

        lanes = _positions_of_lanes(self, position)
        if lanes is not None:
            return Vector.of([locate(self, lane) for lane in lanes])
        found = locate(self, position)
        return PlacedVector(found) if isinstance(found, Element) and found.dtype.lanes > 1 else found

    def __setitem__(self, position: Any, value: Any) -> None:
        from zellige.frontend.regions import store
        from zellige.frontend.vectors import Vector, lanes_of

        lanes = _positions_of_lanes(self, position)
        if lanes is None:
            store(locate(self, position), value)
            return
        for lane, item in zip(lanes, Vector.of(lanes_of(value, len(lanes)))):
            store(locate(self, lane), item)


def from_expr(expr: Expr) -> Any:
    """A Python number for a constant, a Scalar for anything else."""
    return expr.value if isinstance(expr, Const) else Scalar(expr)


def _positions_of_lanes(tile: Tile, position: Any) -> list[tuple[Any, ...]] | None:
    """The positions that a position with vectors among its indices stands for, one a lane; None without vectors. E203: unequal lanes;
    E204: elements that are vectors themselves."""
    from zellige.frontend.vectors import Vector, lanes_of

    items = [taken(i) if isinstance(i, Vector) else i for i in (position if isinstance(position, (tuple, list)) else (position,))]
    vectors = [item for item in items if isinstance(item, Vector)]
    if not vectors:
        return None
    if tile.dtype.lanes > 1:
        hint = "give one index a dimension: the elements are vectors already"
        raise catalogue.E204.error(here(), operation="a vector as an index", dtype=f"{tile.dtype} elements", hint=hint)
    count = len(vectors[0])
    columns = [[from_expr(lane.expr) for lane in lanes_of(i, count)] if isinstance(i, Vector) else [i] * count for i in items]
    return list(zip(*columns))


def _is_long(extent: Expr) -> bool:
    """Whether a dimension may have elements that a number of 32 bits does not reach."""
    return extent.value > INT32.max if isinstance(extent, Const) else extent.dtype == INT64


def locate(tile: Tile, position: Any) -> Element | TileRegion:
    """What ``tile[position]`` names: an element when every dimension has an index, else a region.

    A negative constant index counts from the end; missing dimensions are taken whole; ``...`` fills up. E208: too many
    indices; E209: a slice with a step.
    """
    span = here()
    buffer = tile.node
    items = list(position) if isinstance(position, (tuple, list)) else [position]
    if any(item is Ellipsis for item in items):
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        items[at : at + 1] = [slice(None)] * (buffer.rank - len(items) + 1)
    if len(items) > buffer.rank:
        dimensions = counted(buffer.rank, "dimension")
        raise catalogue.E208.error(span, name=buffer.label, dimensions=dimensions, given=len(items))
    items += [slice(None)] * (buffer.rank - len(items))
    offsets: list[Expr] = []
    extents: list[Expr] = []
    kept: list[bool] = []
    for item, size in zip(items, buffer.shape):
        if isinstance(item, slice):
            offset, extent = slice_extent(item, size, buffer, span)
        else:
            offset, extent = from_end(item, size, span), const(1, INT32, span)
        offsets.append(arithmetic.widened(offset) if _is_long(size) else offset)
        extents.append(extent)
        kept.append(isinstance(item, slice))
    if not any(kept):
        return Element(Load(buffer=buffer, indices=tuple(offsets), span=span))
    return TileRegion(Region(buffer=buffer, offsets=tuple(offsets), extents=tuple(extents), span=span), tuple(kept))
