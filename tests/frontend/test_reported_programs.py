"""Whole small programs of kinds that public reports show as miscompiled, truncated or refused by other compilers; all are written anew.

The CPU and the interpreter must give the one right result.
"""

import ml_dtypes
import numpy as np
import pytest

import zellige as zl
import zellige.language as T

TARGETS = ("cpu", "interp")
pytestmark = pytest.mark.parametrize("target", TARGETS)
random = np.random.default_rng(7)


def ints(*shape, lo=-4, hi=5, dt=np.float32):
    """Small whole numbers, of which every sum here is exact."""
    return random.integers(lo, hi, shape).astype(dt)


@pytest.mark.parametrize("threads", [1, 2, 31, 33, 96])
def test_any_number_of_threads_writes_the_whole_tile(target, threads):
    @zl.jit(target=target, out_idx=-1)
    def copied(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_shared((64, 64), "float16")
            T.copy(A, tile)
            T.copy(tile, B)

    a = ints(64, 64, dt=np.float16)
    np.testing.assert_array_equal(copied(a), a)


def test_a_fragment_written_out_by_serial_loops(target):
    @zl.jit(target=target, out_idx=-1)
    def written(A: T.Tensor((16, 16), "float32"), B: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((16, 16), "float32")
            T.copy(A, tile)
            for i in T.serial(16):
                for j in T.serial(16):
                    B[i, j] = tile[i, j]

    a = np.arange(256, dtype=np.float32).reshape(16, 16)
    np.testing.assert_array_equal(written(a), a)


def test_loops_of_different_extents_over_one_fragment(target):
    @zl.jit(target=target, out_idx=-1)
    def partly(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((256,), "float32")
            T.copy(A, tile)
            for i in T.Parallel(100):
                tile[i] = 5.0
            for i in T.Parallel(256):
                B[i] = tile[i] + 1.0

    a = ints(256)
    np.testing.assert_array_equal(partly(a), np.where(np.arange(256) < 100, 6, a + 1))


@pytest.mark.parametrize(("rows", "columns", "size"), [(32, 32, 12), (4, 30, 7), (3, 17, 5)])
def test_a_remainder_that_divides_neither_extent(target, rows, columns, size):
    @zl.jit(target=target, out_idx=-1)
    def table(B: T.Tensor((size,), "float32"), C: T.Tensor((rows, columns), "float32")):
        with T.Kernel(1, threads=64):
            held = T.alloc_shared((size,), "float32")
            T.copy(B, held)
            for i, j in T.Parallel(rows, columns):
                C[i, j] = held[j % size] + B[(i * columns + j) % size] * 10

    b = ints(size)
    i, j = np.indices((rows, columns))
    np.testing.assert_array_equal(table(b), b[j % size] + b[(i * columns + j) % size] * 10)


@pytest.mark.parametrize("blocks", [1, 3, 9])
def test_persistent_blocks_reach_every_tile(target, blocks):
    @zl.jit(target=target, out_idx=-1)
    def numbered(C: T.Tensor((blocks * 16, 80), "int32")):
        with T.Kernel(4, threads=32) as worker:
            for x, y in T.Persistent([blocks, 5], 4, worker):
                for i, j in T.Parallel(16, 16):
                    C[x * 16 + i, y * 16 + j] = x * 100 + y

    i, j = np.indices((blocks * 16, 80))
    np.testing.assert_array_equal(numbered(), i // 16 * 100 + j // 16)


@pytest.mark.parametrize("source", [T.alloc_shared, T.alloc_fragment])
@pytest.mark.parametrize("result", [T.alloc_shared, T.alloc_fragment])
def test_scans_between_any_two_spaces(target, source, result):
    @zl.jit(target=target, out_idx=-1)
    def summed(A: T.Tensor((7, 50), "float32"), B: T.Tensor((7, 50), "float32")):
        with T.Kernel(1, threads=96):
            one = source((7, 50), "float32")
            two = result((7, 50), "float32")
            T.copy(A, one)
            T.cumsum(one, two, dim=1)
            T.copy(two, B)

    a = ints(7, 50)
    np.testing.assert_array_equal(summed(a), a.cumsum(1))


@pytest.mark.parametrize(("dtype", "depth"), [("int8", 8), ("bfloat16", 8), ("float8_e4m3fn", 16), ("float16", 4)])
def test_products_shallower_than_a_unit(target, dtype, depth):
    total = "int32" if dtype == "int8" else "float32"

    @zl.jit(target=target, out_idx=-1)
    def product(A: T.Tensor((32, 4 * depth), dtype), B: T.Tensor((4 * depth, 32), dtype), C: T.Tensor((32, 32), total)):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, depth), dtype)
            b = T.alloc_shared((depth, 32), dtype)
            c = T.alloc_fragment((32, 32), total)
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * depth], a)
                T.copy(B[k * depth, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    kind = np.int8 if dtype == "int8" else getattr(ml_dtypes, dtype, None) or np.dtype(dtype)
    a, b = ints(32, 4 * depth).astype(kind), ints(4 * depth, 32).astype(kind)
    np.testing.assert_array_equal(product(a, b), a.astype(np.float32) @ b.astype(np.float32))


def test_an_output_before_the_input_that_gives_its_size(target):
    size = T.dynamic("size")

    @zl.jit(target=target, out_idx=0)
    def more(B: T.Tensor((size,), "float32"), A: T.Tensor((size,), "float32")):
        with T.Kernel(T.ceildiv(size, 32), threads=32) as block:
            for i in T.Parallel(32):
                B[block * 32 + i] = A[block * 32 + i] + 1

    for count in (1, 40):
        a = ints(count)
        np.testing.assert_array_equal(more(a), a + 1)


@pytest.mark.parametrize("size", [64, 100, 31])
def test_a_stencil_in_a_fragment(target, size):
    @zl.jit(target=target, out_idx=-1)
    def stencil(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((size,), "float32")
            T.copy(A, tile)
            for i in T.Parallel(size):
                B[i] = tile[(i + 1) % size] - tile[i] + tile[size - 1 - i]

    a = ints(size)
    np.testing.assert_array_equal(stencil(a), np.roll(a, -1) - a + a[::-1])


def test_a_size_of_the_call_inside_a_macro(target):
    size = T.dynamic("size")

    @T.macro
    def scaled(X, Y, block):
        for i in T.Parallel(32):
            if block * 32 + i < size:
                Y[block * 32 + i] = X[block * 32 + i] * size

    @zl.jit(target=target, out_idx=-1)
    def kernel(X: T.Tensor((size,), "float32"), Y: T.Tensor((size,), "float32")):
        with T.Kernel(T.ceildiv(size, 32), threads=32) as block:
            scaled(X, Y, block)

    x = ints(45)
    np.testing.assert_array_equal(kernel(x), x * 45)


@pytest.mark.parametrize("stages", [0, 1, 2, 3])
def test_a_load_under_a_condition_in_a_pipeline(target, stages):
    @zl.jit(target=target, out_idx=-1)
    def kept(A: T.Tensor((10, 32), "float32"), F: T.Tensor((10,), "int32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32,), "float32")
            total = T.alloc_fragment((32,), "float32")
            T.clear(total)
            T.clear(tile)
            for i in T.Pipelined(10, num_stages=stages):
                if F[i] > 0:
                    T.copy(A[i, :], tile)
                for j in T.Parallel(32):
                    total[j] += tile[j]
            T.copy(total, B)

    a, flags = ints(10, 32), ints(10, dt=np.int32)
    tile, want = np.zeros(32), np.zeros(32)
    for i in range(10):
        tile = a[i] if flags[i] > 0 else tile
        want = want + tile
    np.testing.assert_array_equal(kept(a, flags), want)


def test_the_largest_values_and_where_they_are(target):
    @zl.jit(target=target)
    def largest(A: T.Tensor((4, 30), "float32"), V: T.Tensor((4, 5), "float32"), I: T.Tensor((4, 5), "int32")):
        with T.Kernel(4, threads=32) as row:
            values = T.alloc_fragment((30,), "float32")
            most = T.alloc_fragment((1,), "float32")
            places = T.alloc_fragment((30,), "int32")
            least = T.alloc_fragment((1,), "int32")
            T.copy(A[row, :], values)
            for rank in T.serial(5):
                T.reduce_max(values, most, dim=0)
                for j in T.Parallel(30):
                    places[j] = T.if_then_else(values[j] == most[0], j, 1000)
                T.reduce_min(places, least, dim=0)
                for j in T.Parallel(30):
                    values[j] = T.if_then_else(j == least[0], -T.infinity("float32"), values[j])
                V[row, rank] = most[0]
                I[row, rank] = least[0]

    a = np.stack([random.permutation(30) for _ in range(4)]).astype(np.float32)
    values, places = np.zeros((4, 5), np.float32), np.zeros((4, 5), np.int32)
    largest(a, values, places)
    want = np.argsort(-a, 1)[:, :5]
    np.testing.assert_array_equal(places, want)
    np.testing.assert_array_equal(values, np.take_along_axis(a, want, 1))


def test_a_search_in_each_point(target):
    @zl.jit(target=target, out_idx=-1)
    def search(S: T.Tensor((64,), "int32"), Q: T.Tensor((40,), "int32"), B: T.Tensor((40,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(40):
                low = T.alloc_var("int32")
                high = T.alloc_var("int32")
                low = 0
                high = 64
                while low < high:
                    middle = (low + high) // 2
                    if S[middle] < Q[i]:
                        low = middle + 1
                    else:
                        high = middle
                B[i] = low

    held = np.sort(ints(64, lo=0, hi=100, dt=np.int32))
    asked = ints(40, lo=-5, hi=110, dt=np.int32)
    np.testing.assert_array_equal(search(held, asked), np.searchsorted(held, asked))


def test_a_convolution_that_looks_back(target):
    @zl.jit(target=target, out_idx=-1)
    def causal(X: T.Tensor((37, 8), "float32"), K: T.Tensor((4, 8), "float32"), B: T.Tensor((37, 8), "float32")):
        with T.Kernel(T.ceildiv(37, 16), threads=32) as block:
            total = T.alloc_fragment((16, 8), "float32")
            T.clear(total)
            for w in T.serial(4):
                for i, c in T.Parallel(16, 8):
                    place = block * 16 + i + w - 3
                    total[i, c] += T.if_then_else(place >= 0, X[place, c], 0.0) * K[w, c]
            T.copy(total, B[block * 16, 0])

    x, weights = ints(37, 8), ints(4, 8)
    padded = np.vstack([np.zeros((3, 8)), x])
    np.testing.assert_array_equal(causal(x, weights), sum(padded[w : w + 37] * weights[w] for w in range(4)))


def test_transposing_tiles_of_sizes_of_the_call(target):
    rows, columns = T.dynamic("rows"), T.dynamic("columns")

    @zl.jit(target=target, out_idx=-1)
    def turned(A: T.Tensor((rows, columns), "float32"), B: T.Tensor((columns, rows), "float32")):
        with T.Kernel(T.ceildiv(rows, 16), T.ceildiv(columns, 16), threads=64) as (x, y):
            one = T.alloc_shared((16, 16), "float32")
            two = T.alloc_shared((16, 16), "float32")
            T.copy(A[x * 16, y * 16], one)
            for i, j in T.Parallel(16, 16):
                two[j, i] = one[i, j]
            T.copy(two, B[y * 16, x * 16])

    for shape in ((5, 40), (33, 17)):
        a = ints(*shape)
        np.testing.assert_array_equal(turned(a), a.T)
