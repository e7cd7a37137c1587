"""What instructions compute, as functions of whole operands in NumPy.

In: operands by name. Out: results by name. Sums are formed in the accumulator's type, exactly as far as that type can; where a device adds
in an order of its own or with fewer bits, the specification says so and comparisons need the tolerance that follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Operands = Mapping[str, Array]


def multiply_add(operands: Operands) -> dict[str, Array]:
    """d = c + a b in c's type: a of (m, k), b of (k, n); an operand without m or n is the same along it."""
    c = operands["c"]
    wide = np.float64 if c.dtype == np.float64 else np.float32 if c.dtype.kind not in "iu" else c.dtype
    a, b = operands["a"].astype(wide), operands["b"].astype(wide)
    with np.errstate(over="ignore"):  # integers wrap around
        return {"d": (c.astype(wide) + np.atleast_2d(a) @ b).astype(c.dtype)}


def add_even_and_odd(operands: Operands) -> dict[str, Array]:
    """d = c + (sum over even k + sum over odd k) in float32: both sums begin at 0 and add one product after the other, each sum is rounded,
    and numbers below the least normal one count as 0 before and after. Products of two bfloat16 are exact in float32 but for over- and
    underflow.
    """
    a, b, c = (_without_subnormals(operands[name].astype(np.float32)) for name in ("a", "b", "c"))
    sums = [np.zeros_like(c), np.zeros_like(c)]
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(a.shape[1]):
            sums[k % 2] = _without_subnormals(sums[k % 2] + a[:, k, None] * b[None, k])
        return {"d": _without_subnormals(c + _without_subnormals(sums[0] + sums[1]))}


def _without_subnormals(values: Array) -> Array:
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.float32(0) * values, values)


def multiply(operands: Operands) -> dict[str, Array]:
    """d = a b in float32, for units that overwrite (or add outside)."""
    return {"d": operands["a"].astype(np.float32) @ operands["b"].astype(np.float32)}


def copy(operands: Operands) -> dict[str, Array]:
    """The destination's elements are the source's."""
    return {"destination": operands["source"]}


def power_of_two(operands: Operands) -> dict[str, Array]:
    """2 to the power x, in float64."""
    return {"result": np.exp2(operands["x"].astype(np.float64))}


def reciprocal(operands: Operands) -> dict[str, Array]:
    """1 / x, in float64; infinity for 0."""
    with np.errstate(divide="ignore"):
        return {"result": 1.0 / operands["x"].astype(np.float64)}


def reciprocal_root(operands: Operands) -> dict[str, Array]:
    """1 / sqrt(x), in float64; infinity for 0, NaN below."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return {"result": 1.0 / np.sqrt(operands["x"].astype(np.float64))}


def hyperbolic_tangent(operands: Operands) -> dict[str, Array]:
    """tanh(x), in float64."""
    return {"result": np.tanh(operands["x"].astype(np.float64))}


def scale_by_power(operands: Operands) -> dict[str, Array]:
    """x times two to the floor of y."""
    return {"result": operands["x"].astype(np.float64) * np.exp2(np.floor(operands["y"].astype(np.float64)))}
