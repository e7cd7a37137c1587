"""Element values as NumPy arrays: casts of every kind, rounding to any float type, and the bits of a value.

In: arrays whose NumPy dtype is ``DType.scalar.numpy`` (a vector type's lanes are the last axis). Out: arrays of the same form.
Every cast rounds once: a float64 or an integer on its way to a narrow float does not stop at float32, where it would round twice.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from zellige.dtypes import DType, dtype as as_dtype
from zellige.ir.expr import Rounding

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

FLOAT32 = as_dtype("float32")
FLOAT64 = as_dtype("float64")
TFLOAT32 = as_dtype("tfloat32")
INT64 = as_dtype("int64")
UINT64 = as_dtype("uint64")

# NumPy and ml_dtypes convert these to any other float in one rounding
_DIRECT = frozenset({"float16", "float32", "bfloat16"})


def bias(dtype: DType) -> int:
    """The exponent bias of a float type: a value of exponent field e > 0 is (1 + fraction) * 2 ** (e - bias)."""
    if dtype.name == "float8_e4m3b11fnuz":
        return 11
    return (1 << (dtype.exponent - 1)) - 1 + dtype.is_unsigned_zero


def has_nan(dtype: DType) -> bool:
    """Whether a float type holds NaN: all but those of 4 and 6 bits."""
    return dtype.bits >= 8


def rounded(values: Array, dtype: DType, rounding: Rounding, *, saturate: bool = False, random: np.random.Generator | None = None) -> Array:
    """float64 ``values`` in the float type ``dtype``, rounded once.

    Beyond the largest finite value: infinity, or NaN, or (4- and 6-bit types) that value itself; with ``saturate``, or where
    the rounding goes toward zero, always that value.
    """
    if dtype.name == "float64":
        return np.clip(values, dtype.min, dtype.max) if saturate else values
    mantissa = dtype.mantissa
    least_exponent = -127 if dtype.name == "float8_e8m0fnu" else 1 - bias(dtype)
    exponent = np.maximum(np.frexp(values)[1] - 1, least_exponent)
    scaled = np.ldexp(values, mantissa - exponent)
    match rounding:
        case "nearest_even":
            units = np.rint(scaled)
        case "toward_zero":
            units = np.trunc(scaled)
        case "down":
            units = np.floor(scaled)
        case "up":
            units = np.ceil(scaled)
        case "stochastic":
            source = random if random is not None else np.random.default_rng(0)
            units = np.floor(scaled + source.random(np.shape(scaled)))
    result = np.ldexp(units, exponent - mantissa)
    largest = float(dtype.max)
    if dtype.name == "float8_e8m0fnu":  # powers of two only: no zero, no sign
        result = np.where(values > 0, np.maximum(result, 2.0**-127), np.nan)
    over = np.abs(result) > largest
    if saturate or not has_nan(dtype):
        result = np.where(over, np.copysign(largest, result), result)
    elif over.any():
        beyond = np.copysign(np.inf if dtype.has_inf else np.nan, result)
        toward_zero = np.isfinite(values) & (
            (rounding == "toward_zero") | ((rounding == "down") & (result > 0)) | ((rounding == "up") & (result < 0))
        )
        result = np.where(over, np.where(toward_zero, np.copysign(largest, result), beyond), result)
    return np.asarray(result).astype(dtype.numpy)


def _exact_float64(values: Array, dtype: DType) -> Array:
    """Values as float64, exact but for integers above 2**53: those keep their leading bits and an odd last one, so that rounding them
    further to at most 24 bits gives what rounding the integer gives."""
    if not dtype.is_integer or dtype.bits <= 32:
        return values.astype(np.float64)
    wide = values.astype(np.uint64)
    if dtype.is_signed:
        wide = np.where(values < 0, np.uint64(0) - wide, wide)
    rest = wide & np.uint64(0xFFF)
    kept = (wide & ~np.uint64(0xFFF)) | np.where(rest != 0, np.uint64(0x1000), np.uint64(0))
    magnitude = np.where(wide < np.uint64(1 << 53), wide, kept).astype(np.float64)
    return np.where(values < 0, -magnitude, magnitude)


def _integer_to_float64(values: Array, rounding: Rounding) -> Array:
    """64-bit integers as float64 with any rounding; the directed ones compare with the exact integer."""
    nearest = values.astype(np.float64)
    if rounding in ("nearest_even", "stochastic"):
        return nearest
    error = np.array([int(near) - int(value) for near, value in zip(nearest.ravel(), values.ravel())], dtype=object).reshape(nearest.shape)
    too_high, too_low = error > 0, error < 0
    if rounding == "toward_zero":
        too_high, too_low = too_high & (nearest > 0), too_low & (nearest < 0)
    elif rounding == "up":
        too_high = np.zeros_like(too_high)
    else:
        too_low = np.zeros_like(too_low)
    below, above = np.nextafter(nearest, -np.inf), np.nextafter(nearest, np.inf)
    return np.where(too_high.astype(bool), below, np.where(too_low.astype(bool), above, nearest))


def _to_integer(values: Array, dtype: DType) -> Array:
    """Floats toward zero, saturated, NaN to 0."""
    whole = np.trunc(values.astype(np.float64))
    least, beyond = float(dtype.min), float(2 ** (dtype.bits - dtype.is_signed))
    inside = (whole >= least) & (whole < beyond)
    native = np.dtype(np.int64 if dtype.is_signed else np.uint64)
    result = np.where(inside, whole, 0.0).astype(native)
    result = np.where(whole >= beyond, native.type(dtype.max), np.where(whole < least, native.type(dtype.min), result))
    return result.astype(dtype.numpy)


def cast(
    values: Array,
    source: DType,
    target: DType,
    rounding: Rounding = "nearest_even",
    *,
    saturate: bool = False,
    random: np.random.Generator | None = None,
) -> Array:
    """``values`` of ``source`` as ``target``, as :class:`zellige.ir.expr.Cast` says."""
    if target.lanes > 1 and source.lanes == 1:
        values = np.broadcast_to(values[..., None], (*values.shape, target.lanes))
    source, target = source.scalar, target.scalar
    if source == target and not (saturate and target.is_float):
        return values
    if target.is_bool:
        return np.asarray(values.astype(np.float32 if source.is_float and source.bits < 32 else values.dtype) != 0)
    if target.is_integer:
        if source.is_float:
            return _to_integer(values, target)
        return values.astype(np.int8).astype(target.numpy) if source.bits < 8 else values.astype(target.numpy)
    if rounding == "nearest_even" and not saturate and target.name != "tfloat32":
        # (ml_dtypes rounds float32 subnormals to float8_e8m0fnu by another rule than to the nearest)
        if target.name in ("float32", "float64") or (source.name in _DIRECT and target.name != "float8_e8m0fnu"):
            return values.astype(target.numpy)
    if source.is_integer and target.name == "float64":
        return _integer_to_float64(values, rounding)
    return rounded(_exact_float64(values, source), target, rounding, saturate=saturate, random=random)


def codes(values: Array, dtype: DType) -> Array:
    """The bits of scalar values as unsigned integers of the storage width; 4-bit values in the low half of a byte."""
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    bits = np.ascontiguousarray(values).view(unsigned).reshape(values.shape)
    return np.asarray(bits & np.uint8(0xF)) if dtype.bits == 4 else bits


def from_codes(bits: Array, dtype: DType) -> Array:
    """The values of unsigned integers of the storage width: the inverse of :func:`codes`."""
    if dtype.is_bool:
        return np.asarray(bits != 0)
    if dtype.name == "int4":
        return np.asarray((bits ^ np.uint8(8)).astype(np.int8) - np.int8(8)).astype(dtype.numpy)
    values: Array = np.ascontiguousarray(bits).view(dtype.numpy).reshape(bits.shape)
    return values


def stored(values: Array, scalar: DType) -> Array:
    """What storage holds as values: any nonzero byte is True, a tfloat32 has no more than its 10 bits of fraction."""
    if scalar.is_bool:
        return np.asarray(values != 0)
    if scalar == TFLOAT32:
        return rounded(values.astype(np.float64), scalar, "nearest_even")
    return values


def to_bytes(values: Array, dtype: DType) -> Array:
    """The bytes of every value, in memory order along a new last axis that takes the place of a vector's lanes."""
    lanes = values if dtype.lanes > 1 else values[..., None]
    bits = codes(lanes, dtype.scalar)
    if dtype.bits == 4:
        return np.asarray(bits[..., 0::2] | (bits[..., 1::2] << np.uint8(4)))
    return np.ascontiguousarray(bits).view(np.uint8)


def from_bytes(data: Array, dtype: DType) -> Array:
    """The inverse of :func:`to_bytes`."""
    if dtype.bits == 4:
        bits = np.stack([data & np.uint8(0xF), data >> np.uint8(4)], axis=-1).reshape(*data.shape[:-1], -1)
    else:
        bits = np.ascontiguousarray(data).view(np.dtype(f"u{dtype.scalar.itemsize}"))
    lanes = from_codes(bits, dtype.scalar)
    return lanes if dtype.lanes > 1 else lanes[..., 0]


def reinterpret(values: Array, source: DType, target: DType) -> Array:
    """The same bits as another type of the same width."""
    if source.bits == target.bits and source.lanes == target.lanes:
        return from_codes(codes(values, source.scalar), target.scalar)
    return from_bytes(to_bytes(values, source), target)
