"""Whether two arrays hold nearly the same values, and where they do not.

In: two arrays of any frameworks. Out: a :class:`Comparison`. An element agrees when
``|actual - expected| <= atol + rtol * |expected|``, when both are the same infinity, or, unless told otherwise, when both are NaN.
Whole numbers without tolerance are compared exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from zellige.runtime.arrays import ArrayView, as_numpy, view_of
from zellige.runtime.timing import check_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """``mismatched`` of ``total`` elements differ, the first at ``index``. The greatest differences are over finite elements."""

    total: int
    mismatched: int
    index: tuple[int, ...]
    first: tuple[float, float]
    greatest_absolute: float
    greatest_relative: float

    def describe(self, actual_name: str, expected_name: str, allowed: int) -> str:
        """What a failed assertion says; ``allowed`` is how many elements might differ."""
        actual, expected = self.first
        values = f"{actual_name} {actual:g}, {expected_name} {expected:g}"
        return "\n".join(
            [
                f"{self.mismatched} of {self.total} elements differ ({self.mismatched / self.total:.2%}), {allowed} may",
                f"first at {list(self.index)}: {values}, difference {abs(actual - expected):g}",
                f"greatest difference {self.greatest_absolute:g}, relative {self.greatest_relative:g}",
            ]
        )


def values_of(array: Any) -> np.ndarray[Any, Any]:
    """The values of an array of any framework and device on the host: whole numbers as they are, others as float64.

    Raises TypeError for an object that is no array.
    """
    if hasattr(array, "detach") and hasattr(array, "cpu"):  # a torch tensor that may live on a device
        array = array.detach().cpu()
    view = view_of(array)
    if view is None:
        converted = np.asarray(array)
        view = view_of(converted) if converted.dtype != object else None
    if view is None:
        raise TypeError(f"expected an array, got {type(array).__name__}")
    return _widened(view)


def _widened(view: ArrayView) -> np.ndarray[Any, Any]:
    values = as_numpy(view)
    return values if values.dtype.kind in "iub" else values.astype(np.float64)


def compare(actual: Any, expected: Any, *, rtol: float, atol: float, equal_nan: bool = True) -> Comparison:
    """Compare element by element. Raises AssertionError where the shapes differ."""
    left, right = values_of(actual), values_of(expected)
    if left.shape != right.shape:
        raise AssertionError(f"shapes differ: {left.shape} and {right.shape}")
    is_exact = rtol == 0 and atol == 0 and left.dtype.kind in "iub" and right.dtype.kind in "iub"
    with np.errstate(all="ignore"):
        if is_exact:
            differ = left != right
        else:
            left, right = left.astype(np.float64), right.astype(np.float64)
            differ = ~np.isclose(left, right, rtol=rtol, atol=atol, equal_nan=equal_nan)
        distance = np.abs(left.astype(np.float64) - right.astype(np.float64))
        finite = np.isfinite(distance)
        relative = distance / np.maximum(np.abs(right.astype(np.float64)), np.finfo(np.float64).tiny)
    mismatched = int(np.count_nonzero(differ))
    flat = int(np.argmax(differ)) if mismatched else 0
    index = tuple(int(i) for i in np.unravel_index(flat, differ.shape)) if mismatched else ()
    return Comparison(
        total=differ.size,
        mismatched=mismatched,
        index=index,
        first=(float(left[index]), float(right[index])) if mismatched else (0.0, 0.0),
        greatest_absolute=float(distance[finite].max(initial=0.0)),
        greatest_relative=float(relative[finite & (distance > 0)].max(initial=0.0)),
    )


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float,
    atol: float,
    max_mismatched_ratio: float,
    equal_nan: bool = True,
    actual_name: str = "actual",
    expected_name: str = "expected",
) -> Comparison:
    """Raise AssertionError unless at most ``max_mismatched_ratio`` of the elements (rounded down to a count) differ.

    E637: a tolerance or share that is no number.
    """
    for name, value in (("rtol", rtol), ("atol", atol), ("max_mismatched_ratio", max_mismatched_ratio)):
        check_number(name, value)
    found = compare(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
    allowed = int(found.total * max_mismatched_ratio)
    if found.mismatched > allowed:
        raise AssertionError(found.describe(actual_name, expected_name, allowed))
    return found
