"""Scalar functions: math, selection, extremes, constants of dtypes, conversions and roundings."""

import math

import ml_dtypes
import numpy as np
import pytest

import zellige.language as T
from zellige.dtypes import all_dtypes
from zellige.frontend import arithmetic
from zellige.ir.expr import Math
from zellige.ir.functions import FUNCTIONS
from zellige.ir.traverse import walk

UNARY = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(10.0, x), "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "atanh": np.arctanh, "acosh": lambda x: np.arccosh(x), "erf": lambda x: np.array([math.erf(v) for v in x]),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "abs": np.abs, "fabs": np.abs,
    "round": np.rint, "nearbyint": np.rint,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_one_element(run, name):
    function = getattr(T, name)

    @T.prim_func
    def k(A: T.Tensor((9,), "float64"), B: T.Tensor((9,), "float64")):
        with T.Kernel(1):
            for i in T.Parallel(9):
                B[i] = function(A[i])

    a = np.linspace(1.05, 3, 9) if name == "acosh" else np.linspace(0.05, 0.95, 9)
    np.testing.assert_allclose(run(k, a, np.zeros(9)), UNARY[name](a), rtol=1e-14)


@pytest.mark.parametrize("name", ["sqrt", "log", "sigmoid", "exp", "erf"])
def test_integers_become_float32(name):
    assert getattr(T, name)(T.int32(3)).dtype == "float32"
    assert getattr(T, name)(2).dtype == "float32"
    assert getattr(T, name)(True).dtype == "float32"


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64"])
def test_floats_keep_their_type(name):
    value = T.dtype(name)
    assert T.exp(T.cast(1.0, value)).dtype == name


def test_functions_of_two_and_three_elements(run):
    @T.prim_func
    def k(A: T.Tensor((3,), "float64"), B: T.Tensor((8,), "float64")):
        with T.Kernel(1):
            B[0] = T.atan2(A[0], A[1])
            B[1] = T.hypot(A[0], A[1])
            B[2] = T.fmod(A[0], A[1])
            B[3] = T.copysign(A[0], A[2])
            B[4] = T.nextafter(A[0], A[2])
            B[5] = T.ldexp(A[0], 3)
            B[6] = T.fma(A[0], A[1], A[2])
            B[7] = T.fmul(A[0], 2)

    a = np.array([7.5, 2.0, -1.25])
    expected = [
        np.arctan2(7.5, 2), np.hypot(7.5, 2), np.fmod(7.5, 2), -7.5, np.nextafter(7.5, -1.25), 60.0, 13.75, 15.0,
    ]  # fmt: skip
    np.testing.assert_array_equal(run(k, a, np.zeros(8)), expected)


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [(0, [1, 1, 1]), (1, [3, -2, 0.5]), (2, [9, 4, 0.25]), (5, [243, -32, 0.03125]), (0.5, [3**0.5, math.nan, 0.5**0.5])],
)
def test_powers(run, exponent, expected):
    @T.prim_func
    def k(A: T.Tensor((3,), "float64"), B: T.Tensor((3,), "float64"), C: T.Tensor((3,), "float64")):
        with T.Kernel(1):
            for i in T.serial(3):
                B[i] = T.pow(A[i], exponent)
                C[i] = A[i] ** exponent

    is_product = isinstance(exponent, int)
    assert is_product == (not any(isinstance(node, Math) for node in walk(k.kernel)))
    b, c = np.zeros(3), np.zeros(3)
    run(k, np.array([3, -2, 0.5]), b, c)
    np.testing.assert_allclose(b, expected, rtol=1e-15)
    np.testing.assert_array_equal(c, b)


def test_a_power_of_a_narrow_float_rounds_once(run):
    @T.prim_func
    def k(A: T.Tensor((1,), "float16"), B: T.Tensor((1,), "float16")):
        with T.Kernel(1):
            B[0] = A[0] ** 3

    a = np.array([1.4443], np.float16)
    assert run(k, a, np.zeros(1, np.float16))[0] == np.float16(np.float64(a[0]) ** 3)


def test_powers_of_integers(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "int32"), n: T.int32, B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.serial(4):
                B[i] = A[i] ** n + A[i] ** 3

    a = np.array([2, -3, 0, 1], np.int32)
    np.testing.assert_array_equal(run(k, a, 4, np.zeros(4, np.int32)), a**4 + a**3)


