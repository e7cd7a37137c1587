"""The math functions of the CPU backend: stated error bounds in float32, edge cases, every dtype, integer functions."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from zellige.diagnostics import InternalError
from zellige.dtypes import DType, all_dtypes, dtype
from zellige.ir.functions import FUNCTIONS
from zellige_cpu.host import running_host
from zellige_cpu.leaf.accuracy import LARGEST_ERRORS
from zellige_cpu.leaf.math import call
from zellige_cpu.text import Module
from zellige_cpu.types import element_bytes, memory_type
from zellige_cpu.values import constant

F32 = dtype("float32")
WIDE = np.longdouble
TINY, LARGE = np.finfo(np.float32).tiny, np.finfo(np.float32).max


def build(host, names: list[str], t: DType, lanes: int) -> Module:
    """A module with an exported ``run_NAME(n, sources..., target)`` for each function."""
    module = Module("math", host)
    for name in names:
        spec = FUNCTIONS[name]
        result = spec.result_dtype(t)
        params = [("n", "i64"), *[(f"src{i}", "ptr") for i in range(spec.arity)], ("dst", "ptr")]
        fn = module.function(f"run_{name}", "void", params, is_exported=True)
        n, *sources, target = fn.params
        with fn.loop(constant("i64", 0), n, lanes) as loop:
            position = fn.binary("mul", loop.index, constant("i64", element_bytes(t)))
            args = [fn.load(fn.offset(p, position), memory_type(t), lanes, align=element_bytes(t)) for p in sources]
            value = call(fn, name, args, t)
            if result.is_bool:
                value = fn.convert("zext", value, "i8")
            place = fn.offset(target, fn.binary("mul", loop.index, constant("i64", element_bytes(result))))
            fn.store(value, place, align=element_bytes(result))
    return module


class Functions:
    """Compiled functions of one dtype: ``functions(name, *arrays)`` in the storage of tiles."""

    def __init__(self, program, host, names: list[str], t: DType, lanes: int = 16) -> None:
        self.dtype, self.lanes = t, lanes
        self.run = program(build(host, names, t, lanes), [f"run_{name}" for name in names])

    def __call__(self, name: str, *arrays: np.ndarray) -> np.ndarray:
        count = len(arrays[0])
        padded = [np.concatenate([a, np.repeat(a[:1], -count % self.lanes)]) for a in arrays]
        result = FUNCTIONS[name].result_dtype(self.dtype)
        storage = np.dtype(np.bool_) if result.is_bool else np.dtype(np.int32) if result.name == "int32" else arrays[0].dtype
        out = np.zeros(len(padded[0]), storage)
        self.run(f"run_{name}", len(out), *padded, out)
        return out[:count]


def units(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The error of float32 results in units in the last place of the exact value; infinite where NaN or infinity is wrong."""
    with np.errstate(all="ignore"):
        nearest = exact.astype(np.float32)
        unit = np.spacing(np.minimum(np.abs(nearest), LARGE)).astype(exact.dtype)
        error = np.abs(got.astype(exact.dtype) - exact) / unit
    error = np.where(got == nearest, np.where(np.isfinite(exact) & np.isfinite(got), np.minimum(error, 0.5), 0), error)
    both = np.isnan(exact) & np.isnan(got)
    return np.where(both, 0, np.where(np.isnan(exact) != np.isnan(got), np.inf, error)).astype(np.float64)


_erf = np.vectorize(math.erf, otypes=[np.float64])
EXACT = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": lambda x: _erf(x.astype(np.float64)),
    "sin": np.sin,
    "cos": np.cos,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip
SPECIAL = [
    0, 1e-45, 1e-40, TINY, TINY / 2, 1e-30, 1e-8, 2.0**-24, 0.25, 0.5, 0.70710677, 0.75, 1 - 2.0**-24, 1, 1 + 2.0**-23, 1.41421354, 1.5, 2,
    3, 3.95, 4, 9, 10, 20, 38, 38.53184, 45, 87, 88, 88.72284, 89, 104, 126, 127.5, 128, 149, 150, 151, 1e4, 131071.99, 131072, 1e6,
    2.0**24, 1e20, LARGE, np.inf, np.nan,
]  # fmt: skip


