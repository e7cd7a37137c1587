"""T.copy, T.fill, T.clear, T.transpose and stores to slices."""

import inspect

import numpy as np
import pytest

import zellige.language as T
from zellige.diagnostics import ZelligeError
from zellige.ir.stmt import Copy, Fill, Store
from zellige.ir.traverse import walk
from zellige.language.keywords import HINTS


def statements(kernel, kind):
    return [node for node in walk(kernel.kernel) if isinstance(node, kind)]


def test_a_start_point_takes_the_other_side_s_extents(run):
    @T.prim_func
    def k(A: T.Tensor((4, 40), "float32"), B: T.Tensor((8, 40), "float32")):
        with T.Kernel(2, 2) as (bx, by):
            tile = T.alloc_shared((2, 20), "float32")
            T.copy(A[by * 2, bx * 20], tile)
            T.copy(tile, B[by * 2 + 4, bx * 20])

    a = np.arange(160, dtype=np.float32).reshape(4, 40)
    b = run(k, a, np.zeros((8, 40), np.float32))
    np.testing.assert_array_equal(b[4:], a)
    np.testing.assert_array_equal(b[:4], 0)


def test_unit_dimensions_are_dropped_and_the_cast_rounds_to_even(run):
    @T.prim_func
    def k(A: T.Tensor((2, 1, 3), "float32"), B: T.Tensor((2, 3), "float16")):
        with T.Kernel(1):
            T.copy(A[0:2, 0, 0:3], B)

    a = np.array([[[1.0, 2049.0, 2051.0]], [[-1.5, 65504.0, 1e-8]]], np.float32)
    b = run(k, a, np.zeros((2, 3), np.float16))
    np.testing.assert_array_equal(b, a.reshape(2, 3).astype(np.float16))


