"""What reductions, scans and reducers share: the type they accumulate in and the value that changes nothing.

In: the operation's name and dtypes. Out: a dtype or a Python number. One place for the interpreter, the passes and the backends.
"""

from __future__ import annotations

import math
from typing import Final

from zellige.dtypes import DType, dtype as as_dtype

_FLOAT32: Final = as_dtype("float32")


def promoted(left: DType, right: DType) -> DType:
    """The type that elements of both convert to: a bool or integer follows a float, else the wider (unsigned of one width)."""
    for one, other in ((left, right), (right, left)):
        if one.is_bool or (one.is_integer and other.is_float):
            return other
    if left.bits != right.bits:
        return left if left.bits > right.bits else right
    if left == right:
        return left
    return _FLOAT32 if left.is_float else (right if left.is_signed else left)


def reduction_dtype(source: DType, target: DType) -> DType:
    """The type that a Reduce or Scan accumulates in: that of both sides, at least float32 for floats."""
    found = promoted(source, target)
    return _FLOAT32 if found.is_float and found.bits <= 32 else found


def identity(op: str, dtype: DType) -> bool | int | float:
    """The value of ``dtype`` that changes nothing under a ReduceOp; for max and min of a type without infinity its extreme finite value."""
    match op:
        case "sum" | "abssum" | "absmax" | "bitor" | "bitxor" | "any":
            return 0.0 if dtype.is_float else 0
        case "prod" | "all":
            return 1.0 if dtype.is_float else 1
        case "bitand":
            return 1 if dtype.is_bool else dtype.max if dtype.kind == "uint" else -1
        case "max":
            return -math.inf if dtype.is_float and dtype.has_inf else dtype.min
        case "min":
            return math.inf if dtype.is_float and dtype.has_inf else dtype.max
        case _:
            raise ValueError(f"{op} is no reduction")
