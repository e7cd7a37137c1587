"""How far a target's mathematics functions are from the exact values, in units of the last place.

In: the name of a function, an element type. Out: operands of every magnitude that the function takes and their exact values
(:func:`sample`), and the largest error of what a target made of them (:func:`largest_error`).

Exact values are computed in the next wider type of NumPy: float64 for float32 and narrower, long double for float64. Their own error is
less than a thousandth of a unit, where there is such a type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from zellige.claims.machine import Array, NotChecked
from zellige.dtypes import DType

POINTS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    """``exact`` takes and gives arrays; operands of magnitudes up to ``greatest`` are tried, of both signs where ``is_signed``, none below
    ``least`` in magnitude."""

    exact: Callable[[Any], Any]
    greatest: float
    is_signed: bool = True
    least: float = 1e-30


_FUNCTIONS: Final[Mapping[str, _Function]] = {
    "exp": _Function(exact=np.exp, greatest=100.0),
    "exp2": _Function(exact=np.exp2, greatest=140.0),
    "exp10": _Function(exact=lambda x: np.power(x.dtype.type(10), x), greatest=40.0),
    "expm1": _Function(exact=np.expm1, greatest=80.0),
    "log": _Function(exact=np.log, greatest=1e30, is_signed=False),
    "log2": _Function(exact=np.log2, greatest=1e30, is_signed=False),
    "log10": _Function(exact=np.log10, greatest=1e30, is_signed=False),
    "log1p": _Function(exact=np.log1p, greatest=1e30, is_signed=False),
    "sqrt": _Function(exact=np.sqrt, greatest=1e30, is_signed=False),
    "rsqrt": _Function(exact=lambda x: 1 / np.sqrt(x), greatest=1e30, is_signed=False),
    "tanh": _Function(exact=np.tanh, greatest=20.0),
    "sigmoid": _Function(exact=lambda x: 1 / (1 + np.exp(-x)), greatest=80.0),
    "sin": _Function(exact=np.sin, greatest=100.0),
    "cos": _Function(exact=np.cos, greatest=100.0),
    "erf": _Function(exact=lambda x: np.array([math.erf(float(one)) for one in x], x.dtype), greatest=4.0),
}


def sample(name: str, t: DType) -> tuple[Array, Array]:
    """Operands and the exact values, in the wider type. NotChecked where nobody knows the function, or no type is wide enough."""
    function = _FUNCTIONS.get(name)
    wide: Any = np.float64 if t.bits < 64 else np.longdouble
    if function is None:
        raise NotChecked(f"no probe knows the exact values of {name}")
    if t.bits == 64 and (np.finfo(np.longdouble).nmant <= 52 or name == "erf"):
        raise NotChecked(f"this machine has no arithmetic to hold {name} of {t} against")
    generator = np.random.default_rng(11)
    magnitudes = np.exp(generator.uniform(math.log(function.least), math.log(function.greatest), POINTS // 2))
    even = generator.uniform(function.least, function.greatest, POINTS - POINTS // 2)
    values = np.concatenate([magnitudes, even])
    if function.is_signed:
        values *= generator.choice([-1.0, 1.0], POINTS)
    with np.errstate(all="ignore"):
        operands: Array = values.astype(t.numpy)
        exact: Array = np.asarray(function.exact(operands.astype(wide)))
    return operands, exact


def largest_error(found: Array, operands: Array, exact: Array, t: DType, *, flushes: bool) -> tuple[float, int]:
    """In units of the last place, and where it is; infinity where one of both is not finite and the other is something else.

    ``flushes``: where an operand or an exact value is subnormal, a zero and what stands for a zero operand are right too.
    """
    wide = exact.dtype.type
    given, least = found.astype(wide), wide(2.0) ** (2 - 2 ** (t.exponent - 1))
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.maximum(np.abs(exact), least)))
        units = np.abs(given - exact) / wide(2.0) ** (exponent - t.mantissa)
        rounded = exact.astype(t.numpy).astype(wide)
    is_odd = ~np.isfinite(given) | ~np.isfinite(rounded)
    same = (given == rounded) | (np.isnan(given) & np.isnan(rounded))
    units = np.where(is_odd, np.where(same, 0.0, np.inf), units)
    if flushes:
        small = (np.abs(exact) < least) & (given == 0)
        units = np.where(small | (np.abs(operands.astype(wide)) < least), 0.0, units)
    at = int(np.argmax(units))
    return float(units[at]), at
