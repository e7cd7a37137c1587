"""Exponentials, logarithms and what is made of them, in float32 and any number of lanes.

In: float32 lanes. Out: float32 lanes, within the number of units in the last place that :mod:`zellige_cpu.leaf.accuracy` states, right for
both zeros, subnormal numbers, infinities and NaN. The argument is reduced exactly (Cody and Waite, with fused operations), a polynomial is
evaluated by Horner's rule, and the result is scaled by a power of two. No branch, no table, no call.
"""

from __future__ import annotations

from typing import Final

from zellige.records import dataclass
from zellige_cpu.leaf import instructions
from zellige_cpu.leaf.lane import Lane, polynomial
from zellige_cpu.leaf.polynomials import ERF_LARGE, ERF_SMALL, EXP, EXP2, EXP2_DOUBLE, EXP10, EXPM1, LOG, LOG2_ATANH

# Adding this number leaves the nearest integer (ties to even) in the low digits of the sum; subtracting it again gives that integer.
_ANCHOR: Final = 12582912.0  # 1.5 * 2**23
_ANCHOR_BITS: Final = 0x4B400000
_HALF: Final = 64  # exponents are divided into this and the rest
_ANCHOR_DOUBLE: Final = 6755399441055744.0  # 1.5 * 2**52
_ONE: Final = 127 << 23  # bits of 1.0
_SQRT_HALF: Final = 0x3F3504F3  # bits of sqrt(1/2)
_INFINITY: Final = float("inf")

_LOG2_E: Final = 1.4426950216293335
_LOG2_E_REST: Final = 1.925963033500011e-08
_LN2: Final = 0.6931471824645996
_LN2_REST: Final = -1.9046542121259336e-09
_LOG10_2: Final = 0.3010300099849701
_LOG10_2_REST: Final = -1.432098883924482e-08
_LOG10_E: Final = 0.4342944920063019
_LOG10_E_REST: Final = -1.0103049952192578e-08


def _clamp(x: Lane, low: float, high: float) -> Lane:
    """``x`` within the bounds; NaN passes."""
    above = (x < low).select(low, x)
    return (above > high).select(high, above)


@dataclass(frozen=True, slots=True)
class _Halves:
    """What takes a power of two apart into two factors that are normal numbers, for exponents within +-160; the second is ``factor``.

    ``anchor`` added to a number leaves in the low bits of the sum the nearest integer, less the exponent of ``factor`` and with the bias
    of float32 added: shifted to the place of the exponent they are the first factor.
    """

    anchor: Lane
    factor: Lane

    @staticmethod
    def of(x: Lane) -> _Halves:
        """For exponents of the sign of ``x``."""
        is_negative = x.to_bits() < 0
        middle = _ANCHOR + 127
        return _Halves(
            is_negative.select(x.const(middle + _HALF), middle - _HALF), is_negative.select(x.const(2.0**-_HALF), 2.0**_HALF)
        )  # fmt: skip


def _halves(x: Lane) -> _Halves | None:
    """None where the machine has an instruction that scales by a power of two."""
    return None if "avx512vl" in x.fn.module.host.features else _Halves.of(x)


def _power(fraction: Lane, coefficients: tuple[float, ...], exponent: Lane, halves: _Halves | None) -> Lane:
    """``(1 + fraction * sum c[k] fraction**k) * 2**n`` rounded twice, the second time only where the result is subnormal.

    The first factor is in [1/2, 2], n in [-160, 160], and ``exponent`` what :func:`_nearest` gives of it.
    """
    total = polynomial(fraction, (1.0, *coefficients))
    if halves is None:
        return Lane(total.fn, total.fn.intrinsic("llvm.ldexp", total.value, exponent.value))
    return (total * (exponent << 23).to_float()) * halves.factor


def _nearest(x: Lane, factor: float | None = None, halves: _Halves | None = None) -> tuple[Lane, Lane]:
    """The integer nearest to ``x * factor`` as a float, and as an i32 or, with ``halves``, as bits to be shifted into an exponent;
    ``|x * factor|`` is below 2**22."""
    anchor: Lane | float = _ANCHOR if halves is None else halves.anchor
    shifted = x + anchor if factor is None else x.fma(factor, anchor)
    return shifted - anchor, shifted.to_bits() - _ANCHOR_BITS if halves is None else shifted.to_bits()


