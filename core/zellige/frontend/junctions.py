"""``and`` and ``or`` of values that are known only when the kernel runs.

In: two evaluated operands. Out: of two conditions a condition; of numbers Python's value, which is one of the operands: ``x or y`` is
``x if x else y``. Where such a value is used as a condition it is the ``and`` or ``or`` of both operands as conditions.
"""

from __future__ import annotations

from typing import Any

from zellige.diagnostics import Span
from zellige.frontend import arithmetic
from zellige.frontend.values import Scalar
from zellige.ir.expr import Const, Expr


class Junction(Scalar):
    """The value of ``x and y`` or ``x or y`` of two numbers. ``as_condition`` is its truth, which may be known where the value is not."""

    __slots__ = ("as_condition",)

    def __init__(self, expr: Expr, as_condition: Expr) -> None:
        super().__init__(expr)
        self.as_condition = as_condition


def junction(is_and: bool, left: Scalar, right: Any, span: Span | None) -> Any:
    """``left and right`` or ``left or right``, both evaluated already. E202: an operand that is no number."""
    first, second = arithmetic.truth(left, span), arithmetic.truth(right, span)
    if isinstance(second, Const):  # x and True, x or False are x; the others are known
        condition = first if bool(second.value) == is_and else second
    else:
        condition = arithmetic.binary("and" if is_and else "or", Scalar(first), Scalar(second), span)
    if not are_numbers(left, right):
        return condition.value if isinstance(condition, Const) else Scalar(condition)
    chosen = arithmetic.select(Scalar(first), right, left, span) if is_and else arithmetic.select(Scalar(first), left, right, span)
    return Junction(chosen, condition)


def are_numbers(left: Scalar, right: Any) -> bool:
    """Whether the value of ``left and right`` is a number: both are, and not both are conditions."""
    dtypes = [arithmetic.as_expr(side).dtype for side in (left, right)]
    return all(d.lanes == 1 and (d.is_bool or d.is_integer or d.is_float) for d in dtypes) and not all(d.is_bool for d in dtypes)


def condition_of(value: Any) -> Any:
    """``value`` where only its truth counts: of a :class:`Junction` the condition, as a Python bool where it is known."""
    if not isinstance(value, Junction):
        return value
    condition = value.as_condition
    return bool(condition.value) if isinstance(condition, Const) else Scalar(condition)
