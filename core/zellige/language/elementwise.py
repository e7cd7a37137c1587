"""Scalar functions for the inside of loops: math, selection, minimum and maximum, constants of dtypes. Of vectors, lane by lane."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.frontend import arithmetic
from zellige.frontend.values import Scalar, here, power
from zellige.frontend.vectors import apply as lane_by_lane, is_vector
from zellige.ir.expr import BinaryOp, Math, Precision, const
from zellige.ir.functions import FUNCTIONS
from zellige.language.keywords import flag, without
from zellige.language.tensors import element_type


def is_number(value: Any) -> bool:
    """Whether a value is a Python number, known while compiling."""
    return isinstance(value, (bool, int, float))


def call(function: str, *args: Any, precision: Precision = "default") -> Any:
    """A function of :data:`zellige.ir.functions.FUNCTIONS`; integers become float32 where it takes floats. E230, E204: wrong operand."""
    if any(is_vector(a) for a in args):
        return lane_by_lane(lambda *lanes: call(function, *lanes, precision=precision), *args)
    spec = FUNCTIONS[function]
    span = here()
    exprs = arithmetic.meet_all(args, span)
    operand = exprs[0].dtype
    if spec.operands == "float" and not operand.is_float and operand.kind != "handle":
        exprs = [arithmetic.cast(e, arithmetic.FLOAT32, span) for e in exprs]
    elif spec.operands == "integer" and not operand.is_integer:
        raise catalogue.E230.error(span, function=f"T.{function}", dtype=operand)
    elif operand.is_bool or operand.kind == "handle":
        raise catalogue.E204.error(span, operation=f"T.{function}", dtype=operand)
    return Scalar(Math(function=function, args=tuple(exprs), dtype=spec.result_dtype(exprs[0].dtype), precision=precision, span=span))


def _unary(function: str) -> Callable[..., Any]:
    @without("dtype", "span")
    def apply(x: Any) -> Any:
        return call(function, x)

    apply.__name__ = apply.__qualname__ = function
    apply.__doc__ = f"``{FUNCTIONS[function].numpy}`` of one element; integers as float32."
    return apply


def And(*conditions: Any) -> Any:
    """Whether all the conditions hold; each is evaluated. Of vectors, lane by lane."""
    return _joined("and", conditions)


def Or(*conditions: Any) -> Any:
    """Whether one of the conditions holds; each is evaluated. Of vectors, lane by lane."""
    return _joined("or", conditions)


def _joined(op: BinaryOp, conditions: tuple[Any, ...]) -> Any:
    if any(is_vector(c) for c in conditions):
        return lane_by_lane(lambda *lanes: _joined(op, lanes), *conditions)
    joined: Any = op == "and" if not conditions else arithmetic.truth(conditions[0], here())
    for following in conditions[1:]:
        joined = arithmetic.binary(op, joined, following, here())
    return Scalar(arithmetic.truth(joined, here()))


UNARY_FLOAT: Final = {
    name: _unary(name)
    for name, spec in FUNCTIONS.items()
    if spec.arity == 1 and spec.operands == "float" and name not in ("isnan", "isinf", "isfinite", "rcp", "round")
}
"""The math functions of one operand, by name."""


@without("dtype", "span")
def abs(x: Any) -> Any:
    """The absolute value; of a Python number a Python number. E204 for a bool."""
    if is_number(x):
        return x if x >= 0 else -x
    return call("abs", x)


fabs = abs


@without("dtype", "span")
def isnan(x: Any) -> Any:
    """Whether x is NaN (False for integers)."""
    return call("isnan", x)


@without("dtype", "span")
def isinf(x: Any) -> Any:
    """Whether x is infinite (False for integers)."""
    return call("isinf", x)


@without("dtype", "span")
def isfinite(x: Any) -> Any:
    """Whether x is neither NaN nor infinite (True for integers)."""
    return call("isfinite", x)


def _extreme(op: BinaryOp, nan_op: BinaryOp, fold: Callable[..., Any], word: str) -> Callable[..., Any]:
    @without("dtype", "span")
    def apply(first: Any, *others: Any, nan_propagate: bool = False) -> Any:
        if is_number(first) and all(is_number(o) for o in others):
            return fold((first, *others))
        op_used = nan_op if flag(nan_propagate, f"T.{op}", "nan_propagate") else op
        result = first if others else Scalar(arithmetic.as_expr(first, here()))
        for other in others:
            result = _of_two(op_used, result, other)
        return result

    apply.__name__ = apply.__qualname__ = op
    apply.__doc__ = f"The {word} of its operands; a NaN operand is ignored unless ``nan_propagate``."
    return apply


def _of_two(op: BinaryOp, left: Any, right: Any) -> Any:
    if is_vector(left) or is_vector(right):
        return lane_by_lane(lambda a, b: Scalar(arithmetic.binary(op, a, b, here())), left, right)
    return Scalar(arithmetic.binary(op, left, right, here()))


max = _extreme("max", "max_nan", max, "larger")
min = _extreme("min", "min_nan", min, "smaller")


def clamp(dst: Any, min_val: Any, max_val: Any) -> Any:
    """``dst`` limited to [min_val, max_val], ``max_val`` where they are the wrong way round; NaN where one of the three is."""
    return min(max(dst, min_val, nan_propagate=True), max_val, nan_propagate=True)


def _condition(condition: Any) -> Any:
    return condition.constant if isinstance(condition, Scalar) and condition.constant is not None else condition


@without("dtype", "span")
def if_then_else(cond: Any, t: Any, f: Any) -> Any:
    """``t if cond else f``: the side not chosen is not evaluated, so its loads touch nothing."""
    test = _condition(cond)
    if is_number(test):
        return t if test else f
    if any(is_vector(o) for o in (cond, t, f)):
        return lane_by_lane(lambda c, a, b: Scalar(arithmetic.select(c, a, b, here())), cond, t, f)
    return Scalar(arithmetic.select(cond, t, f, here()))


@without("dtype", "span")
def Select(condition: Any, true_value: Any, false_value: Any) -> Any:
    """As :func:`if_then_else`."""
    return if_then_else(condition, true_value, false_value)


@without("span")
def infinity(dtype: Any = "float32") -> Scalar:
    """Positive infinity of a dtype; E232 where it has none."""
    target = element_type(dtype)
    if not target.is_float or not target.has_inf:
        raise catalogue.E232.error(here(), dtype=target)
    return Scalar(const(math.inf, target, here()))


@without("span")
def max_value(dtype: Any) -> Scalar:
    """The largest finite value of a dtype."""
    target = element_type(dtype)
    return Scalar(const(target.max, target, here()))


@without("span")
def min_value(dtype: Any) -> Scalar:
    """The smallest (most negative) finite value of a dtype."""
    target = element_type(dtype)
    return Scalar(const(target.min, target, here()))


@without("dtype", "span")
def pow(x: Any, y: Any) -> Any:
    """``x ** y``; a small Python int as ``y`` multiplies. Of Python numbers a Python number."""
    if is_number(x) and is_number(y):
        return x**y
    return lane_by_lane(power, x, y) if is_vector(x) or is_vector(y) else power(x, y)


def _binary_call(function: str) -> Callable[..., Any]:
    @without("dtype", "span")
    def apply(x1: Any, x2: Any) -> Any:
        return call(function, x1, x2)

    apply.__name__ = apply.__qualname__ = function
    apply.__doc__ = f"``{FUNCTIONS[function].numpy}`` of two elements."
    return apply


atan2 = _binary_call("atan2")
hypot = _binary_call("hypot")
fmod = _binary_call("fmod")
copysign = _binary_call("copysign")
nextafter = _binary_call("nextafter")
ldexp = _binary_call("ldexp")
