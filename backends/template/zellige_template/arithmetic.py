"""What the machine's vector unit computes: operations and conversions on arrays of elements.

In: NumPy arrays of an element type. Out: arrays. The meaning is that of the tile IR (docs/tile-ir.md): integers wrap, floats below 32 bits
compute in float32 and round once. A vendor's device has this in hardware.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from zellige.dtypes import DType

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


def is_narrow(dtype: DType) -> bool:
    """Whether a type computes in float32."""
    return dtype.is_float and dtype.bits < 32


def convert(values: Array, source: DType, target: DType, *, saturate: bool = False) -> Array:
    """A conversion that rounds once, to nearest even; to integers toward zero, saturated, NaN to 0."""
    wide = values.astype(np.float32) if is_narrow(source) else values
    if target.is_bool:
        return np.asarray(wide != 0)
    if target.is_integer and source.is_float:
        least, beyond = float(target.min), 2.0 ** (target.bits - target.is_signed)
        inside = np.where((wide >= least) & (wide < beyond), wide, 0).astype(target.numpy)
        return np.where(wide >= beyond, target.numpy.type(target.max), np.where(wide < least, target.numpy.type(target.min), inside))
    if saturate and target.is_float:
        values = wide = np.clip(wide, float(target.min), float(target.max))
    if not is_narrow(target) or is_narrow(source):
        return values.astype(target.numpy)
    near = wide.astype(np.float32)  # an odd last bit where that is not exact: rounding it further rounds once
    error = wide.astype(np.longdouble) - near.astype(np.longdouble)
    is_even = (near.view(np.uint32) & 1) == 0
    odd = np.nextafter(near, np.where(error > 0, np.float32(np.inf), np.float32(-np.inf)))
    return np.where((error != 0) & np.isfinite(near) & is_even, odd, near).astype(target.numpy)


def _shift(x: Array, y: Array, *, is_left: bool) -> Array:
    inside = (y >= 0) & (y < x.dtype.itemsize * 8)
    count = np.where(inside, y, 0).astype(y.dtype)
    return np.where(inside, np.left_shift(x, count) if is_left else np.right_shift(x, count), 0 if is_left else np.where(x < 0, -1, 0))


def _division(of_integers: Callable[..., Array], of_floats: Callable[..., Array]) -> Callable[[Array, Array], Array]:
    def divide(x: Array, y: Array) -> Array:
        if x.dtype.kind == "f":
            return of_floats(x, y)
        bad = (y == 0) | ((x == np.iinfo(x.dtype).min) & (y == -1) if x.dtype.kind == "i" else False)
        return np.where(bad, 0, of_integers(x, np.where(bad, x.dtype.type(1), y)))

    return divide


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.asarray(np.vectorize(function, otypes=[np.float64])(x))


_OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "neg": np.negative, "not": np.logical_not,
    "min": np.fmin, "max": np.fmax, "min_nan": np.minimum, "max_nan": np.maximum, "and": np.logical_and, "or": np.logical_or,
    "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor,
    "shl": lambda x, y: _shift(x, y, is_left=True), "shr": lambda x, y: _shift(x, y, is_left=False),
    "floordiv": _division(np.floor_divide, np.floor_divide), "floormod": _division(np.remainder, np.remainder),
    "truncdiv": _division(lambda x, y: (x - np.fmod(x, y)) // y, lambda x, y: np.trunc(x / y)), "truncmod": _division(np.fmod, np.fmod),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "exp10": lambda x: np.power(x.dtype.type(10), x), "rsqrt": lambda x: 1 / np.sqrt(x), "rcp": lambda x: 1 / x, "round": np.rint,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": _each(math.erf), "erfc": _each(math.erfc), "pow": np.power, "atan2": np.arctan2,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sqrt": np.sqrt, "cbrt": np.cbrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "abs": np.abs, "isnan": np.isnan, "isinf": np.isinf, "hypot": np.hypot,
    "isfinite": np.isfinite, "fmod": np.fmod, "copysign": np.copysign, "invert": np.invert,
}  # fmt: skip
OPERATIONS: Final = frozenset(_OPERATIONS)
"""The operations that the vector unit has; a kernel with another one is refused."""


def operate(name: str, dtype: DType, args: list[Array]) -> Array:
    """An operation on operands of ``dtype``."""
    result = np.asarray(_OPERATIONS[name](*([a.astype(np.float32) for a in args] if is_narrow(dtype) else args)))
    return result if result.dtype == np.bool_ else result.astype(dtype.numpy)


def atomic(op: str, view: Array, places: tuple[Array, Array], values: Array, dtype: DType, *, is_asked: bool) -> Array:
    """Change ``view[places]`` by each of ``values`` in turn; what each place held before its turn, where that ``is_asked``."""
    operation = _OPERATIONS.get(op)
    if isinstance(operation, np.ufunc) and not is_asked and not is_narrow(dtype) and op not in ("and", "or"):
        operation.at(view, places, values)
        return values
    before = np.empty(len(values), view.dtype)
    for turn, (row, column, value) in enumerate(zip(*places, values)):
        before[turn] = view[row, column]
        if op in ("exchange", "store"):
            view[row, column] = value
        elif op != "load":
            view[row, column] = operate(op, dtype, [np.asarray(before[turn]), np.asarray(value)])
    return before