def exp2(x: Lane) -> Lane:
    """2 to the power x: 2**n by the exponent's bits, times a polynomial of the rest."""
    if instructions.scales(x):
        rest = instructions.remainder(x)
        return instructions.scaled(polynomial(rest, (1.0, *EXP2)), x - rest)
    x = _clamp(x, -160.0, 160.0)
    halves = _halves(x)
    whole, exponent = _nearest(x, None, halves)
    return _power(x - whole, EXP2, exponent, halves)


def _reduced(x: Lane, per_unit: float, unit: float, rest: float, halves: _Halves | None = None) -> tuple[Lane, Lane]:
    """``x - n * unit`` and n, the nearest integer to ``x * per_unit``; ``unit + rest`` is the unit in twice the precision."""
    whole, exponent = _nearest(x, per_unit, halves)
    return whole.fma(-rest, whole.fma(-unit, x)), exponent


def exp(x: Lane) -> Lane:
    """e to the power x, by 2**n times a polynomial of the rest."""
    x = _clamp(x, -110.0, 110.0)
    halves = _halves(x)
    rest, exponent = _reduced(x, _LOG2_E, _LN2, _LN2_REST, halves)
    return _power(rest, (1.0, *EXP), exponent, halves)


def exp10(x: Lane) -> Lane:
    """10 to the power x, as :func:`exp` in units of log10(2)."""
    x = _clamp(x, -48.0, 48.0)
    halves = _halves(x)
    rest, exponent = _reduced(x, 1.0 / _LOG10_2, _LOG10_2, _LOG10_2_REST, halves)
    return _power(rest, EXP10, exponent, halves)


def expm1(x: Lane) -> Lane:
    """exp(x) - 1 without the loss of digits for small x."""
    rest, exponent = _reduced(_clamp(x, -30.0, 89.0), _LOG2_E, _LN2, _LN2_REST)
    small = (rest * rest).fma(polynomial(rest, EXPM1), rest)
    half_power = ((exponent << 23) + (_ONE - (1 << 23))).to_float()  # 2**(n - 1), which stays finite
    result = small.fma(half_power, half_power - 0.5) * 2.0
    return result.call("llvm.copysign", x)


def tanh(x: Lane) -> Lane:
    """``e / (e + 2)`` with ``e = exp(2 |x|) - 1``; beyond 10 the quotient rounds to 1."""
    doubled = _clamp(x.magnitude * 2.0, 0.0, 20.0)
    rest, exponent = _reduced(doubled, _LOG2_E, _LN2, _LN2_REST)
    small = (rest * rest).fma(polynomial(rest, EXPM1), rest)
    power = ((exponent << 23) + _ONE).to_float()
    e = small.fma(power, power - 1.0)
    return (e / (e + 2.0)).call("llvm.copysign", x)


def sigmoid(x: Lane) -> Lane:
    """``1 / (1 + exp(-x))``, as ``exp(x) / (1 + exp(x))`` for negative x so that nothing overflows."""
    small = exp(-x.magnitude)
    return (x < 0.0).select(small, 1.0) / (small + 1.0)


def erf(x: Lane) -> Lane:
    """The error function: a polynomial near 0, 1 - exp(polynomial) beyond."""
    square = x * x
    near = x.fma(polynomial(square, ERF_SMALL), x)
    t = x.magnitude
    t = (t > 3.95).select(3.95, t)  # erf is 1 there; NaN passes
    rest, exponent = _reduced(polynomial(t, ERF_LARGE), _LOG2_E, _LN2, _LN2_REST)
    power = ((exponent << 23) + _ONE).to_float()
    far = (1.0 - polynomial(rest, (1.0, 1.0, *EXP)) * power).call("llvm.copysign", x)
    return (t > 1.0).select(far, near)


def _decompose(x: Lane) -> tuple[Lane, Lane]:
    """``f`` and ``e`` (a float) with ``x = (1 + f) * 2**e`` and ``1 + f`` in [sqrt(1/2), sqrt(2)), for positive finite x."""
    is_subnormal = x < 2.0**-126
    bits = is_subnormal.select(x * 2.0**23, x).to_bits()
    exponent = (bits - _SQRT_HALF).shift_right_signed(23)
    mantissa = (bits - (exponent << 23)).to_float()
    power = exponent.convert("sitofp", "float")
    return mantissa - 1.0, is_subnormal.select(power - 23.0, power)