def stratified(name: str, count: int) -> np.ndarray:
    """Arguments of every magnitude, and more where the function does something."""
    random = np.random.default_rng(11)
    every = random.integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32).view(np.float32)
    spans = [(-1, 1), (0.5, 2), (-20, 20), (-110, 110), (-160, 130)] + ([(-132000, 132000)] if name in ("sin", "cos") else [])
    parts = [every, *[random.uniform(a, b, count).astype(np.float32) for a, b in spans]]
    special = np.array(SPECIAL, np.float32)
    parts.append(np.array([0x7FC00001, 0xFFC00123, 0x7FFFFFFF, 0x7F800001], np.uint32).view(np.float32))  # NaN of other bits
    return np.concatenate([*parts, special, -special])


def check_unary(functions: Functions, name: str, x: np.ndarray) -> None:
    got = functions(name, x)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(WIDE))
    error = units(got, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= LARGEST_ERRORS[name], f"{name}({x[worst]!r}) = {got[worst]!r}, exact {exact[worst]!r}: {error[worst]:.3f} units"
    zeros = (exact == 0) & (got == 0)
    assert np.array_equal(np.signbit(got[zeros]), np.signbit(exact[zeros])), name


def test_float32_stays_within_the_stated_bounds(program):
    functions = Functions(program, running_host(), list(EXACT), F32)
    for name in EXACT:
        check_unary(functions, name, stratified(name, 170_000))


def test_float32_bits_do_not_depend_on_the_vectors(program, host):
    """One lane, other registers, no fused instruction: the same bits."""
    wide = Functions(program, running_host(), [*EXACT, "pow"], F32)
    for lanes in (1, 4):
        narrow = Functions(program, host, [*EXACT, "pow"], F32, lanes)
        for name in EXACT:
            x = stratified(name, 500)
            assert np.array_equal(narrow(name, x), wide(name, x), equal_nan=True), name
        x, y = (np.array(v, np.float32) for v in zip(*itertools.product([0.5, 1.5, 2, 10, 1e-3, -3, 0], [0.3, -2, 7, 0.5])))
        assert np.array_equal(narrow("pow", x, y), wide("pow", x, y), equal_nan=True)


def test_sine_of_a_lane_does_not_depend_on_its_neighbours(program):
    functions = Functions(program, running_host(), ["sin", "cos"], F32)
    x = np.linspace(-300, 300, 16, dtype=np.float32)
    for name in ("sin", "cos"):
        alone = functions(name, x)
        for lane in range(16):
            large = x.copy()
            large[lane] = 1e30
            mixed = functions(name, large)
            others = np.arange(16) != lane
            assert np.array_equal(alone[others], mixed[others])
            assert abs(mixed[lane] - getattr(np, name)(np.float64(np.float32(1e30)))) < 1e-6


def test_power(program):
    functions = Functions(program, running_host(), ["pow"], F32)
    random = np.random.default_rng(5)
    edges = [0, 1, 2, 0.5, 3, np.inf, np.nan, 1.5, 1e-45, 3e38, 2.0**24, 2.0**24 - 1, 2.0**25, 0.33333334]
    edges = np.array([s * e for e in edges for s in (1, -1)], np.float32)
    pairs = [
        (random.integers(0, 1 << 32, 100_000, dtype=np.uint64).astype(np.uint32).view(np.float32) for _ in range(2)),
        (random.uniform(0.5, 2, 100_000), random.uniform(-150, 150, 100_000)),
        (random.uniform(-20, 20, 100_000), random.integers(-30, 31, 100_000)),
        np.meshgrid(edges, edges),
    ]
    for pair in pairs:
        x, y = (np.ravel(v).astype(np.float32) for v in pair)
        got = functions("pow", x, y)
        with np.errstate(all="ignore"):
            exact = np.power(x.astype(WIDE), y.astype(WIDE))
        error = units(got, exact)
        worst = int(np.argmax(error))
        assert error[worst] <= LARGEST_ERRORS["pow"], (x[worst], y[worst], got[worst], exact[worst])
        zeros = (exact == 0) & (got == 0)
        assert np.array_equal(np.signbit(got[zeros]), np.signbit(exact[zeros]))


CORRECTLY_ROUNDED = {
    "sqrt": np.sqrt,
    "rcp": lambda x: 1 / x,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "abs": np.abs,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}


@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("name", ["float32", "float64", "tfloat32"])
def test_exact_functions(program, extreme_host, name):
    t = dtype(name)
    functions = Functions(program, extreme_host, list(CORRECTLY_ROUNDED), t, 8)
    x = stratified("floor", 5000)
    if name == "tfloat32":
        x = (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    x = x.astype(t.numpy)
    for function, numpy in CORRECTLY_ROUNDED.items():
        with np.errstate(all="ignore"):
            expected = numpy(x)
        got = functions(function, x)
        if name == "tfloat32" and expected.dtype != bool:
            bits = expected.view(np.uint32).astype(np.uint64)
            rounded = ((bits + 0xFFF + ((bits >> np.uint64(13)) & np.uint64(1))) & np.uint64(0xFFFFE000)).astype(np.uint32).view(np.float32)
            expected = np.where(np.isnan(expected), expected, rounded)
        assert np.array_equal(got, expected, equal_nan=expected.dtype != bool), function
        if expected.dtype != bool:
            kept = ~np.isnan(expected)
            assert np.array_equal(np.signbit(got[kept]), np.signbit(expected[kept])), function


UNARY = [n for n, f in FUNCTIONS.items() if f.arity == 1 and f.operands != "integer"]
NUMPY = {
    **EXACT,
    **CORRECTLY_ROUNDED,
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
    "cbrt": np.cbrt, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("lanes", [1, 8])
def test_float64(program, lanes):
    """The C library's results, which are within two units of NumPy's."""
    functions = Functions(program, running_host(), UNARY, dtype("float64"), lanes)
    random = np.random.default_rng(2)
    x = np.concatenate(
        [random.uniform(-1, 1, 600), random.uniform(-40, 40, 600), [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, 1e-310, 700.0]]
    )
    for name in UNARY:
        got = functions(name, x)
        with np.errstate(all="ignore"):
            expected = np.asarray(NUMPY[name](x.astype(WIDE if name not in ("erf", "erfc") else np.float64)))
        if expected.dtype == bool:
            assert np.array_equal(got, expected), name
            continue
        with np.errstate(all="ignore"):
            close = np.abs(got - expected) <= 4 * np.spacing(np.abs(expected).astype(np.float64))
        same = (got == expected.astype(np.float64)) | (np.isnan(got) & np.isnan(expected))
        assert (close | same).all(), (name, x[~(close | same)][:3])


NARROW = [t for t in all_dtypes() if t.is_float and t.bits <= 16]


@pytest.mark.parametrize("t", NARROW, ids=str)
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_narrow_floats_compute_in_float32(program, t):
    """Every value of the type (of bfloat16 and float16 every 16th): float32's result rounded once, so at most one step from exact."""
    functions = Functions(program, running_host(), UNARY, t)
    wide = Functions(program, running_host(), UNARY, F32)
    codes = np.arange(0, 1 << t.bits, 1 if t.bits <= 8 else 16).astype(np.uint8 if t.bits <= 8 else np.uint16)
    x = codes.view(t.numpy)
    for name in UNARY:
        got = functions(name, x)
        if name == "abs":
            assert np.array_equal(got.astype(np.float32), np.abs(x.astype(np.float32)), equal_nan=True)
            continue
        if FUNCTIONS[name].result == "bool":
            assert np.array_equal(got, NUMPY[name](x.astype(np.float32)))
            continue
        expected = wide(name, x.astype(np.float32))
        with np.errstate(all="ignore"):
            rounded = expected.astype(t.numpy)
        if t.name == "float8_e8m0fnu":  # ml_dtypes rounds subnormal numbers to it by another rule
            kept = ~((expected > 0) & (expected < TINY))
            got, rounded = got[kept], rounded[kept]
        assert np.array_equal(got.astype(np.float32), rounded.astype(np.float32), equal_nan=True), name


BINARY_FLOAT = {
    "atan2": np.arctan2, "hypot": np.hypot, "fmod": np.fmod, "copysign": np.copysign, "nextafter": np.nextafter,
    "ldexp": lambda x, y: np.ldexp(x, np.clip(np.nan_to_num(np.trunc(y)), -5000, 5000).astype(np.int32)),
}  # fmt: skip


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_functions_of_two(program, extreme_host, name):
    t = dtype(name)
    functions = Functions(program, extreme_host, list(BINARY_FLOAT), t, 8)
    limits = np.finfo(t.numpy)
    edges = [
        0,
        1,
        2,
        3.7,
        0.5,
        25,
        130,
        160,
        300,
        1e30,
        limits.tiny,
        limits.tiny / 8,
        limits.smallest_subnormal,
        1000,
        1100,
        limits.max,
        np.inf,
        np.nan,
    ]
    edges = np.array([s * e for e in edges for s in (1, -1)], t.numpy)
    x, y = (np.ravel(v) for v in np.meshgrid(edges, edges))
    random = np.random.default_rng(8)
    scales = 2.0 ** random.uniform(-150 if name == "float32" else -1070, 100, 20_000)
    x = np.concatenate([x, (random.uniform(1, 2, 20_000) * scales).astype(t.numpy)])
    y = np.concatenate([y, random.integers(-300, 300, 20_000).astype(t.numpy)])
    for function, numpy in BINARY_FLOAT.items():
        with np.errstate(all="ignore"):
            expected = numpy(x, y)
        got = functions(function, x, y)
        if function in ("atan2", "hypot"):
            with np.errstate(all="ignore"):
                near = np.abs(got.astype(WIDE) - expected) <= 2 * np.spacing(np.abs(expected))
            assert (near | (got == expected) | (np.isnan(got) & np.isnan(expected))).all(), function
        else:
            wrong = ~((got == expected) & (np.signbit(got) == np.signbit(expected)) | (np.isnan(got) & np.isnan(expected)))
            assert not wrong.any(), (function, x[wrong][:3], y[wrong][:3], got[wrong][:3], expected[wrong][:3])


@pytest.mark.parametrize("t", NARROW, ids=str)
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_neighbours_of_narrow_floats(program, t):
    """The next value of the type itself."""
    functions = Functions(program, running_host(), ["nextafter", "copysign"], t)
    codes = np.arange(1 << t.bits) if t.bits <= 8 else np.random.default_rng(4).permutation(1 << 16)[:300]
    x = codes.astype(np.uint8 if t.bits <= 8 else np.uint16).view(t.numpy)
    a, b = (np.ravel(v) for v in np.meshgrid(x, x))
    got = functions("nextafter", a, b).astype(np.float64)
    u, v = a.astype(np.float64), b.astype(np.float64)
    values = np.unique(
        np.arange(1 << t.bits).astype(x.dtype if x.dtype.kind == "u" else f"u{x.dtype.itemsize}").view(t.numpy).astype(np.float64)
    )
    values = values[~np.isnan(values)]
    place = np.searchsorted(values, np.nan_to_num(u, nan=values[0], posinf=values[-1], neginf=values[0]))
    up, down = values[np.minimum(place + 1, len(values) - 1)], values[np.maximum(place - 1, 0)]
    expected = np.where(u < v, up, np.where(u > v, down, v))
    expected = np.where(np.isnan(u) | np.isnan(v), np.nan, expected)
    assert np.array_equal(got, expected, equal_nan=t.bits >= 8)
    if t.name != "float8_e8m0fnu" and not t.is_unsigned_zero:
        signs = functions("copysign", a, b)
        bits = signs.view(f"u{x.dtype.itemsize}") >> (t.bits - 1)
        assert np.array_equal(bits, b.view(bits.dtype) >> (t.bits - 1))


def test_fused_multiply_add(program, extreme_host):
    """Rounded once: the low half of a product is exact."""
    functions = Functions(program, extreme_host, ["fma"], F32)
    random = np.random.default_rng(6)
    x, y = (random.uniform(-2, 2, 4096).astype(np.float32) for _ in range(2))
    product = (x * y).astype(np.float32)
    assert np.array_equal(functions("fma", x, y, -product), (x.astype(np.float64) * y - product).astype(np.float32))


def wrapped(value: int, t: DType) -> int:
    value %= 1 << t.bits
    return value - (1 << t.bits) if t.is_signed and value > t.max else value


def power(x: int, y: int, t: DType) -> int:
    if y < 0:
        return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
    return wrapped(pow(x, y, 1 << t.bits), t)


@pytest.mark.parametrize("t", [t for t in all_dtypes() if t.is_integer], ids=str)
def test_integer_functions(program, extreme_host, t):
    functions = Functions(program, extreme_host, ["abs", "popcount", "clz", "powi"], t, 4)
    low, high = int(t.min), int(t.max)
    values = (
        range(low, high + 1)
        if t.bits <= 8
        else sorted({v for i in range(t.bits) for d in (-1, 0, 1) for s in (1, -1) if low <= (v := s * (1 << i) + d) <= high})
    )
    storage = np.dtype(f"{'i' if t.is_signed else 'u'}{element_bytes(t)}")
    x = np.array(list(values), dtype=storage)
    digits = [int(v) % (1 << t.bits) for v in x]
    assert functions("abs", x).tolist() == [wrapped(abs(int(v)), t) for v in x]
    assert functions("popcount", x).tolist() == [d.bit_count() for d in digits]
    assert functions("clz", x).tolist() == [t.bits - d.bit_length() for d in digits]
    bases, exponents = x[:: max(1, len(x) // 40)], x[:: max(1, len(x) // 30)]
    a, b = (np.ravel(v) for v in np.meshgrid(bases, exponents))
    assert functions("powi", a, b).tolist() == [power(int(p), int(q), t) for p, q in zip(a, b)]


def test_every_function_has_a_leaf(program):
    """Float functions compile for float32, integer functions for int32."""
    floats = [n for n, f in FUNCTIONS.items() if f.operands != "integer"]
    Functions(program, running_host(), floats, F32)
    Functions(program, running_host(), [n for n, f in FUNCTIONS.items() if f.operands != "float"], dtype("int32"))


@pytest.mark.parametrize(
    "name,t,count", [("exp", "int32", 1), ("popcount", "float32", 1), ("exp", "float32", 2), ("nothing", "float32", 1), ("exp", "bool", 1)]
)
def test_wrong_calls_are_refused(name, t, count):
    fn = Module("wrong", running_host()).function("f", "void", [("x", memory_type(dtype(t)))])
    with pytest.raises(InternalError):
        call(fn, name, [fn.params[0]] * count, dtype(t))


def test_the_manual_states_the_bounds():
    page = Path(__file__).parents[3] / "docs" / "numbers.md"
    lines = [line.split("|") for line in page.read_text().splitlines() if line.startswith("| `")]
    assert {name.strip(" `"): float(units) for _, name, units, _ in lines} == LARGEST_ERRORS


@pytest.mark.parametrize("name", ["exp2", "exp", "exp10"])
def test_exponentials_down_to_the_smallest_number(program, name):
    """Where the result is subnormal it is rounded a second time: densely, from the last normal result to zero, and up to infinity."""
    functions = Functions(program, running_host(), [name], F32)
    unit = {"exp2": 1.0, "exp": math.log(2), "exp10": math.log10(2)}[name]
    for low, high in ((-151 * unit, -124 * unit), (126 * unit, 129 * unit)):
        check_unary(functions, name, np.linspace(low, high, 1_500_000).astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(EXACT))
def test_float32_bound_over_all_arguments(program, name):
    functions = Functions(program, running_host(), [name], F32)
    exact = EXACT[name]
    step = 509 if name == "erf" else 1  # the reference for erf is a call an element
    for start in range(0, 1 << 32, step << 21):
        x = np.arange(start, min(start + (step << 21), 1 << 32), step, dtype=np.uint64).astype(np.uint32).view(np.float32)
        got = functions(name, x)
        with np.errstate(all="ignore"):
            error = units(got, np.asarray(exact(x.astype(np.float64))))
        worst = int(np.argmax(error))
        assert error[worst] <= LARGEST_ERRORS[name], (x[worst], got[worst], error[worst])
