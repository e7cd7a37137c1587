"""Conversions of the CPU backend between all pairs of element types, against tables of the types' values made by ml_dtypes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from zellige.diagnostics import InternalError
from zellige.dtypes import DType, all_dtypes, dtype
from zellige_cpu.host import running_host
from zellige_cpu.leaf.convert import cast, constant_of
from zellige_cpu.text import Module
from zellige_cpu.types import element_bytes, memory_type
from zellige_cpu.values import constant

ALL = all_dtypes()
FLOATS = [t for t in ALL if t.is_float]
# everywhere on the running machine; on the baseline, which has no conversion of float16, what depends on that
BY_HOST = [
    pytest.param(host, t, id=f"{host}-{t}")
    for host, types in (
        ("native", ALL),
        ("baseline", [dtype(n) for n in ("float16", "bfloat16", "float32", "float64", "int64", "float8_e4m3fn")]),
    )
    for t in types
]
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")  # NaN of ml_dtypes
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def converting(module: Module, source: DType, target: DType, lanes: int, rounding: str = "nearest_even", saturate: bool = False) -> str:
    """An exported function that converts arrays, ``lanes`` elements at a time."""
    name = f"convert_{source}_{target}_{rounding}_{saturate}"
    fn = module.function(name, "void", [("n", "i64"), ("src", "ptr"), ("dst", "ptr")], is_exported=True)
    n, src, dst = fn.params
    with fn.loop(constant("i64", 0), n, lanes) as loop:
        read = fn.offset(src, fn.binary("mul", loop.index, constant("i64", element_bytes(source))))
        write = fn.offset(dst, fn.binary("mul", loop.index, constant("i64", element_bytes(target))))
        value = fn.load(read, memory_type(source), lanes, align=element_bytes(source))
        if source.is_bool:
            value = fn.convert("trunc", value, "i1")
        result = cast(fn, value, source, target, rounding, saturate)  # type: ignore[arg-type]
        fn.store(fn.convert("zext", result, "i8") if target.is_bool else result, write, align=element_bytes(target))
    return name


def values_of(t: DType) -> np.ndarray:
    """The values of all codes of a float type of at most 16 bits, as float64."""
    codes = np.arange(1 << t.bits, dtype=UNSIGNED[element_bytes(t)])
    return codes.view(t.numpy).astype(np.float64)


def samples(t: DType) -> np.ndarray:
    """Every value of the types up to 16 bits; of wider ones those where a rounding or an overflow of some type lies, and others at random.

    As tiles store them: 4-bit integers as int8 or uint8.
    """
    random = np.random.default_rng(7)
    if t.is_bool:
        return np.array([False, True] * 8)
    if t.is_integer:
        if t.bits <= 16:
            return np.arange(int(t.min), int(t.max) + 1).astype(f"{'i' if t.is_signed else 'u'}{element_bytes(t)}")
        powers = [(1 << i) + d for i in range(t.bits) for d in (-1, 0, 1, 3)]
        edges = [v for p in powers for v in (p, -p) if t.min <= v <= t.max]
        edges += [(1 << i) + (1 << (i - j)) + d for i in range(25, t.bits) for j in (8, 9, 11, 12, 24, 25) for d in (-1, 0, 1)]
        wide = random.integers(int(t.min), int(t.max), 3000, dtype=t.numpy, endpoint=True)
        small = wide >> random.integers(0, t.bits, 3000).astype(t.numpy)
        return np.concatenate([np.array([v for v in edges if t.min <= v <= t.max], dtype=t.numpy), wide, small])
    if t.bits <= 16:
        return np.arange(1 << t.bits, dtype=UNSIGNED[element_bytes(t)]).view(t.numpy)
    native = np.float64 if t.name == "float64" else np.float32
    parts = []
    for narrow in FLOATS:
        if narrow.bits <= 16:
            values = np.unique(values_of(narrow)[np.isfinite(values_of(narrow))])
            if len(values) > 1000:
                values = np.concatenate([values[:200], values[-200:], random.choice(values, 3000)])
                values.sort()
            middles = ((values[1:] + values[:-1]) / 2).astype(native)
            parts += [values, middles, np.nextafter(middles, native(np.inf)), np.nextafter(middles, native(-np.inf))]
    limits = np.finfo(native)
    scales = [m * 2.0**k for k in range(-150, 129) for m in (1, 1.25, 1.5, 1.75)]
    special = [0.0, np.inf, np.nan, limits.max, limits.tiny, limits.smallest_subnormal, *scales, 2.0**31, 2.0**32, 2.0**63, 2.0**64]
    parts += [np.array(special), -np.array(special), random.standard_normal(20000), random.standard_normal(20000) * 1e4]
    parts.append(random.integers(0, 1 << 64, 20000, dtype=np.uint64).astype(f"u{limits.bits // 8}").view(native))
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.concatenate([np.asarray(p).astype(native) for p in parts])
    if t.name == "tfloat32":
        found = (found.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return found


def padded(values: np.ndarray, lanes: int) -> np.ndarray:
    return np.concatenate([values, np.repeat(values[:1], -len(values) % lanes)])


def exactly(values: np.ndarray, t: DType) -> np.ndarray:
    """Values without error: 64-bit integers need more digits than float64 has, and long double has them."""
    if t.bits == 64 and t.is_integer:
        assert np.finfo(np.longdouble).nmant >= 63
        return values.astype(np.longdouble)
    return values.astype(np.float32).astype(np.float64) if t.is_float and t.bits <= 16 else values.astype(np.float64)


def grid(t: DType) -> np.ndarray:
    """The finite magnitudes of a float type from the smallest, and the one after the largest if the exponent went on."""
    values = values_of(t)
    magnitudes = np.unique(np.abs(values[np.isfinite(values)]))
    step = magnitudes[-1] - magnitudes[-2] if t.mantissa else magnitudes[-1]
    return np.concatenate([magnitudes, [magnitudes[-1] + step]])


def expected_narrow(x: np.ndarray, t: DType, rounding: str, saturate: bool) -> np.ndarray:
    """``x`` (exact) rounded to a type of at most 16 bits, by searching the table of its values."""
    table = grid(t).astype(x.dtype)
    size = np.abs(x)
    below = np.clip(np.searchsorted(table, size, side="right") - 1, 0, len(table) - 2)
    low, high = table[below], table[below + 1]
    nearest = rounding == "nearest_even"
    if nearest:
        # codes alternate between even and odd, beginning with an even one; without a fraction field the implied one is odd always
        middle = (low + high) / 2
        rounds_up = (size > middle) | ((size == middle) & ((below % 2 == 1) | (t.mantissa == 0)))
    else:
        away = {"toward_zero": np.zeros(len(x), bool), "up": ~np.signbit(x), "down": np.signbit(x)}[rounding]
        rounds_up = away & (size > low)
    is_over = np.where(rounds_up, high, low) > table[-2]
    is_over |= np.isinf(x) | ((size >= table[-1]) & (True if nearest else away))
    beyond = table[-2] if saturate or t.bits < 8 else (np.inf if t.has_inf else np.nan)
    result = np.copysign(np.where(is_over, beyond, np.where(rounds_up, high, low)), x).astype(np.float64)
    if t.name == "float8_e8m0fnu":
        return np.where(x > 0, np.maximum(np.abs(result), 2.0**-127), np.nan)
    if t.bits < 8:  # no NaN: it becomes zero of the other sign
        return np.where(np.isnan(x), np.where(np.signbit(x), 0.0, -0.0), result)
    return np.where(np.isnan(x), np.nan, result)


def bits_for(values: np.ndarray, t: DType) -> np.ndarray:
    """Exactly representable values as the type's bits."""
    with np.errstate(invalid="ignore", over="ignore"):
        return values.astype(np.float32).astype(t.numpy).view(UNSIGNED[element_bytes(t)])


