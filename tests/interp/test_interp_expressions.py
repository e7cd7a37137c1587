"""Scalar expressions over all element types against plain Python arithmetic."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from zellige.dtypes import all_dtypes, dtype
from zellige.elements.arithmetic import binary, compare, math_function, unary
from zellige.elements.conversion import cast, from_codes
from zellige.interp import Report, interpret
from zellige.ir.expr import BOOL, INT32, Binary, Buffer, Const, Load, Select, Var, const
from zellige.ir.functions import FUNCTIONS
from zellige.ir.stmt import Kernel, Launch, Map, Store, TensorParam

F32, F64 = dtype("float32"), dtype("float64")
INTEGERS = [t for t in all_dtypes() if t.is_integer]
FLOATS = [t for t in all_dtypes() if t.is_float]


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def integers(values, t):
    return np.array(values, np.int64 if t.is_signed else np.uint64).astype(t.numpy)


def wrap(value: int, t) -> int:
    low = value % (1 << t.bits)
    return low - (1 << t.bits) if t.kind == "int" and low >= 1 << (t.bits - 1) else low


def python_integer(op: str, x: int, y: int, t) -> int:
    """One integer operation as the IR says, on Python's unbounded integers."""
    if op in ("floordiv", "floormod", "truncdiv", "truncmod"):
        if y == 0:
            return 0
        truncated = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        result = {"floordiv": x // y, "floormod": x % y, "truncdiv": truncated, "truncmod": x - y * truncated}[op]
        return 0 if not t.min <= result <= t.max else result
    if op == "shl":
        return wrap(x << y, t) if 0 <= y < t.bits else 0
    if op == "shr":
        return x >> y if 0 <= y < t.bits else (-1 if x < 0 else 0)
    simple = {
        "add": x + y, "sub": x - y, "mul": x * y, "bitand": x & y, "bitor": x | y, "bitxor": x ^ y,
        "min": min(x, y), "max": max(x, y), "min_nan": min(x, y), "max_nan": max(x, y),
    }  # fmt: skip
    return wrap(simple[op], t)


INTEGER_OPS = [
    "add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod", "shl", "shr",
    "bitand", "bitor", "bitxor", "min", "max", "min_nan", "max_nan",
]  # fmt: skip


@pytest.mark.parametrize("t", INTEGERS, ids=str)
@pytest.mark.parametrize("op", INTEGER_OPS)
def test_integer_operations(op, t):
    values = sorted(
        {int(v) for v in (t.min, t.min + 1, -7, -2, -1, 0, 1, 2, 3, 7, t.bits - 1, t.bits, t.max - 1, t.max) if t.min <= v <= t.max}
    )
    pairs = list(itertools.product(values, values))
    x, y = (integers([p[side] for p in pairs], t) for side in (0, 1))
    found = binary(op, x, y, t)
    assert found.dtype == t.numpy
    assert [int(v) for v in found] == [python_integer(op, a, b, t) for a, b in pairs]


@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_integer_signs_and_counts(t):
    values = sorted({int(v) for v in (t.min, -3, -1, 0, 1, 2, 5, t.max) if t.min <= v <= t.max})
    x = integers(values, t)
    mask = (1 << t.bits) - 1
    assert [int(v) for v in unary("neg", x, t)] == [wrap(-v, t) for v in values]
    assert [int(v) for v in unary("invert", x, t)] == [wrap(~v, t) for v in values]
    assert [int(v) for v in math_function("abs", (x,), t)] == [wrap(abs(v), t) for v in values]
    assert [int(v) for v in math_function("popcount", (x,), t)] == [bin(v & mask).count("1") for v in values]
    assert [int(v) for v in math_function("clz", (x,), t)] == [t.bits - (v & mask).bit_length() for v in values]
    small = [int(v) for v in (0, 1, 2, 3, 5, -1, -2) if t.min <= v <= t.max]
    for base, power in itertools.product(values, small):
        expected = wrap(base**power, t) if power >= 0 else {1: 1, -1: 1 if power % 2 == 0 else -1}.get(base, 0)
        assert int(math_function("powi", (integers(base, t), integers(power, t)), t)) == expected


@pytest.mark.parametrize("t", [t for t in FLOATS if t.name not in ("float64", "float8_e8m0fnu")], ids=str)
def test_float_arithmetic_rounds_each_operation(t, random):
    pool = cast(random.standard_normal(60) * np.exp2(random.integers(-2, 3, 60)), F64, t)
    x, y = pool[:30], pool[30:]
    for op, exact in (("add", lambda a, b: a + b), ("sub", lambda a, b: a - b), ("mul", lambda a, b: a * b)):
        found = binary(op, x, y, t).astype(np.float64)
        for a, b, got in zip(x.astype(np.float64), y.astype(np.float64), found):
            through_float32 = np.float32(float(exact(Fraction(float(a)), Fraction(float(b)))))
            expected = float(cast(np.array(through_float32), F32, t))
            assert got == expected or (math.isnan(got) and math.isnan(expected))


def test_float16_is_what_numpy_computes(random):
    t = dtype("float16")
    x, y = (random.standard_normal(5000).astype(np.float16) for _ in range(2))
    for op, function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("truediv", np.divide)):
        np.testing.assert_array_equal(binary(op, x, y, t), function(x, y))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "tfloat32", "float32", "float64"])
