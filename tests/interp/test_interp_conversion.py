"""Casts between all element types against exact rational arithmetic, and against ml_dtypes where it rounds once."""

from __future__ import annotations

import bisect
import math
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from zellige.dtypes import DType, all_dtypes, dtype
from zellige.elements.conversion import cast, codes, from_codes, reinterpret

FLOATS = [t for t in all_dtypes() if t.is_float]
SMALL = [t for t in FLOATS if t.bits <= 16]
INTEGERS = [t for t in all_dtypes() if t.is_integer]
F64 = dtype("float64")


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def integers(values: list[int], t: DType) -> np.ndarray:
    return np.array(values, np.int64 if t.is_signed else np.uint64).astype(t.numpy)


def every_value(t: DType) -> np.ndarray:
    """All bit patterns of a type of at most 16 bits."""
    count = 1 << (t.bits if t.bits > 1 else 1)
    return from_codes(np.arange(count, dtype=np.uint8 if t.bits <= 8 else np.uint16), t)


@cache
def finite_values(t: DType) -> list[tuple[Fraction, float]]:
    values = every_value(t).astype(np.float64)
    return sorted({(Fraction(float(v)), float(v)) for v in values if np.isfinite(v)})


def reference(x: Fraction, table: list[Fraction], even: dict[Fraction, bool], t: DType, rounding: str) -> float:
    """The value of t that x rounds to, by searching all values of t; only for |x| within its range."""
    at = bisect.bisect_left(table, x)
    if at < len(table) and table[at] == x:
        return float(x)
    below, above = table[at - 1], table[at]
    match rounding:
        case "down":
            return float(below)
        case "up":
            return float(above)
        case "toward_zero":
            return float(below if x > 0 else above)
    if x - below != above - x:
        return float(below if x - below < above - x else above)
    return float(below if even[below] else above)


@cache
def is_even(t: DType) -> dict[Fraction, bool]:
    values = every_value(t)
    return {Fraction(float(v)): int(c) % 2 == 0 for v, c in zip(values.astype(np.float64), codes(values, t)) if np.isfinite(v)}


@pytest.mark.parametrize("t", [t for t in SMALL if t.name != "float8_e8m0fnu"], ids=str)
@pytest.mark.parametrize("rounding", ["nearest_even", "toward_zero", "down", "up"])
def test_rounds_once_between_the_neighbours(t, rounding, random):
    table = [f for f, _ in finite_values(t)]
    even = is_even(t)
    picks = random.integers(0, len(table) - 1, 80)
    samples = [table[i] for i in picks[:50]]
    for i in picks:
        low, high = table[i], table[i + 1]
        middle = (low + high) / 2
        samples += [middle, middle + Fraction(1, 1 << 40) * (high - low), middle - Fraction(1, 1 << 40) * (high - low)]
    samples = [s for s in samples if Fraction(float(s)) == s]
    found = cast(np.array([float(s) for s in samples]), F64, t, rounding).astype(np.float64)
    expected = [reference(s, table, even, t, rounding) for s in samples]
    assert len(samples) > 150
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("t", [t for t in SMALL if t.name != "float8_e8m0fnu"], ids=str)
def test_agrees_with_ml_dtypes_from_float32(t, random):
    bits = random.integers(0, 1 << 32, 20000, dtype=np.uint64).astype(np.uint32)
    near_one = (random.standard_normal(20000) * np.exp2(random.integers(-20, 20, 20000))).astype(np.float32)
    values = np.concatenate([bits.view(np.float32), near_one, np.float32([0.0, -0.0, np.inf, -np.inf])])
    found = cast(cast(values, dtype("float32"), F64), F64, t)
    expected = values.astype(t.numpy)
    nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), nan)
    np.testing.assert_array_equal(codes(found, t)[~nan], codes(expected, t)[~nan])


