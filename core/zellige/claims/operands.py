"""Operands of products and sums that tell a target which computes otherwise than it says from one that does not.

In: the element types of a product, its extents; the type of a sum. Out: arrays (:func:`product_operands`, :func:`summands`) whose exact
product or sum the result type holds, whatever the order of the sums. They have as many digits as that allows: sums kept in a narrower
type, operands that lose their fractions or their last digits, and saturated halves all give another result.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from zellige.claims.machine import Array
from zellige.dtypes import DType

_SPARE: Final = 2
"""Digits of a sum that a unit may lose, where the result type has 24 or more: units align the terms of a block and cut them off."""

_MOST_OF_SHORT: Final = 13
"""Digits of sums over floats of eight bits or fewer: there are units that keep no more of them."""

_MOST: Final = 16
"""Digits of an operand."""

_MOST_OF_SUMS: Final = 62
"""Digits of a number of which the sum of two is counted in int64 here."""


def product_operands(a: DType, b: DType, c: DType, m: int, n: int, k: int) -> tuple[Array, Array]:
    """Operands (m, k) and (k, n), as float64. In one half of the steps those of a have many digits and those of b few, in the other half
    it is the other way round."""
    generator = np.random.default_rng(4)
    free = max(2, _digits_of_sums(a, b, c) - max(1, (k - 1).bit_length()))
    halves: list[tuple[Array, Array]] = []
    wide = max(1, min(_digits(a), _digits(b), _MOST, free - 2))
    narrow = max(1, min(_digits(a), _digits(b), free - wide))
    for of_a, of_b, steps in ((wide, narrow, k // 2), (narrow, wide, k - k // 2)):
        halves.append((_drawn(generator, a, of_a, (m, steps)), _drawn(generator, b, of_b, (steps, n))))
    (first_a, first_b), (second_a, second_b) = halves
    return np.concatenate([first_a, second_a], axis=1), np.concatenate([first_b, second_b], axis=0)


def summands(t: DType, count: int) -> tuple[Array, Array]:
    """Two arrays whose sums the type holds: int64 for integers, else float64, half of the digits behind the point."""
    generator = np.random.default_rng(2)
    if t.is_float and t.mantissa == 0:  # powers of two alone
        ones = np.ones(count)
        return ones, ones
    digits = min(_digits(t) - 1, _MOST_OF_SUMS)
    most = (1 << digits) - 1
    least = -most if t.is_float or t.is_signed else 0
    first, second = (generator.integers(least, most, count, endpoint=True) for _ in range(2))
    scale = 1 << digits // 2
    return (first / scale, second / scale) if t.is_float else (first, second)


def _digits(t: DType) -> int:
    """Binary digits of the integers that a type holds exactly, all of them up to the largest."""
    return t.mantissa + 1 if t.is_float else t.bits - (1 if t.is_signed else 0)


def _digits_of_sums(a: DType, b: DType, c: DType) -> int:
    digits = _digits(c)
    if not c.is_float:
        return digits
    kept = digits - _SPARE if digits >= 24 else digits
    return min(kept, _MOST_OF_SHORT) if a.is_float and max(a.bits, b.bits) <= 8 else kept


def _drawn(generator: np.random.Generator, t: DType, digits: int, shape: tuple[int, int]) -> Array:
    """Numbers of so many digits, half of them behind the point where the type has fractions; zeros among them."""
    most = (1 << digits) - 1
    is_signed = t.is_float or t.is_signed
    drawn: Any = generator.integers(-most if is_signed else 0, most, shape, endpoint=True)
    return np.asarray(drawn, np.float64) / (1 << digits // 2 if t.is_float else 1)