def _log_tail(f: Lane) -> Lane:
    """``log(1 + f) - f``."""
    return (f * f) * f.fma(polynomial(f, LOG), -0.5)


def _log_edges(x: Lane, result: Lane) -> Lane:
    """``result`` with what a logarithm is at infinity, zero, below zero and of NaN."""
    positive = (x < _INFINITY).select(result, x)  # infinity and NaN
    edge = x.equals(0.0).select(x.const(-_INFINITY), float("nan"))
    return (x <= 0.0).select(edge, positive)


def log(x: Lane) -> Lane:
    """The natural logarithm, from the exponent and a polynomial of the fraction."""
    f, e = _decompose(x)
    small = e.fma(_LN2_REST, _log_tail(f)) + f
    return _log_edges(x, e.fma(_LN2, small))


def log2(x: Lane) -> Lane:
    """The logarithm to base 2; exact for powers of two."""
    f, e = _decompose(x)
    small = f.fma(_LOG2_E, _log_tail(f).fma(_LOG2_E, f * _LOG2_E_REST))
    return _log_edges(x, e + small)


def log10(x: Lane) -> Lane:
    """The logarithm to base 10."""
    f, e = _decompose(x)
    small = f.fma(_LOG10_E, _log_tail(f).fma(_LOG10_E, f.fma(_LOG10_E_REST, e * _LOG10_2_REST)))
    return _log_edges(x, e.fma(_LOG10_2, small))


def log1p(x: Lane) -> Lane:
    """By the exponent of ``1 + x``; the fraction is made from x itself, so that no digit of a small x is lost."""
    total = x + 1.0
    exponent = (total.to_bits() - _SQRT_HALF).shift_right_signed(23)
    quarter = (total.const_of("i32", (127 + 2) << 23) - (exponent << 23)).to_float()  # 4 * 2**-e, which is never subnormal
    f = (x * 0.25).fma(quarter, quarter.fma(0.25, -1.0))
    f = exponent.equals(0).select(x, f)
    e = exponent.convert("sitofp", "float")
    small = e.fma(_LN2_REST, _log_tail(f)) + f
    result = e.fma(_LN2, small)
    result = x.equals(0.0).select(x, result)  # the sign of zero
    return _log_edges(total, result)


def power(x: Lane, y: Lane) -> Lane:
    """``x ** y`` by way of float64: ``2 ** (y * log2 |x|)``, rounded to float32 at the end; edges as in C's ``pow``."""
    base, exponent = x.magnitude.convert("fpext", "double"), y.convert("fpext", "double")
    bits = base.to_bits()
    half = 0x3FE6A09E667F3BCD  # bits of sqrt(1/2)
    e = (bits - half).shift_right_signed(52)
    m = (bits - (e << 52)).to_float()
    ratio = (m - 1.0) / (m + 1.0)
    logarithm = ratio.fma(polynomial(ratio * ratio, LOG2_ATANH), e.convert("sitofp", "double"))
    logarithm = (base < _INFINITY).select(logarithm, base)  # infinity and NaN
    logarithm = base.equals(0.0).select(-_INFINITY, logarithm)
    t = _clamp(logarithm * exponent, -200.0, 200.0)
    shifted = t + _ANCHOR_DOUBLE
    fraction = t - (shifted - _ANCHOR_DOUBLE)
    # the low digits of the anchored sum are the integer, the high ones are shifted out
    result = ((shifted.to_bits() << 52) + polynomial(fraction, EXP2_DOUBLE).to_bits()).to_float().convert("fptrunc", "float")
    result = t.is_nan.select(float("nan"), result)  # zero times infinity, or a NaN
    y_size = y.magnitude
    is_integer = (y_size >= 2.0**24) | y.call("llvm.trunc").equals(y)
    halved = y * 0.5
    is_odd = is_integer & (y_size < 2.0**24) & halved.call("llvm.trunc").differs(halved)
    signed = is_odd.select(result.call("llvm.copysign", x), result)
    is_invalid = (x < 0.0) & (x > -_INFINITY) & ~is_integer
    signed = is_invalid.select(float("nan"), signed)
    minus_one_forever = x.equals(-1.0) & y_size.equals(_INFINITY)
    return (y.equals(0.0) | x.equals(1.0) | minus_one_forever).select(1.0, signed)