def check(got: np.ndarray, expected: np.ndarray, x: np.ndarray, t: DType) -> None:
    """The same bits, except that any NaN is as good as another."""
    nan = np.isnan(expected) & np.isnan(got.view(t.numpy).astype(np.float64)) if t.bits >= 8 else np.zeros(len(x), bool)
    wrong = (got != bits_for(expected, t)) & ~nan if t.bits <= 16 else (got.view(t.numpy) != expected) & ~nan
    if t.bits > 16:
        wrong |= (np.signbit(got.view(t.numpy)) != np.signbit(expected)) & ~nan
    first = np.flatnonzero(wrong)[:3]
    assert not wrong.any(), [(x[i], hex(int(got[i])), expected[i]) for i in first]


def convert_all(program, host, source: DType, targets: list[DType], lanes: int, rounding: str = "nearest_even", saturate: bool = False):
    """(target, elements given, bits got) for each target."""
    module = Module("conversions", host)
    names = {t: converting(module, source, t, lanes, rounding, saturate) for t in targets}
    run = program(module, list(names.values()))
    x = padded(samples(source), lanes)
    for target, name in names.items():
        out = np.zeros(len(x), UNSIGNED[element_bytes(target)])
        run(name, len(x), x, out)
        yield target, x, out


@pytest.mark.parametrize("host_name,source", BY_HOST)
def test_nearest_even_to_narrow_floats(program, host_named, host_name, source):
    narrow = [t for t in FLOATS if t.bits <= 16 and t != source]
    for target, x, got in convert_all(program, host_named(host_name), source, narrow, 16):
        check(got, expected_narrow(exactly(x, source), target, "nearest_even", False), x, target)