def test_powers_of_two_type():
    t = dtype("float8_e8m0fnu")
    given = np.array([1.0, 1.4, 1.5, 2.9, 3.0, 2.0**-127, 1.2 * 2.0**-127, 1e-300, 2.0**127, 2.0**128, 0.0, -1.0, np.nan, np.inf])
    expected = [1.0, 1.0, 2.0, 2.0, 4.0, 2.0**-127, 2.0**-127, 2.0**-127, 2.0**127] + [math.nan] * 5
    np.testing.assert_array_equal(cast(given, F64, t).astype(np.float64), expected)
    np.testing.assert_array_equal(
        cast(given.astype(np.float32), dtype("float32"), t).astype(np.float64), expected[:7] + [math.nan] + expected[8:]
    )


def test_overflow_follows_the_type():
    big = np.array([1e39, -1e39])
    assert cast(big, F64, dtype("float16")).tolist() == [math.inf, -math.inf]
    assert np.isnan(cast(big, F64, dtype("float8_e4m3fn")).astype(np.float64)).all()
    assert cast(big, F64, dtype("float4_e2m1fn")).astype(np.float64).tolist() == [6.0, -6.0]
    for t in SMALL:
        if t.name != "float8_e8m0fnu":
            assert cast(big, F64, t, saturate=True).astype(np.float64).tolist() == [t.max, t.min]
            assert cast(big, F64, t, "toward_zero").astype(np.float64).tolist() == [t.max, t.min]
    assert cast(np.array([np.inf, np.nan]), F64, dtype("float16"), saturate=True).tolist()[0] == 65504.0
    assert np.isnan(cast(np.array([np.nan]), F64, dtype("float16"), saturate=True)[0])
    assert cast(big, F64, dtype("float16"), "down").tolist() == [65504.0, -math.inf]
    assert cast(big, F64, dtype("float16"), "up").tolist() == [math.inf, -65504.0]
    # 464 lies halfway between 448, the largest value of e4m3fn, and the next step, and 448 is even
    assert cast(np.array([464.0, 464.1]), F64, dtype("float8_e4m3fn")).astype(np.float64).tolist()[0] == 448.0
    assert np.isnan(float(cast(np.array([464.1]), F64, dtype("float8_e4m3fn"))[0]))


def test_tfloat32_keeps_ten_bits(random):
    values = random.standard_normal(2000).astype(np.float32)
    found = cast(values, dtype("float32"), dtype("tfloat32"))
    assert found.dtype == np.float32
    assert (found.view(np.uint32) & 0x1FFF == 0).all()
    for value, got in zip(values[:200], found[:200]):
        step = Fraction(2) ** (math.frexp(float(value))[1] - 1 - 10)
        assert abs(Fraction(float(got)) - Fraction(float(value))) <= step / 2
    tie = np.float32(1 + 2.0**-11)
    assert cast(np.array([tie]), dtype("float32"), dtype("tfloat32"))[0] == 1.0


@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_floats_become_integers_toward_zero_saturated(t):
    given = [0.0, -0.0, 0.9, -0.9, 2.5, -2.5, 7.999, -8.999, 300.0, -300.0, 3e9, -3e9, 1e30, -1e30, math.inf, -math.inf, math.nan]
    expected = [
        0 if math.isnan(x) else int(max(t.min, min(t.max, math.trunc(x) if math.isfinite(x) else math.copysign(10**40, x)))) for x in given
    ]
    for source in ("float64", "float32"):
        exact = [int(max(t.min, min(t.max, math.trunc(float(np.float32(x)))))) if math.isfinite(x) else e for x, e in zip(given, expected)]
        found = cast(np.array(given, source), dtype(source), t).astype(object)
        assert [int(v) for v in found] == (exact if source == "float32" else expected)


