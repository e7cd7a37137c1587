"""Values with a bound on their error: the reference of an example and its tolerance come out of one calculation.

In: exact inputs (:func:`exact`). Out: :class:`Bounded` arrays: the value in float64, and how far a right kernel that rounds each step to
float32 may be from it. Each operation carries the errors of its operands on and adds its own rounding (running error analysis: Higham,
Accuracy and Stability of Numerical Algorithms, section 3.3). Sums of n terms, in any order, add gamma(n) = n u / (1 - n u) of the sum of
the magnitudes; products of matrices the smaller of that and 6 sqrt(K) u (Higham and Mary, 2019: it fails with a chance below 1e-6 an
element even if roundings were adversarially spread, as 2 exp(-36 / 2) is 3e-8).

What is known exactly stays so where no step rounds: integers below 2^24 are added and multiplied without an error, in any order, and an
exact value rounds to one value only. With inputs that are small integers a product must be met bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Union

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Operand = Union["Bounded", float, int]

U32: Final = 2.0**-24
"""Unit roundoff of float32, in which kernels calculate."""

FUNCTION: Final = 4 * U32
"""Relative error that a function such as exp2 or tanh may have by itself: two units in the last place."""

LARGEST_INTEGER: Final = 2.0**24
"""Up to this float32 holds every integer."""

FORMATS: Final[dict[str, tuple[float, float]]] = {
    "float64": (2.0**-53, 0.0),
    "float32": (2.0**-24, 2.0**-150),
    "float16": (2.0**-11, 2.0**-25),
    "bfloat16": (2.0**-8, 2.0**-134),
    "float8_e4m3fn": (2.0**-4, 2.0**-10),
    "float8_e5m2": (2.0**-3, 2.0**-17),
}
"""Unit roundoff and half the least subnormal of each format: rounding x moves it by at most ``u |x| + half``."""


def gamma(n: int, u: float = U32) -> float:
    """The relative bound of a sum or product of ``n`` terms in any order; infinite where there is none."""
    return n * u / (1 - n * u) if n * u < 1 else math.inf


@dataclass(frozen=True, eq=False)
class Bounded:
    """``value`` in float64 and ``error``, the most that a right kernel's value differs from it, elementwise."""

    value: Array
    error: Array

    __array_priority__ = 100

    def __getitem__(self, key: Any) -> Bounded:
        return Bounded(self.value[key], self.error[key])

    @property
    def mT(self) -> Bounded:
        """The matrices transposed."""
        return self.swap(-1, -2)

    def swap(self, first: int, second: int) -> Bounded:
        """Two axes exchanged."""
        return Bounded(self.value.swapaxes(first, second), self.error.swapaxes(first, second))

    def masked(self, seen: Array) -> Bounded:
        """The value where ``seen``, and exactly 0 elsewhere."""
        return Bounded(np.where(seen, self.value, 0.0), np.where(seen, self.error, 0.0))

    def reshape(self, *shape: int) -> Bounded:
        return Bounded(self.value.reshape(*shape), self.error.reshape(*shape))

    def _after(self, value: Array, error: Array, relative: float = U32) -> Bounded:
        """The result of a step: what its operands' errors make of it, and its own."""
        return Bounded(value, error + relative * (np.abs(value) + error) + FORMATS["float32"][1])

    def _holds_integers(self) -> bool:
        """Whether all values are known exactly and are integers."""
        return not self.error.any() and bool((self.value == np.rint(self.value)).all())

    def _combined(self, right: Bounded, value: Array, error: Array) -> Bounded:
        """A sum or product of two elements: exact for integers that float32 holds."""
        if self._holds_integers() and right._holds_integers() and (np.abs(value) <= LARGEST_INTEGER).all():
            return Bounded(value, np.zeros_like(value))
        return self._after(value, error)

    def rounded(self, dtype: str) -> Bounded:
        """The value stored in another format."""
        if self._holds_integers():
            return exact(self.value.astype(np.float32).astype(numpy_dtype(dtype)))
        u, half = FORMATS[dtype]
        return Bounded(self.value, self.error + u * (np.abs(self.value) + self.error) + half)

    def perturbed(self, relative: float | Array) -> Bounded:
        """The value where the kernel takes further steps that change it by at most this factor."""
        return Bounded(self.value, self.error + relative * (np.abs(self.value) + self.error))

    def __neg__(self) -> Bounded:
        return Bounded(-self.value, self.error)

    def __add__(self, other: Operand) -> Bounded:
        right = lift(other)
        return self._combined(right, self.value + right.value, self.error + right.error)

    def __sub__(self, other: Operand) -> Bounded:
        return self + -lift(other)

    def __mul__(self, other: Operand) -> Bounded:
        right = lift(other)
        error = np.abs(self.value) * right.error + (np.abs(right.value) + right.error) * self.error
        return self._combined(right, self.value * right.value, error)

    def __truediv__(self, other: Operand) -> Bounded:
        right = lift(other)
        least = np.abs(right.value) - right.error  # not positive: the quotient has no bound
        with np.errstate(divide="ignore", invalid="ignore"):
            value = self.value / right.value
            error = np.where(least > 0, (self.error + np.abs(value) * right.error) / least, np.inf)
        return self._after(value, error)

    def __radd__(self, other: Operand) -> Bounded:
        return lift(other) + self

    def __rsub__(self, other: Operand) -> Bounded:
        return lift(other) - self

    def __rmul__(self, other: Operand) -> Bounded:
        return lift(other) * self

    def __matmul__(self, right: Bounded) -> Bounded:
        size, other = np.abs(self.value), np.abs(right.value)
        depth = self.value.shape[-1]
        if self._holds_integers() and right._holds_integers() and (size @ other).max(initial=0) <= LARGEST_INTEGER:
            return exact(self.value @ right.value)
        carried = size @ right.error + self.error @ (other + right.error)
        own = min(6 * math.sqrt(depth) * U32, gamma(depth)) * ((size + self.error) @ (other + right.error))
        return Bounded(self.value @ right.value, carried + own)

    def sum(self, axis: int, *, keepdims: bool = False) -> Bounded:
        if self._holds_integers() and np.abs(self.value).sum(axis).max(initial=0) <= LARGEST_INTEGER:
            return exact(self.value.sum(axis, keepdims=keepdims))
        carried = self.error.sum(axis, keepdims=keepdims)
        size = np.abs(self.value).sum(axis, keepdims=keepdims) + carried
        return Bounded(self.value.sum(axis, keepdims=keepdims), carried + gamma(self.value.shape[axis]) * size)

    def _monotone(self, function: Callable[[Array], Array], relative: float) -> Bounded:
        """A monotone function: its values at both ends of the interval bound what the error makes of it."""
        value = function(self.value)
        low, high = function(self.value - self.error), function(self.value + self.error)
        return self._after(value, np.maximum(np.abs(high - value), np.abs(low - value)), relative)

    def exp(self) -> Bounded:
        return self._monotone(np.exp, FUNCTION)

    def tanh(self) -> Bounded:
        return self._monotone(np.tanh, FUNCTION)

    def sigmoid(self) -> Bounded:
        return self._monotone(lambda x: 1 / (1 + np.exp(-x)), FUNCTION + 3 * U32)

    def rsqrt(self) -> Bounded:
        return self._monotone(lambda x: 1 / np.sqrt(np.maximum(x, 0)), FUNCTION)

    def log(self) -> Bounded:
        return self._monotone(np.log, FUNCTION)


