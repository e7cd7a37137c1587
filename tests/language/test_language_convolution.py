"""T.im2col against the definition of a convolution's matrix form; macros that take references."""

import numpy as np
import pytest

import zellige.language as T


@pytest.mark.parametrize(("kernel", "stride", "dilation", "pad"), [(3, 1, 1, 1), (2, 2, 1, 0), (3, 1, 2, 2), (1, 1, 1, 0)])
def test_rows_are_output_pixels_and_columns_kernel_places(run, random, kernel, stride, dilation, pad):
    n, height, width, channels, rows, columns = 2, 6, 5, 3, 4, 8
    out_height = (height + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    out_width = (width + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    depth = kernel * kernel * channels
    row_tiles, column_tiles = -(-n * out_height * out_width // rows), -(-depth // columns)

    @T.prim_func
    def k(A: T.Tensor((n, height, width, channels), "float32"), B: T.Tensor((row_tiles * rows, column_tiles * columns), "float32")):
        with T.Kernel(row_tiles, column_tiles) as (bx, by):
            tile = T.alloc_shared((rows, columns), "float32")
            T.im2col(A, tile, bx, by, kernel, stride, dilation, pad)
            T.copy(tile, B[bx * rows, by * columns])

    a = random.integers(1, 100, (n, height, width, channels)).astype(np.float32)
    b = run(k, a, np.full((row_tiles * rows, column_tiles * columns), -1, np.float32))
    padded = np.pad(a, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    expected = [
        padded[
            i,
            y * stride : y * stride + dilation * (kernel - 1) + 1 : dilation,
            x * stride : x * stride + dilation * (kernel - 1) + 1 : dilation,
        ]
        for i in range(n)
        for y in range(out_height)
        for x in range(out_width)
    ]
    np.testing.assert_array_equal(b[: len(expected), :depth], np.stack([e.ravel() for e in expected]))
    assert not b[:, depth:].any()


def test_the_older_name():
    assert T.c2d_im2col is T.im2col


def test_wrong_operands(refused):
    def rank(A: T.Tensor((6, 5, 3), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1):
            T.im2col(A, B, 0, 0, 3, 1, 1, 0)

    def count(A: T.Tensor((1, 6, 5, 3), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1):
            T.im2col(A, B, 0, 0, 3, 0, 1, 0)

    refused("E258", rank)
    refused("E245", count)


@T.macro
def bump(x: T.Var, y: T.Ref, amount=1):
    x += amount
    y = y * 2


def test_references_in_both_spellings(run):
    @T.prim_func
    def k(A: T.Tensor((3,), "int32")):
        with T.Kernel(1):
            v = T.alloc_var("int32", init=5)
            bump(v, A[1])
            bump(A[0], A[1], amount=10)
            A[2] = v

    assert run(k, np.array([1, 2, 3], np.int32)).tolist() == [11, 8, 6]
