"""Vectors: made of values and slices, calculated lane by lane, stored; words of memory."""

import numpy as np
import pytest

import zellige.language as T


def test_a_vector_is_made_taken_apart_and_stored(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "float32"), B: T.Tensor((10,), "float32")):
        with T.Kernel(1):
            v = T.float32x4(A[0], A[1], A[2], 7)
            A[0] = 100.0
            B[0:4] = v
            B[4] = T.extract_lane(v, 3)
            w = v * 2 + T.float32x4(1)
            B[5] = T.extract_lane(w, 0)
            B[6:10] = -1 + A[0:4]

    a = np.array([1, 2, 3, 4], np.float32)
    assert run(k, a, np.zeros(10, np.float32)).tolist() == [1, 2, 3, 7, 7, 3, 99, 1, 2, 3]


def test_a_vector_as_an_index(run):
    @T.prim_func
    def k(A: T.Tensor((12,), "int32"), B: T.Tensor((3, 6), "int32")):
        with T.Kernel(3) as row:
            B[row, T.Ramp(0, 1, 4)] = A[T.Ramp(row * 2 - 1, 3, 4)] + T.Broadcast(row, 4)
            B[row, T.Ramp(-2, 1, 2)] = A[T.Ramp(-2, 1, 2)]
            swapped = A[T.int32x2(1, 0)]
            A[T.int32x2(0, 1)] = swapped

    a = np.arange(100, 112, dtype=np.int32)
    padded = {-1: 0, **{i: 100 + i for i in range(2, 12)}}
    b = run(k, a, np.zeros((3, 6), np.int32))
    swaps = {0: 100, 1: 101}
    for row in range(3):
        read = {**padded, **swaps, 12: 0, 13: 0}
        assert b[row, :4].tolist() == [read[row * 2 - 1 + 3 * lane] + row for lane in range(4)]
        assert b[row, 4:].tolist() == [110, 111]
        swaps = {0: swaps[1], 1: swaps[0]}