def numpy_dtype(name: str) -> Any:
    """The NumPy dtype of that name, among them those of 16 bits and fewer that ml_dtypes adds."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def lift(value: Operand) -> Bounded:
    """A number as the float32 that a kernel makes of it."""
    if isinstance(value, Bounded):
        return value
    return Bounded(np.float64(value), np.abs(np.float64(np.float32(value)) - np.float64(value)))


def exact(array: Any) -> Bounded:
    """An input: known exactly."""
    value = np.asarray(array, dtype=np.float64)
    return Bounded(value, np.zeros_like(value))


def where(condition: Array, yes: Bounded, no: Bounded) -> Bounded:
    return Bounded(np.where(condition, yes.value, no.value), np.where(condition, yes.error, no.error))


def stack(parts: list[Bounded]) -> Bounded:
    return Bounded(np.stack([p.value for p in parts]), np.stack([p.error for p in parts]))


def concatenate(parts: list[Bounded], axis: int = 0) -> Bounded:
    return Bounded(np.concatenate([p.value for p in parts], axis), np.concatenate([p.error for p in parts], axis))


def softmax(scores: Bounded, seen: Array | None = None, *, steps: int = 1) -> tuple[Bounded, Bounded]:
    """The weights exp(x - max) over the last axis where ``seen``, and their sum. Neither depends on which value is subtracted, as long
    as it is one for both; it passes through ``steps`` rescalings, each of which rounds like a weight of the largest score.
    """
    hidden = np.full(scores.value.shape, False) if seen is None else ~np.broadcast_to(seen, scores.value.shape)
    shown = np.where(hidden, -np.inf, scores.value)
    top = shown.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    size = np.abs(np.where(hidden, 0.0, scores.value)).max(axis=-1, keepdims=True)
    argument = np.where(hidden, 0.0, scores.error) + 6 * U32 * size  # of the scores, their scaling to base 2 and the subtraction
    value = np.exp(shown - top)
    rescaling = (steps - 1) * (np.expm1(6 * U32 * size) + FUNCTION + U32)
    weights = Bounded(value, value * (np.expm1(argument) + FUNCTION + rescaling) + FORMATS["float32"][1] * ~hidden)
    return weights, weights.sum(-1, keepdims=True)