@pytest.mark.parametrize("t", INTEGERS, ids=str)
@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_integers_wrap(source, t):
    given = [int(v) for v in {source.min, source.max, 0, 1, 7, source.max // 3, source.min // 3}]
    found = cast(integers(given, source), source, t)
    for value, got in zip(given, found):
        low = value % (1 << t.bits)
        assert int(got) == (low - (1 << t.bits) if t.kind == "int" and low >= 1 << (t.bits - 1) else low)


@pytest.mark.parametrize("name", ["int64", "uint64"])
@pytest.mark.parametrize("t", ["bfloat16", "float16", "float32", "float8_e5m2"])
def test_large_integers_round_once(name, t, random):
    source, target = dtype(name), dtype(t)
    high = random.integers(1, 1 << 20, 200).tolist()
    values = [(h << s) + d for h, s in zip(high, random.integers(0, 40, 200).tolist()) for d in (-1, 0, 1)]
    values += [(1 << 30) + (1 << 22) + 1, (1 << 62) - 1, (1 << 62) + (1 << 54) + 1]
    found = cast(integers(values, source), source, target).astype(np.float64)
    for value, got in zip(values, found):
        exact = Fraction(value)
        if not math.isfinite(got):
            assert value >= target.max
            continue
        step = Fraction(2) ** (value.bit_length() - 1 - target.mantissa)
        assert abs(Fraction(float(got)) - exact) <= step / 2
        if abs(Fraction(float(got)) - exact) == step / 2:
            assert (Fraction(float(got)) / step) % 2 == 0


def test_float64_from_large_integers_in_every_direction():
    value = np.array([2**53 + 1, -(2**53) - 1, 2**60 + 1], np.int64)
    exact = [2**53, -(2**53), 2**60]
    assert cast(value, dtype("int64"), F64, "toward_zero").tolist() == exact
    assert cast(value, dtype("int64"), F64, "down").tolist() == [2**53, -(2**53) - 2, 2**60]
    assert cast(value, dtype("int64"), F64, "up").tolist() == [2**53 + 2, -(2**53), 2**60 + 256]


def test_stochastic_rounding_takes_a_neighbour_in_proportion():
    value = np.full(40000, 1 + 2.0**-10 * 0.25)
    found = cast(value, F64, dtype("float16"), "stochastic", random=np.random.default_rng(7)).astype(np.float64)
    assert set(found.tolist()) == {1.0, 1 + 2.0**-10}
    assert 0.23 < (found > 1).mean() < 0.27  # 0.25 within 9 standard deviations


@pytest.mark.parametrize("t", all_dtypes(), ids=str)
def test_to_bool(t):
    given = np.array([0.0, 1.0]) if t.name != "float8_e8m0fnu" else np.array([1.0, 2.0])
    values = cast(given, F64, t)
    assert cast(values, t, dtype("bool")).tolist() == [t.name == "float8_e8m0fnu", True]
    if t.is_float and t.bits > 6:
        assert cast(np.array([np.nan]), F64, dtype("bool")).tolist() == [True]


@pytest.mark.parametrize("t", [t for t in all_dtypes() if t.bits in (4, 6, 8, 16)], ids=str)
def test_codes_are_the_bits(t):
    values = every_value(t)
    np.testing.assert_array_equal(codes(values, t), np.arange(len(values)))
    if t.is_integer:
        assert int(values[-1]) == (-1 if t.is_signed else t.max)


def test_reinterpret_between_widths_and_vectors():
    f16 = np.array([[1.0, -2.0], [0.5, 65504.0]], np.float16)
    packed = reinterpret(f16, dtype("float16x2"), dtype("uint32"))
    assert packed.tolist() == [0xC0003C00, 0x7BFF3800]
    np.testing.assert_array_equal(reinterpret(packed, dtype("uint32"), dtype("float16x2")), f16)
    nibbles = reinterpret(np.array([0x21, 0xF8], np.uint8), dtype("uint8"), dtype("int4x2"))
    assert nibbles.astype(int).tolist() == [[1, 2], [-8, -1]]
    assert reinterpret(nibbles, dtype("int4x2"), dtype("uint8")).tolist() == [0x21, 0xF8]
    assert reinterpret(np.array(1.0, np.float32), dtype("float32"), dtype("int32")) == 0x3F800000


def test_values_of_every_small_float_are_ordered_by_their_bits():
    for t in SMALL:
        if t.name != "float8_e8m0fnu":
            positive = every_value(t)[: 1 << (t.bits - 1)].astype(np.float64)
            finite = [float(v) for v in positive if np.isfinite(v)]
            assert all(low < high for low, high in pairwise(finite)) and finite[-1] == t.max
