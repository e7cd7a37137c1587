"""Numbers written in the source: what they become where they are stored, and what does not fit."""

import ml_dtypes
import numpy as np
import pytest

import zellige.language as T
from zellige.diagnostics import ZelligeError
from zellige.dtypes import all_dtypes, dtype
from zellige.frontend import arithmetic


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int8", 128), ("int8", -129), ("uint8", -1), ("uint8", 256), ("int16", 1 << 15), ("uint64", 1 << 64), ("int4", 8), ("uint4", 16),
        ("float16", 1e6), ("float16", -65520.0), ("bfloat16", 3.4e38), ("float32", 1e300), ("float8_e4m3fn", 480), ("float8_e5m2", 1e5),
        ("float4_e2m1fn", 7.5), ("float8_e8m0fnu", -1.0), ("float8_e4m3fn", float("inf")), ("float4_e2m1fn", float("nan")),
        ("int32", float("inf")), ("int32", 3e9),
    ],
)  # fmt: skip
def test_a_number_out_of_range_is_refused(name, value):
    with pytest.raises(ZelligeError) as caught:
        arithmetic.stored(value, dtype(name))
    assert caught.value.code == "E254"
    assert name in str(caught.value)


@pytest.mark.parametrize("target", all_dtypes(), ids=str)
def test_the_extremes_of_a_type_fit(target):
    for value in (target.min, target.max):
        assert arithmetic.stored(value, target).dtype == target


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e3m4", "float4_e2m1fn"])
def test_a_number_fits_exactly_when_it_rounds_to_a_finite_one(name):
    target = dtype(name)
    largest = float(target.max)
    ulp = 2.0 ** (np.floor(np.log2(largest)) - target.mantissa)
    for steps in (-0.25, 0.0, 0.25, 0.49):
        arithmetic.stored(largest + steps * ulp, target)
    for steps in (0.51, 0.75, 1.0):
        with np.errstate(over="ignore"):
            rounded = float(np.asarray(largest + steps * ulp).astype(target.numpy))
        assert not np.isfinite(rounded) or name == "float4_e2m1fn", "the bound is where the type's own rounding overflows"
        with pytest.raises(ZelligeError, match="E254"):
            arithmetic.stored(largest + steps * ulp, target)


def test_what_is_stored_has_the_place_s_type(run):
    @T.prim_func
    def k(
        A: T.Tensor((3,), "int8"),
        B: T.Tensor((2,), "float16"),
        C: T.Tensor((2,), "bool"),
        D: T.Tensor((1,), "float64"),
        E: T.Tensor((1,), "bfloat16"),
    ):
        with T.Kernel(1):
            A[0] = True
            A[1] = T.int8(-1.75)
            A[2] = -128
            B[0] = 1
            B[1] = 0.1
            C[0] = 3
            C[1] = 0.0
            D[0] = 1e300
            E[0] = 1.0 / 3

    a, b, c = np.zeros(3, np.int8), np.zeros(2, np.float16), np.zeros(2, bool)
    d, e = np.zeros(1), np.zeros(1, ml_dtypes.bfloat16)
    run(k, a, b, c, d, e)
    assert a.tolist() == [1, -1, -128]
    np.testing.assert_array_equal(b, np.array([1, 0.1], np.float16))
    assert c.tolist() == [True, False]
    assert d[0] == 1e300
    assert e[0] == np.asarray(1.0 / 3).astype(ml_dtypes.bfloat16)


def test_a_store_names_the_type_and_its_range(refused):
    def k(A: T.Tensor((4,), "int8")):
        with T.Kernel(1):
            A[0] = 300

    assert "300 exceeds maximum of int8, whose values go from -128 to 127" in str(refused("E254", k))


def test_a_fill_out_of_range(refused):
    def k(A: T.Tensor((4,), "uint8")):
        with T.Kernel(1):
            T.fill(A, -1)

    refused("E254", k)


def test_an_initial_value_out_of_range(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            v = T.alloc_var("float32", init=1e300)
            A[0] = v

    refused("E254", k)


def test_a_constant_by_a_dtype_out_of_range(refused):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            A[0] = T.int8(300)

    refused("E254", k)


def test_a_run_time_value_wraps(run):
    @T.prim_func
    def k(x: T.int32, A: T.Tensor((2,), "int8")):
        with T.Kernel(1):
            A[0] = x
            A[1] = T.cast(x + 1, "int8")

    assert run(k, 300, np.zeros(2, np.int8)).tolist() == [44, 45]


def test_an_integer_literal_beyond_64_bits(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1) as bx:
            A[0] = bx + (1 << 70)

    refused("E201", k)


@pytest.mark.parametrize("value", [0xFFFF_FFFF_FFFF_FFFF, 1 << 63])
def test_the_largest_unsigned_numbers(value):
    assert T.uint64(value).constant == value


def test_promotion_of_literals(run):
    @T.prim_func
    def k(A: T.Tensor((1,), "float16"), B: T.Tensor((1,), "int8"), C: T.Tensor((4,), "float64")):
        with T.Kernel(1):
            C[0] = A[0] * 0.1  # float32: the literal is not rounded to float16
            C[1] = A[0] + 1  # float16
            C[2] = B[0] + 100  # int32: no wrapping
            C[3] = B[0] / 3  # float32

    c = run(k, np.array([2049], np.float16), np.array([100], np.int8), np.zeros(4))
    assert c[0] == np.float32(2048) * np.float32(0.1)
    assert c[1] == 2048, "2049 rounds to 2048 in float16, and so does 2048 + 1"
    assert c[2] == 200
    assert c[3] == np.float32(100) / np.float32(3)
