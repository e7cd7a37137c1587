"""What is known of a value on every backend at once: its range, its grid, and how far two backends may lie apart.

In: arrays, constants, the facts of operands. Out: a :class:`Fact`. Backends agree bit for bit in what the tile IR defines to the bit
(element-wise arithmetic, conversions, data movement), so an error enters only where the IR leaves an order or a rounding open: in
sums, products and mathematics functions. A sum of numbers that are multiples of one power of two, small enough for the type, is exact
in any order; that is what ``quantum`` is for. Where no bound can be derived, :class:`Unbounded` says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from zellige.dtypes import DType, dtype as as_dtype
from zellige.elements.conversion import FLOAT64, TFLOAT32, Array, bias, cast, has_nan

FLOAT32: Final = as_dtype("float32")

_ANY_GRID: Final = 4096  # zero is a multiple of every power of two

NAN: Final = 1
UP: Final = 2
DOWN: Final = 4
ANY: Final = NAN | UP | DOWN
"""What is not finite: NaN, infinity, minus infinity."""


class Unbounded(Exception):
    """Nothing can be said about how far two backends may lie apart; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """About every value that an expression, variable or buffer may have.

    Finite values lie from ``low`` to ``high`` and, on the backend that rounds least, are multiples of ``2 ** quantum``. Two backends have
    NaN and infinities in the same places (``special`` says which there may be) and finite values that differ by at most ``error``. With
    ``is_zero_open`` the signs of zeros may differ. Integers and bool never differ.
    """

    low: float
    high: float
    quantum: int = 0
    error: float = 0.0
    special: int = 0
    is_zero_open: bool = False

    @property
    def is_special(self) -> bool:
        """Whether some value may be NaN or infinite."""
        return self.special != 0

    @property
    def magnitude(self) -> float:
        """The largest absolute value that some backend may have."""
        return max(abs(self.low), abs(self.high)) + self.error

    @property
    def has_zero(self) -> bool:
        """Whether some backend may have a zero."""
        return self.low - self.error <= 0 <= self.high + self.error

    @property
    def is_exact(self) -> bool:
        """Whether all backends have the same values."""
        return self.error == 0


def precision(dtype: DType) -> int:
    """The number of significant bits of a float type."""
    return dtype.mantissa + 1


def least_exponent(dtype: DType) -> int:
    """The exponent of the smallest positive value of a float type; every value is a multiple of that power of two."""
    return -127 if dtype.name == "float8_e8m0fnu" else 1 - bias(dtype) - dtype.mantissa


def rounding_error(dtype: DType, magnitude: float) -> float:
    """How far rounding to nearest moves a value of at most ``magnitude``."""
    return max(magnitude * 2.0 ** -precision(dtype), 2.0 ** (least_exponent(dtype) - 1))


def holds_exactly(dtype: DType, magnitude: float, quantum: int) -> bool:
    """Whether the float type has every multiple of ``2 ** quantum`` up to ``magnitude``."""
    return quantum >= least_exponent(dtype) and magnitude <= min(math.ldexp(1.0, min(precision(dtype) + quantum, 1023)), float(dtype.max))


def full_range(dtype: DType) -> Fact:
    """Any value of a type."""
    if dtype.is_float:
        return Fact(low=float(dtype.min), high=float(dtype.max), quantum=least_exponent(dtype), special=ANY if has_nan(dtype) else 0)
    return Fact(low=dtype.min, high=dtype.max)


def bottom_zero() -> Fact:
    """Zero."""
    return Fact(low=0, high=0, quantum=_ANY_GRID)


def interval(dtype: DType, low: float, high: float) -> Fact:
    """Integers from ``low`` to ``high``, or any value where the type wraps them."""
    return Fact(low=low, high=high) if dtype.min <= low and high <= dtype.max else full_range(dtype)


def mixed(*facts: Fact) -> int:
    """What is not finite in a result of arithmetic: anything where an operand is not."""
    return ANY if any(fact.special for fact in facts) else 0


def joined(facts: Iterable[Fact]) -> Fact:
    """What holds of values of any of the facts; at least one."""
    first, *rest = facts
    for fact in rest:
        first = Fact(
            low=min(first.low, fact.low),
            high=max(first.high, fact.high),
            quantum=min(first.quantum, fact.quantum),
            error=max(first.error, fact.error),
            special=first.special | fact.special,
            is_zero_open=first.is_zero_open or fact.is_zero_open,
        )
    return first


