"""T.gemm, T.gemm_sp, T.gemm_blockscaled."""

import ml_dtypes
import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.ir.stmt import Gemm
from zellige.ir.traverse import walk


def product(kernel):
    return next(node for node in walk(kernel.kernel) if isinstance(node, Gemm))


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_transpositions_and_accumulation(run, random, transpose_a, transpose_b):
    a_shape, b_shape = ((7, 5), (5, 7))[transpose_a - 1], ((3, 7), (7, 3))[transpose_b - 1]

    @T.prim_func
    def k(A: T.Tensor(a_shape, "float16"), B: T.Tensor(b_shape, "float16"), C: T.Tensor((5, 3), "float32")):
        with T.Kernel(1):
            left, right = T.alloc_shared(a_shape, "float16"), T.alloc_shared(b_shape, "float16")
            T.copy(A, left)
            T.copy(B, right)
            T.gemm(left, right, C, transpose_a, transpose_b)
            T.gemm(left, right, C, transpose_A=transpose_a, transpose_B=transpose_b)

    a, b = random.integers(-4, 4, a_shape).astype(np.float16), random.integers(-4, 4, b_shape).astype(np.float16)
    c = np.ones((5, 3), np.float32)
    expected = 1 + 2 * ((a.T if transpose_a else a).astype(np.float32) @ (b.T if transpose_b else b).astype(np.float32))
    np.testing.assert_array_equal(run(k, a, b, c), expected)


def test_a_clear_that_is_decided_at_run_time(run):
    @T.prim_func
    def k(A: T.Tensor((2, 2), "int8"), C: T.Tensor((2, 2), "int32")):
        with T.Kernel(1):
            for step in T.serial(3):
                T.gemm(A, A, C, clear_accum=step == 1)

    a = np.array([[1, 2], [3, 4]], np.int8)
    np.testing.assert_array_equal(run(k, a, np.full((2, 2), 50, np.int32)), 2 * (a.astype(np.int32) @ a))


def test_leading_unit_dimensions_and_hints():
    @T.prim_func
    def k(A: T.Tensor((2, 4, 8), "float16"), C: T.Tensor((4, 4), "float32")):
        with T.Kernel(1):
            T.gemm(A[1, :, :], A[0, 0:4, 0:8], C, transpose_B=True, policy=T.GemmWarpPolicy.FullCol, k_pack=2)

    node = product(k)
    assert (node.policy, node.k_pack, node.transpose_b) == ("full_col", 2, True)


def test_the_policies_are_numbers():
    assert [int(p) for p in (T.GemmWarpPolicy.Square, T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.FullCol)] == [0, 1, 2]
    partitions = {(4, 1): T.GemmWarpPolicy.FullRow, (1, 4): T.GemmWarpPolicy.FullCol, (2, 2): T.GemmWarpPolicy.Square}
    assert {p: T.GemmWarpPolicy.from_warp_partition(*p) for p in partitions} == partitions
    assert T.GemmWarpPolicy.FullRow.is_full_row()
    assert not T.GemmWarpPolicy.FullRow.is_square()
    assert not T.GemmWarpPolicy.FullRow.is_full_col()


