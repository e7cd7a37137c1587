"""Random scalar expressions of which two backends can be compared.

In: a :class:`Context`. Out: expressions of a wanted type. Each operation is tried on the facts of its operands and given up where no
bound would be left, so an expression never compares, rounds or jumps on values that differ between backends.
"""

from __future__ import annotations

from typing import Final

from zellige.dtypes import DType, dtype as as_dtype
from zellige.elements.conversion import has_nan
from zellige.generate.context import BOOL, Context, Tile, binary, number
from zellige.generate.facts import Fact, Unbounded
from zellige.ir.expr import (
    Binary,
    BinaryOp,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expr,
    Load,
    Math,
    Reinterpret,
    Rounding,
    Select,
    Unary,
)
from zellige.ir.functions import FUNCTIONS

_FLOAT_OPS: Final[tuple[tuple[int, BinaryOp], ...]] = (
    (22, "add"), (14, "sub"), (18, "mul"), (6, "max"), (6, "min"), (4, "truediv"), (2, "max_nan"), (2, "min_nan"),
    (2, "floormod"), (2, "floordiv"), (2, "truncmod"), (2, "truncdiv"),
)  # fmt: skip
_INTEGER_OPS: Final[tuple[tuple[int, BinaryOp], ...]] = (
    (20, "add"), (14, "sub"), (12, "mul"), (8, "floordiv"), (8, "floormod"), (5, "truncdiv"), (5, "truncmod"), (5, "max"), (5, "min"),
    (4, "bitand"), (4, "bitor"), (4, "bitxor"), (3, "shl"), (3, "shr"),
)  # fmt: skip
_EXACT_FUNCTIONS: Final = ("abs", "floor", "ceil", "trunc", "round", "copysign", "fma", "fmod", "ldexp", "nextafter")
_SMOOTH_FUNCTIONS: Final = (
    "exp", "exp2", "tanh", "sigmoid", "erf", "sqrt", "rsqrt", "log", "log2", "sin", "cos", "rcp", "exp10", "expm1", "log10", "log1p",
    "cbrt",
    "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfc", "pow", "atan2", "hypot",
)  # fmt: skip
_COMPARISONS: Final[tuple[CompareOp, ...]] = ("lt", "ge", "le", "gt", "eq", "ne")
_ROUNDINGS: Final[tuple[tuple[int, Rounding], ...]] = ((85, "nearest_even"), (5, "toward_zero"), (5, "down"), (5, "up"))

_LARGE: Final = 2.0**16
_MOST_LOADS_AROUND: Final = 2
"""An index may load elements whose indices load: of tiles of several dimensions ever more of them, so this ends somewhere."""
_CONDITION_TYPES: Final = ("int32", "float32", "int8", "uint16", "float16", "int64")


