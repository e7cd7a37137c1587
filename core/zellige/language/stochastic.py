"""Stochastic rounding of float32 by bits that the kernel gives: ``T.cast(x, "float16", round="rs", rbits=bits)``.

In: a value of at most 32 bits, a narrower float type, an integer of random bits. Out: an expression of that type, the same on every
target: the random bits are added below the last digit that the type keeps, and what lies below it is cut off (Croci et al., Stochastic
rounding: implementation, error analysis and applications, Royal Society Open Science 9, 2022). With uniform bits the expected result is
the value itself, to the number of digits dropped and to 31 bits where more are dropped.
"""

from __future__ import annotations

from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.dtypes import DType, dtype as as_dtype
from zellige.elements.conversion import bias
from zellige.frontend import arithmetic
from zellige.frontend.builder import tracing
from zellige.frontend.values import Scalar, bind, here
from zellige.ir.expr import Cast, Reinterpret, const
from zellige.language.elementwise import call

_F32: Final = arithmetic.FLOAT32
_I32: Final = as_dtype("int32")
_U32: Final = as_dtype("uint32")
_MANTISSA: Final = 23
_BIAS: Final = 127
_WIDEST: Final = 31  # the most random bits that are used: the significand's 24 bits and these stay within a uint32


def stochastic(value: Any, target: DType, sat: bool | None, rbits: Any) -> Scalar:
    """``value`` rounded to one of its two neighbours in ``target``; beyond the largest finite value it is that value.

    The low bits of ``rbits`` are used, as many as ``target`` drops. E248: other types, ``sat=False``; E230: ``rbits`` is no integer.
    """
    given, random = arithmetic.as_expr(value, here()), arithmetic.as_expr(rbits, here())
    _check(given.dtype, target, sat)
    if not random.dtype.is_integer:
        raise catalogue.E230.error(here(), function='T.cast, as rbits,', dtype=random.dtype)
    exact = _named("value", Scalar(arithmetic.cast(given, _F32, here())))
    noise = _named("random", Scalar(arithmetic.cast(random, _U32, here())))
    magnitude = _named("magnitude", _reinterpreted(exact, _U32) & 0x7FFFFFFF)
    units = _same_exponents if target.exponent == 8 else _narrower_exponents
    rounded = call("copysign", _less(units(magnitude, noise, target), target), exact)
    kept = arithmetic.select(call("isnan", exact), exact, rounded, here())
    return Scalar(Cast(value=kept, dtype=target, saturate=True, span=here()))


def _check(given: DType, target: DType, sat: bool | None) -> None:
    if not target.is_float or target.bits >= 32 or target.mantissa == 0:
        raise catalogue.E248.error(here(), reason=f'T.cast with round="rs" gives a signed float below 32 bits, not {target}')
    if not given.is_float or given.bits > 32:
        raise catalogue.E248.error(here(), reason=f'T.cast with round="rs" takes float32 or a narrower float, not {given}')
    if sat is False:
        raise catalogue.E248.error(here(), reason='sat=false is not supported with round="rs" of T.cast: it ends at the largest value')


def _named(name: str, value: Scalar) -> Scalar:
    """The value under a name, so that using it often costs nothing; outside a kernel the expression itself."""
    return value if tracing() is None else bind(name, value)


def _less(value: Scalar, target: DType) -> Scalar:
    largest = const(float(target.max), _F32, here())
    return Scalar(arithmetic.select(arithmetic.compare("lt", value, Scalar(largest), here()), value, largest, here()))


def _reinterpreted(value: Scalar, target: DType) -> Scalar:
    return Scalar(Reinterpret(value=value.expr, dtype=target, span=here()))


def _cast(value: Scalar, target: DType) -> Scalar:
    return Scalar(arithmetic.cast(value.expr, target, here()))


def _same_exponents(magnitude: Scalar, noise: Scalar, target: DType) -> Scalar:
    """For float32's own exponents the digits dropped are always the same: also below the smallest normal number."""
    dropped = (1 << (_MANTISSA - target.mantissa)) - 1
    return _reinterpreted((magnitude + (noise & dropped)) & (0x7FFFFFFF ^ dropped), _F32)


def _narrower_exponents(magnitude: Scalar, noise: Scalar, target: DType) -> Scalar:
    """Whole units of the type's last digit, whose weight is fixed from its smallest normal number down."""
    field = _cast(magnitude >> _MANTISSA, _I32)
    is_normal = arithmetic.compare("gt", field, 0, here())
    hidden = arithmetic.select(is_normal, const(1 << _MANTISSA, _U32, here()), const(0, _U32, here()), here())
    significand = (magnitude & ((1 << _MANTISSA) - 1)) | Scalar(hidden)
    exponent = _named("exponent", _larger(field, 1) - _BIAS)
    unit = _named("unit", _larger(exponent, 1 - bias(target)) - target.mantissa)
    dropped = _named("dropped", unit - exponent + _MANTISSA)
    lost = _cast(_smaller(_larger(dropped - _WIDEST, 0), _WIDEST), _U32)
    width = _named("width", _cast(_smaller(dropped, _WIDEST), _U32))
    one = Scalar(const(1, _U32, here()))
    count = ((significand >> lost) + (noise & ((one << width) - 1))) >> width
    weight = _reinterpreted(_cast(unit + _BIAS, _U32) << _MANTISSA, _F32)
    return Scalar(arithmetic.binary("mul", _cast(count, _F32), weight, here()))


def _larger(value: Scalar, least: int) -> Scalar:
    return Scalar(arithmetic.select(arithmetic.compare("gt", value, least, here()), value, const(least, _I32, here()), here()))


def _smaller(value: Scalar, most: int) -> Scalar:
    return Scalar(arithmetic.select(arithmetic.compare("lt", value, most, here()), value, const(most, _I32, here()), here()))