def rounded(fact: Fact, dtype: DType, *, is_nearest: bool = True) -> Fact:
    """The fact of float values, known before rounding, once they are of ``dtype``.

    Raises Unbounded where values that differ may overflow: one could be infinite where the other is not.
    """
    if not holds_exactly(dtype, fact.magnitude, fact.quantum):
        slack = rounding_error(dtype, fact.magnitude) * (1 if is_nearest else 2)
        low, high = fact.low - slack, fact.high + slack
        # a sign is not lost by rounding
        low, high = (max(low, 0.0) if fact.low >= 0 else low), (min(high, 0.0) if fact.high <= 0 else high)
        error = 0.0 if fact.error == 0 else fact.error + 2 * slack
        fact = replace(fact, low=low, high=high, error=error)
    largest = float(dtype.max)
    if fact.magnitude > largest:
        if fact.error > 0:
            raise Unbounded(f"values that differ between backends may exceed {dtype}")
        fact = replace(
            fact, low=max(fact.low, -largest), high=min(fact.high, largest), special=fact.special | (ANY if has_nan(dtype) else 0)
        )
        # what is clamped becomes the largest value, whatever the grid
        quantum = min(fact.quantum, _grid(np.array([largest])))
        fact = replace(fact, low=min(fact.low, largest), high=max(fact.high, -largest), quantum=quantum)
    return replace(fact, quantum=max(fact.quantum, least_exponent(dtype)), is_zero_open=fact.is_zero_open or fact.error > 0)


def gamma(terms: int, dtype: DType) -> float:
    """The relative error of ``terms`` roundings, one after the other (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).

    Raises Unbounded where there are too many for a bound.
    """
    share = terms * 2.0 ** -precision(dtype)
    if share >= 0.5:
        raise Unbounded(f"{terms} roundings of {dtype} leave no bound")
    return share / (1 - share)


def elements(array: Array, dtype: DType) -> Array:
    """The elements of a tensor as it is passed: float64, int64 or uint64, or bool; 4-bit types are unpacked."""
    if dtype.bits == 4:
        codes = np.stack([array.view(np.uint8) & np.uint8(0xF), array.view(np.uint8) >> np.uint8(4)], axis=-1)
        codes = codes.reshape(*array.shape[:-1], 2 * array.shape[-1])
        if dtype.name == "int4":
            return np.asarray(np.where(codes >= 8, codes.astype(np.int64) - 16, codes))
        array = codes if dtype.is_integer else codes.view(dtype.numpy)
    if dtype.is_bool:
        return np.asarray(array.view(np.uint8) != 0)
    if dtype.is_integer:
        return array.astype(np.int64 if dtype.is_signed else np.uint64)
    if dtype == TFLOAT32:
        array = cast(array, FLOAT32, TFLOAT32)
    return np.asarray(array.astype(np.float64))


def fact_of(array: Array, dtype: DType) -> Fact:
    """The fact of the elements of a tensor."""
    values = elements(array, dtype)
    if not dtype.is_float:
        return Fact(low=int(values.min()), high=int(values.max())) if values.size else bottom_zero()
    finite = values[np.isfinite(values)]
    special = NAN * bool(np.isnan(values).any()) | UP * bool((values == np.inf).any()) | DOWN * bool((values == -np.inf).any())
    if not finite.size:
        return replace(bottom_zero(), special=special)
    return Fact(low=float(finite.min()), high=float(finite.max()), quantum=_grid(finite), special=special)


def fact_of_number(value: float, dtype: DType) -> Fact:
    """The fact of one number of ``dtype``."""
    if not dtype.is_float:
        return Fact(low=int(value), high=int(value))
    held: Any = cast(np.array(float(value)), FLOAT64, dtype)
    return fact_of(held.reshape(1), dtype) if dtype.bits != 4 else _fact_of_float(float(held))


def _fact_of_float(value: float) -> Fact:
    return Fact(low=value, high=value, quantum=_grid(np.array([value])))


def _grid(values: Array) -> int:
    """The largest power of two of which all finite ``values`` are multiples, as an exponent."""
    nonzero = values[values != 0]
    if not nonzero.size:
        return _ANY_GRID
    fraction, exponent = np.frexp(nonzero)
    digits = np.abs(np.ldexp(fraction, 53)).astype(np.int64)
    zeros = np.log2((digits & -digits).astype(np.float64)).astype(np.int64)
    return int((exponent - 53 + zeros).min())