def test_vectors_are_compared_lane_by_lane(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32"), C: T.Tensor((8, 4), "int32")):
        with T.Kernel(1):
            x, y = T.float32x4(A[0], A[1], A[2], A[3]), T.float32x4(B[0], B[1], B[2], B[3])
            C[0, 0:4] = T.cast(x == y, "int32")
            C[1, 0:4] = T.cast(x != y, "int32")
            C[2, 0:4] = T.cast(x < y, "int32")
            C[3, 0:4] = T.cast(x <= y, "int32")
            C[4, 0:4] = T.cast(x > 1, "int32")
            C[5, 0:4] = T.cast(1 >= x, "int32")
            C[6, 0:4] = T.cast(T.if_then_else(x < y, x, y), "int32")
            C[7, 0:4] = T.cast(T.Select(T.cast(x, "int4") == T.cast(y, "int4"), x, 9), "int32")

    a, b = np.array([0, 1, 2, 3], np.float32), np.array([0, 2, 1, 3], np.float32)
    rows = [a == b, a != b, a < b, a <= b, a > 1, a <= 1, np.minimum(a, b), np.where(a == b, a, 9)]
    np.testing.assert_array_equal(run(k, a, b, np.zeros((8, 4), np.int32)), rows)


def test_a_comparison_of_vectors_is_no_condition(refused):
    def branch(A: T.Tensor((2,), "float32")):
        with T.Kernel(1):
            if T.float32x2(A[0], A[1]) == T.float32x2(A[0], A[1]):
                A[0] = 1

    def chained(A: T.Tensor((2,), "float32")):
        with T.Kernel(1):
            A[0] = T.cast(T.extract_lane(0 < T.float32x2(A[0], A[1]) < 2, 0), "float32")

    refused("E104", branch)
    refused("E104", chained)


def test_lanes_that_disagree_or_are_none(refused):
    def unequal(A: T.Tensor((4, 4), "int32")):
        with T.Kernel(1):
            A[T.Ramp(0, 1, 2), T.Ramp(0, 1, 3)] = 0

    def none(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            A[T.Ramp(0, 1, 0)] = 0

    def unknown(A: T.Tensor((4,), "int32"), n: T.int32):
        with T.Kernel(1):
            A[0:4] = T.Broadcast(1, n)

    refused("E203", unequal)
    refused("E245", none)
    refused("E245", unknown)


def test_conditions_joined_by_functions(run):
    @T.prim_func
    def k(A: T.Tensor((6,), "int32"), B: T.Tensor((6, 4), "bool")):
        with T.Kernel(1):
            for i in T.Parallel(6):
                B[i, 0] = T.And(A[i] > 0, A[i] < 3)
                B[i, 1] = T.Or(A[i] > 3, A[i], False)
                B[i, 2] = T.Not(A[i])
                B[i, 3] = T.if_then_else(T.And(), T.Not(T.Or()), False)

    a = np.array([-1, 0, 1, 2, 3, 4], np.int32)
    expected = np.stack([(a > 0) & (a < 3), a != 0, a == 0, np.ones(6, bool)], axis=1)
    np.testing.assert_array_equal(run(k, a, np.zeros((6, 4), bool)), expected)


def test_a_vector_variable(run):
    @T.prim_func
    def k(A: T.Tensor((2,), "float32"), B: T.Tensor((6,), "float32")):
        with T.Kernel(1):
            v = T.alloc_var(T.bfloat16x2)
            B[0:2] = v
            v = T.bfloat16x2(A[0], A[1])
            B[2:4] = v
            w = T.alloc_var("float32x2", init=3)
            B[4:6] = w

    b = run(k, np.array([1.0, 257.0], np.float32), np.full(6, -1, np.float32))
    assert b.tolist() == [0, 0, 1, 256, 3, 3], "257 is 256 in bfloat16"


def test_a_vector_variable_under_run_time_control(run):
    @T.prim_func
    def k(n: T.int32, B: T.Tensor((6,), "float32")):
        with T.Kernel(1):
            v = T.alloc_var("float32x2", init=1)
            before = v
            if n > 3:
                v = T.float32x2(5, 6)
            B[0:2] = v
            for i in T.serial(n):
                v = v + T.float32x2(i, 10)
            B[2:4] = v
            B[4:6] = before

    assert run(k, 2, np.zeros(6, np.float32)).tolist() == [1, 1, 2, 21, 1, 1]
    assert run(k, 4, np.zeros(6, np.float32)).tolist() == [5, 6, 11, 46, 1, 1]


def test_packed_pairs(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "float16"), B: T.Tensor((7, 2), "float16")):
        with T.Kernel(1):
            x, y = A[0:2] + 0, A[2:4] + 0
            B[0, 0:2] = T.add2(x, y)
            B[1, 0:2] = T.sub2(x, y)
            B[2, 0:2] = T.mul2(x, y)
            B[3, 0:2] = T.max2(x, y)
            B[4, 0:2] = T.min2(x, y)
            B[5, 0:2] = T.fma2(x, y, y)
            B[6, 0:2] = T.abs2(y)

    a = np.array([1.5, -2, -3, 4], np.float16)
    x, y = a[:2], a[2:]
    b = run(k, a, np.zeros((7, 2), np.float16))
    np.testing.assert_array_equal(b, [x + y, x - y, x * y, np.maximum(x, y), np.minimum(x, y), x * y + y, np.abs(y)])


def test_functions_work_lane_by_lane(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "float32"), B: T.Tensor((11, 4), "float32")):
        with T.Kernel(1):
            v = A[0:4] * 1
            B[0, 0:4] = T.exp2(v)
            B[1, 0:4] = T.max(v, 2.5)
            B[2, 0:4] = T.if_then_else(True, v, 0)
            B[3, 0:4] = T.cast(v, "int8")
            B[4, 0:4] = T.clamp(v, 2, 3)
            B[5, 0:4] = T.pow(v, 2)
            B[6, 0:4] = T.round(v, "ties-away-from-zero")
            B[7, 0:4] = T.ieee_add(v, v)
            B[8, 0:4] = 10 - v
            B[9, 0:4] = -v
            B[10, 0:4] = v**3

    a = np.array([1, 2.5, 3, 4], np.float32)
    b = run(k, a, np.zeros((11, 4), np.float32))
    np.testing.assert_array_equal(
        b, [np.exp2(a), np.maximum(a, 2.5), a, a.astype(np.int8), np.clip(a, 2, 3), a**2, [1, 3, 3, 4], a + a, 10 - a, -a, a**3]
    )


def test_reinterpretation_of_lanes(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "uint16"), B: T.Tensor((3,), "uint32"), C: T.Tensor((8,), "uint8")):
        with T.Kernel(1):
            v = A[0:4] + T.cast(0, "uint16")
            B[0] = T.reinterpret(A[0:2], "uint32")
            B[1:3] = T.reinterpret(v, "uint32x2")
            C[0:8] = T.reinterpret(v, "uint8x8")

    a = np.array([0x1234, 0xFEDC, 0x0001, 0x8000], np.uint16)
    b, c = np.zeros(3, np.uint32), np.zeros(8, np.uint8)
    run(k, a, b, c)
    words = a.view(np.uint32)
    assert b.tolist() == [words[0], *words]
    np.testing.assert_array_equal(c, a.view(np.uint8))


