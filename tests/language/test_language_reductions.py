"""T.reduce_*, T.cumsum, T.cummax, and values of a whole region."""

import math

import ml_dtypes
import numpy as np
import pytest

import zellige.language as T

REDUCTIONS = {
    "sum": (T.reduce_sum, lambda x, axis: x.sum(axis)),
    "max": (T.reduce_max, lambda x, axis: x.max(axis)),
    "min": (T.reduce_min, lambda x, axis: x.min(axis)),
    "absmax": (T.reduce_absmax, lambda x, axis: np.abs(x).max(axis)),
    "abssum": (T.reduce_abssum, lambda x, axis: np.abs(x).sum(axis)),
    "bitand": (T.reduce_bitand, lambda x, axis: np.bitwise_and.reduce(x, axis)),
    "bitor": (T.reduce_bitor, lambda x, axis: np.bitwise_or.reduce(x, axis)),
    "bitxor": (T.reduce_bitxor, lambda x, axis: np.bitwise_xor.reduce(x, axis)),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_every_reduction_along_every_dimension(run, random, name, dim):
    reduce, reference = REDUCTIONS[name]
    size = 6 if dim == 0 else 5

    @T.prim_func
    def k(A: T.Tensor((5, 6), "int32"), B: T.Tensor((size,), "int32"), C: T.Tensor((size,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_fragment((5, 6), "int32")
            out = T.alloc_shared((size,), "int32")
            T.copy(A, tile)
            reduce(tile, out, dim=dim)
            T.copy(out, B)
            reduce(tile, C, dim=dim, clear=False, batch=size)

    a = random.integers(-100, 100, (5, 6)).astype(np.int32)
    c = random.integers(-100, 100, size).astype(np.int32)
    before = c.copy()
    b = np.zeros(size, np.int32)
    run(k, a, b, c)
    expected = reference(a, dim)
    np.testing.assert_array_equal(b, expected)
    both = np.stack([before, expected])
    if name.startswith("abs"):
        combined = before + expected if name == "abssum" else np.maximum(before, expected)
    else:
        combined = reference(both, 0)
    np.testing.assert_array_equal(c, combined)


def test_narrow_floats_accumulate_in_float32(run):
    @T.prim_func
    def k(A: T.Tensor((1, 2000), "float16"), B: T.Tensor((1,), "float16")):
        with T.Kernel(1):
            T.reduce_sum(A, B, dim=1)

    a = np.full((1, 2000), 1.0009765625, np.float16)
    assert run(k, a, np.zeros(1, np.float16))[0] == np.float16(2000 * 1.0009765625)


@pytest.mark.parametrize("propagate", [False, True])
def test_nan_is_skipped_unless_asked_for(run, propagate):
    @T.prim_func
    def k(A: T.Tensor((2, 3), "bfloat16"), B: T.Tensor((2,), "bfloat16"), C: T.Tensor((2,), "bfloat16")):
        with T.Kernel(1):
            T.reduce_max(A, B, 1, True, 1, propagate)
            T.reduce_min(A, C, nan_propagate=propagate)

    a = np.array([[1, math.nan, 3], [4, 5, 6]], np.float32).astype(ml_dtypes.bfloat16)
    b, c = np.zeros(2, ml_dtypes.bfloat16), np.zeros(2, ml_dtypes.bfloat16)
    run(k, a, b, c)
    np.testing.assert_array_equal(b.astype(np.float32), [math.nan if propagate else 3, 6])
    np.testing.assert_array_equal(c.astype(np.float32), [math.nan if propagate else 1, 4])


def test_the_reduction_by_name_and_slices(run):
    @T.prim_func
    def k(A: T.Tensor((4, 6), "float32"), B: T.Tensor((4, 1), "float32"), C: T.Tensor((6,), "float32")):
        with T.Kernel(1):
            T.reduce(A, B, "max", 1, True)
            T.reduce_sum(A[1:3, 0:6], C, dim=0)

    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    b, c = np.zeros((4, 1), np.float32), np.zeros(6, np.float32)
    run(k, a, b, c)
    np.testing.assert_array_equal(b, a.max(1, keepdims=True))
    np.testing.assert_array_equal(c, a[1:3].sum(0))


def test_a_reduction_into_a_variable(run):
    @T.prim_func
    def k(A: T.Tensor((6,), "float16"), B: T.Tensor((3,), "float32")):
        with T.Kernel(1):
            row = T.alloc_local((6,), "float16")
            for i in T.serial(6):
                row[i] = A[i]
            total = T.alloc_var("float32", init=10.0)
            T.reduce_sum(row, total, clear=False)
            B[0] = total
            T.reduce_absmax(row, total)
            B[1] = total
            T.reduce_min(row, total)
            B[2] = total

    assert run(k, np.array([1, -7, 3, 2, 0, 4], np.float16), np.zeros(3, np.float32)).tolist() == [13, 7, -7]


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_run_along_dimension_0_unless_told_otherwise(run, random, reverse):
    @T.prim_func
    def k(A: T.Tensor((4, 5), "int32"), B: T.Tensor((4, 5), "int32"), C: T.Tensor((4, 5), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((4, 5), "int32")
            T.copy(A, tile)
            T.cumsum(tile, reverse=reverse)
            T.copy(tile, B)
            T.cummax(A, C, dim=-1, reverse=reverse)

    a = random.integers(-9, 9, (4, 5)).astype(np.int32)
    b, c = np.zeros((4, 5), np.int32), np.zeros((4, 5), np.int32)
    run(k, a, b, c)
    step = -1 if reverse else 1
    np.testing.assert_array_equal(b, a[::step].cumsum(0)[::step])
    np.testing.assert_array_equal(c, np.maximum.accumulate(a[:, ::step], axis=1)[:, ::step])


def test_scans_of_slices_and_views_in_place(run):
    @T.prim_func
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(2) as bx:
            T.cumsum(A[bx * 4 : bx * 4 + 4], dim=0)

    assert run(k, np.ones(8, np.float32)).tolist() == [1, 2, 3, 4, 1, 2, 3, 4]

    @T.prim_func
    def viewed(A: T.Tensor((6,), "float32")):
        with T.Kernel(1):
            T.cumsum(T.view(A, (2, 3)), dim=1)

    assert run(viewed, np.ones(6, np.float32)).tolist() == [1, 2, 3, 1, 2, 3]


def test_values_of_a_region(run):
    @T.prim_func
    def k(A: T.Tensor((3, 5), "float16"), B: T.Tensor((3, 3), "float32"), C: T.Tensor((4,), "bool")):
        with T.Kernel(1):
            for i in T.serial(3):
                B[i, 0] = T.sum(A[i, :])
                B[i, 1] = T.max(A[i, 0:5])
                B[i, 2] = T.min(A[i, 1:3])
            C[0] = T.any_of(A)
            C[1] = T.all_of(A)
            C[2] = T.any_of(A[0, 0:1])
            C[3] = T.all_of(A[2, 2:4])

    a = np.array([[0, 1, -2, 3, 4], [5, 5, 5, 5, 5], [-1, -2, 1, 1, 0]], np.float16)
    b, c = np.zeros((3, 3), np.float32), np.zeros(4, bool)
    run(k, a, b, c)
    np.testing.assert_array_equal(b, np.stack([a.sum(1), a.max(1), a[:, 1:3].min(1)], axis=1))
    assert c.tolist() == [True, False, False, True]


@pytest.mark.parametrize("propagate", [False, True])
def test_nan_in_the_maximum_of_a_slice(run, propagate):
    @T.prim_func
    def k(A: T.Tensor((2, 2), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1):
            for i in T.serial(2):
                B[i] = T.max(A[i, :], nan_propagate=propagate)

    a = np.array([[math.nan, 2], [math.nan, math.nan]], np.float32)
    np.testing.assert_array_equal(run(k, a, np.zeros(2, np.float32)), [math.nan if propagate else 2, math.nan])


def test_a_sum_of_a_slice_in_parallel(run):
    @T.prim_func
    def k(A: T.Tensor((3, 4), "float32"), B: T.Tensor((3,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(3):
                B[i] = T.sum(A[i, :]) * 2

    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(run(k, a, np.zeros(3, np.float32)), 2 * a.sum(1))


def test_a_wrong_dimension(refused):
    def k(A: T.Tensor((4, 4), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.reduce_sum(A, B, dim=2)

    assert "dim is int 2" in str(refused("E228", k))


def test_an_output_of_a_wrong_shape(refused):
    def k(A: T.Tensor((2, 8), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.reduce_sum(A, B, dim=1)

    assert "(2, 8) without dimension 1 does not fit the output (4,)" in str(refused("E229", k))


@pytest.mark.parametrize("reduce", [T.reduce_bitand, T.reduce_bitor, T.reduce_bitxor])
def test_bits_of_floats(refused, reduce):
    def k(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1):
            reduce(A, B, dim=1)

    assert "is not defined for float32" in str(refused("E204", k))


def test_a_sum_of_bools(refused):
    def k(A: T.Tensor((2, 8), "bool"), B: T.Tensor((2,), "bool")):
        with T.Kernel(1):
            T.reduce_sum(A, B, dim=1)

    assert "T.any_of" in refused("E204", k).hint


def test_an_unknown_reduction(refused):
    def k(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1):
            T.reduce(A, B, "mean", 1, True)

    refused("E257", k)


def test_a_run_time_clear(refused):
    def k(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(4) as bx:
            T.reduce_sum(A, B, dim=1, clear=bx == 0)

    refused("E105", k)


def test_a_batch_that_is_no_count(refused):
    def k(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1):
            T.reduce_sum(A, B, dim=1, batch=0)

    refused("E245", k)


@pytest.mark.parametrize("batch", [3, 16])
def test_a_batch_that_does_not_divide_the_results(refused, batch):
    def k(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.reduce_sum(A, B, dim=1, batch=batch)

    assert f"batch={batch} does not divide its 8 results" in str(refused("E291", k))


def test_a_scan_into_another_shape(refused):
    def k(A: T.Tensor((2, 8), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1):
            T.cumsum(A, B)

    refused("E223", k)


def test_a_row_reduced_to_a_variable_leaves_one_number(refused):
    def k(A: T.Tensor((2, 8), "float32")):
        with T.Kernel(1):
            v = T.alloc_var("float32")
            T.reduce_sum(A, v, dim=1)

    refused("E229", k)


def test_a_sum_of_a_number(refused):
    def k(A: T.Tensor((2, 8), "float32")):
        with T.Kernel(1):
            A[0, 0] = T.sum(3)

    refused("E222", k)
