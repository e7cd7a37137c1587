"""Integer division in its forms, bits, and T.dp4a."""

import numpy as np
import pytest

import zellige.language as T

PAIRS = [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (-6, 3), (0, 5), (1, 7), (-1, 7)]


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


MEANINGS = {
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "truncdiv": truncated,
    "truncmod": lambda a, b: a - truncated(a, b) * b,
    "ceildiv": lambda a, b: -(-a // b),
    "cdiv": lambda a, b: -(-a // b),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_divisions_at_run_time_and_while_compiling(run, name):
    function, meaning = getattr(T, name), MEANINGS[name]

    @T.prim_func
    def k(A: T.Tensor((9, 2), "int32"), B: T.Tensor((9,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(9):
                B[i] = function(A[i, 0], A[i, 1])

    expected = [meaning(a, b) for a, b in PAIRS]
    assert run(k, np.array(PAIRS, np.int32), np.zeros(9, np.int32)).tolist() == expected
    results = [function(a, b) for a, b in PAIRS]
    assert results == expected
    assert all(type(r) is int for r in results)


def test_a_rounded_up_quotient_of_unsigned_numbers_does_not_wrap(run):
    @T.prim_func
    def k(A: T.Tensor((2,), "uint32"), B: T.Tensor((2,), "uint32")):
        with T.Kernel(1):
            B[0] = T.ceildiv(A[0], A[1])
            B[1] = T.ceildiv(A[1], A[0])

    assert run(k, np.array([2**32 - 1, 2], np.uint32), np.zeros(2, np.uint32)).tolist() == [2**31, 1]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_a_rounded_up_quotient_at_the_ends_of_its_type(run, dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    pairs = [(low, 2), (low, -4), (low, low), (high, 2), (high, -2), (high, high), (high, low), (0, low)]

    @T.prim_func
    def k(A: T.Tensor((8, 2), dtype), B: T.Tensor((8, 2), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i, 0] = T.ceildiv(A[i, 0], A[i, 1])
                B[i, 1] = T.ceildiv(A[i, 0], 4)

    expected = [[-(-a // b), -(-a // 4)] for a, b in pairs]
    assert run(k, np.array(pairs, dtype), np.zeros((8, 2), dtype)).tolist() == expected


def test_sizes_are_rounded_up():
    n = T.dynamic("n")
    assert T.align_up(13, 8) == 16
    assert T.align_up(16, 8) == 16
    assert T.ceildiv(n, 1).expr is not None
    assert str(T.align_up(n, 64).dtype) == "int32"


def test_bits(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "int32"), U: T.Tensor((4,), "uint32"), B: T.Tensor((9, 4), "int32"), C: T.Tensor((2, 4), "uint32")):
        with T.Kernel(1):
            for i in T.serial(4):
                B[0, i] = T.shift_left(A[i], 3)
                B[1, i] = T.shift_right(A[i], 2)
                B[2, i] = T.bitwise_and(A[i], 0xFF)
                B[3, i] = T.bitwise_or(A[i], 0x10)
                B[4, i] = T.bitwise_xor(A[i], -1)
                B[5, i] = T.bitwise_not(A[i])
                B[6, i] = T.clz(A[i])
                B[7, i] = T.popcount(A[i])
                B[8, i] = getattr(T, "__ffs")(A[i])
                C[0, i] = T.shift_right(U[i], 4)
                C[1, i] = T.clz(U[i])

    a = np.array([0, 1, -8, 1 << 20], np.int32)
    u = a.view(np.uint32)
    b, c = np.zeros((9, 4), np.int32), np.zeros((2, 4), np.uint32)
    run(k, a, u, b, c)
    words = [int(v) for v in u]
    np.testing.assert_array_equal(b[:6], [a << 3, a >> 2, a & 0xFF, a | 0x10, a ^ -1, ~a])
    assert b[6].tolist() == [32 - w.bit_length() for w in words]
    assert b[7].tolist() == [w.bit_count() for w in words]
    assert b[8].tolist() == [(w & -w).bit_length() for w in words]
    np.testing.assert_array_equal(c[0], u >> 4)
    np.testing.assert_array_equal(c[1], b[6])


def test_bits_of_python_ints():
    assert [T.shift_left(1, 4), T.shift_right(16, 2), T.bitwise_and(6, 3), T.bitwise_or(4, 1), T.bitwise_xor(6, 3), T.bitwise_not(0)] == [
        16,
        4,
        2,
        5,
        5,
        -1,
    ]


@pytest.mark.parametrize("kinds", [("int8", "int32"), ("uint8", "uint32")])
def test_the_dot_product_of_four_bytes(run, random, kinds):
    narrow, wide = kinds

    @T.prim_func
    def k(A: T.Tensor((2, 8), narrow), B: T.Tensor((8,), narrow), C: T.Tensor((3,), wide)):
        with T.Kernel(1):
            T.dp4a(A[1, 4], B[2], C[1])
            T.dp4a(A, B, C)

    low, high = np.iinfo(narrow).min, np.iinfo(narrow).max
    a, b = random.integers(low, high, (2, 8)).astype(narrow), random.integers(low, high, 8).astype(narrow)
    c = run(k, a, b, np.array([1, 10, 100], wide))
    first = 1 + int(a[0, :4].astype(int) @ b[:4].astype(int))
    second = 10 + int(a[1, 4:8].astype(int) @ b[2:6].astype(int))
    assert c.tolist() == [first, second, 100]


@pytest.mark.parametrize(
    "names", [("float16", "float16", "int32"), ("int8", "int8", "float32"), ("uint8", "uint8", "int32"), ("int8", "float16", "int32")]
)
def test_wrong_operands_of_the_dot_product(refused, names):
    a, b, c = names

    def k(A: T.Tensor((4,), a), B: T.Tensor((4,), b), C: T.Tensor((1,), c)):
        with T.Kernel(1):
            T.dp4a(A, B, C)

    refused("E258", k)


def test_a_division_by_zero(refused):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            A[0] = T.floordiv(A[1], 0)

    refused("E231", k)


@pytest.mark.parametrize("name", [*MEANINGS, "align_up"])
def test_a_division_by_zero_while_compiling(name):
    with pytest.raises(Exception, match="E231"):
        getattr(T, name)(7, 0)


def test_folding_of_constants():
    for value, expected in (
        (T.int32(5) + 2, 7), (T.int32(5) // -2, -3), (T.int32(5) % -2, -1),
        (T.int32(1) << 4, 16), (T.int32(6) & 3, 2), (T.int32(-9) >> 1, -5),
    ):  # fmt: skip
        assert value.constant == expected
    assert (T.int32(2**31 - 1) + 1).constant is None, "an overflow is left to run time, where it wraps"
