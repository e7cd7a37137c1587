"""What each scalar operation does to NumPy arrays: one line an operation.

In: operands of the node's dtype. Out: an array of the result's dtype. Floats below 32 bits compute in float32 and round once an
operation, tfloat32 likewise; 4-bit integers compute in 8 bits and wrap. Callers run this under ``np.errstate(all="ignore")``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, cast as typed

import numpy as np

from zellige.dtypes import DType, dtype as as_dtype
from zellige.elements.conversion import FLOAT32, TFLOAT32, Array, cast, codes, from_codes
from zellige.ir.expr import BinaryOp, CompareOp, UnaryOp
from zellige.ir.functions import FUNCTIONS

_INT8: Final = as_dtype("int8")
_UINT8: Final = as_dtype("uint8")


def wide_dtype(dtype: DType) -> DType:
    """The type that operations on ``dtype`` compute in."""
    scalar = dtype.scalar
    if scalar.is_float:
        return scalar if scalar.name == "float64" else FLOAT32
    if scalar.bits == 4:
        return _INT8 if scalar.is_signed else _UINT8
    return scalar


def _widened(values: Array, dtype: DType) -> Array:
    wide = wide_dtype(dtype)
    return values if values.dtype == wide.numpy else values.astype(wide.numpy)


def _narrowed(values: Array, dtype: DType) -> Array:
    wide = wide_dtype(dtype)
    return cast(np.asarray(values, wide.numpy), wide, dtype.scalar)


def unary(op: UnaryOp, value: Array, dtype: DType) -> Array:
    """``op value``."""
    x = _widened(value, dtype)
    match op:
        case "neg":
            return _narrowed(np.negative(x), dtype)
        case "not":
            return np.logical_not(x)
        case "invert":
            return _narrowed(np.invert(x), dtype)


_FLOAT: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.divide,
    "floordiv": np.floor_divide,
    "floormod": np.remainder,
    "truncdiv": lambda x, y: np.trunc(x / y),
    "truncmod": np.fmod,
    "min": np.fmin,
    "max": np.fmax,
    "min_nan": np.minimum,
    "max_nan": np.maximum,
}

_INTEGER: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "min_nan": np.minimum,
    "max_nan": np.maximum,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
    "and": np.logical_and,
    "or": np.logical_or,
}

_DIVISION: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "floordiv": np.floor_divide,
    "floormod": np.remainder,
    "truncdiv": lambda x, y: np.floor_divide(x - np.fmod(x, y), y),
    "truncmod": np.fmod,
}


def binary(op: BinaryOp, left: Array, right: Array, dtype: DType) -> Array:
    """``left op right`` of two operands of ``dtype``."""
    x, y = _widened(left, dtype), _widened(right, dtype)
    if dtype.is_float:
        return _narrowed(_known(_FLOAT, op, dtype)(x, y), dtype)
    if op in ("shl", "shr"):
        return _narrowed(_shift(op, x, y, dtype), dtype)
    if op in _DIVISION:
        unanswerable = y == 0
        if dtype.is_signed:
            unanswerable |= (x == dtype.min) & (y == -1)
        quotient = _DIVISION[op](x, np.where(unanswerable, x.dtype.type(1), y))
        return _narrowed(np.where(unanswerable, x.dtype.type(0), quotient), dtype)
    return _narrowed(_known(_INTEGER, op, dtype)(x, y), dtype)


def _known(table: dict[str, Callable[[Array, Array], Array]], op: str, dtype: DType) -> Callable[[Array, Array], Array]:
    if op not in table:
        raise ValueError(f"the operation {op} of {dtype} has no meaning in elements")  # the fault of whoever asked for it
    return table[op]


def _shift(op: str, x: Array, y: Array, dtype: DType) -> Array:
    inside = (y >= 0) & (y < dtype.bits)
    count = np.where(inside, y, y.dtype.type(0))
    if op == "shl":
        return np.where(inside, np.left_shift(x, count), x.dtype.type(0))
    beyond = np.where(x < 0, x.dtype.type(-1), x.dtype.type(0)) if dtype.is_signed else x.dtype.type(0)
    return np.where(inside, np.right_shift(x, count), beyond)


_COMPARE: Final[dict[CompareOp, Callable[[Array, Array], Array]]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def compare(op: CompareOp, left: Array, right: Array, dtype: DType) -> Array:
    """``left op right`` as bool."""
    return np.asarray(_COMPARE[op](_widened(left, dtype), _widened(right, dtype)))


def _elementwise(function: Callable[..., float]) -> Callable[..., Array]:
    def apply(*args: Array) -> Array:
        broadcast = np.broadcast_arrays(*args)
        flat = [function(*(float(v) for v in row)) for row in zip(*(a.ravel() for a in broadcast))]
        return np.array(flat, np.float64).reshape(broadcast[0].shape).astype(args[0].dtype)

    return apply


def _fma(x: Array, y: Array, z: Array) -> Array:
    """``x * y + z`` rounded once."""
    if x.dtype == np.float64:
        return _elementwise(_exact_fma)(x, y, z)
    # the product of two float32 is exact in float64; a sum rounded to odd there rounds to float32 as the exact sum does
    product, addend = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = np.asarray(product + addend)
    back = total - product
    error = (product - (total - back)) + (addend - back)
    is_even = (total.view(np.int64) & 1) == 0
    toward = np.where(error > 0, np.inf, -np.inf)
    odd = np.where((error != 0) & np.isfinite(total) & is_even, np.nextafter(total, toward), total)
    return odd.astype(np.float32)


def _exact_fma(x: float, y: float, z: float) -> float:
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        return x * y + z
    from fractions import Fraction  # which takes a millisecond to load

    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return x * y + z  # decides the sign of the zero
    try:
        return float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)


def _powi(x: Array, y: Array) -> Array:
    """``x ** y`` of integers in wrapping arithmetic."""
    result, base, rest = np.ones_like(x * y), x, np.where(y < 0, y.dtype.type(0), y)
    while np.any(rest != 0):
        result = np.where(rest & 1 != 0, result * base, result)
        base, rest = base * base, rest >> 1
    if np.issubdtype(x.dtype, np.signedinteger):
        inverse = np.where(
            x == 1, x.dtype.type(1), np.where(x == -1, np.where(y & 1 != 0, x.dtype.type(-1), x.dtype.type(1)), x.dtype.type(0))
        )
        result = np.where(y < 0, inverse, result)
    return result


def _ldexp(x: Array, y: Array) -> Array:
    return np.ldexp(x, np.where(np.isnan(y), 0, np.clip(np.trunc(y), -100000, 100000)).astype(np.int32))


_MATH: Final[dict[str, Callable[..., Array]]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcp": lambda x: 1 / x,
    "cbrt": np.cbrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _elementwise(math.erf),
    "erfc": _elementwise(math.erfc),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "abs": np.abs,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "pow": np.power,
    "powi": _powi,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "fmod": np.fmod,
    "copysign": np.copysign,
    "ldexp": _ldexp,
    "fma": _fma,
}


def _next_after(x: Array, y: Array, dtype: DType) -> Array:
    """The neighbour of x in its own type, toward y."""
    if dtype != TFLOAT32:
        return typed(Array, np.nextafter(x, y))
    step = np.where((x < y) == (x > 0), 1, -1) << 13
    moved = from_codes((codes(x, dtype).astype(np.int64) + step).astype(np.uint32), dtype)
    least = np.copysign(np.float32(2.0**-136), y)
    return np.where(np.isnan(x) | np.isnan(y), np.float32(np.nan), np.where(x == y, y, np.where(x == 0, least, moved)))


def _bit_length(values: Array, dtype: DType) -> Array:
    bits = codes(values, dtype.scalar)
    return np.asarray(np.sum([(bits >> i) != 0 for i in range(dtype.bits)], axis=0, dtype=np.int32))


def _popcount(values: Array, dtype: DType) -> Array:
    bits = codes(values, dtype.scalar)
    return np.asarray(np.sum([(bits >> i) & 1 for i in range(dtype.bits)], axis=0, dtype=np.int32))


def math_function(name: str, args: tuple[Array, ...], dtype: DType) -> Array:
    """A function of :data:`zellige.ir.functions.FUNCTIONS`; ``dtype`` is the operands'."""
    match name:
        case "nextafter":
            return _next_after(args[0], args[1], dtype.scalar)
        case "popcount":
            return _popcount(args[0], dtype)
        case "clz":
            return np.asarray(np.int32(dtype.bits) - _bit_length(args[0], dtype))
    result = np.asarray(_MATH[name](*(_widened(a, dtype) for a in args)))
    return _narrowed(result, dtype) if FUNCTIONS[name].result == "same" else result
