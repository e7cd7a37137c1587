"""Conversions between any two element types, in any number of lanes.

In: a register of the source type (:mod:`zellige_cpu.types` says how each type is held). Out: a register of the target type.

The result is the source's value rounded once (nearest even unless another rounding is asked for), by the rules of
:class:`zellige.ir.expr.Cast`: integers wrap, a float converts to an integer toward zero and saturates with NaN giving 0, a float beyond
the target's range becomes infinity, or NaN, or the largest value, whichever the type has first, unless ``saturate`` clamps it.
float64 and wide integers reach the narrow types through float32 rounded to odd, which keeps enough of the discarded digits for the
second rounding to be the only one that counts. Between float32 and narrower types nothing depends on whether the process flushes
subnormal numbers to zero.
"""

from __future__ import annotations

from collections.abc import Callable

from zellige.diagnostics import InternalError
from zellige.dtypes import DType
from zellige.ir.expr import Rounding
from zellige_cpu.leaf import instructions
from zellige_cpu.leaf.formats import Format, float_format
from zellige_cpu.leaf.lane import Lane
from zellige_cpu.text import Function
from zellige_cpu.types import FLOAT32, register_type, vector_type
from zellige_cpu.values import Value, constant

_SCALE = "float8_e8m0fnu"  # a power of two: no sign, no zero
_INFINITY = 0x7F800000  # of float32


def cast(fn: Function, value: Value, source: DType, target: DType, rounding: Rounding = "nearest_even", saturate: bool = False) -> Value:
    """``value`` of type ``source`` as a value of type ``target``; both scalar dtypes, any number of lanes."""
    saturate = saturate and target.is_float
    if source.name == target.name and not saturate:
        return value
    if rounding == "stochastic":
        raise InternalError("stochastic rounding reached the conversion leaf")
    x = Lane(fn, value)
    if target.is_bool:
        return _to_bool(x, source).value
    if source.is_bool:
        return _from_bool(x, target).value
    if target.is_float and rounding == "nearest_even" and not saturate:
        short = _short(x, source, target)
        if short is not None:
            return short.value
    if source.is_integer and target.is_integer:
        return _between_integers(x, source, target).value
    manner = ("" if rounding == "nearest_even" else f"_{rounding}") + "_clamped" * saturate
    name = f"cast_{source.name}_{target.name}{manner}_x{value.lanes}"
    return _as_function(fn, name, value, target, lambda y: _convert(y, source, target, rounding, saturate))


def _as_function(fn: Function, name: str, value: Value, target: DType, build: Callable[[Lane], Lane]) -> Value:
    """``build(value)`` as a call of a function made once a module: the formula may be long and used often."""
    if not fn.module.has_function(name):
        leaf = fn.module.function(name, vector_type(register_type(target), value.lanes), [("x", value.type)], inline=True)
        leaf.ret(build(Lane(leaf, leaf.params[0])).value)
    return fn.call(name, value)


def _short(x: Lane, source: DType, target: DType) -> Lane | None:
    """The conversions that are an instruction or two; None for the others."""
    if target.name == "float64":
        if source.name in ("float32", "tfloat32"):
            return x.convert("fpext", "double")
        if source.is_integer:
            return x.convert("sitofp" if source.is_signed else "uitofp", "double")
    if target.name == "float32":
        if source.name == "tfloat32":
            return x
        if source.name == "float64":
            return x.convert("fptrunc", "float")
        if source.is_integer:
            return x.convert("sitofp" if source.is_signed else "uitofp", "float")
        if source.name == "bfloat16":
            return (x.resize("i32") << 16).to_float()
    if target.name == "float16" and source.name in ("float32", "tfloat32") and x.fn.module.host.has_half_conversion:
        return _half_from_float(x)
    if source.name == "float16" and target.name in ("float32", "tfloat32") and x.fn.module.host.has_half_conversion:
        return _half_to_float(x)
    return None


def _half_from_float(x: Lane) -> Lane:
    return Lane(x.fn, x.fn.bitcast(x.convert("fptrunc", "half").value, "i16"))