def sparse_operand(random, rows, depth):
    """A dense matrix with two elements of every four along k, those elements, and the bits that say which."""
    dense = np.zeros((rows, depth), np.float16)
    kept = np.zeros((rows, depth // 2), np.float16)
    metadata = np.zeros((rows, depth // 16), np.uint16)
    for row in range(rows):
        for group in range(depth // 4):
            places = sorted(random.choice(4, 2, replace=False))
            for position, place in enumerate(places):
                value = float(random.integers(1, 9))
                dense[row, 4 * group + place] = value
                element = 2 * group + position
                kept[row, element] = value
                metadata[row, element // 8] |= np.uint16(int(place) << (2 * (element % 8)))
    return dense, kept, metadata.view(np.int16)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_e", [False, True])
def test_a_sparse_operand_is_expanded(run, random, transpose_a, transpose_e):
    rows, depth, columns = 4, 32, 3
    a_shape, e_shape = (rows, depth // 2), (rows, depth // 16)
    a_shape, e_shape = a_shape[::-1] if transpose_a else a_shape, e_shape[::-1] if transpose_e else e_shape

    @T.prim_func
    def k(
        A: T.Tensor(a_shape, "float16"),
        E: T.Tensor((2, *e_shape), "int16"),
        B: T.Tensor((depth, columns), "float16"),
        C: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(1):
            T.gemm_sp(A, E[1, :, :], B, C, transpose_a, transpose_e, clear_accum=True)

    dense, kept, metadata = sparse_operand(random, rows, depth)
    b = random.integers(-4, 4, (depth, columns)).astype(np.float16)
    e = np.stack([np.zeros(e_shape, np.int16), metadata.T if transpose_e else metadata])
    c = run(k, np.ascontiguousarray(kept.T if transpose_a else kept), e, b, np.zeros((rows, columns), np.float32))
    np.testing.assert_array_equal(c, dense.astype(np.float32) @ b.astype(np.float32))


def test_block_scales_from_where_k_begins(run, random):
    m, n, depth, block = 4, 2, 8, 4

    @T.prim_func
    def k(
        A: T.Tensor((m, 2 * depth), "float8_e4m3fn"),
        B: T.Tensor((n, 2 * depth), "float8_e4m3fn"),
        SA: T.Tensor((m, 2 * depth // block), "float8_e8m0fnu"),
        SB: T.Tensor((n, 2), "float8_e8m0fnu"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1):
            for step in T.serial(2):
                start = step * depth
                left, right = T.alloc_shared((m, depth), "float8_e4m3fn"), T.alloc_shared((n, depth), "float8_e4m3fn")
                T.copy(A[0, start], left)
                T.copy(B[0, start], right)
                T.gemm_blockscaled(
                    left, right, C, SA, SB, transpose_B=True, k_start=start, sf_a_granularity_k=block, sf_b_granularity_k=depth
                )

    def values(shape):
        return random.integers(-3, 4, shape).astype(np.float32).astype(ml_dtypes.float8_e4m3fn)

    def scales(shape):
        return (2.0 ** random.integers(-2, 3, shape)).astype(np.float32).astype(ml_dtypes.float8_e8m0fnu)

    a, b, sa, sb = values((m, 16)), values((n, 16)), scales((m, 4)), scales((n, 2))
    c = run(k, a, b, sa, sb, np.zeros((m, n), np.float32))
    wide_a = a.astype(np.float32) * np.repeat(sa.astype(np.float32), block, 1)
    wide_b = b.astype(np.float32) * np.repeat(sb.astype(np.float32), depth, 1)
    np.testing.assert_array_equal(c, wide_a @ wide_b.T)


@pytest.mark.parametrize("names", [("int8", "float16", "float32"), ("float16", "float16", "int32"), ("bool", "bool", "int32")])
def test_types_that_do_not_multiply(refused, names):
    a, b, c = names

    def k(A: T.Tensor((4, 4), a), B: T.Tensor((4, 4), b), C: T.Tensor((4, 4), c)):
        with T.Kernel(1):
            T.gemm(A, B, C)

    error = refused("E204", k)
    assert f"A {a}, B {b} and C {c}" in str(error)
    assert "integers into integers" in error.hint


@pytest.mark.parametrize(
    ("shapes", "size"), [(((4, 8), (4, 4), (4, 4)), "K"), (((8, 4), (4, 4), (4, 4)), "M"), (((4, 4), (4, 8), (4, 4)), "N")]
)
def test_sizes_that_differ(refused, shapes, size):
    a, b, c = shapes

    def k(A: T.Tensor(a, "float16"), B: T.Tensor(b, "float16"), C: T.Tensor(c, "float32")):
        with T.Kernel(1):
            T.gemm(A, B, C)

    error = refused("E226", k)
    assert str(error).startswith(f"error E226: {size} is ")
    assert "transpose_A" in error.hint


def test_a_vector_is_no_matrix(refused):
    def k(A: T.Tensor((4,), "float16"), C: T.Tensor((4, 4), "float32")):
        with T.Kernel(1):
            T.gemm(A, A, C)

    refused("E225", k)


def test_two_batches_are_no_matrix(refused):
    def k(A: T.Tensor((2, 4, 4), "float16"), C: T.Tensor((4, 4), "float32")):
        with T.Kernel(1):
            T.gemm(A, A, C)

    assert "slice all leading dimensions" in refused("E225", k).hint


def test_a_size_known_only_at_run_time(refused):
    n = T.dynamic("n")

    def k(A: T.Tensor((n, n), "float16"), C: T.Tensor((n, n), "float32")):
        with T.Kernel(1):
            T.gemm(A, A, C)

    refused("E105", k)


def test_an_unknown_policy(refused):
    def k(A: T.Tensor((4, 4), "float16"), C: T.Tensor((4, 4), "float32")):
        with T.Kernel(1):
            T.gemm(A, A, C, policy="rows")

    refused("E227", k)


def test_a_run_time_transposition(refused):
    def k(A: T.Tensor((4, 4), "float16"), C: T.Tensor((4, 4), "float32")):
        with T.Kernel(4) as bx:
            T.gemm(A, A, C, transpose_A=bx == 0)

    refused("E105", k)


def test_a_misspelt_accumulator_flag(refused):
    def k(A: T.Tensor((4, 4), "float16"), C: T.Tensor((4, 4), "float32")):
        with T.Kernel(1):
            T.gemm(A, A, C, clear_acum=True)

    assert "did you mean 'clear_accum'" in str(refused("E259", k))


@pytest.mark.parametrize(
    ("transpose_a", "transpose_e", "dtype", "bits"),
    [
        (False, False, "float32", "int16"), (True, True, "float32", "int8"), (False, True, "int32", "uint32"),
        (True, False, "float64", "int64"),
    ],
)
def test_a_product_of_wide_elements_of_which_every_two_keep_one(run, transpose_a, transpose_e, dtype, bits):
    m, n, k = 6, 5, 32
    words = 4 * (k // 2) // T.dtype(bits).bits
    stored, described = (k // 2, m) if transpose_a else (m, k // 2), (words, m) if transpose_e else (m, words)

    @T.prim_func
    def product(A: T.Tensor((2, *stored), dtype), E: T.Tensor(described, bits), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(1):
            T.gemm_sp(A[1, :, :], E, B, C, transpose_a, transpose_e)

    rng = np.random.default_rng(5)
    places, values, b = rng.integers(0, 2, (m, k // 2)), rng.integers(-4, 5, (m, k // 2)), rng.integers(-4, 5, (k, n))
    dense = np.zeros((m, k), np.int64)
    dense[np.arange(m)[:, None], 2 * np.arange(k // 2) + places] = values
    four = np.where(places == 0, 0b0100, 0b1110)[..., None] >> np.arange(4) & 1
    e = np.packbits(four.reshape(m, -1).astype(np.uint8), axis=1, bitorder="little").view(bits)
    a = np.stack([np.full_like(values, 9), values])
    a, e = (a.swapaxes(1, 2) if transpose_a else a), (e.T if transpose_e else e)
    c = run(product, np.ascontiguousarray(a, dtype), np.ascontiguousarray(e), b.astype(dtype), np.ones((m, n), dtype))
    np.testing.assert_array_equal(c, dense @ b + 1)


def test_what_says_no_places_of_kept_elements(refused):
    def floats(A: T.Tensor((4, 4), "float16"), C: T.Tensor((4, 4), "float32")):
        with T.Kernel(1):
            T.gemm_sp(A, A, A, C)

    def few(A: T.Tensor((4, 8), "float32"), E: T.Tensor((4, 1), "int16"), B: T.Tensor((16, 4), "float32"), C: T.Tensor((4, 4), "float32")):
        with T.Kernel(1):
            T.gemm_sp(A, E, B, C)

    refused("E204", floats)
    assert "E of int16 is (4, 1) on one side and [4, 2] on the other" in str(refused("E226", few))


def test_block_scales_that_are_not_there_yet(refused):
    def packed(A: T.Tensor((4, 8), "float8_e4m3fn"), S: T.Tensor((4, 2), "uint32"), C: T.Tensor((4, 4), "float32")):
        with T.Kernel(1):
            T.gemm_blockscaled(A, A, C, S, S, transpose_B=True, k_start=0, sf_a_granularity_k=4, sf_b_granularity_k=4)

    def straight(A: T.Tensor((4, 4), "float8_e4m3fn"), S: T.Tensor((4, 2), "float8_e8m0fnu"), C: T.Tensor((4, 4), "float32")):
        with T.Kernel(1):
            T.gemm_blockscaled(A, A, C, S, S, k_start=0, sf_a_granularity_k=4, sf_b_granularity_k=4)

    def rows(A: T.Tensor((4, 8), "float8_e4m3fn"), S: T.Tensor((3, 2), "float8_e8m0fnu"), C: T.Tensor((4, 4), "float32")):
        with T.Kernel(1):
            T.gemm_blockscaled(A, A, C, S, S, transpose_B=True, k_start=0, sf_a_granularity_k=4, sf_b_granularity_k=4)

    refused("E402", packed)
    refused("E402", straight)
    refused("E226", rows)


@pytest.mark.parametrize("target", ["interp", "cpu", "cuda:sm_80,simulate"])
@pytest.mark.parametrize("types", [("float16", "float32"), ("float32", "float16"), ("bfloat16", "float16"), ("int8", "int32")])
def test_operands_of_two_types_count_with_their_own_values(types, target):
    """2049 and 4097 have no place in the 16-bit types, nor in the 11 bits that some units keep of a float32."""
    first, second = types
    result = "int32" if first == "int8" else "float32"

    @T.prim_func
    def k(A: T.Tensor((16, 16), first), B: T.Tensor((16, 16), second), C: T.Tensor((16, 16), result)):
        with T.Kernel(1, threads=32):
            a, b = T.alloc_shared((16, 16), first), T.alloc_shared((16, 16), second)
            c = T.alloc_fragment((16, 16), result)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    large = {"float32": 4097, "float16": 2048, "bfloat16": 256, "int8": 100, "int32": 70001}
    a, b = (np.full((16, 16), large[name]).astype(T.dtype(name).numpy) for name in types)
    kernel = zl.compile(k, target=target, out_idx=-1)
    assert np.array_equal(kernel(a, b), np.full((16, 16), 16 * large[first] * large[second], result))