@pytest.mark.parametrize("propagate", [False, True])
def test_extremes_and_nan(run, propagate):
    @T.prim_func
    def k(A: T.Tensor((3,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            B[0] = T.max(A[0], A[1], nan_propagate=propagate)
            B[1] = T.min(A[1], A[0], nan_propagate=propagate)
            B[2] = T.max(A[0], A[2], 5)
            B[3] = T.min(A[0], 0.5)

    b = run(k, np.array([2, math.nan, 3], np.float32), np.zeros(4, np.float32))
    np.testing.assert_array_equal(b, [math.nan if propagate else 2, math.nan if propagate else 2, 5, 0.5])


def test_clamp(run):
    @T.prim_func
    def k(A: T.Tensor((5,), "float32"), B: T.Tensor((7,), "float32")):
        with T.Kernel(1):
            for i in T.serial(5):
                B[i] = T.clamp(A[i], min_val=-1.0, max_val=2.0)
            B[5] = T.clamp(A[0], 3.0, 1.0)
            B[6] = T.clamp(A[0], A[4], 1.0)

    b = run(k, np.array([-5, 0, 2, 7, math.nan], np.float32), np.zeros(7, np.float32))
    np.testing.assert_array_equal(b, [-1, 0, 2, 2, math.nan, 1, math.nan])


def test_python_numbers_stay_python_numbers():
    assert T.max(3, 5) == 5
    assert T.min(3.0, 5) == 3.0
    assert T.abs(-4) == 4
    assert T.pow(2, 10) == 1024
    assert T.if_then_else(True, 1, 2) == 1
    assert T.Select(False, "a", "b") == "b"


def test_selection_does_not_read_the_other_side(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "int32"), n: T.int32, B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = T.if_then_else(i < n, A[T.min(i, n - 1)], 2.5) + T.Select(True, 1, 0)

    assert run(k, np.array([1, 2, 3, 4], np.int32), 3, np.zeros(8, np.float32)).tolist() == [2, 3, 4, 3.5, 3.5, 3.5, 3.5, 3.5]


def test_classes_of_numbers(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "float16"), B: T.Tensor((3, 4), "bool"), C: T.Tensor((3,), "bool")):
        with T.Kernel(1):
            for i in T.serial(4):
                B[0, i] = T.isnan(A[i])
                B[1, i] = T.isinf(A[i])
                B[2, i] = T.isfinite(A[i])
            C[0] = T.isnan(3)
            C[1] = T.isinf(T.int32(3))
            C[2] = T.isfinite(T.int32(3))

    a = np.array([1, math.nan, math.inf, -math.inf], np.float16)
    b, c = np.zeros((3, 4), bool), np.ones(3, bool)
    run(k, a, b, c)
    np.testing.assert_array_equal(b, [np.isnan(a), np.isinf(a), np.isfinite(a)])
    assert c.tolist() == [False, False, True]


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "float8_e5m2"])
def test_infinity(name):
    assert T.infinity(name).constant == math.inf
    assert (-T.infinity(name)).constant == -math.inf


@pytest.mark.parametrize("name", ["int32", "float8_e4m3fn", "float4_e2m1fn", "bool"])
def test_types_without_infinity(name):
    with pytest.raises(Exception, match="E232"):
        T.infinity(name)


@pytest.mark.parametrize("target", all_dtypes(), ids=str)
def test_extremes_of_a_type(target):
    assert (T.min_value(target).constant, T.max_value(target).constant) == (target.min, target.max)


@pytest.mark.parametrize(("mode", "values"), [("ties-to-even", [0, 2, 2, -0.0, -2, 3]), ("ties-away-from-zero", [1, 2, 3, -1, -2, 3])])
def test_rounding_of_ties(run, mode, values):
    @T.prim_func
    def k(A: T.Tensor((6,), "float32"), B: T.Tensor((6,), "float32"), C: T.Tensor((6,), "float8_e4m3fn")):
        with T.Kernel(1):
            for i in T.serial(6):
                B[i] = T.round(A[i], rounding_mode=mode)
                C[i] = T.round(T.cast(A[i], "float8_e4m3fn"), mode)

    b, c = np.zeros(6, np.float32), np.zeros(6, ml_dtypes.float8_e4m3fn)
    run(k, np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3.25], np.float32), b, c)
    np.testing.assert_array_equal(b, values)
    np.testing.assert_array_equal(c.astype(np.float32), values)


def test_roundings_of_casts(run):
    @T.prim_func
    def k(A: T.Tensor((2,), "float32"), B: T.Tensor((5, 2), "float16"), C: T.Tensor((2,), "float8_e4m3fn")):
        with T.Kernel(1):
            for i in T.serial(2):
                B[0, i] = T.cast(A[i], "float16", round="rn")
                B[1, i] = T.cast(A[i], "float16", "rz")
                B[2, i] = T.cast(A[i], "float16", "rm")
                B[3, i] = T.cast(A[i], "float16", "rp")
                B[4, i] = T.Cast("float16", A[i])
            C[0] = T.cast(A[0] * 1000, "float8_e4m3fn", sat=True)
            C[1] = T.cast(A[1] * 1000, "float8_e4m3fn")

    a = np.array([1.0007, -1.0003], np.float32)
    b, c = np.zeros((5, 2), np.float16), np.zeros(2, ml_dtypes.float8_e4m3fn)
    run(k, a, b, c)
    low, high = np.float16(1), np.nextafter(np.float16(1), np.float16(2))
    np.testing.assert_array_equal(b, [[high, -low], [low, -low], [low, -high], [high, -low], [high, -low]])
    assert c[0] == 448
    assert np.isnan(c[1])