def _half_to_float(x: Lane) -> Lane:
    return Lane(x.fn, x.fn.bitcast(x.value, "half")).convert("fpext", "float")


# -- bool and integers ---------------------------------------------------------------------------------------------------


def _to_bool(x: Lane, source: DType) -> Lane:
    if source.name == _SCALE:
        return x.const_of("i1", True)
    if source.is_float and source.bits <= 16:
        form = float_format(source)
        return (x if form.is_unsigned_zero else x & form.magnitude_mask).differs(0)
    return x.differs(0)


def _from_bool(x: Lane, target: DType) -> Lane:
    if not target.is_float:
        return x.resize(register_type(target))
    kind = register_type(target)
    if target.bits >= 32:
        return x.select(x.const_of(kind, 1.0), x.const_of(kind, 0.0))
    one, zero = (127, 255) if target.name == _SCALE else (float_format(target).bias << target.mantissa, 0)
    return x.select(x.const_of(kind, one), x.const_of(kind, zero))


def _between_integers(x: Lane, source: DType, target: DType) -> Lane:
    return _wrap_nibble(x.resize(register_type(target), is_signed=source.is_signed), target)


def _wrap_nibble(x: Lane, target: DType) -> Lane:
    if target.bits != 4:
        return x
    return (x << 4).shift_right_signed(4) if target.is_signed else x & 15


def _float_to_integer(x: Lane, target: DType) -> Lane:
    """float32 or float64 to an integer: toward zero, saturating, NaN to 0."""
    low, high = int(target.min), int(target.max)
    # the first values outside: powers of two (or -1), so exact in either float type
    too_low = x <= float(low - 1) if low == 0 else x < float(low)
    too_high = x >= float(high + 1)
    inside = (x > -1.0 if low == 0 else x >= float(low)).value
    safe = Lane(x.fn, x.fn.select(x.fn.binary("and", inside, (x < float(high + 1)).value), x.value, x.const(0.0).value))
    kind = register_type(target)
    through = kind if target.bits >= 32 else "i32"  # vectors of 8 or 16 bits have no conversion of their own
    is_signed = target.is_signed or target.bits < 32
    whole = safe.convert("fptosi" if is_signed else "fptoui", through).resize(kind)
    return too_low.select(low, too_high.select(high, whole))


# -- dispatch ------------------------------------------------------------------------------------------------------------


def _convert(x: Lane, source: DType, target: DType, rounding: Rounding, saturate: bool) -> Lane:
    """Every conversion between different numeric types that involves a float."""
    if target.is_integer:
        wide = x if source.bits >= 32 else _widen(x, source)
        return _float_to_integer(wide, target)
    if source.is_integer:
        return _from_integer(x, source, target, rounding, saturate)
    if source.bits <= 16:
        x, source = _widen(x, source), FLOAT32
    if target.name == "float64":
        wide = x.convert("fpext", "double")
        return _clamp(wide, float(target.max)) if saturate else wide
    if source.name == "float64":
        return _from_double(x, target, rounding, saturate)
    return _from_float(x, target, rounding, saturate)


def _from_integer(x: Lane, source: DType, target: DType, rounding: Rounding, saturate: bool) -> Lane:
    convert = "sitofp" if source.is_signed else "uitofp"
    if target.name == "float64":
        if rounding == "nearest_even" or source.bits <= 32:
            return x.convert(convert, "double")
        return _double_directed(*_split_sum(x, source), rounding)
    # A value that float32 cannot hold exactly is at least 2**24: beyond the range of the small targets, so its digits do not count.
    if source.bits <= 16 or target.max < 2.0**24:
        return _from_float(x.convert(convert, "float"), target, rounding, saturate)
    if source.bits == 64:
        return _from_double(_integer_to_double_odd(x, source), target, rounding, saturate)
    return _from_double(x.convert(convert, "double"), target, rounding, saturate)


def _integer_to_double_odd(x: Lane, source: DType) -> Lane:
    """A 64-bit integer as float64, with all that is lost gathered in the last digit kept."""
    sticky = x & -2048 | ((x & 2047) + 2047 & 2048)
    wide = (x + (1 << 53)).above(1 << 54) if source.is_signed else x.above(1 << 53)
    return wide.select(sticky, x).convert("sitofp" if source.is_signed else "uitofp", "double")