class Expressions:
    """Makes expressions at the place where the context stands. ``is_smooth`` allows functions that backends round differently."""

    def __init__(self, context: Context, *, is_smooth: bool) -> None:
        self.context = context
        self.picker = context.picker
        self.is_smooth = is_smooth
        self._loads_around = 0

    # ---- leaves ----

    def constant(self, dtype: DType) -> Const:
        """A constant of any type."""
        picker = self.picker
        value: bool | int | float
        if dtype.is_bool:
            value = picker.chance(50)
        elif dtype.is_integer:
            low, high = max(int(dtype.min), -9), min(int(dtype.max), 9)
            value = picker.some((dtype.max, dtype.min)) if picker.chance(6) else picker.integer(0, high - low) + low
            value = int(value)
        elif dtype.name == "float8_e8m0fnu":
            value = picker.some((1.0, 2.0, 0.5))
        else:
            value = float(picker.integer(0, 16) - 8) / picker.some((1.0, 1.0, 2.0, 4.0))
            value = min(max(value, float(dtype.min)), float(dtype.max))
        return Const(value=value, dtype=dtype)

    def leaf(self, dtype: DType) -> Expr:
        """A constant, a variable or an element, converted where it has another type."""
        picker = self.picker
        kind = picker.weighted(((8, "constant"), (24, "variable"), (68, "load")))
        found: Expr | None = None
        if kind == "variable":
            known = [var for var in self.context.variables if var in self.context.state and var.dtype.lanes == 1]
            same = [var for var in known if var.dtype == dtype]
            if same and picker.chance(70):
                found = picker.some(same)
            elif known:
                found = picker.some(known)
        elif kind == "load":
            found = self.load(dtype)
        return self.converted(found, dtype) if found is not None else self.constant(dtype)

    def load(self, dtype: DType | None = None) -> Expr | None:
        """An element of some readable tile, of the wanted type if there is one."""
        picker = self.picker
        known = [tile for tile in self.context.readable() if tile.buffer.root in self.context.state]
        wanted = [tile for tile in known if tile.dtype == dtype]
        if not known:
            return None
        tile = picker.some(wanted) if wanted and picker.chance(75) else picker.some(known)
        return self.element(tile)

    def element(self, tile: Tile) -> Expr | None:
        """An element of a tile, at a place that no other point of the Map at hand changes."""
        root = tile.buffer.root
        if root in self.context.written:
            if tile.buffer is not root:
                return None
            indices = self.context.written[root]
        else:
            indices = tuple(self.index(extent) for extent in tile.shape)
        found = Load(buffer=tile.buffer, indices=indices)
        return found if self.context.is_bounded(found) else None

    def index(self, extent: int) -> Expr:
        """An index along a dimension: mostly of an axis, at times beyond the end."""
        picker, context = self.picker, self.context
        axes = [(var, size) for group in context.axes for var, size in zip(group.variables, group.extents)]
        fitting = [var for var, size in axes if size <= extent]
        kind = picker.weighted(((60, "axis"), (10, "shifted"), (6, "reversed"), (12, "constant"), (12, "any")))
        if kind == "axis" and fitting:
            return picker.some(fitting)
        if axes and kind in ("axis", "shifted"):
            var = picker.some(axes)[0]
            moved = binary("add", var, context.constant(picker.integer(0, 4) - 2))
            return moved if picker.chance(50) else Binary(op="floormod", left=moved, right=context.constant(max(1, extent)))
        if axes and kind == "reversed":
            return Binary(op="sub", left=context.constant(extent - 1), right=picker.some(axes)[0])
        if kind == "any" and self._loads_around < _MOST_LOADS_AROUND:
            self._loads_around += 1
            found = self.make(context.index, 2)
            self._loads_around -= 1
            if picker.chance(80):
                found = Binary(op="floormod", left=found, right=context.constant(max(1, extent)))
            return found if context.is_bounded(found) else context.constant(0)
        return context.constant(picker.integer(0, max(0, extent - 1)))

    # ---- operations ----

    def converted(self, value: Expr, dtype: DType) -> Expr:
        """``value`` as ``dtype``, by way of a constant where that has no bound."""
        if value.dtype == dtype:
            return value
        rounding = self.picker.weighted(_ROUNDINGS) if dtype.is_float else "nearest_even"
        saturate = dtype.is_float and has_nan(dtype) and self.picker.chance(5)
        return self._kept(Cast(value=value, dtype=dtype, rounding=rounding, saturate=saturate)) or self.constant(dtype)

    def _kept(self, candidate: Expr) -> Expr | None:
        try:
            self.context.fact(candidate)
        except Unbounded:
            return None
        return candidate

    def fact(self, expression: Expr) -> Fact:
        """The fact of an expression that was made here."""
        return self.context.fact(expression)

    def make(self, dtype: DType, depth: int) -> Expr:
        """An expression of ``dtype`` of at most ``depth`` operations, one inside the other."""
        picker = self.picker
        if depth <= 0 or picker.chance(14):
            return self.leaf(dtype)
        if dtype.is_bool:
            return self.condition(depth - 1)
        if picker.chance(9):
            return self._selection(dtype, depth - 1)
        if picker.chance(12):
            source = as_dtype(picker.some(("float32", "int32", "float16", "int8", "bfloat16", "uint8", "int64", "float64", "bool")))
            return self.converted(self.make(source, depth - 1), dtype)
        if dtype.name == "float8_e8m0fnu":
            return self.leaf(dtype)
        if self.is_smooth and dtype.is_float and dtype.bits >= 16 and picker.chance(22):
            return self._function(dtype, depth - 1)
        if picker.chance(3):
            return self._reinterpreted(dtype, depth - 1)
        if picker.chance(12):
            return self._function(dtype, depth - 1)
        left = self.make(dtype, depth - 1)
        if picker.chance(6):
            op = "invert" if dtype.is_integer and picker.chance(50) else "neg"
            return self._kept(Unary(op=op, value=left)) or left  # type: ignore[arg-type]
        right = left if picker.chance(8) else self.make(dtype, depth - 1)
        chosen = picker.weighted(_FLOAT_OPS if dtype.is_float else _INTEGER_OPS)
        return self._kept(Binary(op=chosen, left=left, right=right)) or self._kept(Binary(op="add", left=left, right=right)) or left

    def condition(self, depth: int) -> Expr:
        """A bool that all backends agree on."""
        picker = self.picker
        kind = picker.weighted(((60, "compare"), (12, "and"), (12, "or"), (8, "not"), (8, "test")))
        found: Expr | None = None
        if kind == "test":
            operand = self.make(as_dtype(picker.some(("float32", "float16"))), depth)
            found = self._kept(Math(function=picker.some(("isnan", "isinf", "isfinite")), args=(operand,), dtype=BOOL))
        elif kind == "not" and depth > 0:
            found = Unary(op="not", value=self.condition(depth - 1))
        elif kind in ("and", "or") and depth > 0:
            op: BinaryOp = "and" if kind == "and" else "or"
            found = self._kept(Binary(op=op, left=self.condition(depth - 1), right=self.condition(depth - 1)))
        if found is not None:
            return found
        of = as_dtype(picker.some(_CONDITION_TYPES))
        left, right = self.make(of, depth), self.leaf(of)
        compared = Compare(op=picker.some(_COMPARISONS), left=left, right=right)
        return self._kept(compared) or Compare(op="lt", left=self.constant(of), right=self.constant(of))

    def uniform_condition(self) -> Expr:
        """A condition that is likely to go both ways: on a loop or grid variable if there is one."""
        picker = self.picker
        counters = [var for var in self.context.variables if var.kind in ("loop", "grid") and var.dtype == self.context.index]
        if not counters or picker.chance(40):
            return self.condition(2)
        var = picker.some(counters)
        if picker.chance(40):
            part = Binary(op="floormod", left=var, right=self.context.constant(picker.integer(2, 3)))
            return Compare(op="eq", left=part, right=self.context.constant(picker.integer(0, 1)))
        return Compare(op=picker.some(_COMPARISONS), left=var, right=self.context.constant(picker.integer(0, 4)))

    def _selection(self, dtype: DType, depth: int) -> Expr:
        condition = self.condition(min(depth, 2))
        then, otherwise = self.make(dtype, depth), self.make(dtype, depth)
        return self._kept(Select(condition=condition, then=then, otherwise=otherwise)) or then

    def _reinterpreted(self, dtype: DType, depth: int) -> Expr:
        names = (
            "int8",
            "uint8",
            "float8_e4m3fn",
            "int16",
            "uint16",
            "float16",
            "bfloat16",
            "int32",
            "uint32",
            "float32",
            "int64",
            "float64",
        )
        same = [as_dtype(name) for name in names if as_dtype(name).bits == dtype.bits and name != dtype.name and dtype.bits >= 8]
        if not same or dtype.name == "tfloat32":
            return self.leaf(dtype)
        value = self.make(self.picker.some(same), depth)
        return self._kept(Reinterpret(value=value, dtype=dtype)) or self.leaf(dtype)

    def _function(self, dtype: DType, depth: int) -> Expr:
        picker = self.picker
        if dtype.is_integer:
            name = picker.some(("abs", "powi", "popcount", "clz"))
        else:
            name = picker.some(_SMOOTH_FUNCTIONS if self.is_smooth and picker.chance(75) else _EXACT_FUNCTIONS)
        function = FUNCTIONS[name]
        args = tuple(self.make(dtype, depth) for _ in range(function.arity))
        precision = "ieee" if picker.chance(10) and name in ("sqrt", "rcp", "fma") else "default"
        found = self._kept(Math(function=name, args=args, dtype=function.result_dtype(dtype), precision=precision))  # type: ignore[arg-type]
        if found is None:
            return args[0]
        return self.converted(found, dtype)

    def value(self, dtype: DType, depth: int) -> Expr:
        """An expression to store: of floats, held near 0, so that bounds stay narrow and sums do not overflow."""
        return self.tamed(self.make(dtype, depth))

    def tamed(self, value: Expr) -> Expr:
        """A float expression, limited where it may be large. The limits are numbers of the type."""
        dtype = value.dtype
        if not dtype.is_float or dtype.name == "float8_e8m0fnu":
            return value
        try:
            fact = self.fact(value)
        except Unbounded:
            return self.constant(dtype)
        if fact.magnitude <= (_LARGE if fact.is_exact else 256.0) or (fact.is_exact and not self.is_smooth and self.picker.chance(10)):
            return value
        limit = Const(value=min(64.0, float(dtype.max)), dtype=dtype)
        least = Const(value=-limit.value, dtype=dtype)
        held: Expr = Binary(op="min", left=Binary(op="max", left=value, right=least), right=limit)
        return self._kept(held) or self.constant(dtype)

    def truncated(self, extent: int) -> Expr:
        """An index from 0 to ``extent``, both included, that depends on where this is."""
        found = Binary(op="floormod", left=self.make(self.context.index, 2), right=self.context.constant(extent + 1))
        return found if self.context.is_bounded(found) else number(extent, self.context.index)
