"""Expressions of indices made from others, where what is known of constants is worked out at once.

In: expressions of one integer dtype. Out: an expression of it, a Const where the operands are.
"""

from __future__ import annotations

from zellige.dtypes import DType
from zellige.ir.arithmetic import wrap
from zellige.ir.expr import Binary, Cast, Const, Expr


def minimum(left: Expr, right: Expr) -> Expr:
    """The smaller of two indices."""
    if isinstance(left, Const) and isinstance(right, Const):
        return left if left.value <= right.value else right
    return Binary(op="min", left=left, right=right)


def maximum(left: Expr, right: Expr) -> Expr:
    """The larger of two indices."""
    if isinstance(left, Const) and isinstance(right, Const):
        return left if left.value >= right.value else right
    return Binary(op="max", left=left, right=right)


def plus(value: Expr, amount: int) -> Expr:
    """``value + amount``; the difference where ``amount`` is below 0."""
    if isinstance(value, Const):
        return Const(value=int(value.value) + amount, dtype=value.dtype)
    distance = Const(value=abs(amount), dtype=value.dtype)
    return value if amount == 0 else Binary(op="add" if amount > 0 else "sub", left=value, right=distance)


def index_as(value: Expr, dtype: DType) -> Expr:
    """An index in another integer dtype; a number that this does not hold wraps, as a large uint64 does to below 0."""
    if isinstance(value, Const):
        return Const(value=wrap(int(value.value), dtype), dtype=dtype)
    return value if value.dtype == dtype else Cast(value=value, dtype=dtype)