def test_a_tensor_of_vectors(run):
    @T.prim_func
    def k(A: T.Tensor((3,), "float32x2"), B: T.Tensor((3,), "float32")):
        with T.Kernel(1):
            for i in T.serial(3):
                B[i] = T.extract_lane(A[i], 1)
                A[i] = T.float32x2(i, -i)

    a = np.arange(6, dtype=np.float32).reshape(3, 2)
    b = np.zeros(3, np.float32)
    run(k, a, b)
    assert b.tolist() == [1, 3, 5]
    assert a.tolist() == [[0, 0], [1, -1], [2, -2]]


@pytest.mark.parametrize(("bits", "count"), [(32, 1), (64, 2), (128, 4), (256, 8)])
def test_words_of_memory(run, bits, count):
    load, store = getattr(T, f"ldg{bits}"), getattr(T, f"stg{bits}")

    @T.prim_func
    def k(A: T.Tensor((2, 16), "float32"), H: T.Tensor((16,), "float16"), B: T.Tensor((16,), "float32"), G: T.Tensor((16,), "float16")):
        with T.Kernel(1):
            store(B[4], load(A[1, 2]))
            store(G[0 : 2 * count], load(H[0 : 2 * count]))

    a, h = np.arange(32, dtype=np.float32).reshape(2, 16), np.arange(16, dtype=np.float16)
    b, g = np.zeros(16, np.float32), np.zeros(16, np.float16)
    run(k, a, h, b, g)
    np.testing.assert_array_equal(b[4 : 4 + count], a[1, 2 : 2 + count])
    np.testing.assert_array_equal(g[: 2 * count], h[: 2 * count])
    assert b[:4].tolist() == [0] * 4
    assert not b[4 + count :].any()


def test_words_of_shared_memory_and_predicates(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "int32"), n: T.int32, B: T.Tensor((9,), "uint32")):
        with T.Kernel(1):
            tile = T.alloc_shared((4,), "int32")
            T.copy(A, tile)
            B[0] = T.lds32(tile[3])
            B[1:3] = T.lds64(tile[0])
            T.sts128(tile, T.uint32x4(9, 8, 7, 6))
            B[3] = tile[1]
            T.sts32(tile[1], 5)
            T.sts64(tile[2], T.uint32x2(1, 2))
            B[4:8] = T.lds128(tile)
            T.stg32(B[8], 77, pred=n > 5)
            B[0] = B[0] + T.ldg32(A[0], n > 5)

    b = run(k, np.array([1, -2, 3, 4], np.int32), 3, np.zeros(9, np.uint32))
    assert b.tolist() == [4, 1, 2**32 - 2, 8, 9, 5, 1, 2, 0]


