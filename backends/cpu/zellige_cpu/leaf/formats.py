"""The bit patterns of the float types below 32 bits, as numbers that the conversions compute with.

In: a :class:`zellige.dtypes.DType`. Out: a :class:`Format`. Sources: IEEE 754-2019, the OCP 8-bit and Microscaling specifications, and
ml_dtypes for what a type without infinity or NaN does with them.
"""

from __future__ import annotations

from functools import cache

from zellige.dtypes import DType
from zellige.records import dataclass

_ELEVEN = "float8_e4m3b11fnuz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """Codes are magnitudes, without the sign bit, except that ``nan`` of the types with unsigned zero is the sign bit alone.

    ``largest`` is the code of the largest finite value, ``overflow`` what a value beyond it rounds to.
    ``nan`` is None where the type has no NaN.
    """

    bits: int
    exponent: int
    mantissa: int
    bias: int
    largest: int
    overflow: int
    nan: int | None
    has_inf: bool
    is_unsigned_zero: bool

    @property
    def magnitude_mask(self) -> int:
        return (1 << (self.bits - 1)) - 1

    @property
    def sign_mask(self) -> int:
        return 1 << (self.bits - 1)


@cache
def float_format(t: DType) -> Format:
    """The format of a float type of at most 16 bits with a sign (every one but float8_e8m0fnu)."""
    bias = 11 if t.name == _ELEVEN else (1 << (t.exponent - 1)) - (0 if t.is_unsigned_zero else 1)
    every = (1 << (t.bits - 1)) - 1
    nan: int | None
    if t.has_inf:
        infinity = ((1 << t.exponent) - 1) << t.mantissa
        largest, overflow, nan = infinity - 1, infinity, infinity | 1 << (t.mantissa - 1)
    elif t.is_unsigned_zero:
        largest, overflow, nan = every, every + 1, every + 1
    elif t.bits == 8:
        largest, overflow, nan = every - 1, every, every
    else:
        largest, overflow, nan = every, every, None
    return Format(
        bits=t.bits,
        exponent=t.exponent,
        mantissa=t.mantissa,
        bias=bias,
        largest=largest,
        overflow=overflow,
        nan=nan,
        has_inf=t.has_inf,
        is_unsigned_zero=t.is_unsigned_zero,
    )