def _split_sum(x: Lane, source: DType) -> tuple[Lane, Lane]:
    """A 64-bit integer as the nearest float64 and the exact rest (Dekker's fast two-sum of its halves)."""
    high = (x.shift_right_signed(32) if source.is_signed else x >> 32).convert("sitofp", "double") * 4294967296.0
    low = (x & 0xFFFFFFFF).convert("sitofp", "double")
    total = high + low
    return total, low - (total - high)


def _double_directed(total: Lane, rest: Lane, rounding: Rounding) -> Lane:
    """``total`` moved to its neighbour where ``rest`` says that it lies on the wrong side."""
    bits = total.to_bits()
    negative = bits < 0
    smaller, larger = bits - 1, bits + 1
    if rounding == "toward_zero":
        wrong = Lane(total.fn, total.fn.select(negative.value, (rest > 0.0).value, (rest < 0.0).value))
        return wrong.select(smaller, bits).to_float()
    wrong = rest < 0.0 if rounding == "down" else rest > 0.0
    toward = negative.select(larger, smaller) if rounding == "down" else negative.select(smaller, larger)
    return wrong.select(toward, bits).to_float()


def _from_double(x: Lane, target: DType, rounding: Rounding, saturate: bool) -> Lane:
    if target.name != "float32":
        return _from_float(_double_to_float_odd(x), target, rounding, saturate)
    if saturate:
        x = _clamp(x, float(target.max))
    nearest = x.convert("fptrunc", "float")
    if rounding == "nearest_even":
        return nearest
    back = nearest.convert("fpext", "double")
    bits = nearest.to_bits()
    negative = bits < 0
    if rounding == "toward_zero":
        return (back.magnitude > x.magnitude).select(bits - 1, bits).to_float()
    if rounding == "down":
        return (back > x).select(negative.select(bits + 1, bits - 1), bits).to_float()
    return (back < x).select(negative.select(bits - 1, bits + 1), bits).to_float()


def _double_to_float_odd(x: Lane) -> Lane:
    """float64 to the float32 beside it that is odd in its last digit, unless the conversion is exact."""
    nearest = x.convert("fptrunc", "float")
    back = nearest.convert("fpext", "double")
    bits = nearest.to_bits()
    step = (back.magnitude < x.magnitude).select(bits.const(1), -1)
    inexact = Lane(x.fn, x.fn.compare("one", back.value, x.value))
    even = (bits & 1).equals(0)
    return (inexact & even).select(bits + step, bits).to_float()


def _clamp(x: Lane, limit: float) -> Lane:
    """``x`` within plus and minus ``limit``; NaN stays NaN."""
    below = (x > limit).select(limit, x)
    return (below < -limit).select(-limit, below)


def _from_float(x: Lane, target: DType, rounding: Rounding, saturate: bool) -> Lane:
    if saturate:
        x = _clamp(x, float(target.max))
    if target.name == "float32":
        return x
    if target.name == "tfloat32":
        return _round_in_place(x, 13, rounding).to_float()
    if target.name == "bfloat16":
        if rounding == "nearest_even" and instructions.rounds(x):
            return instructions.bfloat16(x, lambda y: (_round_in_place(y, 16, rounding) >> 16).resize("i16"))
        return (_round_in_place(x, 16, rounding) >> 16).resize("i16")
    if target.name == _SCALE:
        return _to_scale(x, rounding)
    if target.name == "float16" and rounding == "nearest_even" and x.fn.module.host.has_half_conversion:
        return _half_from_float(x)
    return _narrow(x, float_format(target), rounding).resize(register_type(target))


# -- narrow to wide --------------------------------------------------------------------------------------------------------