@pytest.mark.parametrize("source", [dtype(n) for n in ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")], ids=str)
def test_ml_dtypes_agrees(program, source):
    """From float32 and below ml_dtypes rounds once too, apart from subnormal numbers to float8_e8m0fnu."""
    narrow = [t for t in FLOATS if t.bits <= 16 and t != source]
    for target, x, got in convert_all(program, running_host(), source, narrow, 16):
        if target.name == "float8_e8m0fnu":
            x = np.where(np.abs(x.astype(np.float32)) < 2.0**-126, np.float32(1), x.astype(np.float32)).astype(source.numpy)
            got = np.where(np.abs(x.astype(np.float32)) == 1, bits_for(np.where(x.astype(np.float32) > 0, 1.0, np.nan), target), got)
        with np.errstate(invalid="ignore", over="ignore"):
            expected = x.astype(np.float32).astype(target.numpy)
        nan = np.isnan(expected.astype(np.float64))
        assert np.array_equal(nan, np.isnan(got.view(target.numpy).astype(np.float64)))
        assert np.array_equal(expected.view(got.dtype)[~nan], got[~nan]), target


@pytest.mark.parametrize("rounding", ["toward_zero", "down", "up"])
@pytest.mark.parametrize("source", [dtype(n) for n in ("float64", "float32", "float16", "int64", "uint64", "int32")], ids=str)
def test_directed_rounding_to_narrow_floats(program, source, rounding):
    for saturate in (False, True):
        narrow = [t for t in FLOATS if t.bits <= 16 and t != source]
        for target, x, got in convert_all(program, running_host(), source, narrow, 16, rounding, saturate):
            check(got, expected_narrow(exactly(x, source), target, rounding, saturate), x, target)


def saturating_reference(x: np.ndarray, source: DType, target: DType) -> np.ndarray:
    wide = exactly(x, source)
    limit = float(target.max)
    return np.clip(wide, -limit, limit)  # NaN passes


@pytest.mark.parametrize("source", [dtype(n) for n in ("float64", "float32", "float8_e5m2", "int32")], ids=str)
def test_saturation_clamps_infinity_and_keeps_nan(program, source):
    for target, x, got in convert_all(program, running_host(), source, [t for t in FLOATS if t.bits <= 16], 16, saturate=True):
        clamped = saturating_reference(x, source, target)
        check(got, expected_narrow(clamped, target, "nearest_even", True), x, target)
    wide = [dtype("float32"), dtype("float64")]
    for target, x, got in convert_all(program, running_host(), source, wide, 16, saturate=True):
        with np.errstate(over="ignore"):
            check(got, saturating_reference(x, source, target).astype(target.numpy), x, target)


def exact_float32(value: Fraction, rounding: str, mantissa: int) -> float:
    """A rational number rounded to ``mantissa`` digits after the leading one, with float32's exponents; plain arithmetic of integers."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, -126) - mantissa)
    whole, rest = divmod(size, unit)
    up = {"toward_zero": False, "up": value > 0 and rest > 0, "down": value < 0 and rest > 0}.get(rounding)
    if up is None:
        up = 2 * rest > unit or (2 * rest == unit and whole % 2 == 1)
    result = (whole + up) * unit
    if result > Fraction(float(np.finfo(np.float32).max)):
        toward = rounding == "toward_zero" or (rounding == "up" and value < 0) or (rounding == "down" and value > 0)
        largest = (2 - Fraction(2) ** -mantissa) * Fraction(2) ** 127
        return float(largest if toward else np.inf) * (1 if value > 0 else -1)
    return float(result) * (1 if value > 0 else -1)


@pytest.mark.parametrize("target,mantissa", [("float32", 23), ("tfloat32", 10)])
@pytest.mark.parametrize("rounding", ["nearest_even", "toward_zero", "down", "up"])
@pytest.mark.parametrize("source", ["float64", "int64", "uint64", "int32", "uint32", "float32"])
def test_wide_to_float32(program, source, rounding, target, mantissa):
    if source == target:
        return
    kind = dtype(source)
    ((t, x, got),) = convert_all(program, running_host(), kind, [dtype(target)], 16, rounding)
    picked = np.random.default_rng(3).choice(len(x), 3000, replace=False)
    for i in picked:
        value = x[i]
        if kind.is_float and not np.isfinite(value):
            assert str(got.view(np.float32)[i]) == str(np.float32(value))
            continue
        expected = exact_float32(Fraction(float(value)) if kind.is_float else Fraction(int(value)), rounding, mantissa)
        assert got.view(np.float32)[i] == np.float32(expected), (value, got.view(np.float32)[i], expected)


@pytest.mark.parametrize("rounding", ["nearest_even", "toward_zero", "down", "up"])
@pytest.mark.parametrize("source", ["int64", "uint64"])
def test_wide_integers_to_float64(program, source, rounding):
    ((t, x, got),) = convert_all(program, running_host(), dtype(source), [dtype("float64")], 8, rounding)
    for value, result in zip(x.tolist(), got.view(np.float64).tolist()):
        error = Fraction(result) - value
        nearest = float(value)  # Python rounds to nearest even
        if rounding == "nearest_even":
            assert result == nearest
            continue
        assert {"toward_zero": error * (1 if value > 0 else -1) <= 0, "down": error <= 0, "up": error >= 0}[rounding], value
        assert abs(error) < Fraction(np.spacing(abs(nearest)) or 1)


def test_exact_widening(program, host):
    """Every narrow value arrives in float32, tfloat32 and float64 unchanged."""
    for source in [t for t in FLOATS if t.bits <= 16]:
        for target, x, got in convert_all(program, host, source, [dtype("float32"), dtype("tfloat32"), dtype("float64")], 16):
            expected = x.astype(np.float32).astype(target.numpy)
            check(got, expected, x, target)


def integer_reference(x: np.ndarray, source: DType, target: DType) -> list[int]:
    low, high = int(target.min), int(target.max)
    result = []
    for value in exactly(x, source).tolist() if source.is_float else x.tolist():
        if source.is_float:
            whole = 0 if value != value else (high if value > 0 else low) if value in (np.inf, -np.inf) else min(max(int(value), low), high)
        else:
            whole = int(value) % (1 << target.bits)
            whole -= (1 << target.bits) if target.is_signed and whole > high else 0
        result.append(whole)
    return result


@pytest.mark.parametrize("host_name,source", BY_HOST)
def test_to_integers_and_bool(program, host_named, host_name, source):
    integers = [t for t in ALL if t.is_integer and t != source]
    for target, x, got in convert_all(program, host_named(host_name), source, integers, 16):
        picked = slice(None) if len(x) <= 1 << 16 else slice(0, None, 17)
        native = np.dtype(f"{'i' if target.is_signed else 'u'}{element_bytes(target)}")
        expected = integer_reference(x[picked], source, target)
        assert np.array_equal(got.view(native)[picked], np.array(expected, dtype=native)), target
    if not source.is_bool:
        ((_, x, got),) = convert_all(program, host_named(host_name), source, [dtype("bool")], 16)
        assert np.array_equal(got, exactly(x, source) != 0)


@pytest.mark.parametrize("lanes", [1, 3, 64])
@pytest.mark.parametrize("source", ["float32", "float64", "float8_e4m3fn", "int32", "int4", "bool"])
def test_any_number_of_lanes(program, source, lanes):
    """The same bits as with sixteen lanes."""
    targets = [t for t in ALL if t.name != source]
    few = {t: got for t, _, got in convert_all(program, running_host(), dtype(source), targets, lanes)}
    for target, x, got in convert_all(program, running_host(), dtype(source), targets, 16):
        n = len(samples(dtype(source)))
        assert np.array_equal(few[target][:n], got[:n]), target


def test_same_type_is_no_code(host):
    module = Module("same", host)
    fn = module.function("f", "void", [("x", "i8")])
    for t in ALL:
        value = constant_of(t, 1, 4)
        assert cast(fn, value, t, t) is value


def test_stochastic_rounding_is_refused(host):
    fn = Module("refused", host).function("f", "void", [("x", "float")])
    with pytest.raises(InternalError, match="stochastic"):
        cast(fn, fn.params[0], dtype("float32"), dtype("float16"), "stochastic")


@pytest.mark.parametrize("t", ALL, ids=str)
def test_constants_are_what_a_conversion_gives(program, t):
    """Rounded once from float64, wrapped from int64."""
    source = dtype("float64" if t.is_float else "int64")
    random = np.random.default_rng(1)
    x = samples(source)
    x = np.concatenate([random.choice(x, 60), [0, 1, 7]]).astype(x.dtype)
    if t.is_float:
        middle = np.float64(1 + 2.0 ** -(t.mantissa + 1))
        edges = [np.nextafter(middle, 2), np.nextafter(middle, 0), np.inf, -np.inf, -0.0, 1e300, 1.4 * 2.0**-127, 1.6 * 2.0**-127]
        x = np.concatenate([x[~np.isnan(x)], edges])
    x = padded(x, 16)
    module = Module("constants", running_host())
    expected = np.zeros(len(x), UNSIGNED[element_bytes(t)])
    program(module, [converting(module, source, t, 16)])(f"convert_{source}_{t}_nearest_even_False", len(x), x, expected)
    fn = module.function("constants", "void", [("dst", "ptr")], is_exported=True)
    for i, number in enumerate(x.tolist()):
        value = constant_of(t, number)
        fn.store(fn.convert("zext", value, "i8") if t.is_bool else value, fn.offset(fn.params[0], i * element_bytes(t)), align=1)
    got = np.zeros_like(expected)
    program(module, ["constants"])("constants", got)
    if t.is_float:
        nan = np.isnan(expected.view(t.numpy).astype(np.float64)) & np.isnan(got.view(t.numpy).astype(np.float64))
        got[nan] = expected[nan]
    assert np.array_equal(got, expected), [(x[i], got[i], expected[i]) for i in np.flatnonzero(got != expected)[:3]]