def test_casts_of_dtypes_and_of_numbers(run):
    @T.prim_func
    def k(A: T.Tensor((1,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            B[0] = T.int32(A[0])
            B[1] = T.float16(A[0])
            B[2] = A[0].astype("int8")
            B[3] = T.int32(1.5)

    assert run(k, np.array([-2.7], np.float32), np.zeros(4, np.float32)).tolist() == [-2, np.float16(-2.7), -2, 1]


def test_reinterpretation_in_both_orders(run):
    @T.prim_func
    def k(A: T.Tensor((1,), "float32"), B: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            B[0] = T.reinterpret(A[0], "int32")
            B[1] = T.reinterpret("int32", A[0])

    expected = np.array([-1.5], np.float32).view(np.int32)[0]
    assert run(k, np.array([-1.5], np.float32), np.zeros(2, np.int32)).tolist() == [expected, expected]


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "tan", "exp2", "exp10", "log2", "log10"])
def test_fast_forms_say_so(name):
    expr = getattr(T, f"__{name}")(T.float32(1.0)).expr
    assert (expr.function, expr.precision) == (name, "fast")
    assert T.fast_rcp(T.float32(2.0)).expr.precision == "fast"


@pytest.mark.parametrize(
    ("name", "function"), [("ieee_fmaf", "fma"), ("ieee_frcp", "rcp"), ("ieee_fsqrt", "sqrt"), ("ieee_frsqrt", "rsqrt")]
)
def test_exact_forms_say_so(name, function):
    expr = getattr(T, name)(*[T.float32(2.0)] * FUNCTIONS[function].arity).expr
    assert (expr.function, expr.precision) == (function, "ieee")


def test_keywords_of_older_code():
    assert T.exp(T.float32(1), dtype="float32").dtype == "float32"
    assert T.max(T.float32(1), 2, span=None).dtype == "float32"
    with pytest.raises(TypeError, match="'dtyp'"):
        T.exp(T.float32(1), dtyp="float32")


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: T.abs(T.bool(True)), "E204"),
        (lambda: T.clz(T.float32(1)), "E230"),
        (lambda: T.popcount(1.5), "E230"),
        (lambda: T.reinterpret(T.int32(1), "float64"), "E249"),
        (lambda: T.cast(T.int32(1), "floaty"), "E217"),
        (lambda: T.cast("float16", T.int32(1)), "E217"),
        (lambda: T.ieee_add(1.0, 2.0, []), "E248"),
        (lambda: T.cast(1.0, "float16", round="nearest"), "E248"),
        (lambda: T.cast(1.0, "float16", sat="yes"), "E248"),
        (lambda: T.cast(1.0, "float16", round="rs"), "E248"),
        (lambda: T.cast(1.0, "float16", round="rn", rbits=3), "E248"),
        (lambda: T.cast(1.0, "float16", round="rs", rbits=0.5), "E230"),
        (lambda: T.cast(1.0, "float16", round="rs", rbits=3, sat=False), "E248"),
        (lambda: T.cast(1.0, "float32", round="rs", rbits=3), "E248"),
        (lambda: T.cast(1.0, "float8_e8m0fnu", round="rs", rbits=3), "E248"),
        (lambda: T.cast(1.0, "int8", round="rs", rbits=3), "E248"),
        (lambda: T.cast(T.float64(1.0), "float16", round="rs", rbits=3), "E248"),
        (lambda: T.cast(T.int32(1), "float16", round="rs", rbits=3), "E248"),
        (lambda: T.__exp(T.int8(1)), "E204"),
        (lambda: T.__log2(T.bool(True)), "E204"),
        (lambda: T.__sin(T.float8_e5m2(1.0)), "E204"),
        (lambda: T.round(T.float32(1), "up"), "E248"),
        (lambda: T.ieee_add(1.0, 2.0, "up"), "E248"),
        (lambda: T.ieee_add(T.float16(1.0), 2, "rz"), "E402"),
        (lambda: T.exp("x"), "E202"),
        (lambda: T.exp(None), "E202"),
        (lambda: ~T.float32(1), "E204"),
        (lambda: T.float32(1) & 1, "E204"),
        (lambda: T.bitwise_and(2.5, 3), "E204"),
        (lambda: T.bitwise_not(2.5), "E204"),
        (lambda: T.float32(1).astype("floaty"), "E217"),
    ],
)
def test_wrong_operands(call, code):
    with pytest.raises(Exception, match=code):
        call()


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_of_constants_are_constants(op):
    import operator

    function = getattr(operator, op)
    for left, right in ((1, 2), (2, 2), (3, 2)):
        assert arithmetic.compare(op, T.int32(left), right).value is function(left, right)