def test_outside_reads_are_zero_and_outside_writes_are_dropped(run):
    @T.prim_func
    def k(A: T.Tensor((5,), "int32"), B: T.Tensor((6,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_fragment((8,), "int32")
            T.copy(A[3], tile)
            T.copy(tile, B[2])

    b = run(k, np.arange(1, 6, dtype=np.int32), np.full(6, -1, np.int32))
    assert b.tolist() == [-1, -1, 4, 5, 0, 0]


def test_the_safe_value_takes_the_place_of_what_is_outside(run):
    @T.prim_func
    def k(A: T.Tensor((3,), "float32"), B: T.Tensor((6,), "float32")):
        with T.Kernel(1):
            T.annotate_safe_value({A: -2.5})
            T.copy(A[0:6], B)

    assert run(k, np.array([1, 2, 3], np.float32), np.zeros(6, np.float32)).tolist() == [1, 2, 3, -2.5, -2.5, -2.5]


def test_two_elements_are_one_store_that_casts(run):
    @T.prim_func
    def k(A: T.Tensor((8,), "int64"), B: T.Tensor((8,), "int8")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                T.copy(A[7 - i], B[i])

    assert not statements(k, Copy)
    b = run(k, np.arange(250, 258), np.zeros(8, np.int8))
    assert b.tolist() == [1, 0, -1, -2, -3, -4, -5, -6]


def test_a_named_element_keeps_its_place(run):
    @T.prim_func
    def k(A: T.Tensor((9,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            start = A[4]
            A[4] = 100.0
            tile = T.alloc_shared((3,), "float32")
            T.copy(start, tile)
            T.copy(tile, B[0:3])
            B[3] = start

    b = run(k, np.arange(9, dtype=np.float32), np.zeros(4, np.float32))
    assert b.tolist() == [100, 5, 6, 4]


def test_a_variable_is_copied_filled_and_cleared(run):
    @T.prim_func
    def k(A: T.Tensor((2,), "float32"), B: T.Tensor((3,), "int32")):
        with T.Kernel(1):
            v = T.alloc_var("int32")
            T.copy(A[1], v)
            T.copy(v, B[0])
            T.fill(v, 7)
            B[1] = v
            T.clear(v)
            B[2] = v

    assert run(k, np.array([1.5, 2.75], np.float32), np.zeros(3, np.int32)).tolist() == [2, 7, 0]


def test_fill_of_a_slice_with_run_time_bounds(run):
    @T.prim_func
    def k(n: T.int32, A: T.Tensor((10,), "int64")):
        with T.Kernel(1):
            T.fill(A[n : n + 4], -7)
            T.fill(A[0], 3)

    a = run(k, 5, np.zeros(10, np.int64))
    assert a.tolist() == [3, 0, 0, 0, 0, -7, -7, -7, -7, 0]
    assert len(statements(k, Fill)) == 1, "one element is a store"


def test_transpose_exchanges_the_last_two_dimensions(run, random):
    @T.prim_func
    def k(A: T.Tensor((2, 3, 4), "float32"), B: T.Tensor((2, 4, 3), "float16")):
        with T.Kernel(1):
            T.transpose(A, B)

    a = random.standard_normal((2, 3, 4)).astype(np.float32)
    np.testing.assert_array_equal(run(k, a, np.zeros((2, 4, 3), np.float16)), a.transpose(0, 2, 1).astype(np.float16))


def test_slices_are_stored_as_copies_fills_or_by_lanes(run):
    @T.prim_func
    def k(A: T.Tensor((8,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(1):
            B[0:4] = A[4:8]
            B[4:8] = 9
            B[8:12] = A[0:4] * 2 + 1

    b = run(k, np.arange(8, dtype=np.int32), np.zeros(16, np.int32))
    assert b.tolist() == [4, 5, 6, 7, 9, 9, 9, 9, 1, 3, 5, 7, 0, 0, 0, 0]


def test_overlapping_slices_are_read_before_they_are_stored(run):
    @T.prim_func
    def k(A: T.Tensor((6,), "int32")):
        with T.Kernel(1):
            A[1:5] = A[0:4]
            A[0:3] = A[1:4]

    assert run(k, np.arange(6, dtype=np.int32)).tolist() == [0, 1, 2, 2, 3, 5]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_bounds_that_differ_by_a_constant_are_a_slice_of_that_size(run, size):
    """However the author writes them: sums are compared by their terms."""

    @T.prim_func
    def k(A: T.Tensor((64,), "int32")):
        with T.Kernel(2, 4) as (bx, by):
            own = T.alloc_local([size], "int32")
            T.fill(own, 8 * bx + by + 1)
            base = bx * 32 // 2
            T.copy(own, A[base + by * size : base + (by + 1) * size])

    expected = np.zeros(64, np.int32)
    for x in range(2):
        for y in range(4):
            expected[16 * x + y * size : 16 * x + (y + 1) * size] = 8 * x + y + 1
    np.testing.assert_array_equal(run(k, np.zeros(64, np.int32)), expected)


def test_a_slice_in_a_point_is_stored_element_by_element(run):
    @T.prim_func
    def k(A: T.Tensor((12,), "int32"), B: T.Tensor((12,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(3):
                B[i * 4 : i * 4 + 2] = A[i * 4 + 2 : i * 4 + 4]
                B[i * 4 + 2 : i * 4 + 4] = i

    assert not statements(k, Copy)
    assert len(statements(k, Store)) == 4
    b = run(k, np.arange(12, dtype=np.int32), np.zeros(12, np.int32))
    assert b.tolist() == [2, 3, 0, 0, 6, 7, 1, 1, 10, 11, 2, 2]


def test_hints_reach_the_copy_and_near_misses_are_mistakes():
    @T.prim_func
    def k(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.copy(A, B, coalesced_width=4, swizzle="bank", eviction_policy="evict_first", disable_tma=True)

    (copy,) = statements(k, Copy)
    assert (copy.vector_width, copy.swizzle, copy.eviction) == (4, "bank", "evict_first")


@pytest.mark.parametrize("shape", [(3,), (2, 2), (5,)])
def test_shapes_that_differ_are_refused(refused, shape):
    def k(A: T.Tensor((4,), "float32"), B: T.Tensor(shape, "float32")):
        with T.Kernel(1):
            T.copy(A, B)

    error = refused("E223", k)
    assert "(4,)" in str(error)
    assert "start point" in error.hint


def test_a_number_is_no_tile(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.copy(1.0, A)

    assert "float 1.0" in str(refused("E222", k))


def test_a_transposition_of_wrong_shapes(refused):
    def k(A: T.Tensor((2, 3), "float32"), B: T.Tensor((2, 3), "float32")):
        with T.Kernel(1):
            T.transpose(A, B)

    refused("E224", k)


def test_a_slice_of_another_length(refused):
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            A[0:4] = A[4:7]

    assert "an assignment" in str(refused("E223", k))


def test_a_slice_with_a_step(refused):
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.fill(A[0:8:2], 0)

    refused("E209", k)


def test_too_many_indices(refused):
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            A[0, 1] = 0

    assert "1 dimension but 2 indices" in str(refused("E208", k))


def test_a_float_is_no_index(refused):
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            A[4 / 2] = 0

    refused("E205", k)


def test_a_misspelt_keyword(refused):
    def k(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.copy(A, B, swizle="bank")

    assert "did you mean 'swizzle'" in str(refused("E259", k))


def test_a_keyword_that_nothing_knows_is_no_hint(refused):
    def k(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.copy(A, B, dst_dtype="float16")

    assert "has no argument 'dst_dtype'" in str(refused("E259", k))


@pytest.mark.parametrize(
    "operation", ["T.copy", "T.Parallel", "T.reduce_sum", "T.gemm", "T.atomic_add", "T.exp", "T.max", "T.fill", "T.clear"]
)
def test_every_sort_of_operation_names_a_wrong_keyword(operation):
    source = T.__dict__[operation[2:]]

    def k(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8, 8), "float32")):
        with T.Kernel(1):
            source(*[A[0, 0]] * count, quite_unknown=1)

    count = sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in inspect.signature(source).parameters.values())
    with pytest.raises(ZelligeError) as caught:
        T.prim_func(k)
    assert caught.value.code == "E259"
    assert f"{operation} has no argument 'quite_unknown'" in str(caught.value)
    assert caught.value.hint.startswith("its arguments are: ")


def test_a_missing_operand(refused):
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.copy(A)

    assert "missing a required argument: 'dst'" in str(refused("E259", k))


def test_hints_are_no_parameters():
    for operation, hints in HINTS.items():
        name = {"T.im2col": "c2d_im2col", "T.reduce": "reduce_sum"}.get(operation, operation[2:])
        assert not hints & set(inspect.signature(getattr(T, name)).parameters), operation


def test_a_copy_width_that_is_no_count(refused):
    def k(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.copy(A, B, coalesced_width=0)

    refused("E245", k)
