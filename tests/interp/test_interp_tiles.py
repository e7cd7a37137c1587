"""Tile operations against plain Python loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from zellige.diagnostics import LaunchError
from zellige.dtypes import all_dtypes, dtype
from zellige.elements.conversion import cast

F64 = dtype("float64")
FLOATS = [t for t in all_dtypes() if t.is_float]


def values(random, shape, t):
    """Values of a type that are exact in it: small whole numbers, or bits."""
    t = dtype(t)
    if t.name == "float8_e8m0fnu":
        return cast(np.exp2(random.integers(-2, 3, shape)), F64, t)
    low = 0 if t.kind in ("uint", "bool") or t.bits == 4 and not t.is_signed else -2
    high = {"bool": 2}.get(t.kind, 3)
    return cast(random.integers(low, high, shape).astype(np.float64), F64, t)


def pack(array: np.ndarray) -> np.ndarray:
    """4-bit elements two to a byte, low half first."""
    bits = array.view(np.uint8) & 15
    return (bits[..., 0::2] | (bits[..., 1::2] << 4)).astype(np.uint8)


# ---- copy and fill -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [(0, 0), (5, 3), (-2, 7), (8, -3), (20, 0), (-9, -9), (6, 9)])
def test_copy_reads_the_safe_value_and_drops_writes_outside(offset, run_block, random):
    a = random.standard_normal((10, 11)).astype(np.float32)
    b = np.full((10, 11), 9, np.float32)
    c = np.full((4, 5), 7, np.float32)
    body = """
        S = alloc((4, 5), float32, "shared")
        copy(A[y:+4, x:+5], S[0:+4, 0:+5])
        copy(S[0:+4, 0:+5], C[0:+4, 0:+5])
        copy(S[0:+4, 0:+5], B[y:+4, x:+5])
    """
    parameters = (
        "A: tensor((10, 11), float32), B: tensor((10, 11), float32), C: tensor((4, 5), float32), y: scalar(int32), x: scalar(int32)"
    )
    run_block(parameters, body, a, b, c, *offset)
    y, x = offset
    expected_b, expected_c = np.full((10, 11), 9, np.float32), np.zeros((4, 5), np.float32)
    for i, j in itertools.product(range(4), range(5)):
        if 0 <= y + i < 10 and 0 <= x + j < 11:
            expected_c[i, j] = expected_b[y + i, x + j] = a[y + i, x + j]
    np.testing.assert_array_equal(c, expected_c)
    np.testing.assert_array_equal(b, expected_b)


def test_copy_with_another_safe_value(run_block):
    body = """
        safe_value(A, -1.5)
        copy(A[2:+4], B[0:+4])
        B[4] = A[9]
    """
    b = np.zeros(5, np.float32)
    run_block("A: tensor((4,), float32), B: tensor((5,), float32)", body, np.arange(4, dtype=np.float32), b)
    assert b.tolist() == [2.0, 3.0, -1.5, -1.5, -1.5]


def test_copy_drops_unit_dimensions(run_block, random):
    a = random.standard_normal((3, 1, 4, 5)).astype(np.float32)
    b = np.zeros((4, 1, 5), np.float32)
    run_block(
        "A: tensor((3, 1, 4, 5), float32), B: tensor((4, 1, 5), float32)", "copy(A[1:+1, 0:+1, 0:+4, 0:+5], B[0:+4, 0:+1, 0:+5])", a, b
    )
    np.testing.assert_array_equal(b[:, 0], a[1, 0])


@pytest.mark.parametrize("source", [t for t in all_dtypes() if t.bits != 4], ids=str)
@pytest.mark.parametrize(
    "target", ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]
)
def test_copy_casts_as_cast_does(source, target, run_block, random):
    a = values(random, (3, 7), source)
    t = dtype(target)
    b = np.zeros((3, 7), np.float32).astype(t.numpy)
    run_block(f"A: tensor((3, 7), {source}), B: tensor((3, 7), {target})", "copy(A[0:+3, 0:+7], B[0:+3, 0:+7])", a, b)
    for i, j in itertools.product(range(3), range(7)):
        x, y = float(a[i, j]), float(b[i, j])
        if t.is_bool:
            assert y == (x != 0)
        elif t.is_integer:
            expected = int(max(t.min, min(t.max, math.trunc(x)))) if source.is_float else int(x) % (1 << t.bits)
            assert int(b[i, j]) % (1 << t.bits) == expected % (1 << t.bits)
        else:
            assert y == x


@pytest.mark.parametrize("name", ["int4", "uint4", "float4_e2m1fn"])
def test_four_bit_tensors_are_packed(name, run_block, random):
    t = dtype(name)
    elements = cast(random.integers(0, 7, (5, 6)).astype(np.float64), F64, t)
    packed, out, wide = pack(elements), np.full((5, 3), 0xEE, np.uint8), np.zeros((5, 6), np.float32)
    body = """
        S = alloc((5, 6), T, "shared")
        copy(A[0:+5, 0:+6], S[0:+5, 0:+6])
        copy(S[0:+5, 1:+4], B[0:+5, 2:+4])
        copy(S[0:+5, 0:+6], C[0:+5, 0:+6])
        for i in parallel(5):
            B[i, 1] = S[i, 0]
    """.replace("T,", f"{name},")
    run_block(f"A: tensor((5, 6), {name}), B: tensor((5, 6), {name}), C: tensor((5, 6), float32)", body, packed, out, wide)
    np.testing.assert_array_equal(wide, elements.astype(np.float32))
    expected = np.full((5, 6), 0xE, np.uint8)
    bits = elements.view(np.uint8) & 15
    expected[:, 2:6], expected[:, 1] = bits[:, 1:5], bits[:, 0]
    np.testing.assert_array_equal(np.stack([out & 15, out >> 4], axis=-1).reshape(5, 6), expected)


def test_fill_and_transpose(run_block, random):
    a = random.standard_normal((4, 6)).astype(np.float32)
    b, c = np.zeros((6, 4), np.float16), np.zeros((5, 5), np.int32)
    body = """
        transpose(A[0:+4, 0:+6], B[0:+6, 0:+4])
        fill(C[1:+3, 2:+9], 7)
    """
    run_block("A: tensor((4, 6), float32), B: tensor((6, 4), float16), C: tensor((5, 5), int32)", body, a, b, c)
    assert all(b[j, i] == np.float16(a[i, j]) for i in range(4) for j in range(6))
    assert all(c[i, j] == (7 if 1 <= i < 4 and j >= 2 else 0) for i in range(5) for j in range(5))


def test_extents_that_differ_at_run_time(run_block):
    with pytest.raises(LaunchError) as caught:
        run_block(
            "A: tensor((8,), float32), B: tensor((8,), float32), n: scalar(int32)",
            "copy(A[0:+n], B[0:+8])",
            np.zeros(8, np.float32),
            np.zeros(8, np.float32),
            5,
        )
    assert caught.value.code == "E640" and caught.value.span.line == 6


# ---- products ------------------------------------------------------------------------------------------------------------------------


def loop_gemm(a, b, c, clear):
    """Exact for whole numbers."""
    m, k, n = a.shape[0], a.shape[1], b.shape[1]
    result = [[0 if clear else c[i][j] for j in range(n)] for i in range(m)]
    for i, j, x in itertools.product(range(m), range(n), range(k)):
        result[i][j] += a[i][x] * b[x][j]
    return result


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.parametrize(
    ("ta", "tb", "tc"),
    [("float16", "float16", "float32"), ("bfloat16", "bfloat16", "bfloat16"), ("float32", "float32", "float32"),
     ("tfloat32", "tfloat32", "float32"),
     ("float64", "float64", "float64"), ("float8_e4m3fn", "float8_e5m2", "float16"), ("int8", "int8", "int32"), ("uint8", "int8", "int32")],
)  # fmt: skip
def test_gemm(ta, tb, tc, transpose_a, transpose_b, clear, run_block, random):
    m, n, k = 5, 7, 6
    a, b, c = values(random, (m, k), ta), values(random, (k, n), tb), values(random, (m, n), tc)
    expected = loop_gemm(a.astype(np.float64).tolist() and a.astype(object), b.astype(object), c.astype(object).tolist(), clear)
    given_a, given_b = (np.ascontiguousarray(x.T) if flag else x for x, flag in ((a, transpose_a), (b, transpose_b)))
    shape_a, shape_b = given_a.shape, given_b.shape
    operands = f"A[0:+{shape_a[0]}, 0:+{shape_a[1]}], B[0:+{shape_b[0]}, 0:+{shape_b[1]}], C[0:+{m}, 0:+{n}]"
    body = f"gemm({operands}, clear={clear}, transpose_a={transpose_a}, transpose_b={transpose_b})"
    run_block(f"A: tensor({shape_a}, {ta}), B: tensor({shape_b}, {tb}), C: tensor(({m}, {n}), {tc})", body, given_a, given_b, c)
    assert [[float(x) for x in row] for row in c] == [[float(x) for x in row] for row in expected]


def test_integer_products_wrap_in_the_type_of_c(run_block):
    a, b, c = np.full((1, 4), 127, np.int8), np.full((4, 1), 127, np.int8), np.full((1, 1), 100, np.int8)
    run_block(
        "A: tensor((1, 4), int8), B: tensor((4, 1), int8), C: tensor((1, 1), int8)",
        "gemm(A[0:+1, 0:+4], B[0:+4, 0:+1], C[0:+1, 0:+1], clear=False)",
        a,
        b,
        c,
    )
    assert int(c[0, 0]) == (100 + 4 * 127 * 127 + 128) % 256 - 128
    a, b, c = np.full((1, 3), 2**62 + 5, np.int64), np.full((3, 1), 12345678901, np.int64), np.zeros((1, 1), np.int64)
    run_block(
        "A: tensor((1, 3), int64), B: tensor((3, 1), int64), C: tensor((1, 1), int64)",
        "gemm(A[0:+1, 0:+3], B[0:+3, 0:+1], C[0:+1, 0:+1], clear=True)",
        a,
        b,
        c,
    )
    exact = 3 * (2**62 + 5) * 12345678901 % 2**64
    assert int(c[0, 0]) == exact - 2**64 * (exact >= 2**63)


def test_sixteen_bit_products_round_once(run_block):
    # 2048 + 1 + 1 in float16 steps stays 2048; rounded once it is 2050
    a, b, c = np.float16([[2048, 1, 1]]), np.float16([[1], [1], [1]]), np.zeros((1, 1), np.float16)
    run_block(
        "A: tensor((1, 3), float16), B: tensor((3, 1), float16), C: tensor((1, 1), float16)",
        "gemm(A[0:+1, 0:+3], B[0:+3, 0:+1], C[0:+1, 0:+1], clear=True)",
        a,
        b,
        c,
    )
    assert float(c[0, 0]) == 2050.0


@pytest.mark.parametrize("transposed", [False, True])
def test_block_scales(transposed, run_block, random):
    a, b, c = values(random, (4, 8), "float8_e4m3fn"), values(random, (8, 6), "float8_e4m3fn"), np.zeros((4, 6), np.float32)
    scale_a, scale_b = values(random, (4, 2), "float8_e8m0fnu"), values(random, (4, 3), "float8_e8m0fnu")
    expected = [
        [
            sum(float(a[i, x]) * float(scale_a[i, x // 4]) * float(b[x, j]) * float(scale_b[x // 2, j // 2]) for x in range(8))
            for j in range(6)
        ]
        for i in range(4)
    ]
    b_given, scale_b_given = (np.ascontiguousarray(b.T), np.ascontiguousarray(scale_b.T)) if transposed else (b, scale_b)
    p, q = b_given.shape, scale_b_given.shape
    scales = f"scale_a=X[0:+4, 0:+2], scale_b=Y[0:+{q[0]}, 0:+{q[1]}]"
    body = f"gemm(A[0:+4, 0:+8], B[0:+{p[0]}, 0:+{p[1]}], C[0:+4, 0:+6], clear=True, transpose_b={transposed}, {scales})"
    matrices = f"A: tensor((4, 8), float8_e4m3fn), B: tensor({p}, float8_e4m3fn), C: tensor((4, 6), float32)"
    parameters = f"{matrices}, X: tensor((4, 2), float8_e8m0fnu), Y: tensor({q}, float8_e8m0fnu)"
    run_block(parameters, body, a, b_given, c, scale_a, scale_b_given)
    assert c.tolist() == expected


def test_structured_sparse_product(run_block, random):
    m, k, n = 3, 16, 4
    kept = values(random, (m, k // 2), "float16")
    places = [[sorted(random.choice(4, 2, replace=False).tolist()) for _ in range(k // 4)] for _ in range(m)]
    metadata = np.array([[sum((p[0] | p[1] << 2) << 4 * g for g, p in enumerate(row))] for row in places], np.uint64).astype(np.int16)
    dense = np.zeros((m, k))
    for i, row in enumerate(places):
        for group, pair in enumerate(row):
            for slot, place in enumerate(pair):
                dense[i, 4 * group + place] = kept[i, 2 * group + slot]
    b, c = values(random, (k, n), "float16"), np.zeros((m, n), np.float32)
    body = "gemm(A[0:+3, 0:+8], B[0:+16, 0:+4], C[0:+3, 0:+4], clear=True, metadata=E[0:+3, 0:+1])"
    run_block(
        "A: tensor((3, 8), float16), B: tensor((16, 4), float16), C: tensor((3, 4), float32), E: tensor((3, 1), int16)",
        body,
        kept,
        b,
        c,
        metadata,
    )
    assert c.tolist() == [[float(sum(dense[i, x] * float(b[x, j]) for x in range(k))) for j in range(n)] for i in range(m)]


# ---- reductions ----------------------------------------------------------------------------------------------------------------------

PYTHON_REDUCTIONS = {
    "sum": lambda xs: sum(xs), "prod": lambda xs: math.prod(xs), "max": max, "min": min, "absmax": lambda xs: max(abs(x) for x in xs),
    "abssum": lambda xs: sum(abs(x) for x in xs), "any": lambda xs: any(x != 0 for x in xs), "all": lambda xs: all(x != 0 for x in xs),
}  # fmt: skip


@pytest.mark.parametrize("t", [t for t in all_dtypes() if not t.is_bool and t.bits != 4 and t.name != "float8_e8m0fnu"], ids=str)
@pytest.mark.parametrize("op", sorted(PYTHON_REDUCTIONS))
def test_reduce_over_every_type(op, t, run_block, random):
    a = values(random, (3, 5, 4), t)
    b = values(random, (3, 4), t)
    before = b.copy()
    for axis, (shape, region) in {0: ((5, 4), "B[0:+5, 0:+4]"), 1: ((3, 4), "B[0:+3, 0:+1, 0:+4]"), 2: ((3, 5), "B[0:+3, 0:+5]")}.items():
        for clear in (True, False):
            b = values(random, shape, t)
            before = b.copy()
            declared = (3, 1, 4) if axis == 1 else shape
            run_block(
                f"A: tensor((3, 5, 4), {t}), B: tensor({declared}, {t})",
                f"reduce({op!r}, A[0:+3, 0:+5, 0:+4], {region}, axis={axis}, clear={clear})".replace("'", '"'),
                a,
                b.reshape(declared),
            )
            for index in np.ndindex(shape):
                items = [float(a[(*index[:axis], x, *index[axis:])]) for x in range(a.shape[axis])]
                expected = float(PYTHON_REDUCTIONS[op](items + ([] if clear else [float(before[index])])))
                if op in ("abssum", "absmax") and not clear:  # what dst holds is taken as it is
                    expected = PYTHON_REDUCTIONS[op](items)
                    expected = expected + float(before[index]) if op == "abssum" else max(expected, float(before[index]))
                exact = int(expected) % (1 << t.bits) if t.is_integer else float(cast(np.array(expected), F64, t))
                got = int(b[index]) % (1 << t.bits) if t.is_integer else float(b[index])
                assert got == exact or (math.isnan(got) and math.isnan(exact))


@pytest.mark.parametrize("op", ["bitand", "bitor", "bitxor"])
def test_bitwise_reductions(op, run_block, random):
    a = random.integers(-128, 128, (4, 9)).astype(np.int8)
    b = np.zeros(4, np.int8)
    run_block("A: tensor((4, 9), int8), B: tensor((4,), int8)", f'reduce("{op}", A[0:+4, 0:+9], B[0:+4], axis=1)', a, b)
    for row, got in zip(a.tolist(), b.tolist()):
        expected = row[0]
        for x in row[1:]:
            expected = {"bitand": expected & x, "bitor": expected | x, "bitxor": expected ^ x}[op]
        assert got == expected


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "float8_e5m2"])
@pytest.mark.parametrize("op", ["max", "min", "absmax"])
def test_reductions_skip_nan_unless_asked(op, name, run_block):
    nan = math.nan
    rows = np.array([[nan, 1.0, -2.0], [nan, nan, nan], [0.5, nan, 4.0]])
    a = cast(rows, F64, dtype(name))
    expected = {"max": [1.0, nan, 4.0], "min": [-2.0, nan, 0.5], "absmax": [2.0, nan, 4.0]}[op]
    for propagate in (False, True):
        b = cast(np.zeros(3), F64, dtype(name))
        run_block(
            f"A: tensor((3, 3), {name}), B: tensor((3,), {name})",
            f'reduce("{op}", A[0:+3, 0:+3], B[0:+3], axis=1, nan_propagate={propagate})',
            a,
            b,
        )
        np.testing.assert_array_equal(b.astype(np.float64), [nan] * 3 if propagate else expected)


def test_sixteen_bit_sums_accumulate_in_float32(run_block):
    a, b = np.full((1, 4096), 1.0, np.float16), np.zeros(1, np.float16)
    run_block("A: tensor((1, 4096), float16), B: tensor((1,), float16)", 'reduce("sum", A[0:+1, 0:+4096], B[0:+1], axis=1)', a, b)
    assert b[0] == 4096.0  # adding ones in float16 stops at 2048


def test_reduce_in_the_wider_of_two_types(run_block):
    a, b = np.full((2, 100), 100, np.int8), np.zeros(2, np.int32)
    run_block("A: tensor((2, 100), int8), B: tensor((2,), int32)", 'reduce("sum", A[0:+2, 0:+100], B[0:+2], axis=1)', a, b)
    assert b.tolist() == [10000, 10000]
    c = np.zeros(2, np.float32)
    run_block("A: tensor((2, 100), int8), B: tensor((2,), float32)", 'reduce("prod", A[0:+2, 0:+3], B[0:+2], axis=1)', a, c)
    assert c.tolist() == [1e6, 1e6]
    d = np.zeros(1, np.float16)
    run_block(
        "A: tensor((1, 2), int32), B: tensor((1,), float16)", 'reduce("sum", A[0:+1, 0:+2], B[0:+1], axis=1)', np.int32([[2049, 1]]), d
    )
    assert d[0] == 2050.0


@pytest.mark.parametrize(("op", "expected"), [("sum", 0.0), ("prod", 1.0), ("max", -math.inf), ("min", math.inf), ("absmax", 0.0)])
def test_reduce_of_nothing(op, expected, run_block):
    b = np.full(2, 5, np.float32)
    run_block(
        "A: tensor((2, 4), float32), B: tensor((2,), float32), n: scalar(int32)",
        f'reduce("{op}", A[0:+2, 0:+n], B[0:+2], axis=1)',
        np.ones((2, 4), np.float32),
        b,
        0,
    )
    assert b.tolist() == [expected] * 2


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("op", "t"), [("sum", "int32"), ("sum", "float16"), ("prod", "int8"), ("max", "bfloat16"), ("min", "float32"), ("sum", "int8")]
)
def test_scan(op, t, axis, reverse, run_block, random):
    a = values(random, (4, 6), t)
    b = values(random, (4, 6), t)
    run_block(
        f"A: tensor((4, 6), {t}), B: tensor((4, 6), {t})",
        f'scan("{op}", A[0:+4, 0:+6], B[0:+4, 0:+6], axis={axis}, reverse={reverse})',
        a,
        b,
    )
    for i, j in itertools.product(range(4), range(6)):
        at = (i, j)[axis]
        items = a[:, j] if axis == 0 else a[i]
        items = [float(x) for x in (items[at:] if reverse else items[: at + 1])]
        assert float(b[i, j]) == {"sum": sum, "prod": math.prod, "max": max, "min": min}[op](items)


def test_scan_in_place_rounds_each_output_once(run_block):
    a = np.full((1, 3000), 1.0, np.float16)
    run_block("A: tensor((1, 3000), float16)", 'scan("sum", A[0:+1, 0:+3000], A[0:+1, 0:+3000], axis=1)', a)
    assert a[0].tolist() == [float(np.float16(k + 1)) for k in range(3000)]


def test_scan_of_maxima_skips_nan(run_block):
    a, b = np.float32([[math.nan, 1.0, math.nan, 0.5, 2.0]]), np.zeros((1, 5), np.float32)
    run_block("A: tensor((1, 5), float32), B: tensor((1, 5), float32)", 'scan("max", A[0:+1, 0:+5], B[0:+1, 0:+5], axis=1)', a, b)
    np.testing.assert_array_equal(b, np.float32([[math.nan, 1.0, 1.0, 1.0, 2.0]]))


REDUCERS = [
    (op, t)
    for op in ("sum", "prod", "max", "min", "bitand", "bitor", "bitxor", "absmax", "abssum")
    for t in ("int32", "uint8", "float16", "float32")
    if not (op.startswith("bit") and t.startswith("float"))
]


@pytest.mark.parametrize(("op", "t"), REDUCERS)
def test_reducers(op, t, run_block, random):
    a, b = values(random, (6, 5), t), values(random, (5,), t)
    body = f"""
        R = alloc((5,), {t}, "fragment")
        reducer_init("{op}", R)
        for i, j in parallel(6, 5):
            reducer_update("{op}", R[j], A[i, j])
        for i, j in parallel(6, 5):
            reducer_update("{op}", R[j + 1], A[i, 0])
        reducer_finalize(R)
        copy(R[0:+5], B[0:+5])
    """
    run_block(f"A: tensor((6, 5), {t}), B: tensor((5,), {t})", body, a, b)
    bits = (1 << dtype(t).bits) - 1
    for j in range(5):
        items = [a[i, j].item() for i in range(6)] + ([a[i, 0].item() for i in range(6)] if j else [])
        if op.startswith("bit"):
            expected = items[0]
            for x in items[1:]:
                expected = {"bitand": expected & x, "bitor": expected | x, "bitxor": expected ^ x}[op]
        else:
            expected = PYTHON_REDUCTIONS[op](items)
        assert b[j].item() == expected or (not t.startswith("float") and (b[j].item() - expected) & bits == 0)


@pytest.mark.parametrize("op", ["add", "sub", "max", "min", "and", "or", "xor", "store"])
def test_atomic_tile(op, run_block, random):
    a, b = random.integers(-50, 50, (3, 4)).astype(np.int8), random.integers(-50, 50, (5, 5)).astype(np.int32)
    before = b.copy()
    run_block("A: tensor((3, 4), int8), B: tensor((5, 5), int32)", f'atomic_tile("{op}", A[0:+3, 0:+4], B[3:+3, 2:+4])', a, b)
    for i, j in itertools.product(range(5), range(5)):
        old, new = int(before[i, j]), int(a[i - 3, j - 2]) if i >= 3 and j >= 2 else None
        result = {
            "add": lambda x, y: x + y,
            "sub": lambda x, y: x - y,
            "max": max,
            "min": min,
            "and": lambda x, y: x & y,
            "or": lambda x, y: x | y,
            "xor": lambda x, y: x ^ y,
        }
        assert int(b[i, j]) == (old if new is None else result.get(op, lambda x, y: y)(old, new))
