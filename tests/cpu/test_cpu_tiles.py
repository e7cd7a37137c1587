"""Tile operations on the CPU: copies, fills, products, reductions, scans, transpositions, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from zellige.diagnostics import LaunchError
from zellige.dtypes import all_dtypes, dtype

REDUCTIONS = ["sum", "prod", "max", "min", "absmax", "abssum", "bitand", "bitor", "bitxor", "any", "all"]


def small(random, shape, name):
    """Small whole numbers, so that every sum is exact."""
    t = dtype(name)
    if t.bits == 4:
        return random.integers(0, 256, (*shape[:-1], shape[-1] // 2)).astype(np.uint8)
    low, high = {"bool": (0, 2)}.get(name, (0, 4) if not t.is_signed else (-2, 3))
    return random.integers(low, high, shape).astype(np.float32).astype(t.numpy)


# every pair of types belongs to the conversions' own tests; here a third of them go through tiles
PAIRS = [(a.name, b.name) for x, a in enumerate(all_dtypes()) for y, b in enumerate(all_dtypes()) if (x + 2 * y) % 3 == 0]


@pytest.mark.parametrize("source,target", PAIRS)
def test_copies_between_types(check_block, random, source, target):
    a, b = small(random, (5, 14), source), small(random, (5, 14), target)
    body = f"""
        S = alloc((5, 14), {source}, "shared")
        copy(A[0:+5, 0:+14], S[0:+5, 0:+14])
        copy(S[0:+5, 0:+14], B[0:+5, 0:+14])
    """
    check_block(f"A: tensor((5, 14), {source}), B: tensor((5, 14), {target})", body, a, b)


@pytest.mark.parametrize("t", ["float32", "int8", "uint4", "bool"])
@pytest.mark.parametrize("offset", [(0, 0), (5, 3), (-2, 7), (8, -3), (40, 0), (-9, -50), (6, 9)])
def test_regions_that_reach_outside(check_block, random, offset, t):
    a, b, c = small(random, (10, 22), t), small(random, (10, 22), t), small(random, (8, 20), t)
    body = f"""
        S = alloc((8, 20), {t}, "shared")
        copy(A[y:+8, x:+20], S[0:+8, 0:+20])
        copy(S[0:+8, 0:+20], C[0:+8, 0:+20])
        copy(S[0:+8, 0:+20], B[y:+8, x:+20])
        fill(B[y + 1:+2, x:+20], cast(1, {t}))
    """
    parameters = f"A: tensor((10, 22), {t}), B: tensor((10, 22), {t}), C: tensor((8, 20), {t}), y: scalar(int32), x: scalar(int32)"
    check_block(parameters, body, a, b, c, *offset)


def test_a_type_without_zero_reads_as_the_cast_of_zero(check_block):
    a, b = np.ones(2, np.float32).astype(dtype("float8_e8m0fnu").numpy), np.zeros(4, np.float32)
    check_block("A: tensor((2,), float8_e8m0fnu), B: tensor((4,), float32)", "for i in parallel(4):\n    B[i] = cast(A[i], float32)", a, b)


PRODUCTS = [
    ("float32", "float32", "float32"),
    ("float16", "float16", "float32"),
    ("bfloat16", "bfloat16", "bfloat16"),
    ("int8", "int8", "int32"),
    ("float64", "float64", "float64"),
    ("float8_e4m3fn", "float8_e5m2", "float16"),
    ("uint4", "int8", "int32"),
]
SIZES = [(1, 1, 1), (16, 16, 16), (37, 53, 29), (128, 64, 32), (5, 130, 3)]


@pytest.mark.parametrize("m,n,k", SIZES)
@pytest.mark.parametrize("a,b,c", PRODUCTS)
def test_products(check_block, random, m, n, k, a, b, c):
    k += k % 2 if dtype(a).bits == 4 else 0
    body = f"""
        P = alloc(({m}, {k}), {a}, "shared")
        Q = alloc(({n}, {k}), {b}, "shared")
        R = alloc(({m}, {n}), {c}, "fragment")
        copy(A[0:+{m}, 0:+{k}], P[0:+{m}, 0:+{k}])
        copy(B[0:+{n}, 0:+{k}], Q[0:+{n}, 0:+{k}])
        fill(R[0:+{m}, 0:+{n}], cast(1, {c}))
        for r in serial(2):
            gemm(P[0:+{m}, 0:+{k}], Q[0:+{n}, 0:+{k}], R[0:+{m}, 0:+{n}], transpose_b=True, clear=r == 5)
        copy(R[0:+{m}, 0:+{n}], C[0:+{m}, 0:+{n}])
    """
    parameters = f"A: tensor(({m}, {k}), {a}), B: tensor(({n}, {k}), {b}), C: tensor(({m}, {n}), {c})"
    check_block(parameters, body, small(random, (m, k), a), small(random, (n, k), b), np.zeros((m, n), dtype(c).numpy))


def test_a_product_of_regions_straight_from_tensors_that_reach_outside(check_block, random):
    a, b, c = (random.integers(-3, 4, (20, 20)).astype(np.float32) for _ in range(3))
    body = "gemm(A[y:+16, 3:+9], B[y:+16, x:+12], C[2:+9, 10:+12], transpose_a=True, clear=False)"
    parameters = ", ".join(f"{name}: tensor((20, 20), float32)" for name in "ABC") + ", y: scalar(int32), x: scalar(int32)"
    for y, x in ((0, 0), (9, 15), (-4, -2)):
        check_block(parameters, body, a, b, c, y, x)


def test_a_product_with_block_scales_and_one_of_run_time_size(check_block, random):
    a, b = random.integers(-3, 4, (8, 8)).astype(np.float32), random.integers(-3, 4, (8, 8)).astype(np.float32)
    scale = np.exp2(random.integers(-1, 2, (8, 2))).astype(np.float32)
    body = """
        gemm(A[0:+8, 0:+8], B[0:+8, 0:+8], C[0:+8, 0:+8], scale_a=S[0:+8, 0:+2], clear=True)
        gemm(A[0:+n, 0:+8], B[0:+8, 0:+n], D[0:+n, 0:+n], clear=True)
    """
    tensors = [f"{name}: tensor((8, {width}), float32)" for name, width in (("A", 8), ("B", 8), ("S", 2), ("C", 8), ("D", 8))]
    parameters = ", ".join([*tensors, "n: scalar(int32)"])
    check_block(parameters, body, a, b, scale, np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32), 5)


OVERLAPS = [
    "gemm(S[0:+48, 0:+48], R[0:+48, 0:+48], S[0:+48, 0:+48], clear=False)",
    "gemm(S[0:+48, 0:+48], S[0:+48, 0:+48], S[0:+48, 0:+48], clear=True, transpose_b=True)",
    "gemm(S[0:+24, 0:+24], S[10:+24, 0:+24], S[20:+24, 8:+24], clear=False)",
    "gemm(S[0:+48, 0:+48], R[0:+48, 0:+48], S[0:+48, 0:+48], scale_a=F[0:+48, 0:+2], clear=False)",
    "gemm(A[0:+48, 0:+48], R[0:+48, 0:+48], A[0:+48, 0:+48], clear=False)",
    'reduce("sum", S[0:+48, 0:+48], S[3:+1, 0:+48], axis=0)',
    'reduce("sum", S[0:+48, 0:+48], S[0:+48, 5:+1], axis=1)',
    'scan("sum", S[0:+48, 0:+30], S[0:+48, 7:+30], axis=1)',
    'scan("sum", S[0:+48, 0:+48], S[0:+48, 0:+48], axis=0, reverse=True)',
    "copy(S[0:+40, 0:+48], S[5:+40, 0:+48])",
    "copy(S[5:+40, 3:+40], S[0:+40, 7:+40])",
    "copy(A[0:+48, 0:+45], A[0:+48, 3:+45])",
    "transpose(S[0:+48, 0:+48], S[0:+48, 0:+48])",
    "transpose(A[0:+30, 3:+30], A[8:+30, 0:+30])",
]


@pytest.mark.parametrize("operation", OVERLAPS)
@pytest.mark.parametrize("t", ["float32", "int32"])
def test_an_operation_whose_result_lies_in_its_operands(check_block, random, operation, t):
    """All elements are read before one is written."""
    if "scale" in operation and t == "int32":
        t = "float16"
    a, b, c = small(random, (48, 48), t), small(random, (48, 48), t), np.zeros((48, 48), dtype(t).numpy)
    scale = np.exp2(random.integers(-1, 2, (48, 2))).astype(np.float32)
    body = f"""
        S = alloc((48, 48), {t}, "shared")
        R = alloc((48, 48), {t}, "shared")
        F = alloc((48, 2), float32, "shared")
        copy(A[0:+48, 0:+48], S[0:+48, 0:+48])
        copy(B[0:+48, 0:+48], R[0:+48, 0:+48])
        copy(G[0:+48, 0:+2], F[0:+48, 0:+2])
        {operation}
        copy(S[0:+48, 0:+48], C[0:+48, 0:+48])
    """
    tensors = [f"{name}: tensor((48, 48), {t})" for name in "ABC"]
    check_block(", ".join([*tensors, "G: tensor((48, 2), float32)"]), body, a, b, c, scale)


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("t", ["float32", "bfloat16", "int32", "int8", "bool"])
def test_reductions(check_block, random, op, axis, t):
    if (op.startswith("bit") and dtype(t).is_float) or (t == "bool" and op not in ("any", "all", "bitand", "bitor", "bitxor")):
        pytest.skip("not defined")
    shape = (3, 17, 12)
    kept = [extent for d, extent in enumerate(shape) if d != axis]
    a = small(random, shape, t)
    region = ", ".join(f"0:+{extent}" for extent in kept)
    body = f"""
        S = alloc({shape}, {t}, "shared")
        T = alloc(({kept[0]}, {kept[1]}), {t}, "fragment")
        copy(A[0:+3, 0:+17, 0:+12], S[0:+3, 0:+17, 0:+12])
        fill(T[{region}], cast(1, {t}))
        reduce("{op}", S[0:+3, 0:+17, 0:+12], T[{region}], axis={axis}, clear={op == "max"})
        copy(T[{region}], B[{region}])
        reduce("{op}", A[0:+n, 0:+17, 0:+12], C[0:+17, 0:+12], axis=0)
    """
    parameters = f"A: tensor({shape}, {t}), B: tensor(({kept[0]}, {kept[1]}), {t}), C: tensor((17, 12), {t}), n: scalar(int32)"
    check_block(parameters, body, a, np.zeros(kept, a.dtype), np.zeros((17, 12), a.dtype), 2)


@pytest.mark.parametrize("extents", ["0:+1, 0:+6", "0:+6, 0:+1"])
@pytest.mark.parametrize("clear", [True, False])
def test_where_a_reduction_puts_its_results(check_block, random, extents, clear):
    shape = "(1, 6)" if extents.startswith("0:+1") else "(6, 1)"
    body = f"""
        T = alloc({shape}, float32, "local")
        fill(T[{extents}], 3.0)
        reduce("sum", A[0:+6, 0:+4], T[{extents}], axis=1, clear={clear})
        copy(T[{extents}], B[0:+6])
        reduce("sum", A[0:+n, 0:+4], T[{extents}], axis=1, clear={clear})
        copy(T[{extents}], C[0:+6])
    """
    a = random.integers(-4, 5, (6, 4)).astype(np.float32)
    parameters = "A: tensor((6, 4), float32), B: tensor((6,), float32), C: tensor((6,), float32), n: scalar(int32)"
    check_block(parameters, body, a, np.zeros(6, np.float32), np.zeros(6, np.float32), 6)


def test_reductions_of_nan(check_block):
    a = np.array([[1, np.nan, -3, 2], [np.nan] * 4, [5, 6, 7, 8]], np.float32)
    body = """
        reduce("max", A[0:+3, 0:+4], B[0:+3], axis=1)
        reduce("min", A[0:+3, 0:+4], C[0:+3], axis=1, nan_propagate=True)
        reduce("max", A[0:+n, 0:+4], D[0:+4], axis=0)
    """
    results = ", ".join(f"{name}: tensor(({count},), float32)" for name, count in (("B", 3), ("C", 3), ("D", 4)))
    parameters = f"A: tensor((3, 4), float32), {results}, n: scalar(int32)"
    check_block(parameters, body, a, *(np.zeros(n, np.float32) for n in (3, 3, 4)), 3)


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [True, False])
@pytest.mark.parametrize("t", ["float32", "float16", "int16"])
def test_scans(check_block, random, op, axis, reverse, t):
    a = small(random, (9, 21), t)
    body = f"""
        S = alloc((9, 21), {t}, "shared")
        copy(A[0:+9, 0:+21], S[0:+9, 0:+21])
        scan("{op}", S[0:+9, 0:+21], S[0:+9, 0:+21], axis={axis}, reverse={reverse})
        copy(S[0:+9, 0:+21], B[0:+9, 0:+21])
        scan("{op}", A[0:+n, 0:+21], C[0:+n, 0:+21], axis={axis}, reverse={reverse})
    """
    parameters = f"A: tensor((9, 21), {t}), B: tensor((9, 21), {t}), C: tensor((9, 21), {t}), n: scalar(int32)"
    check_block(parameters, body, a, np.zeros_like(a), np.zeros_like(a), 4)


@pytest.mark.parametrize("t,u", [("float32", "float32"), ("int8", "float16"), ("uint4", "int32")])
def test_transpositions(check_block, random, t, u):
    a = small(random, (18, 30), t)
    body = "transpose(A[1:+17, 0:+30], B[0:+30, 2:+17])"
    check_block(f"A: tensor((18, 30), {t}), B: tensor((30, 20), {u})", body, a, np.zeros((30, 20), dtype(u).numpy))


@pytest.mark.parametrize("op", ["add", "max", "min"])
@pytest.mark.parametrize("t", ["float32", "float16", "int32"])
def test_atomic_tiles_of_many_blocks(check_block, random, op, t):
    a = small(random, (40, 33), "float32")
    body = f'atomic_tile("{op}", A[bx, 0:+33], B[bx % 2, 0:+33])'
    parameters = f"A: tensor((40, 33), float32), B: tensor((2, 33), {t})"
    check_block(parameters, body, a, np.zeros((2, 33), dtype(t).numpy), launch="launch(40) as (bx,)")


def test_extents_that_differ_when_the_program_runs(tools):
    kernel = tools["block_kernel"]("A: tensor((8,), float32), B: tensor((8, 8), float32), n: scalar(int32)", "copy(A[0:+n], B[0:+1, 0:+6])")
    compiled = tools["compile_for"](kernel)
    a, b = np.ones(8, np.float32), np.zeros((8, 8), np.float32)
    tools["run_on"](compiled, kernel, [a, b, 6])
    assert b[0].tolist() == [1.0] * 6 + [0.0] * 2
    with pytest.raises(LaunchError) as caught:
        tools["run_on"](compiled, kernel, [a, b, 5])
    assert caught.value.code == "E640" and "5 and 1 x 6" in str(caught.value) and caught.value.span.line == 6


def test_views_of_tiles_share_their_memory(check_block, random):
    body = """
        S = alloc((12,), float32, "shared")
        V = view(S, (3, 4), float32)
        W = view(S, (24,), uint16)
        N = view(S, (96,), uint4)
        copy(A[0:+12], S[0:+12])
        for i, j in parallel(3, 4):
            V[i, j] = V[i, j] * 2.0
        for i in parallel(24):
            C[i] = W[i]
        N[3] = cast(9, uint4)
        copy(S[0:+12], B[0:+12])
    """
    a = random.standard_normal(12).astype(np.float32)
    parameters = "A: tensor((12,), float32), B: tensor((12,), float32), C: tensor((24,), uint16)"
    check_block(parameters, body, a, np.zeros(12, np.float32), np.zeros(24, np.uint16))


@pytest.mark.parametrize("machine", ["avx2", "sse"])
def test_an_attention_block_on_machines_with_less(check_block, tools, random, machine):
    body = """
        Q = alloc((16, 32), float16, "shared")
        S = alloc((16, 24), float32, "fragment")
        M = alloc((16,), float32, "fragment")
        O = alloc((16, 32), float32, "fragment")
        copy(A[bx * 16:+16, 0:+32], Q[0:+16, 0:+32])
        gemm(Q[0:+16, 0:+32], B[0:+24, 0:+32], S[0:+16, 0:+24], transpose_b=True, clear=True)
        reduce("max", S[0:+16, 0:+24], M[0:+16], axis=1)
        for i, j in parallel(16, 24):
            S[i, j] = exp2(S[i, j] - M[i]) if j <= bx * 16 + i else 0.0
        gemm(S[0:+16, 0:+24], B[0:+24, 0:+32], O[0:+16, 0:+32], clear=True)
        copy(O[0:+16, 0:+32], C[bx * 16:+16, 0:+32])
    """
    a, b = random.standard_normal((40, 32)).astype(np.float16), random.standard_normal((24, 32)).astype(np.float16)
    parameters = "A: tensor((40, 32), float16), B: tensor((24, 32), float16), C: tensor((40, 32), float16)"
    settings = {"launch": "launch(3) as (bx,)", "rtol": 2e-3, "host": tools["reduced_host"](machine)}
    check_block(parameters, body, a, b, np.zeros((40, 32), np.float16), **settings)
