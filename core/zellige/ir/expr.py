"""Scalar expressions of the tile IR, buffers and regions.

Grammar (every node also carries ``span`` and, for expressions, ``dtype``)::

    Expr   = Const(value) | Var(name, kind) | Load(buffer, indices)
           | Unary(op, value) | Binary(op, left, right) | Compare(op, left, right)
           | Select(condition, then, otherwise)          only the chosen side is evaluated
           | Cast(value, rounding, saturate) | Math(function, args, precision) | Reinterpret(value)
    Buffer = Buffer(name, dtype, shape, strides, space, alias)
    Region = Region(buffer, offsets, extents)

Variables and buffers compare by identity; every other expression by structure, through a hash that is
computed once when the node is made. The hash of a variable or buffer is its number in the order of making.
The operands of Binary, Compare and Select have one dtype: the front end inserts the casts. Traversal lives in
:mod:`zellige.ir.traverse`; nothing here recurses into operands.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, TypeAlias

from zellige.diagnostics.span import Span
from zellige.dtypes import DType, dtype as as_dtype

BOOL: Final = as_dtype("bool")
INT32: Final = as_dtype("int32")
INT64: Final = as_dtype("int64")

VarKind = Literal["size", "grid", "lane", "loop", "value", "mutable", "scalar"]
UnaryOp = Literal["neg", "not", "invert"]
BinaryOp = Literal[
    "add", "sub", "mul", "truediv", "floordiv", "floormod", "truncdiv", "truncmod",
    "shl", "shr", "bitand", "bitor", "bitxor", "min", "max", "min_nan", "max_nan", "and", "or",
]  # fmt: skip
CompareOp = Literal["eq", "ne", "lt", "le", "gt", "ge"]
Rounding = Literal["nearest_even", "toward_zero", "down", "up", "stochastic"]
Precision = Literal["default", "fast", "ieee"]

_serial = itertools.count()


class Node:
    """A node of the IR. ``CHILDREN`` names the fields that hold nodes or tuples of nodes."""

    __slots__ = ()
    CHILDREN: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExprNode(Node):
    """What expressions share: a place, a type, a structural hash."""

    span: Span | None = field(default=None, repr=False)
    structural_hash: int = field(init=False, repr=False)

    ATTRIBUTES: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        parts: list[object] = [type(self).__name__]
        parts.extend(_attribute_key(getattr(self, name)) for name in self.ATTRIBUTES)
        for name in self.CHILDREN:
            child = getattr(self, name)
            parts.append(tuple(c.structural_hash for c in child) if isinstance(child, tuple) else child.structural_hash)
        object.__setattr__(self, "structural_hash", hash(tuple(parts)))

    def __hash__(self) -> int:
        return self.structural_hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, ExprNode) or self.structural_hash != other.structural_hash:
            return False
        return _same(self, other)


def _attribute_key(value: object) -> object:
    # 1, 1.0 and True hash alike, and so do 0.0 and -0.0; a NaN differs from itself
    return (type(value).__name__, repr(value)) if isinstance(value, (bool, int, float)) else value


def _plain_value(value: Any, dtype: DType) -> Any:
    """``value`` as the Python type that ``dtype`` calls for, or unchanged where that would alter it."""
    kind: type = float if dtype.is_float else bool if dtype.is_bool else int
    if type(value) is kind:
        return value
    try:
        plain = kind(value)
    except (OverflowError, ValueError, TypeError):
        return value
    return plain if plain == value or plain != plain else value


def _same(left: ExprNode, right: ExprNode) -> bool:
    seen: set[tuple[int, int]] = set()
    pending: list[tuple[Any, Any]] = [(left, right)]
    while pending:
        a, b = pending.pop()
        if a is b or (id(a), id(b)) in seen:
            continue
        seen.add((id(a), id(b)))
        if type(a) is not type(b) or a.structural_hash != b.structural_hash or isinstance(a, (Var, Buffer)):
            return False
        if any(_attribute_key(getattr(a, name)) != _attribute_key(getattr(b, name)) for name in a.ATTRIBUTES):
            return False
        for name in a.CHILDREN:
            x, y = getattr(a, name), getattr(b, name)
            if isinstance(x, tuple):
                if len(x) != len(y):
                    return False
                pending.extend(zip(x, y))
            else:
                pending.append((x, y))
    return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Const(ExprNode):
    """A value of ``dtype`` (the same in every lane of a vector). NumPy: ``dtype.type(value)``.

    ``value`` is kept as a Python bool, int or float by the kind of ``dtype``, so that 1 and 1.0 of float32 are one constant.
    A value that cannot be kept so without change (1.5 of int32) stays as given, and the verifier refuses it.
    """

    value: bool | int | float
    dtype: DType
    ATTRIBUTES: ClassVar[tuple[str, ...]] = ("value", "dtype")

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _plain_value(self.value, self.dtype))
        ExprNode.__post_init__(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Var(ExprNode):
    """A scalar name. Kinds: size (symbolic size of a tensor), scalar (kernel parameter), grid, lane, loop (also the
    axes of a Map), value (bound once), mutable (assigned again). ``source_name`` is what the author wrote, where ``name`` is another."""

    name: str
    dtype: DType
    kind: VarKind
    source_name: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "structural_hash", next(_serial))

    @property
    def label(self) -> str:
        """Its name in what its author is told."""
        return self.source_name or self.name

    @property
    def is_mutable(self) -> bool:
        return self.kind == "mutable"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Buffer(Node):
    """Storage for a tensor or tile, compared by identity.

    ``strides`` are in elements, None means row-major and dense. ``space`` is open: global, shared, fragment, local,
    var, or a plugin's own name. A buffer with ``alias`` is another shape or dtype over the whole dense storage of that buffer.
    ``source_name`` is what the author wrote, where ``name`` is another.
    """

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...] | None = None
    space: str = "global"
    alias: Buffer | None = None
    source_name: str = field(default="", repr=False)
    span: Span | None = field(default=None, repr=False)
    structural_hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "structural_hash", next(_serial))

    @property
    def label(self) -> str:
        """Its name in what its author is told."""
        return self.source_name or self.name

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def root(self) -> Buffer:
        """The buffer that owns the storage."""
        buffer = self
        while buffer.alias is not None:
            buffer = buffer.alias
        return buffer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Region(Node):
    """A box of ``buffer``: ``buffer[offset : offset + extent, ...]``, one offset and extent a dimension."""

    buffer: Buffer
    offsets: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    span: Span | None = field(default=None, repr=False)
    CHILDREN: ClassVar[tuple[str, ...]] = ("offsets", "extents")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load(ExprNode):
    """NumPy: ``buffer[indices]`` inside the buffer, its safe value (0) outside."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    ATTRIBUTES: ClassVar[tuple[str, ...]] = ("buffer",)
    CHILDREN: ClassVar[tuple[str, ...]] = ("indices",)

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Derived(ExprNode):
    """An expression whose dtype follows from its operands."""

    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self._result())
        ExprNode.__post_init__(self)

    def _result(self) -> DType:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unary(_Derived):
    """NumPy: ``-x`` (neg), ``not x`` of a bool (not), ``~x`` of an integer (invert)."""

    op: UnaryOp
    value: Expr
    ATTRIBUTES: ClassVar[tuple[str, ...]] = ("op",)
    CHILDREN: ClassVar[tuple[str, ...]] = ("value",)

    def _result(self) -> DType:
        return self.value.dtype


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Binary(_Derived):
    """Arithmetic in the operands' dtype: integers wrap, floats round after each operation.

    floordiv / floormod round toward minus infinity, truncdiv / truncmod toward zero; an integer division by zero and an
    integer's minimum divided by -1 give 0. A shift count outside [0, bits) gives 0 (shl, unsigned shr) or the sign (signed shr).
    Of floats these are ``np.floor_divide``, ``np.remainder``, ``np.trunc(x / y)`` and ``np.fmod``; floats below 32 bits compute in float32.
    min / max ignore a NaN operand (``np.fmin``), min_nan / max_nan propagate it (``np.minimum``).
    and / or are of bools; the right side is evaluated only where the left does not decide.
    """

    op: BinaryOp
    left: Expr
    right: Expr
    ATTRIBUTES: ClassVar[tuple[str, ...]] = ("op",)
    CHILDREN: ClassVar[tuple[str, ...]] = ("left", "right")

    def _result(self) -> DType:
        return self.left.dtype


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compare(_Derived):
    """NumPy: ``left == right`` and the like; every comparison with a NaN but ``ne`` is False."""

    op: CompareOp
    left: Expr
    right: Expr
    ATTRIBUTES: ClassVar[tuple[str, ...]] = ("op",)
    CHILDREN: ClassVar[tuple[str, ...]] = ("left", "right")

    def _result(self) -> DType:
        return BOOL if self.left.dtype.lanes == 1 else BOOL.with_lanes(self.left.dtype.lanes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Select(_Derived):
    """``then if condition else otherwise``: the side not chosen is not evaluated, so its loads touch nothing."""

    condition: Expr
    then: Expr
    otherwise: Expr
    CHILDREN: ClassVar[tuple[str, ...]] = ("condition", "then", "otherwise")

    def _result(self) -> DType:
        return self.then.dtype


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cast(ExprNode):
    """NumPy: ``value.astype(dtype)``, rounded once.

    A result that is a float rounds by ``rounding``; overflow follows the type's own rule (ml_dtypes: to infinity, to NaN where the type has
    none, to the largest finite value where it has neither) unless ``saturate``, which clamps it and infinities to the largest finite
    value. Toward_zero (and down or up where that is toward zero) stops at that value too. stochastic: to one of the two
    neighbours, each with a probability that falls with its distance.
    A float becomes an integer toward zero, saturated, NaN 0, whatever ``rounding``. Integers to narrower integers wrap, whatever
    ``saturate``. Anything to bool is ``value != 0``. A scalar becomes a vector with that value in every lane.
    """

    value: Expr
    dtype: DType
    rounding: Rounding = "nearest_even"
    saturate: bool = False
    ATTRIBUTES: ClassVar[tuple[str, ...]] = ("dtype", "rounding", "saturate")
    CHILDREN: ClassVar[tuple[str, ...]] = ("value",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Math(ExprNode):
    """A function of :data:`zellige.ir.functions.FUNCTIONS`. 8- and 16-bit floats compute in float32 and round once."""

    function: str
    args: tuple[Expr, ...]
    dtype: DType
    precision: Precision = "default"
    ATTRIBUTES: ClassVar[tuple[str, ...]] = ("function", "dtype", "precision")
    CHILDREN: ClassVar[tuple[str, ...]] = ("args",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reinterpret(ExprNode):
    """NumPy: ``value.view(dtype)``: the same bits, as a dtype of the same width."""

    value: Expr
    dtype: DType
    ATTRIBUTES: ClassVar[tuple[str, ...]] = ("dtype",)
    CHILDREN: ClassVar[tuple[str, ...]] = ("value",)


Expr: TypeAlias = Const | Var | Load | Unary | Binary | Compare | Select | Cast | Math | Reinterpret


def const(value: bool | int | float, dtype: DType = INT32, span: Span | None = None) -> Const:
    """A constant, int32 unless a dtype is given."""
    return Const(value=value, dtype=dtype, span=span)


def constant_value(expr: Expr) -> bool | int | float | None:
    """The value of a Const, None for anything else."""
    return expr.value if isinstance(expr, Const) else None