def test_elements_by_address_and_by_index(run):
    read = getattr(T, "__ldg")

    @T.prim_func
    def k(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            B[0] = read(A[2])
            B[1] = read(A, 3)
            T.copy(T.address_of(A[0]), T.access_ptr(B[2], "w", 2))

    assert run(k, np.array([1, 2, 3, 4], np.float32), np.zeros(4, np.float32)).tolist() == [3, 4, 1, 2]


def test_lanes_that_do_not_fit(refused):
    def differing(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            A[0:4] = (A[0:4] + 0) + (A[4:6] + 0)

    def stored(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            A[0:4] = T.float32x2(1, 2)

    def made(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            A[0:4] = T.float32x4(1, 2)

    refused("E203", differing)
    refused("E223", stored)
    refused("E203", made)


def test_lanes_that_do_not_exist(refused):
    def past(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            A[0] = T.extract_lane(T.float32x2(1, 2), 2)

    def dynamic(A: T.Tensor((8,), "float32")):
        with T.Kernel(4) as bx:
            A[0] = T.extract_lane(T.float32x2(1, 2), bx)

    def scalar(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            A[0] = T.extract_lane(A[0], 0)

    refused("E241", past)
    refused("E105", dynamic)
    refused("E258", scalar)


def test_pairs_of_another_length(refused):
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            A[0:4] = T.add2(A[0:4], A[4:8])

    refused("E258", k)


def test_words_of_another_length(refused):
    def slice_(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            A[0] = T.reinterpret(T.ldg32(A[0:2]), "float32")

    def value(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.stg32(A[0], T.int64(1))

    def narrow(A: T.Tensor((8,), "float4_e2m1fn"), B: T.Tensor((8,), "uint32")):
        with T.Kernel(1):
            B[0] = T.ldg32(A[0])

    refused("E258", slice_)
    refused("E258", value)
    refused("E204", narrow)


def test_a_long_slice_is_no_vector(refused):
    def k(A: T.Tensor((128,), "float32")):
        with T.Kernel(1):
            A[0:128] = A[0:128] + 1

    refused("E202", k)


def test_addresses_of_other_things(refused):
    def number(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.address_of(3)

    def flat(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.access_ptr(A, "r", offset=3)

    refused("E222", number)
    refused("E402", flat)


def test_slices_compare_lane_by_lane(run):
    @T.prim_func
    def k(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32"), C: T.Tensor((4, 8), "bool"), D: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                assert A[i, 0:4] != None and not A[i, 0:4] == "x"  # noqa: E711
                C[i, 0:4] = A[i, 0:4] < B[i, 0:4]
                C[i, 4:8] = A[i, 4:8] >= 0.5
                D[i, 0:4] = T.if_then_else(A[i, 0:4] == B[i, 0:4], A[i, 4:8], B[i, 4:8])
                D[i, 4:8] = T.Select(0.25 < A[i, 4:8], B[i, 0:4], 7.0)

    rng = np.random.default_rng(3)
    a, b = rng.random((2, 4, 8), dtype=np.float32)
    b[1] = a[1]
    c = np.zeros((4, 8), bool)
    d = run(k, a, b, c, np.zeros((4, 8), np.float32))
    np.testing.assert_array_equal(c, np.concatenate([a[:, :4] < b[:, :4], a[:, 4:] >= 0.5], axis=1))
    wanted = [np.where(a[:, :4] == b[:, :4], a[:, 4:], b[:, 4:]), np.where(a[:, 4:] > 0.25, b[:, :4], 7)]
    np.testing.assert_array_equal(d, np.concatenate(wanted, axis=1))


def test_slices_that_do_not_compare(refused):
    def lengths(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            A[0] = T.any_of(A[0:4] < A[0:8])

    def whole(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            A[0] = A[0:8] < A

    def long(A: T.Tensor((128,), "float32")):
        with T.Kernel(1):
            A[0:128] = A[0:128] < 1

    def truth(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            if A[0:4] == A[4:8]:
                A[0] = 1

    assert "4 lanes and 8 lanes" in str(refused("E203", lengths))
    assert "compare elements" in str(refused("E202", whole))
    assert "no vector of at most 64" in str(refused("E202", long))
    assert "boolx4" in str(refused("E104", truth))


@pytest.mark.parametrize("use", ["store", "add", "variable", "annotation", "fill", "atomic", "choice", "cast"])
def test_an_element_of_several_lanes_is_no_number(refused, use):
    def kernel(A: T.Tensor((4,), "int32x2"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            if use == "store":
                B[0] = A[0]
            elif use == "add":
                B[0] += A[0]
            elif use == "variable":
                n = T.alloc_var("int32")
                n = A[0]  # noqa: F841
            elif use == "annotation":
                m: T.int32 = A[0]  # noqa: F841
            elif use == "fill":
                T.fill(B, A[0])
            elif use == "atomic":
                T.atomic_add(B[0], A[0])
            elif use == "choice":
                B[0] = T.if_then_else(A[0], 1, 2)
            else:
                B[0] = A[0].astype("int32")

    assert "a int32x2 vector" in str(refused("E202", kernel))


@pytest.mark.parametrize("use", ["if", "choice", "and", "not", "assert", "in", "among", "slice"])
def test_an_element_of_several_lanes_is_no_condition(refused, use):
    def kernel(A: T.Tensor((4,), "int32x2"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            if use == "if":
                if A[0] > 0:
                    B[0] = 1
            elif use == "choice":
                B[0] = 1 if A[0] else 2
            elif use == "and":
                A[0] and T.print(B[0])
            elif use == "not":
                B[0] = not A[0]
            elif use == "assert":
                T.device_assert(A[0])
            elif use == "in":
                B[0] = A[0] in (1, 2)
            elif use == "among":
                B[0] = B[1] in (1, A[0])
            else:
                B[0] = B[1:3] in (1, 2)

    assert "known only when the kernel runs" in str(refused("E104", kernel))


def test_elements_of_several_lanes_are_calculated_with(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "int32x2"), B: T.Tensor((8, 2), "int32")):
        with T.Kernel(1):
            B[0, 0:2] = A[0]
            B[1, :] = A[0] + A[1]
            B[2, :] = 1 - A[1] * 3
            B[3, :] = -A[0] + B[0, :]
            A[2] = T.if_then_else(A[0] > 1, A[0], A[1])
            A[2] += 1
            B[4, :] = A[2]
            B[5, :] = A[0] ** 2 // A[1]
            B[6, :] = A[0] == A[0]
            B[7, 0] = T.extract_lane(A[1], 1)

    found = run(k, np.array([[1, 2], [3, 4], [0, 0], [0, 0]], np.int32), np.zeros((8, 2), np.int32))
    assert found.tolist() == [[1, 2], [4, 6], [-8, -11], [0, 0], [4, 3], [0, 1], [1, 1], [4, 0]]
