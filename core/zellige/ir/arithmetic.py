"""The integer arithmetic of the tile IR on Python integers, exact and wrapped.

In: operands as Python integers. Out: the mathematical result (:func:`exact`), or the value that a dtype of the IR
holds after it (:func:`wrap`, :func:`wrapped`). Sizes of tensors are evaluated exactly; everything in a kernel wraps.
"""

from __future__ import annotations

from typing import Final

from zellige.dtypes import DType
from zellige.ir.expr import BinaryOp, CompareOp

INTEGER_OPS: Final[frozenset[BinaryOp]] = frozenset(
    (
        "add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod",
        "min", "max", "min_nan", "max_nan", "bitand", "bitor", "bitxor", "shl", "shr",
    )
)  # fmt: skip
"""Operators that :func:`exact` knows; ``truediv`` is of floats, ``and`` / ``or`` of bools."""

_SHIFT_LIMIT: Final = 1024  # no size has so many bits; without a limit a shift could ask for any amount of memory


def exact(op: BinaryOp, left: int, right: int) -> int:
    """``left op right`` in unbounded integers; a division by zero gives 0, a shift count outside [0, 1024) gives 0 (shl) or the sign (shr).

    Raises ValueError for an operator that is not in :data:`INTEGER_OPS`.
    """
    match op:
        case "add":
            return left + right
        case "sub":
            return left - right
        case "mul":
            return left * right
        case "floordiv":
            return left // right if right else 0
        case "floormod":
            return left % right if right else 0
        case "truncdiv":
            return _truncated(left, right)
        case "truncmod":
            return left - _truncated(left, right) * right if right else 0
        case "min" | "min_nan":
            return min(left, right)
        case "max" | "max_nan":
            return max(left, right)
        case "bitand":
            return left & right
        case "bitor":
            return left | right
        case "bitxor":
            return left ^ right
        case "shl":
            return left << right if 0 <= right < _SHIFT_LIMIT else 0
        case "shr":
            return left >> right if 0 <= right < _SHIFT_LIMIT else -int(left < 0)
        case "truediv" | "and" | "or":
            raise ValueError(f"{op} is not an operator of integers")


def _truncated(left: int, right: int) -> int:
    if right == 0:
        return 0
    size = abs(left) // abs(right)
    return size if (left < 0) == (right < 0) else -size


def wrap(value: int, dtype: DType) -> int:
    """``value`` modulo 2**bits, in the range of the integer ``dtype``."""
    low = value & ((1 << dtype.bits) - 1)
    return low - (1 << dtype.bits) if dtype.kind == "int" and low >> (dtype.bits - 1) else low


def wrapped(op: BinaryOp, left: int, right: int, dtype: DType) -> int:
    """``left op right`` as :class:`zellige.ir.expr.Binary` means it for operands of the integer ``dtype``."""
    if op in ("floordiv", "truncdiv") and right == -1 and left == dtype.min:
        return 0
    if op == "shl" and not 0 <= right < dtype.bits:
        return 0
    if op == "shr" and not 0 <= right < dtype.bits:
        return -int(left < 0)
    return wrap(exact(op, left, right), dtype)


def compare(op: CompareOp, left: float, right: float) -> bool:
    """``left op right``; with a NaN only ``ne`` holds."""
    match op:
        case "eq":
            return left == right
        case "ne":
            return left != right
        case "lt":
            return left < right
        case "le":
            return left <= right
        case "gt":
            return left > right
        case "ge":
            return left >= right
