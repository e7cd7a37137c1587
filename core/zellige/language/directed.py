"""Arithmetic rounded in a direction, from operations that round to the nearest.

In: operands of float32 or float64 and a direction. Out: an expression of their dtype. Each operation is computed to the nearest in
float64, beside an expression that has the sign of what was lost (error-free transformations: Ogita, Rump, Oishi, Accurate sum and dot
product, SIAM J. Sci. Comput. 26, 2005). float32 results are then rounded in the direction; float64 results step to the neighbour.
Near the ends of float64's range, where the loss itself underflows or overflows, a float64 result may be the nearest one.
"""

from __future__ import annotations

import math
from typing import Final, Literal

from zellige.diagnostics import InternalError
from zellige.dtypes import dtype
from zellige.frontend import arithmetic
from zellige.frontend.values import here
from zellige.ir.expr import Binary, BinaryOp, Cast, Compare, CompareOp, Expr, Math, Select, const
from zellige.ir.functions import FUNCTIONS

Direction = Literal["toward_zero", "down", "up"]

_F64: Final = dtype("float64")


def directed(operation: str, operands: list[Expr], direction: Direction) -> Expr:
    """The result of an ``ieee_*`` operation rounded in a direction."""
    target = operands[0].dtype
    wide = [arithmetic.cast(e, _F64, here()) for e in operands]
    nearest, loss = _with_loss(operation, wide)
    if target == _F64:
        return _stepped(nearest, loss, direction)
    is_single = _compare("eq", _cast(_cast(nearest, "float32"), "float64"), nearest)
    is_inexact = _either(_compare("lt", loss, _number(0.0)), _compare("gt", loss, _number(0.0)))
    toward = Select(condition=_compare("lt", loss, _number(0.0)), then=_number(-math.inf), otherwise=_number(math.inf), span=here())
    between = _math("nextafter", nearest, toward)  # strictly between two float32: the direction decides
    chosen = Select(condition=_binary("and", is_single, is_inexact), then=between, otherwise=nearest, span=here())
    return Cast(value=chosen, dtype=target, rounding=direction, span=here())


def _with_loss(operation: str, x: list[Expr]) -> tuple[Expr, Expr]:
    """The result to the nearest, and a number with the sign of the exact result minus it."""
    match operation:
        case "ieee_add":
            return _two_sum(x[0], x[1])
        case "ieee_sub":
            return _two_sum(x[0], _negated(x[1]))
        case "ieee_mul":
            return _two_product(x[0], x[1])
        case "ieee_fdiv":
            return _quotient(x[0], x[1])
        case "ieee_frcp":
            return _quotient(_number(1.0), x[0])
        case "ieee_fsqrt":
            root = _math("sqrt", x[0])
            return root, _math("fma", _negated(root), root, x[0])
        case "ieee_fmaf":
            result = _math("fma", x[0], x[1], x[2])
            product, low = _two_product(x[0], x[1])
            total, lost = _two_sum(product, x[2])
            first, rest = _two_sum(_binary("sub", total, result), lost)
            second, tail = _two_sum(first, low)
            return result, _binary("add", second, _binary("add", tail, rest))
        case _:
            raise InternalError(f"{operation} has no directed form")


def _two_sum(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    total = _binary("add", a, b)
    part = _binary("sub", total, a)
    return total, _binary("add", _binary("sub", a, _binary("sub", total, part)), _binary("sub", b, part))


def _two_product(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    product = _binary("mul", a, b)
    return product, _math("fma", a, b, _negated(product))


def _quotient(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    quotient = _binary("truediv", a, b)
    remainder = _math("fma", _negated(quotient), b, a)
    return quotient, Select(condition=_compare("lt", b, _number(0.0)), then=_negated(remainder), otherwise=remainder, span=here())


def _stepped(nearest: Expr, loss: Expr, direction: Direction) -> Expr:
    """The float64 next to ``nearest`` where the exact result lies on the other side of it, seen in the direction."""
    zero = _number(0.0)
    below, above = _compare("lt", loss, zero), _compare("gt", loss, zero)
    match direction:
        case "down":
            steps, toward = below, _number(-math.inf)
        case "up":
            steps, toward = above, _number(math.inf)
        case "toward_zero":
            is_outward = _either(_binary("and", _compare("lt", nearest, zero), above), _binary("and", _compare("gt", nearest, zero), below))
            steps, toward = is_outward, zero
    return Select(condition=steps, then=_math("nextafter", nearest, toward), otherwise=nearest, span=here())


def _negated(value: Expr) -> Expr:
    return arithmetic.unary("neg", value, here())


def _number(value: float) -> Expr:
    return const(value, _F64, here())


def _cast(value: Expr, name: str) -> Expr:
    return Cast(value=value, dtype=dtype(name), span=here())


def _binary(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    return Binary(op=op, left=left, right=right, span=here())


def _either(left: Expr, right: Expr) -> Expr:
    return _binary("or", left, right)


def _compare(op: CompareOp, left: Expr, right: Expr) -> Expr:
    return Compare(op=op, left=left, right=right, span=here())


def _math(function: str, *args: Expr) -> Expr:
    return Math(function=function, args=args, dtype=FUNCTIONS[function].result_dtype(args[0].dtype), precision="ieee", span=here())
