"""Atomic operations on elements, short vectors and tiles."""

import numpy as np
import pytest

import zellige.language as T
from zellige.ir.stmt import Atomic, AtomicTile
from zellige.ir.traverse import walk


def atomics(kernel):
    return [node for node in walk(kernel.kernel) if isinstance(node, (Atomic, AtomicTile))]


def test_elements_and_previous_values(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            B[0] = T.atomic_add(A[0], 5, return_prev=True)
            B[1] = T.atomic_max(A[1], 7, return_prev=True)
            B[2] = T.atomic_min(A[2], -7, return_prev=True)
            B[3] = T.atomic_or(A[3], 6, return_prev=True)
            T.atomic_add(A[0], 100)
            B[4] = T.atomic_load(A[0])
            T.atomic_store(A[1], T.int32(11.9))
            B[5] = A[1]
            previous = T.atomic_add(A[2], 1, return_prev=True)
            B[6] = previous + previous

    a, b = np.array([1, 2, 3, 9], np.int32), np.zeros(8, np.int32)
    run(k, a, b)
    assert a.tolist() == [106, 11, -6, 15]
    assert b.tolist() == [1, 2, 3, 9, 106, 11, -14, 0]


def test_short_vectors_by_index_vectors(run):
    @T.prim_func
    def k(A: T.Tensor((8,), "int32"), V: T.Tensor((8,), "int32"), P: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            P[0:2] = T.atomic_addx2(A[T.Ramp(0, 1, 2)], V[T.Ramp(0, 1, 2)], return_prev=True)
            P[2:4] = T.atomic_addx2(A[T.Ramp(1, 2, 2)], V[2:4], return_prev=True)

    a, v, p = np.arange(8, dtype=np.int32), np.arange(10, 18, dtype=np.int32), np.zeros(4, np.int32)
    run(k, a, v, p)
    assert a.tolist() == [10, 24, 2, 16, 4, 5, 6, 7] and p.tolist() == [0, 1, 12, 3]


def test_values_are_cast_to_the_element(run):
    @T.prim_func
    def k(A: T.Tensor((2,), "float16"), x: T.float32):
        with T.Kernel(1):
            T.atomic_add(A[0], x)
            T.atomic_add(A[1], 1)

    a = np.zeros(2, np.float16)
    run(k, a, 2.7)
    assert a.tolist() == [np.float16(2.7), 1]


@pytest.mark.parametrize("order", [None, "relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"])
def test_memory_orders(order):
    @T.prim_func
    def k(A: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            T.atomic_add(A[0], 1, memory_order=order)

    assert atomics(k)[0].order == {None: "relaxed", "consume": "acquire"}.get(order, order)


def test_tiles_point_by_point(run):
    @T.prim_func
    def k(A: T.Tensor((2, 3), "float16"), B: T.Tensor((4, 5), "float32")):
        with T.Kernel(2):
            T.atomic_add(B[1, 2], A)
            T.atomic_max(B[0:2, 0:3], A, memory_order="release")

    a = np.array([[1, 2, 3], [4, 5, 6]], np.float16)
    b = run(k, a, np.zeros((4, 5), np.float32))
    expected = np.zeros((4, 5), np.float32)
    expected[1:3, 2:5] += 2 * a
    expected[0:2, 0:3] = np.maximum(expected[0:2, 0:3], a)
    np.testing.assert_array_equal(b[2:], expected[2:])
    np.testing.assert_array_equal(b[0], expected[0])


def test_one_number_for_a_whole_tile(run):
    @T.prim_func
    def k(A: T.Tensor((3, 4), "float32"), n: T.int32):
        with T.Kernel(1):
            T.atomic_add(A, 1)
            T.atomic_add(A[1:3, 0:2], n * 0.5)

    a = np.zeros((3, 4), np.float32)
    run(k, a, 5)
    expected = np.ones((3, 4), np.float32)
    expected[1:3, 0:2] += 2.5
    np.testing.assert_array_equal(a, expected)


def test_adjacent_elements(run):
    @T.prim_func
    def k(A: T.Tensor((8,), "float32"), V: T.Tensor((8,), "float32"), P: T.Tensor((6,), "float32")):
        with T.Kernel(1):
            T.atomic_addx2(A[1], V[0])
            T.atomic_addx4(A[4:8], V[4:8])
            P[0:2] = T.atomic_addx2(A[1:3], V[0:2], return_prev=True)
            P[2:6] = T.atomic_addx4(A[4], T.float32x4(1, 2, 3, 4), return_prev=True)

    a, v, p = np.zeros(8, np.float32), np.arange(1, 9, dtype=np.float32), np.zeros(6, np.float32)
    run(k, a, v, p)
    assert a.tolist() == [0, 2, 4, 0, 6, 8, 10, 12]
    assert p.tolist() == [1, 2, 5, 6, 7, 8]


def test_points_of_parallel_add_together(run):
    @T.prim_func
    def k(A: T.Tensor((100,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(100):
                T.atomic_add(B[A[i]], 1)

    a = np.arange(100, dtype=np.int32) % 7 % 4
    np.testing.assert_array_equal(run(k, a, np.zeros(4, np.int32)), np.bincount(a))


def test_an_unknown_order(refused):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            T.atomic_add(A[0], 1, memory_order="strong")

    refused("E238", k)


@pytest.mark.parametrize("order", ["release", "acq_rel"])
def test_a_load_that_releases(refused, order):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            A[1] = T.atomic_load(A[0], order)

    refused("E238", k)


@pytest.mark.parametrize("order", ["acquire", "consume"])
def test_a_store_that_acquires(refused, order):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            T.atomic_store(A[0], 1, memory_order=order)

    refused("E238", k)


@pytest.mark.parametrize("name", ["int4", "float4_e2m1fn", "bool"])
def test_types_that_cannot_be_added_indivisibly(refused, name):
    def k(A: T.Tensor((4,), name)):
        with T.Kernel(1):
            T.atomic_add(A[0], 1)

    refused("E204", k)


def test_bits_of_a_float(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.atomic_or(A[0], 1)

    refused("E204", k)


def test_tiles_that_do_not_match(refused):
    def k(A: T.Tensor((4,), "float32"), B: T.Tensor((5,), "float32")):
        with T.Kernel(1):
            T.atomic_add(A, B)

    refused("E223", k)


def test_the_previous_values_of_a_tile(refused):
    def k(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.atomic_add(A, B, return_prev=True)

    refused("E240", k)


def test_a_list_is_no_value(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.atomic_add(A, [1, 2, 3, 4])

    refused("E239", k)


def test_a_number_is_no_place(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.atomic_add(3, A[0])

    refused("E222", k)


def test_a_tile_is_no_element(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.atomic_store(A, 1.0)

    refused("E258", k)


def test_a_slice_of_another_length(refused):
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.atomic_addx2(A[0:4], A[4:8])

    refused("E258", k)


def test_the_wish_for_a_unit_of_a_device_changes_nothing(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.atomic_add(B, A, use_tma=True)

    assert run(k, np.arange(4, dtype=np.float32), np.ones(4, np.float32)).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("order", ["release", "acq_rel", "strong"])
def test_an_order_that_a_load_does_not_have(refused, order):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            A[0] = T.atomic_load(A[1], memory_order=order)

    assert f"T.atomic_load does not support memory_order '{order}'" in str(refused("E238", k))


@pytest.mark.parametrize("update", (T.atomic_add, T.atomic_max, T.atomic_store))
def test_what_an_element_is_updated_with_is_a_number(refused, update):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            update(A[0], None)

    assert "a number is needed here, not None" in str(refused("E202", k))