def test_nan_rules(name):
    t = dtype(name)
    one, nan = (cast(np.array([v]), F64, t) for v in (1.0, math.nan))
    for op in ("min", "max"):
        assert float(binary(op, one, nan, t)[0]) == float(binary(op, nan, one, t)[0]) == 1.0
        assert math.isnan(float(binary(op, nan, nan, t)[0]))
        assert math.isnan(float(binary(f"{op}_nan", one, nan, t)[0])) and math.isnan(float(binary(f"{op}_nan", nan, one, t)[0]))
    truths = {op: bool(compare(op, one, nan, t)[0]) for op in ("eq", "ne", "lt", "le", "gt", "ge")}
    assert truths == {"eq": False, "ne": True, "lt": False, "le": False, "gt": False, "ge": False}
    assert not bool(compare("eq", nan, nan, t)[0])


def test_float_division_and_remainder_are_pythons():
    values = [7.5, -7.5, 2.0, -2.0, 0.5, 3.0, 1.0]
    pairs = [(a, b) for a in values for b in values]
    x, y = (np.array([p[side] for p in pairs]) for side in (0, 1))
    assert binary("floordiv", x, y, F64).tolist() == [a // b for a, b in pairs]
    assert binary("floormod", x, y, F64).tolist() == [a % b for a, b in pairs]
    assert binary("truncmod", x, y, F64).tolist() == [math.fmod(a, b) for a, b in pairs]
    assert binary("truncdiv", x, y, F64).tolist() == [float(math.trunc(a / b)) for a, b in pairs]
    assert binary("truediv", np.array([1.0, -1.0]), np.array([0.0, 0.0]), F64).tolist() == [math.inf, -math.inf]


PYTHON_FUNCTIONS = {
    "exp": math.exp, "exp2": lambda x: 2.0**x, "exp10": lambda x: 10.0**x, "expm1": math.expm1, "log": math.log, "log2": math.log2,
    "log10": math.log10, "log1p": math.log1p, "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x), "rcp": lambda x: 1 / x,
    "cbrt": lambda x: x ** (1 / 3), "sin": math.sin, "cos": math.cos, "tan": math.tan, "asin": math.asin, "acos": math.acos,
    "atan": math.atan, "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh, "asinh": math.asinh, "acosh": math.acosh,
    "atanh": math.atanh, "erf": math.erf, "erfc": math.erfc, "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "floor": math.floor,
    "ceil": math.ceil, "trunc": math.trunc, "round": round, "abs": abs, "isnan": math.isnan, "isinf": math.isinf,
    "isfinite": math.isfinite, "pow": math.pow, "atan2": math.atan2, "hypot": math.hypot, "fmod": math.fmod, "copysign": math.copysign,
    "nextafter": math.nextafter, "ldexp": lambda x, y: math.ldexp(x, math.trunc(y)),
    "fma": lambda x, y, z: float(Fraction(x) * Fraction(y) + Fraction(z)),
}  # fmt: skip


def test_every_function_has_a_reference():
    assert set(PYTHON_FUNCTIONS) | {"powi", "popcount", "clz"} == set(FUNCTIONS)


@pytest.mark.parametrize("name", sorted(PYTHON_FUNCTIONS))
def test_math_functions(name):
    function = FUNCTIONS[name]
    points = {"acosh": (1.0, 1.5, 3.25), "nextafter": (0.25, 1.0, 2.5)}.get(name, (0.25, 0.5, 0.8125))
    for values in itertools.product(points, repeat=function.arity):
        expected = PYTHON_FUNCTIONS[name](*values)
        for t, tolerance in ((F64, 4 * 2.0**-52), (F32, 8 * 2.0**-23), (dtype("float16"), 2.0**-10), (dtype("bfloat16"), 2.0**-7)):
            found = math_function(name, tuple(cast(np.array([v]), F64, t) for v in values), t)
            assert found.dtype == (np.bool_ if function.result == "bool" else t.numpy)
            if name == "nextafter":
                continue
            assert abs(float(found[0]) - expected) <= tolerance * max(abs(float(expected)), 2.0**-20)


def test_rounding_functions_take_ties_to_even():
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4, -2.6])
    assert math_function("round", (x,), F64).tolist() == [0.0, 2.0, 2.0, -0.0, -2.0, 2.0, -3.0]


