"""Operations of the tile IR on constants.

In: an operation and its constant operands. Out: the constant that it gives, or None where folding is left to the target: results
that are NaN (their bits are open), floats of formats that NumPy does not have by itself, and functions.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from zellige.dtypes import DType
from zellige.ir.arithmetic import INTEGER_OPS, compare, wrap, wrapped
from zellige.ir.expr import BOOL, Binary, Cast, Compare, Const, Expr, Unary

FOLDED_FLOATS: Final = frozenset(("float16", "float32", "float64"))
_EXACT_INTEGERS: Final = 1 << 53
"""Integers up to here are exact in the float64 that NumPy converts through."""


def fold(node: Expr) -> Const | None:
    """The constant that an operation on constants gives, with the node's span; None where it is not folded."""
    value: bool | int | float | None = None
    match node:
        case Unary(value=Const() as operand):
            value = _unary(node.op, operand)
        case Binary(left=Const() as left, right=Const() as right):
            value = _binary(node, left, right)
        case Compare(left=Const() as left, right=Const() as right) if _is_known(left.dtype):
            value = compare(node.op, stored(left), stored(right))
        case Cast(value=Const() as operand):
            value = _cast(node, operand)
        case _:
            pass
    if value is None or node.dtype.lanes != 1:
        return None
    return Const(value=value, dtype=node.dtype, span=node.span)


def stored(constant: Const) -> Any:
    """The value that the constant's dtype holds: a float rounds to it."""
    if constant.dtype.name in FOLDED_FLOATS:
        with np.errstate(all="ignore"):
            return float(constant.dtype.numpy.type(constant.value))
    return constant.value


def _is_known(dtype: DType) -> bool:
    return dtype.lanes == 1 and (dtype.is_integer or dtype.is_bool or dtype.name in FOLDED_FLOATS)


def _unary(op: str, operand: Const) -> bool | int | float | None:
    value, dtype = operand.value, operand.dtype
    if op == "not":
        return not value
    if op == "invert":
        return wrap(~int(value), dtype)
    if dtype.is_integer:
        return wrap(-int(value), dtype)
    return -value if dtype.name in FOLDED_FLOATS and not math.isnan(value) else None


def _binary(node: Binary, left: Const, right: Const) -> bool | int | float | None:
    op, dtype = node.op, left.dtype
    if not _is_known(dtype):
        return None
    if dtype.is_integer:
        return wrapped(op, int(left.value), int(right.value), dtype) if op in INTEGER_OPS else None
    a, b = stored(left), stored(right)
    if dtype.is_bool:
        return {"and": a and b, "or": a or b, "bitand": a and b, "bitor": a or b, "bitxor": a != b}.get(op)
    kind = dtype.numpy.type
    with np.errstate(all="ignore"):
        match op:
            case "add":
                result = float(kind(a) + kind(b))
            case "sub":
                result = float(kind(a) - kind(b))
            case "mul":
                result = float(kind(a) * kind(b))
            case "truediv":
                result = float(kind(a) / kind(b))
            case "min" | "max" | "min_nan" | "max_nan" if a != b:  # of zeros of both signs either may be chosen
                result = min(a, b) if op.startswith("min") else max(a, b)
            case _:
                return None
    return None if math.isnan(result) or math.isnan(a) or math.isnan(b) else result


def _cast(node: Cast, operand: Const) -> bool | int | float | None:
    source, target = operand.dtype, node.dtype
    if not _is_known(source) or not _is_known(target):
        return None
    value = stored(operand)
    if target.is_bool:
        return bool(value != 0)
    if target.is_integer:
        if not source.is_float:
            return wrap(int(value), target)
        if math.isnan(value):
            return 0
        return int(max(target.min, min(target.max, value if math.isinf(value) else int(value))))
    if node.rounding != "nearest_even" or node.saturate or math.isnan(value) or (not source.is_float and abs(value) > _EXACT_INTEGERS):
        return None
    with np.errstate(all="ignore"):
        return float(target.numpy.type(value))


def truth(expr: Expr) -> bool | None:
    """The value of a constant bool, None for any other expression."""
    return expr.value if isinstance(expr, Const) and expr.dtype == BOOL and isinstance(expr.value, bool) else None
