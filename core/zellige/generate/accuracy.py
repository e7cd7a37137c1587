"""Mathematics functions: how far two backends may lie apart, from the accuracy asked of them and the slope of the function.

In: the facts of a function's operands. Out: the fact of its result. The accuracy is in units in the last place (ULP) of the type
that the function computes in; it holds for a backend, and once more for the reference it is compared with. An operand that differs
between backends moves the result by at most its error times the steepest slope of the function there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zellige.dtypes import DType
from zellige.elements.arithmetic import wide_dtype
from zellige.generate.facts import (
    ANY,
    DOWN,
    FLOAT32,
    NAN,
    UP,
    Fact,
    Unbounded,
    full_range,
    interval,
    least_exponent,
    mixed,
    precision,
    rounded,
)

ULPS: Final[dict[str, float]] = {
    "exp": 4, "exp2": 4, "exp10": 8, "expm1": 4, "log": 4, "log2": 4, "log10": 4, "log1p": 4,
    "sqrt": 1, "rsqrt": 2, "rcp": 1, "cbrt": 4, "sin": 4, "cos": 4, "tan": 6, "asin": 4, "acos": 4, "atan": 4,
    "sinh": 6, "cosh": 4, "tanh": 6, "asinh": 6, "acosh": 6, "atanh": 6, "erf": 4, "erfc": 16, "sigmoid": 4, "pow": 8, "atan2": 4,
    "hypot": 4,
}  # fmt: skip
"""The largest error of a function, in units in the last place of float32 or float64; of sin and cos, of the value 1."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A function of one operand over an interval.

    ``range_of`` gives the least and greatest value over [low, high] and ``slope`` the steepest slope there. ``least`` and
    ``greatest`` bound the operands for which the result is far from overflow. Operands below ``domain[0]`` or above
    ``domain[1]`` give NaN. ``pole`` is where the result is infinite, None where it is nowhere.
    """

    range_of: Callable[[float, float], tuple[float, float]]
    slope: Callable[[float, float], float]
    least: float = -math.inf
    greatest: float = math.inf
    domain: tuple[float, float] = (-math.inf, math.inf)
    pole: float | None = None


def _rising(function: Callable[[float], float]) -> Callable[[float, float], tuple[float, float]]:
    return lambda low, high: (function(low), function(high))


def _falling(function: Callable[[float], float]) -> Callable[[float, float], tuple[float, float]]:
    return lambda low, high: (function(high), function(low))


def _within(low: float, high: float) -> Callable[[float, float], tuple[float, float]]:
    return lambda _low, _high: (low, high)


def _at_most(slope: float) -> Callable[[float, float], float]:
    return lambda _low, _high: slope


def _cosh_range(low: float, high: float) -> tuple[float, float]:
    return (1.0, max(math.cosh(low), math.cosh(high)))


def _tan_slope(low: float, high: float) -> float:
    return 1 / min(math.cos(low), math.cos(high)) ** 2


def _curves(limit: float) -> dict[str, Curve]:
    """The functions for a type whose exponential overflows beyond ``limit``."""
    near = limit * 0.9
    return {
        "exp": Curve(_rising(math.exp), lambda low, high: math.exp(high), greatest=near, least=-10 * limit),
        "exp2": Curve(_rising(lambda x: 2.0**x), lambda low, high: 2.0**high, greatest=near / math.log(2), least=-10 * limit),
        "exp10": Curve(_rising(lambda x: 10.0**x), lambda low, high: 2.31 * 10.0**high, greatest=near / math.log(10), least=-4 * limit),
        "expm1": Curve(_rising(math.expm1), lambda low, high: math.exp(high), greatest=near),
        "log": Curve(_rising(math.log), lambda low, high: 1 / low, domain=(0, math.inf), pole=0),
        "log2": Curve(_rising(math.log2), lambda low, high: 1.4427 / low, domain=(0, math.inf), pole=0),
        "log10": Curve(_rising(math.log10), lambda low, high: 0.4343 / low, domain=(0, math.inf), pole=0),
        "log1p": Curve(_rising(math.log1p), lambda low, high: 1 / (1 + low), domain=(-1, math.inf), pole=-1),
        "sqrt": Curve(_rising(math.sqrt), lambda low, high: 0.5 / math.sqrt(low), domain=(0, math.inf)),
        "rsqrt": Curve(_falling(lambda x: 1 / math.sqrt(x)), lambda low, high: 0.5 * low**-1.5, domain=(0, math.inf), pole=0),
        "cbrt": Curve(_rising(lambda x: math.copysign(abs(x) ** (1 / 3), x)), lambda low, high: min(abs(low), abs(high)) ** (-2 / 3)),
        "sin": Curve(_within(-1, 1), _at_most(1), least=-1000, greatest=1000),
        "cos": Curve(_within(-1, 1), _at_most(1), least=-1000, greatest=1000),
        "tan": Curve(_rising(math.tan), _tan_slope, least=-1.4, greatest=1.4),
        "asin": Curve(_rising(math.asin), lambda low, high: 1 / math.sqrt(1 - max(abs(low), abs(high)) ** 2), domain=(-1, 1)),
        "acos": Curve(_falling(math.acos), lambda low, high: 1 / math.sqrt(1 - max(abs(low), abs(high)) ** 2), domain=(-1, 1)),
        "atan": Curve(_rising(math.atan), _at_most(1)),
        "sinh": Curve(_rising(math.sinh), lambda low, high: max(math.cosh(low), math.cosh(high)), least=-near, greatest=near),
        "cosh": Curve(_cosh_range, lambda low, high: max(math.cosh(low), math.cosh(high)), least=-near, greatest=near),
        "tanh": Curve(_rising(math.tanh), _at_most(1)),
        "asinh": Curve(_rising(math.asinh), _at_most(1)),
        "acosh": Curve(_rising(math.acosh), lambda low, high: 1 / math.sqrt(low * low - 1), domain=(1, math.inf)),
        "erf": Curve(_rising(math.erf), _at_most(1.13)),
        "erfc": Curve(_falling(math.erfc), _at_most(1.13)),
        "sigmoid": Curve(_within(0, 1), _at_most(0.25)),
    }


_CURVES: Final = {"float32": _curves(88.0), "float64": _curves(709.0)}

_STEPS: Final = frozenset(("floor", "ceil", "trunc", "round"))
_TESTS: Final = frozenset(("isnan", "isinf", "isfinite"))


def function_fact(name: str, args: Sequence[Fact], operand: DType, result: DType, *, is_ieee: bool) -> Fact:
    """The fact of a mathematics function of operands of type ``operand``.

    Raises Unbounded where no bound can be derived: a jump of the function under an operand that differs, or a result near overflow.
    """
    if operand.is_integer:
        return _integer_function(name, args[0], operand, result)
    x = args[0]
    if name in _TESTS:
        return Fact(low=0, high=1)
    if operand.name == "float8_e8m0fnu":
        raise Unbounded(f"{name} of a type without zero and sign")
    if name == "abs":
        special = (x.special & NAN) | (UP if x.special & (UP | DOWN) else 0)
        x = replace(x, special=special)
        return replace(
            x, low=0.0 if x.has_zero else max(0.0, x.low, -x.high), high=max(abs(x.low), abs(x.high)), is_zero_open=not x.is_exact
        )
    if not all(arg.is_exact for arg in args) and (name in _STEPS or len(args) > 1):
        raise Unbounded(f"{name} of values that differ between backends")
    if name in _STEPS:
        low, high = math.floor(x.low), math.ceil(x.high)
        # a fraction rounds to the next integer, which is a multiple of one; the type has it where it has the operand's neighbours
        return rounded(replace(x, low=float(low), high=float(high), quantum=max(0, x.quantum)), operand)
    if len(args) > 1:
        return _several(name, args, operand)
    wide = wide_dtype(operand)
    if is_ieee and name in ("sqrt", "rcp"):
        return replace(_one(name, x, wide, operand), error=0.0) if x.is_exact else _one(name, x, wide, operand)
    return _one(name, x, wide, operand)


def _one(name: str, x: Fact, wide: DType, operand: DType) -> Fact:
    if name == "rcp":
        return _with_error(name, _reciprocal(x), wide, operand)
    curve = _curve(name, wide)
    low, high, is_special = x.low, x.high, x.is_special
    begin, end = curve.domain
    tiny = 2.0 ** min(max(x.quantum, -1074), 1000)
    if x.is_exact:  # NaN and infinities fall on the same elements everywhere
        if low <= begin or high >= end:
            is_special |= low < begin or high > end or curve.pole is not None or name == "atanh"
            if begin:  # the neighbours of 1 and -1 lie as far from them as the type is precise
                tiny = 2.0 ** -precision(wide)
            low = max(low, begin + tiny if curve.pole is not None or name == "atanh" else begin)
            high = min(high, end - tiny if name == "atanh" else end)
            if low > high:  # nothing but NaN and infinities
                return Fact(low=0.0, high=0.0, special=ANY)
    else:
        low, high = low - x.error, high + x.error
        if low <= begin or high >= end:
            raise Unbounded(f"{name} near the end of its domain, of values that differ between backends")
    if low < curve.least or high > curve.greatest:
        raise Unbounded(f"{name} of values up to {max(abs(low), abs(high)):g}")
    if curve.pole == 0 and x.is_zero_open and x.has_zero and name == "rsqrt":
        raise Unbounded(f"{name} of zeros whose signs differ between backends")
    least, greatest = curve.range_of(low, high)
    moved = 0.0
    if not x.is_exact:
        if name == "cbrt" and low <= 0 <= high:
            raise Unbounded("cbrt near 0 of values that differ between backends")
        moved = x.error * curve.slope(low, high)
    quantum = least_exponent(wide)
    return _with_error(name, Fact(low=least, high=greatest, quantum=quantum, error=moved, special=ANY * is_special), wide, operand)


def _curve(name: str, wide: DType) -> Curve:
    curves = _CURVES[wide.name]
    if name == "atanh":
        return Curve(_rising(math.atanh), lambda low, high: 1 / (1 - max(abs(low), abs(high)) ** 2), domain=(-1, 1))
    if name not in curves:
        raise Unbounded(f"nothing is known of {name}")
    return curves[name]


def _reciprocal(x: Fact) -> Fact:
    least = -1074
    if x.is_exact:
        if not x.has_zero:
            ends = (1 / x.low, 1 / x.high)
            return Fact(low=min(ends), high=max(ends), quantum=least, special=x.special)
        if x.is_zero_open:
            raise Unbounded("the reciprocal of zeros whose signs differ between backends")
        largest = math.ldexp(1.0, min(max(-x.quantum, -1000), 1000))
        return Fact(low=-largest if x.low < 0 else 0.0, high=largest if x.high > 0 else 0.0, quantum=least, special=ANY)
    if x.has_zero or x.is_special:
        raise Unbounded("the reciprocal of values near 0 that differ between backends")
    closest = min(abs(x.low), abs(x.high)) - x.error
    ends = (1 / x.low, 1 / x.high)
    return Fact(low=min(ends), high=max(ends), quantum=least, error=x.error / closest**2)


def _with_error(name: str, fact: Fact, wide: DType, operand: DType) -> Fact:
    """The function's own error, on both backends, then one rounding to the operand's type."""
    unit = 2.0 * 2.0 ** -precision(wide)
    scale = max(fact.magnitude, 1.0) if name in ("sin", "cos") else fact.magnitude
    own = 2 * ULPS[name] * max(unit * scale, 2.0 ** least_exponent(wide))
    largest = float(wide.max)
    if fact.magnitude > largest / 4:
        raise Unbounded(f"{name} has values near the largest of {wide}")
    slack = own + fact.error
    widened = replace(fact, low=fact.low - own, high=fact.high + own, error=slack)
    return rounded(widened, operand)


def _several(name: str, args: Sequence[Fact], operand: DType) -> Fact:
    x, y = args[0], args[1]
    wide = wide_dtype(operand)
    match name:
        case "fma":
            z = args[2]
            ends = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
            special = mixed(x, y, z)
            quantum = min(x.quantum + y.quantum, z.quantum)
            is_open = x.is_zero_open or y.is_zero_open or z.is_zero_open
            fact = Fact(low=min(ends) + z.low, high=max(ends) + z.high, quantum=quantum, special=special, is_zero_open=is_open)
            return rounded(rounded(fact, wide), operand)
        case "fmod":
            if y.has_zero and y.is_zero_open:
                raise Unbounded("fmod by zeros whose signs differ between backends")
            size = max(abs(x.low), abs(x.high))
            quantum = min(x.quantum, y.quantum)
            return rounded(Fact(low=-size, high=size, quantum=quantum, special=ANY, is_zero_open=x.is_zero_open), operand)
        case "copysign":
            if y.is_special or (y.is_zero_open and y.has_zero):
                raise Unbounded("copysign from a NaN or from zeros whose signs differ between backends")
            size = max(abs(x.low), abs(x.high))
            return Fact(low=-size, high=size, quantum=x.quantum, special=mixed(x))
        case "nextafter":
            if x.is_zero_open or y.is_zero_open:
                raise Unbounded("nextafter of zeros whose signs differ between backends")
            return full_range(operand)
        case "ldexp":
            if y.is_special:
                raise Unbounded("ldexp by NaN or infinity")
            shift = int(min(max(y.high, -y.low, 0), 2000))
            size = max(abs(x.low), abs(x.high))
            largest = math.ldexp(size, shift) if size and math.log2(size) + shift < 1000 else float(operand.max) * 2
            low, high = (-largest if x.low < 0 else 0.0), (largest if x.high > 0 else 0.0)
            fact = Fact(low=low, high=high, quantum=x.quantum - shift, special=x.special, is_zero_open=x.is_zero_open)
            return rounded(rounded(fact, wide), operand)
        case "pow":
            if x.is_special or y.is_special or x.low <= 0:
                raise Unbounded("pow of a base that may not be positive")
            powers = [b * math.log(a) for a in (x.low, x.high) for b in (y.low, y.high)]
            if max(map(abs, powers)) > (80 if wide == FLOAT32 else 600):
                raise Unbounded("pow near overflow")
            fact = Fact(low=math.exp(min(powers)), high=math.exp(max(powers)), quantum=least_exponent(wide))
            return _with_error(name, fact, wide, operand)
        case "atan2":
            if x.is_zero_open or y.is_zero_open:
                raise Unbounded("atan2 of zeros whose signs differ between backends")
            return _with_error(name, Fact(low=-math.pi, high=math.pi, quantum=least_exponent(wide), special=mixed(x, y)), wide, operand)
        case "hypot":
            size = math.hypot(x.magnitude, y.magnitude)
            return _with_error(name, Fact(low=0.0, high=size, quantum=least_exponent(wide), special=mixed(x, y)), wide, operand)
        case _:
            raise Unbounded(f"nothing is known of {name}")


def _integer_function(name: str, x: Fact, operand: DType, result: DType) -> Fact:
    match name:
        case "abs":
            ends = [abs(x.low), abs(x.high)] + ([0] if x.low <= 0 <= x.high else [])
            return interval(operand, min(ends), max(ends))
        case "popcount" | "clz":
            return Fact(low=0, high=operand.bits)
        case _:
            return full_range(result)
