"""The contents of generated tensors.

In: a picker, a type and a shape. Out: an array as a caller passes it. Small whole numbers come first: sums of them are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from zellige.dtypes import DType
from zellige.elements.conversion import FLOAT64, Array, cast, codes, has_nan
from zellige.generate.choices import Picker

DataKind = Literal["small", "halves", "unit", "wide", "special"]

_KINDS: Final[tuple[tuple[int, DataKind], ...]] = ((50, "small"), (14, "halves"), (16, "unit"), (10, "wide"), (10, "special"))
_INTEGER_KINDS: Final[tuple[tuple[int, DataKind], ...]] = ((70, "small"), (30, "wide"))


def pick_kind(picker: Picker, dtype: DType) -> DataKind:
    """What sort of values a tensor of ``dtype`` gets."""
    return picker.weighted(_KINDS if dtype.is_float else _INTEGER_KINDS)


def make_array(picker: Picker, dtype: DType, shape: Sequence[int], kind: DataKind | None = None) -> Array:
    """A dense array; 4-bit types two to a byte along the last dimension, which is even."""
    chosen = kind or pick_kind(picker, dtype)
    random = np.random.default_rng(picker.integer(0, 999_999))
    count = int(np.prod(shape))
    values = _floats(random, dtype, chosen, count) if dtype.is_float else _whole(random, dtype, chosen, count)
    array = values.reshape(tuple(shape))
    if dtype.bits != 4:
        return array
    nibbles = codes(array, dtype)
    return np.asarray(nibbles[..., 0::2] | (nibbles[..., 1::2] << np.uint8(4)))


def _whole(random: np.random.Generator, dtype: DType, kind: DataKind, count: int) -> Array:
    if dtype.is_bool:
        return random.random(count) < 0.5
    if kind == "small":
        low, high = max(-7, int(dtype.min)), min(8, int(dtype.max))
        return random.integers(low, high, count, endpoint=True).astype(dtype.numpy)
    wide = np.int64 if dtype.is_signed else np.uint64
    values = random.integers(int(dtype.min), int(dtype.max), count, wide, endpoint=True)
    edges = np.array([dtype.min, dtype.max, 0, 1], wide)
    chosen = random.random(count) < 0.15
    values[chosen] = edges[random.integers(0, 4, int(chosen.sum()))]
    return values.astype(dtype.numpy)


def _floats(random: np.random.Generator, dtype: DType, kind: DataKind, count: int) -> Array:
    if dtype.name == "float8_e8m0fnu":
        return cast(np.ldexp(1.0, random.integers(-3, 4, count)), FLOAT64, dtype)
    match kind:
        case "small":
            values = random.integers(-4, 5, count).astype(np.float64)
        case "halves":
            values = random.integers(-16, 17, count) / 4.0
        case "unit":
            values = random.uniform(-1, 1, count)
        case "wide" | "special":
            values = random.normal(0, 1, count) * 10.0 ** random.integers(-3, 4, count)
    values = np.clip(values, dtype.min, dtype.max)
    array = cast(values, FLOAT64, dtype)
    if kind == "special":
        tiny = cast(np.array([2.0 ** (2 - dtype.mantissa - 2 ** (dtype.exponent - 1))]), FLOAT64, dtype)
        edges = [-0.0, 0.0, dtype.max, dtype.min, float(tiny[0]), *([np.nan, np.inf, -np.inf] if has_nan(dtype) else [])]
        chosen = random.random(count) < 0.3
        picked = np.array(edges)[random.integers(0, len(edges), int(chosen.sum()))]
        array[chosen] = cast(picked, FLOAT64, dtype)
    return array
