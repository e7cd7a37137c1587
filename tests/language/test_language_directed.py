"""IEEE operations rounded in a direction, against exact rational arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest

import zellige.language as T

OPERATIONS = {
    "ieee_add": (2, lambda x, y: x + y),
    "ieee_sub": (2, lambda x, y: x - y),
    "ieee_mul": (2, lambda x, y: x * y),
    "ieee_fdiv": (2, lambda x, y: x / y),
    "ieee_fmaf": (3, lambda x, y, z: x * y + z),
    "ieee_frcp": (1, lambda x: 1 / x),
}


def rounded(exact: Fraction, mode: str, kind: type) -> float:
    """``exact`` in a NumPy float type: the neighbour in the direction, found by comparison with exact rationals."""
    nearest = kind(exact.numerator / exact.denominator) if exact else kind(0)
    candidates = sorted({nearest, np.nextafter(nearest, kind(-np.inf)), np.nextafter(nearest, kind(np.inf))})
    below = max((c for c in candidates if Fraction(float(c)) <= exact), default=candidates[0])
    above = min((c for c in candidates if Fraction(float(c)) >= exact), default=candidates[-1])
    if mode == "rd" or (mode == "rz" and exact > 0):
        return float(below)
    return float(above)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("mode", ["rz", "rd", "ru"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_direction_gives_the_neighbour_on_its_side(run, random, name, mode, dtype):
    arity, exact = OPERATIONS[name]
    operation = getattr(T, name)
    count = 200

    @T.prim_func
    def k(X: T.Tensor((3, count), dtype), B: T.Tensor((count,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(count):
                if arity == 1:
                    B[i] = operation(X[0, i], mode)
                elif arity == 2:
                    B[i] = operation(X[0, i], X[1, i], mode)
                else:
                    B[i] = operation(X[0, i], X[1, i], X[2, i], mode)

    x = (random.standard_normal((3, count)) * 2.0 ** random.integers(-20, 20, (3, count))).astype(dtype)
    x[:, :20] = np.round(x[:, :20] * 8) + 1  # results that are exact
    x[0, :20][x[0, :20] == 0] = 1
    x[1, :20][x[1, :20] == 0] = 1
    b = run(k, x, np.zeros(count, dtype))
    for i in range(count):
        operands = [Fraction(float(v)) for v in x[:arity, i]]
        assert float(b[i]) == rounded(exact(*operands), mode, np.dtype(dtype).type), (name, mode, x[:, i])


@pytest.mark.parametrize("mode", ["rz", "rd", "ru"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_square_roots(run, random, mode, dtype):
    @T.prim_func
    def k(X: T.Tensor((100,), dtype), B: T.Tensor((100,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(100):
                B[i] = T.ieee_fsqrt(X[i], mode)

    kind = np.dtype(dtype).type
    x = np.concatenate([random.uniform(0, 1000, 90), np.arange(10.0) ** 2]).astype(dtype)
    b = run(k, x, np.zeros(100, dtype))
    for value, root in zip(x, b):
        square = Fraction(float(value))
        if mode == "ru":
            assert Fraction(float(root)) ** 2 >= square
            assert root == 0 or Fraction(float(np.nextafter(root, kind(0)))) ** 2 < square
        else:
            assert Fraction(float(root)) ** 2 <= square
            assert Fraction(float(np.nextafter(root, kind(np.inf)))) ** 2 > square


@pytest.mark.parametrize("mode", ["rz", "rd", "ru"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_infinities_and_nan_stay(run, mode, dtype):
    @T.prim_func
    def k(X: T.Tensor((4,), dtype), B: T.Tensor((4,), dtype)):
        with T.Kernel(1):
            B[0] = T.ieee_add(X[0], X[1], mode)
            B[1] = T.ieee_fdiv(X[1], X[2], mode)
            B[2] = T.ieee_mul(X[0], X[2], mode)
            B[3] = T.ieee_fsqrt(X[3], mode)

    b = run(k, np.array([math.inf, 1, 0, -1], dtype), np.zeros(4, dtype))
    np.testing.assert_array_equal(b, [math.inf, math.inf, math.nan, math.nan])


def test_an_overflow_toward_zero_stops_at_the_largest_number(run):
    @T.prim_func
    def k(X: T.Tensor((1,), "float32"), B: T.Tensor((3,), "float32")):
        with T.Kernel(1):
            B[0] = T.ieee_mul(X[0], X[0], "rz")
            B[1] = T.ieee_mul(X[0], X[0], "rd")
            B[2] = T.ieee_mul(X[0], X[0], "ru")

    largest = np.finfo(np.float32).max
    assert run(k, np.array([1e30], np.float32), np.zeros(3, np.float32)).tolist() == [largest, largest, math.inf]
