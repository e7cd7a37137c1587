"""The fact of an expression, from the facts of its variables and of the buffers it loads from.

In: an expression and an :class:`Environment`. Out: a :class:`Fact`, operands before their users, without recursion. Raises
:class:`Unbounded` where two backends could take different decisions: a comparison, a conversion to an integer, a jump of
a function under values that differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol

from zellige.dtypes import DType
from zellige.elements.arithmetic import wide_dtype
from zellige.elements.conversion import has_nan
from zellige.generate.accuracy import function_fact
from zellige.generate.facts import (
    ANY,
    DOWN,
    NAN,
    UP,
    Fact,
    Unbounded,
    fact_of_number,
    full_range,
    interval,
    joined,
    mixed,
    rounded,
    rounding_error,
)
from zellige.ir.expr import Binary, Cast, Compare, Const, Expr, Load, Math, Reinterpret, Select, Unary, Var
from zellige.ir.traverse import children, operands_first


class Environment(Protocol):
    """What is known of names."""

    def variable(self, var: Var) -> Fact: ...

    def load(self, load: Load, indices: Sequence[Fact]) -> Fact: ...


def expression_fact(expression: Expr, environment: Environment) -> Fact:
    """The fact of ``expression``. Raises Unbounded."""
    done: dict[int, Fact] = {}
    for node in operands_first(expression):
        try:
            done[id(node)] = _fact(node, [done[id(child)] for child in children(node)], environment)
        except OverflowError as error:
            raise Unbounded("values beyond float64") from error
    return done[id(expression)]


def _fact(node: Expr, operands: list[Fact], environment: Environment) -> Fact:
    if node.dtype.lanes != 1:
        raise Unbounded(f"vectors such as {node.dtype}")
    match node:
        case Const():
            return fact_of_number(node.value, node.dtype)
        case Var():
            return environment.variable(node)
        case Load():
            return environment.load(node, operands)
        case Unary():
            return _unary(node, operands[0])
        case Binary():
            left, right = operands
            return (
                _float_binary(node.op, left, right, node.dtype)
                if node.dtype.is_float
                else _integer_binary(node.op, left, right, node.dtype)
            )
        case Compare():
            return _compare(operands[0], operands[1], node.left.dtype)
        case Select():
            return joined(operands[1:])
        case Cast():
            return conversion_fact(operands[0], node.value.dtype, node.dtype, node.rounding)
        case Math():
            return function_fact(node.function, operands, node.args[0].dtype, node.dtype, is_ieee=node.precision == "ieee")
        case Reinterpret():
            return reinterpreted(operands[0], node.value.dtype, node.dtype)
        case _:
            raise Unbounded(f"{type(node).__name__}")


def _unary(node: Unary, x: Fact) -> Fact:
    if node.dtype.is_float:
        if node.dtype.name == "float8_e8m0fnu":
            raise Unbounded("the negative of a type without a sign")
        return replace(x, low=-x.high, high=-x.low, special=_opposite(x.special))
    if node.op == "not" or node.dtype.is_bool:
        return Fact(low=0, high=1)
    return interval(node.dtype, -x.high, -x.low) if node.op == "neg" else interval(node.dtype, ~int(x.high), ~int(x.low))


def _compare(left: Fact, right: Fact, dtype: DType) -> Fact:
    error = left.error + right.error
    if error > 0 and left.low - error <= right.high and right.low - error <= left.high:
        raise Unbounded(f"a comparison of {dtype} values that differ between backends")
    return Fact(low=0, high=1)


def reinterpreted(x: Fact, source: DType, target: DType) -> Fact:
    """The fact of the same bits read as another type."""
    if not x.is_exact or x.is_zero_open or (source.is_float and x.is_special):
        raise Unbounded("the bits of values whose bits differ between backends")
    return full_range(target)


def conversion_fact(x: Fact, source: DType, target: DType, rounding: str = "nearest_even") -> Fact:
    """The fact of a conversion. Raises Unbounded for values that differ and would round to different integers, or for a random rounding."""
    if source == target:
        return x
    if target.is_bool:
        if not x.is_exact:
            raise Unbounded("the truth of values that differ between backends")
        return Fact(low=0, high=1)
    if target.is_integer:
        if not source.is_float:
            return interval(target, x.low, x.high)
        if not x.is_exact:
            raise Unbounded("a conversion to an integer of values that differ between backends")
        if x.is_special:
            return full_range(target)
        low, high = math.trunc(x.low), math.trunc(x.high)
        return Fact(low=min(max(low, target.min), target.max), high=max(min(high, target.max), target.min))
    if rounding == "stochastic":
        raise Unbounded("a random rounding")
    if x.is_special and not has_nan(target):
        raise Unbounded(f"NaN or infinity as {target}, which has neither")
    if x.special and not target.has_inf:  # an infinity becomes a NaN
        x = replace(x, special=ANY)
    if target.name == "float8_e8m0fnu":
        return _power_of_two(x, target)
    return rounded(replace(x, low=float(x.low), high=float(x.high)), target, is_nearest=rounding == "nearest_even")


def _power_of_two(x: Fact, target: DType) -> Fact:
    least = 2.0**-127
    if x.low - x.error < least:
        if not x.is_exact:
            raise Unbounded("values near 0 that differ between backends, as powers of two")
        return full_range(target)
    return rounded(x, target)


def _corners(op: str, left: Fact, right: Fact) -> tuple[float, float]:
    values = []
    for a in (left.low, left.high):
        for b in (right.low, right.high):
            values.append(a + b if op == "add" else a - b if op == "sub" else a * b)
    return min(values), max(values)


_EXACT_FLOAT: Final = frozenset(("floordiv", "floormod", "truncdiv", "truncmod"))


def _float_binary(op: str, left: Fact, right: Fact, dtype: DType) -> Fact:
    """In the type that ``dtype`` computes in, then rounded once to it (a second time only where that changes nothing)."""
    special = mixed(left, right)
    is_open = left.is_zero_open or right.is_zero_open
    is_exact = left.is_exact and right.is_exact
    if op in _EXACT_FLOAT and not is_exact:
        raise Unbounded(f"{op} of values that differ between backends")
    low: float
    high: float
    match op:
        case "add" | "sub":
            low, high = _corners(op, left, right)
            quantum, error = min(left.quantum, right.quantum), left.error + right.error
        case "mul":
            if not is_exact and special:
                raise Unbounded("a product of infinities and values that differ between backends")
            low, high = _corners(op, left, right)
            quantum = left.quantum + right.quantum
            error = abs_max(left) * right.error + abs_max(right) * left.error + left.error * right.error
        case "min" | "max" | "min_nan" | "max_nan":
            low, high, special = _extreme(op, left, right)
            quantum, error = min(left.quantum, right.quantum), max(left.error, right.error)
            is_open |= left.has_zero and right.has_zero
        case "truediv":
            return _quotient(left, right, dtype, is_open=is_open, is_special=special != 0)
        case _:
            return _whole_division(op, left, right, dtype, is_open=is_open)
    fact = Fact(low=low, high=high, quantum=quantum, error=error, special=special, is_zero_open=is_open)
    return _twice_rounded(fact, dtype)


def _opposite(special: int) -> int:
    return (special & NAN) | (DOWN if special & UP else 0) | (UP if special & DOWN else 0)


def _extreme(op: str, left: Fact, right: Fact) -> tuple[float, float, int]:
    """Range and what is not finite of a minimum or maximum; a NaN operand gives the other operand, or NaN where that is asked for."""
    if op in ("min_nan", "max_nan"):
        low, high = (min(left.low, right.low), max(left.high, right.high)) if left.special | right.special else (0.0, 0.0)
        if not left.special | right.special:
            choose = min if op == "min_nan" else max
            low, high = choose(left.low, right.low), choose(left.high, right.high)
        return low, high, left.special | right.special
    if op == "min":
        low, high, special = _extreme("max", *(replace(x, low=-x.high, high=-x.low, special=_opposite(x.special)) for x in (left, right)))
        return -high, -low, _opposite(special)
    lows = [max(left.low, right.low)]
    if left.special & (NAN | DOWN):
        lows.append(right.low)
    if right.special & (NAN | DOWN):
        lows.append(left.low)
    special = (left.special & right.special & NAN) | ((left.special | right.special) & UP)
    if (left.special & DOWN and right.special & (DOWN | NAN)) or (right.special & DOWN and left.special & NAN):
        special |= DOWN
    return min(lows), max(left.high, right.high), special


def abs_max(fact: Fact) -> float:
    """The largest absolute value on the backend at hand."""
    return max(abs(fact.low), abs(fact.high))


def _twice_rounded(fact: Fact, dtype: DType) -> Fact:
    wide = wide_dtype(dtype)
    if wide == dtype:
        return rounded(fact, dtype)
    fact = rounded(fact, wide)
    return _power_of_two(fact, dtype) if dtype.name == "float8_e8m0fnu" else rounded(fact, dtype)


def _quotient(left: Fact, right: Fact, dtype: DType, *, is_open: bool, is_special: bool) -> Fact:
    size = abs_max(left)
    if right.has_zero:
        if not (left.is_exact and right.is_exact):
            raise Unbounded("a quotient by values near 0 that differ between backends")
        if right.is_zero_open or not has_nan(dtype):
            raise Unbounded("a quotient by zero of a type without NaN, or by zeros whose signs differ between backends")
        size = min(size, 1e150) * math.ldexp(1.0, min(max(-right.quantum, -490), 490))
        return _twice_rounded(Fact(low=-size, high=size, quantum=-1074, special=ANY, is_zero_open=is_open), dtype)
    if is_special and not (left.is_exact and right.is_exact):
        raise Unbounded("a quotient of infinities and values that differ between backends")
    closest = min(abs(right.low), abs(right.high)) - right.error
    ends = [a / b for a in (left.low, left.high) for b in (right.low, right.high)]
    low, high = min(ends), max(ends)
    if right.is_special:  # a finite number over infinity
        low, high = min(low, 0.0), max(high, 0.0)
    error = (left.error + max(abs(low), abs(high)) * right.error) / closest if left.error or right.error else 0.0
    return _twice_rounded(Fact(low=low, high=high, quantum=-1074, error=error, special=ANY * is_special, is_zero_open=is_open), dtype)


def _whole_division(op: str, left: Fact, right: Fact, dtype: DType, *, is_open: bool) -> Fact:
    if right.has_zero and right.is_zero_open:
        raise Unbounded("a division by zeros whose signs differ between backends")
    if op in ("floormod", "truncmod"):
        size, quantum = max(abs_max(left), abs_max(right)), min(left.quantum, right.quantum)
        size += rounding_error(dtype, size)
    else:
        closest = math.ldexp(1.0, min(max(right.quantum, -1000), 1000)) if right.has_zero else min(abs(right.low), abs(right.high))
        size, quantum = min(abs_max(left) / closest + 1, 1e300) if abs_max(left) < 1e300 else 1e300, 0
    fact = Fact(low=-size, high=size, quantum=quantum, special=ANY, is_zero_open=is_open)
    if not has_nan(dtype):
        raise Unbounded(f"{op} of {dtype}, which has no NaN")
    return _twice_rounded(fact, dtype)


def _integer_binary(op: str, left: Fact, right: Fact, dtype: DType) -> Fact:
    if dtype.is_bool:
        return Fact(low=0, high=1)
    match op:
        case "add" | "sub" | "mul":
            return interval(dtype, *_corners(op, left, right))
        case "min" | "min_nan":
            return Fact(low=min(left.low, right.low), high=min(left.high, right.high))
        case "max" | "max_nan":
            return Fact(low=max(left.low, right.low), high=max(left.high, right.high))
        case "floormod":
            return _remainder(left, right, dtype)
        case "floordiv" if right.low > 0:
            ends = [int(a) // int(b) for a in (left.low, left.high) for b in (right.low, right.high)]
            return interval(dtype, min(ends), max(ends))
        case "bitand" if left.low >= 0 or right.low >= 0:
            tops = [int(f.high) for f in (left, right) if f.low >= 0]
            return Fact(low=0, high=min(tops))
        case _:
            return full_range(dtype)


def _remainder(left: Fact, right: Fact, dtype: DType) -> Fact:
    if right.low > 0 and left.low >= 0 and left.high < right.low:
        return left
    low = 0 if right.low >= 0 else right.low + 1
    high = 0 if right.high <= 0 else right.high - 1
    return Fact(low=low, high=max(low, high))