@pytest.mark.parametrize("t", [t for t in FLOATS if t.bits <= 16 and t.name != "float8_e8m0fnu"] + [dtype("tfloat32")], ids=str)
def test_nextafter_steps_in_its_own_type(t):
    if t.name == "tfloat32":
        values = [1.0, 1 + 2.0**-10, 1 + 2.0**-9, 2.0, 2 + 2.0**-9]
        assert float(math_function("nextafter", (np.float32([0.0]), np.float32([1.0])), t)[0]) == 2.0**-136
        assert float(math_function("nextafter", (np.float32([-2.0]), np.float32([0.0])), t)[0]) == -(2 - 2.0**-10)
        pairs = list(itertools.pairwise(values))
        pairs = [p for p in pairs if p[0] != 1 + 2.0**-9]
    else:
        codes = np.arange(1 << (t.bits - 1), dtype=np.uint8 if t.bits <= 8 else np.uint16)[1:200]
        values = [float(v) for v in from_codes(codes, t).astype(np.float64) if np.isfinite(v)]
        pairs = list(zip(values, values[1:]))
    for low, high in pairs:
        up = math_function("nextafter", (cast(np.array([low]), F64, t), cast(np.array([t.max]), F64, t)), t)
        down = math_function("nextafter", (cast(np.array([high]), F64, t), cast(np.array([t.min]), F64, t)), t)
        assert (float(up[0]), float(down[0])) == (high, low)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_fma_rounds_once(name, random):
    t = dtype(name)
    x, y = (random.standard_normal(300).astype(name) for _ in range(2))
    z = (-x * y + random.standard_normal(300) * 1e-9).astype(name)
    z[:50] = (x * y)[:50] * t.numpy.type(2.0**20)
    found = math_function("fma", (x, y, z), t)
    for a, b, c, got in zip(x, y, z, found):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        near = [Fraction(float(v)) for v in (np.nextafter(got, t.numpy.type(-np.inf)), got, np.nextafter(got, t.numpy.type(np.inf)))]
        assert abs(near[1] - exact) <= min(abs(near[0] - exact), abs(near[2] - exact))
    inf = t.numpy.type(np.inf)
    assert np.isnan(math_function("fma", (np.array([inf]), np.array([0], name), np.array([1], name)), t)[0])


# ---- whole expressions, through the interpreter --------------------------------------------------------------------------------------


def one_value(value, inputs=()):
    """A kernel that stores ``value`` into OUT[0]; ``inputs`` are its other tensors."""
    out = Buffer(name="OUT", dtype=value.dtype, shape=(const(1),))
    store = Store(buffer=out, indices=(const(0),), value=value)
    grid = Var(name="bx", dtype=INT32, kind="grid")
    params = tuple(TensorParam(buffer=b) for b in (out, *inputs))
    return Kernel(name="one", params=params, launches=(Launch(grid_vars=(grid,), grid=(const(1),), body=(store,)),))


def test_a_sum_of_five_thousand_terms():
    data = Buffer(name="A", dtype=INT32, shape=(const(5000),))
    total = Load(buffer=data, indices=(const(0),))
    for i in range(1, 5000):
        total = Binary(op="add", left=total, right=Load(buffer=data, indices=(const(i),)))
    values = np.arange(5000, dtype=np.int32) * 3 - 7
    out = np.zeros(1, np.int32)
    assert interpret(one_value(total, (data,)), [out, values], report=Report()).findings == ()
    assert out[0] == sum(3 * i - 7 for i in range(5000))