def _widen(x: Lane, source: DType) -> Lane:
    """A float of at most 16 bits as float32, exactly."""
    if source.name == "bfloat16":
        return (x.resize("i32") << 16).to_float()
    if source.name == _SCALE:
        wide = x.resize("i32")
        shifted = wide << 23
        edge = wide.equals(0) | wide.equals(255)  # 2**-127 is subnormal in float32, 255 is NaN: the same bit makes both
        return edge.select(shifted | 0x00400000, shifted).to_float()
    form = float_format(source)
    if x.fn.module.host.has_half_conversion:
        if source.name == "float16":
            return _half_to_float(x)
        if form.bias < 16:
            return _widen_by_half(x, form)
    return _widen_by_bits(x, form)


def _widen_by_half(x: Lane, form: Format) -> Lane:
    """Through the bits of a float16 with the same fields, which the machine converts, and a power of two between the biases."""
    wide = x.resize("i16")
    shift = 10 - form.mantissa
    sign = (wide << (16 - form.bits)) & 0x8000
    magnitude = wide & form.magnitude_mask
    half = magnitude << shift if shift else magnitude
    if form.has_inf and form.exponent < 5:
        half = (magnitude > form.largest).select(half | 0x7C00, half)
    elif form.is_unsigned_zero:
        half = wide.equals(form.sign_mask).select(0x7E00, half)
    elif not form.has_inf and form.nan is not None:
        half = magnitude.equals(form.nan).select(0x7E00, half)
    result = _half_to_float(half | sign)
    return result if form.bias == 15 else result * 2.0 ** (15 - form.bias)


def _widen_by_bits(x: Lane, form: Format) -> Lane:
    """By float32 fields; a subnormal is made normal by subtracting the power of two that was added to it."""
    wide = x.resize("i32")
    magnitude = wide & form.magnitude_mask
    sign = (wide << (32 - form.bits)) & -0x80000000
    fields = (magnitude << (23 - form.mantissa)) + ((127 - form.bias) << 23)
    least = 2.0 ** (1 - form.bias)
    subnormal = (fields + (1 << 23)).to_float() - least
    bits = magnitude.below(1 << form.mantissa).select(subnormal.to_bits(), fields)
    if form.has_inf:
        bits = (magnitude > form.largest).select(bits | _INFINITY, bits)
    elif form.is_unsigned_zero:
        bits = wide.equals(form.sign_mask).select(_INFINITY | 0x400000, bits)
    elif form.nan is not None:
        bits = magnitude.equals(form.nan).select(_INFINITY | 0x400000, bits)
    return (bits | sign).to_float()


# -- wide to narrow --------------------------------------------------------------------------------------------------------


def _round_in_place(x: Lane, dropped: int, rounding: Rounding) -> Lane:
    """The bits of a float32 with the last ``dropped`` digits rounded away: a carry runs into the exponent as it should."""
    bits = x.to_bits()
    ones = (1 << dropped) - 1
    if rounding == "nearest_even":
        rounded = bits + ((bits >> dropped) & 1) + (ones >> 1)
    elif rounding == "toward_zero":
        rounded = bits
    else:
        away = (bits < 0) if rounding == "down" else (bits >= 0)
        rounded = bits + away.select(bits.const(ones), 0)
    return x.is_nan.select(bits | 0x400000, rounded) & ~ones


def _to_scale(x: Lane, rounding: Rounding) -> Lane:
    """float32 to a power of two: halves round up, what is positive but below 2**-127 becomes 2**-127, the rest is NaN.

    ml_dtypes rounds everything between 2**-127 and 2**-126 up; here these round to the nearest like all others.
    """
    bits = x.to_bits()
    least = 0x00400000  # bits of 2**-127, a subnormal number, so that halfway to the next power of two is not halfway to the next exponent
    if rounding == "nearest_even":
        code = (bits < least + (least >> 1)).select(0, (bits + 0x400000) >> 23)
    elif rounding == "up":
        code = (bits <= least).select(0, (bits + 0x7FFFFF) >> 23)
    else:
        code = bits >> 23
    is_valid = (bits > 0) & (bits < _INFINITY)  # excludes zero, negative numbers, infinity and NaN
    return (is_valid & (code < 255)).select(code, 255).resize("i8")


