"""T.view, T.reshape and T.Tensor(data=...): other shapes and types over one storage."""

import ml_dtypes
import numpy as np

import zellige.language as T
from zellige.ir.stmt import Alloc
from zellige.ir.traverse import walk


def test_reshape_names_the_same_elements(run):
    @T.prim_func
    def k(A: T.Tensor((12,), "int32"), B: T.Tensor((3, 4), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((12,), "int32")
            T.copy(A, tile)
            grid = T.reshape(tile, [3, 4])
            grid[1, 2] = -1
            T.copy(grid, B)
            tile[0] = 100
            B[0, 0] = grid[0, 0]

    allocated = [node for node in walk(k.kernel) if isinstance(node, Alloc)]
    assert len(allocated) == 1, "a view has no storage of its own"
    b = run(k, np.arange(12, dtype=np.int32), np.zeros((3, 4), np.int32))
    expected = np.arange(12).reshape(3, 4)
    expected[1, 2], expected[0, 0] = -1, 100
    np.testing.assert_array_equal(b, expected)


def test_a_parameter_is_viewed(run):
    @T.prim_func
    def k(A: T.Tensor((2, 6), "float32"), B: T.Tensor((12,), "float32")):
        with T.Kernel(1):
            T.copy(T.reshape(A, (12,)), B)

    a = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(run(k, a, np.zeros(12, np.float32)), a.ravel())


def test_bits_of_another_type(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "uint32"), C: T.Tensor((8,), "uint16")):
        with T.Kernel(1):
            tile = T.alloc_shared((4,), "float32")
            T.copy(A, tile)
            T.copy(T.view(tile, dtype="uint32"), B)
            T.copy(T.view(tile, dtype=T.uint16), C)

    a = np.array([1.0, -2.0, np.inf, 1e-40], np.float32)
    b, c = np.zeros(4, np.uint32), np.zeros(8, np.uint16)
    run(k, a, b, c)
    np.testing.assert_array_equal(b, a.view(np.uint32))
    np.testing.assert_array_equal(c, a.view(np.uint16))


def test_four_bit_elements_seen_as_bytes(run):
    @T.prim_func
    def k(A: T.Tensor((8,), "float32"), B: T.Tensor((4,), "uint8")):
        with T.Kernel(1):
            tile = T.alloc_shared((8,), "float4_e2m1fn")
            T.copy(A, tile)
            T.copy(T.view(tile, (4,), T.uint8), B)

    a = np.array([0, 0.5, 1, -1, 6, -6, 3, 1.5], np.float32)
    codes = a.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    np.testing.assert_array_equal(run(k, a, np.zeros(4, np.uint8)), codes[0::2] | codes[1::2] << 4)


def test_data_makes_a_view(run):
    @T.prim_func
    def k(A: T.Tensor((6,), "int32"), B: T.Tensor((2, 3), "int32"), C: T.Tensor((3, 2), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((6,), "int32")
            T.copy(A, tile)
            T.copy(T.Tensor((2, 3), "int32", data=tile.data), B)
            T.copy(A, T.Tensor((6,), "int32", C.data))

    b = np.zeros((2, 3), np.int32)
    c = run(k, np.arange(6, dtype=np.int32), b, np.zeros((3, 2), np.int32))
    np.testing.assert_array_equal(b, [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(c, [[0, 1], [2, 3], [4, 5]])


def test_dense_strides_are_accepted(run):
    @T.prim_func
    def k(A: T.Tensor((6,), "int32")):
        with T.Kernel(1):
            tile = T.view(A, (2, 3), "int32", strides=(3, 1))
            tile[1, 2] = 1

    a = np.zeros(6, np.int32)
    run(k, a)
    assert a.tolist() == [0, 0, 0, 0, 0, 1]


def test_another_number_of_bits(refused):
    def k(A: T.Tensor((7, 8), "float32")):
        with T.Kernel(1):
            T.reshape(A, (8, 8))

    error = refused("E236", k)
    assert "1792 bits" in str(error)
    assert "2048 bits" in str(error)


def test_a_last_dimension_that_does_not_divide(refused):
    def k(A: T.Tensor((3,), "uint8")):
        with T.Kernel(1):
            T.view(A, dtype="uint16")

    refused("E236", k)


def test_four_bit_elements_of_another_number(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((8,), "int4")
            T.view(tile, (8,), "int8")

    refused("E236", k)


def test_strided_storage(refused):
    def k(A: T.StridedTensor((4, 4), (8, 1), "float32")):
        with T.Kernel(1):
            T.reshape(A, (16,))

    refused("E237", k)


def test_strides_that_are_not_dense(refused):
    def k(A: T.Tensor((16,), "float32")):
        with T.Kernel(1):
            T.view(A, (4, 4), "float32", strides=(1, 4))

    refused("E237", k)


def test_a_slice_is_no_tile(refused):
    def k(A: T.Tensor((16,), "float32")):
        with T.Kernel(1):
            T.reshape(A[0:8], (2, 4))

    refused("E222", k)


def test_minus_one_is_no_extent(refused):
    def k(A: T.Tensor((16,), "float32")):
        with T.Kernel(1):
            T.reshape(A, (4, -1))

    refused("E220", k)