def test_a_right_leaning_chain_over_many_points():
    data, out = (Buffer(name=n, dtype=INT32, shape=(const(1000),)) for n in "AB")
    i = Var(name="i", dtype=INT32, kind="loop")
    value = const(0)
    for step in range(3000):
        value = Binary(op="sub", left=Load(buffer=data, indices=(i,)), right=Binary(op="add", left=value, right=const(step % 3)))
    body = Map(axes=(i,), extents=(const(1000),), body=(Store(buffer=out, indices=(i,), value=value),))
    grid = Var(name="bx", dtype=INT32, kind="grid")
    kernel = Kernel(
        name="chain",
        params=(TensorParam(buffer=data), TensorParam(buffer=out)),
        launches=(Launch(grid_vars=(grid,), grid=(const(1),), body=(body,)),),
    )
    values, found = np.arange(1000, dtype=np.int32), np.zeros(1000, np.int32)
    interpret(kernel, [values, found])
    expected = []
    for v in range(1000):
        x = 0
        for step in range(3000):
            x = v - (x + step % 3)
        expected.append(x)
    assert found.tolist() == expected


def test_sixty_doublings_share_their_operands():
    value = const(1, dtype("int64"))
    for _ in range(60):
        value = Binary(op="add", left=value, right=value)
    out = np.zeros(1, np.int64)
    interpret(one_value(value), [out])
    assert out[0] == 1 << 60


def test_sixty_nested_selections_share_their_operands():
    data = Buffer(name="A", dtype=INT32, shape=(const(4),))
    value = Load(buffer=data, indices=(const(1),))
    for _ in range(60):
        value = Select(condition=Const(value=True, dtype=BOOL), then=Binary(op="add", left=value, right=value), otherwise=value)
    out = np.zeros(1, np.int32)
    interpret(one_value(value, (data,)), [out, np.array([0, 3, 0, 0], np.int32)], report=Report())
    assert out[0] == np.int32(wrap(3 << 60, INT32))


def test_the_side_not_chosen_touches_nothing(run_block):
    parameters = "A: tensor((4,), float32), B: tensor((8,), float32)"
    body = """
        for i in parallel(8):
            B[i] = A[i] if i < 4 else -1.0
    """
    a, b = np.arange(4, dtype=np.float32), np.zeros(8, np.float32)
    assert run_block(parameters, body, a, b, report=Report()).findings == ()
    assert b.tolist() == [0, 1, 2, 3, -1, -1, -1, -1]


def test_and_or_decide_what_is_read(run_block):
    parameters = "A: tensor((4,), float32), B: tensor((8,), bool), C: tensor((8,), bool)"
    body = """
        for i in parallel(8):
            B[i] = i < 4 and A[i] > 1.0
            C[i] = i >= 4 or A[i] > 1.0
    """
    a, b, c = np.arange(4, dtype=np.float32), np.zeros(8, bool), np.zeros(8, bool)
    assert run_block(parameters, body, a, b, c, report=Report()).findings == ()
    assert b.tolist() == [i < 4 and i > 1 for i in range(8)]
    assert c.tolist() == [i >= 4 or i > 1 for i in range(8)]


def test_the_right_side_that_is_needed_counts_as_read(run_block):
    found = run_block(
        "A: tensor((4,), float32), B: tensor((8,), bool)",
        "for i in parallel(8):\n    B[i] = i < 5 and A[i] > 1.0",
        np.ones(4, np.float32),
        np.zeros(8, bool),
        report=Report(),
    )
    assert [f.code for f in found.findings] == ["E298"]
    assert "A[4]" in found.findings[0].message and "once" in found.findings[0].message


def test_vectors(run_block):
    parameters = "A: tensor((4,), float32x4), B: tensor((4,), float32x4), C: tensor((4,), float32x4)"
    body = """
        for i in parallel(4):
            C[i] = A[i] * B[i] + cast(2.0, float32x4) if i < 2 else A[3 - i]
    """
    a, b, c = (np.arange(16, dtype=np.float32).reshape(4, 4) + k for k in (0, 1, 2))
    run_block(parameters, body, a, b, c)
    for i in range(4):
        assert c[i].tolist() == [float(a[i, k] * b[i, k] + 2) if i < 2 else float(a[3 - i, k]) for k in range(4)]


@pytest.mark.parametrize("t", [t for t in all_dtypes() if t.bits != 4], ids=str)
def test_every_type_is_stored_and_loaded(t, run_block, random):
    values = cast(random.integers(0, 2, 12).astype(np.float64) if t.is_bool else random.standard_normal(12) * 3, F64, t)
    out = np.zeros(12, np.float32).astype(t.numpy)
    run_block(f"A: tensor((12,), {t}), B: tensor((12,), {t})", "for i in parallel(12):\n    B[11 - i] = A[i]", values, out)
    np.testing.assert_array_equal(out.view(np.uint8), values[::-1].copy().view(np.uint8))