def _narrow(x: Lane, form: Format, rounding: Rounding) -> Lane:
    """float32 to a type with at most five exponent bits, as an i32 that holds its bits."""
    bits = x.to_bits()
    absolute = bits & 0x7FFFFFFF
    is_negative = bits < 0
    sign = (bits >> (32 - form.bits)) & form.sign_mask
    dropped = 23 - form.mantissa
    rebias = (127 - form.bias) << 23
    least_normal = (128 - form.bias) << 23
    largest = absolute.const(form.largest)
    overflow = absolute.const(form.overflow)
    if rounding == "nearest_even":
        normal = (absolute + ((absolute >> dropped) & 1) + ((1 << (dropped - 1)) - 1 - rebias)) >> dropped
        # adding a power of two whose last digit is the type's smallest number makes the machine round there
        anchor = 2.0 ** (24 - form.bias - form.mantissa)
        subnormal = (absolute.to_float() + anchor).to_bits() - absolute.const_of("float", anchor).to_bits()
        code = absolute.below(least_normal).select(subnormal, normal)
        beyond = overflow
    else:
        normal = (absolute - rebias) >> dropped
        scaled = absolute.to_float() * 2.0 ** (form.bias - 1 + form.mantissa)
        is_small = absolute.below(least_normal)
        subnormal = is_small.select(scaled, 0.0).convert("fptosi", "i32")
        code = is_small.select(subnormal, normal)
        inexact = Lane(
            x.fn,
            x.fn.select(
                is_small.value,
                (subnormal.convert("sitofp", "float").differs(scaled) | (subnormal.equals(0) & absolute.differs(0))).value,
                (absolute & ((1 << dropped) - 1)).differs(0).value,
            ),
        )
        is_infinite = absolute.equals(_INFINITY)
        if rounding == "toward_zero":
            beyond = is_infinite.select(overflow, largest)
        else:
            away = is_negative if rounding == "down" else ~is_negative
            code = code + (inexact & away).resize("i32")
            beyond = (is_infinite | away).select(overflow, largest)
    # an exponent beyond the type's own leaves a code that is too large
    code = code.above(form.largest).select(beyond, code)
    is_nan = absolute > _INFINITY
    if form.nan is None:  # NaN becomes zero of the other sign, as in ml_dtypes
        return is_nan.select(sign ^ form.sign_mask, code | sign)
    code = is_nan.select(form.nan, code)
    if form.is_unsigned_zero:
        return (code & form.magnitude_mask).equals(0).select(code, code | sign)
    return code | sign


# -- constants -------------------------------------------------------------------------------------------------------------


def constant_of(t: DType, number: bool | int | float, lanes: int = 1) -> Value:
    """A constant of any dtype as its register holds it: floats rounded once to the nearest, integers wrapped."""
    kind = register_type(t)
    if t.is_bool or t.name in ("float32", "float64"):
        return constant(kind, number, lanes)
    if t.is_integer:
        digits = int(number) & ((1 << t.bits) - 1)
        return constant(kind, digits - (1 << t.bits) if t.is_signed and digits >> (t.bits - 1) else digits, lanes)
    import numpy as np

    odd = _float32_odd(float(number))
    if t.name == "tfloat32":
        if odd == odd:
            bits = int(np.float32(odd).view(np.uint32))
            odd = float(np.uint32((bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000).view(np.float32))
        return constant(kind, odd, lanes)
    if t.name == _SCALE and 0 < odd < 2.0**-126:
        return constant(kind, int(odd >= 1.5 * 2.0**-127), lanes)
    with np.errstate(invalid="ignore", over="ignore"):
        code = np.array(odd, np.float32).astype(t.numpy).view(np.uint16 if t.bits == 16 else np.uint8)
    return constant(kind, int(code), lanes)


def _float32_odd(number: float) -> float:
    """What :func:`_double_to_float_odd` makes of a Python number."""
    import numpy as np

    with np.errstate(over="ignore"):
        nearest = np.float32(number)
    bits = int(nearest.view(np.uint32))
    if number == number and float(nearest) != number and bits % 2 == 0:
        bits += 1 if abs(float(nearest)) < abs(number) else -1
    return float(np.uint32(bits).view(np.float32))
