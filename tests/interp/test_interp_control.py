"""Control flow, Maps, private storage, atomics, launches and views against plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from zellige.diagnostics import LaunchError
from zellige.dtypes import dtype
from zellige.interp import Report, interpret

# ---- loops ---------------------------------------------------------------------------------------------------------------------------

RANGES = [(0, 5, 1), (2, 11, 3), (7, 0, -2), (0, 0, 1), (5, 2, 1), (-3, 4, 2), (3, 9, 0)]


@pytest.mark.parametrize(("start", "stop", "step"), RANGES)
@pytest.mark.parametrize("word", ["serial", "unrolled", "vectorised", "pipelined", "persistent"])
def test_for_is_range(word, start, stop, step, run_block):
    body = f"""
        n: mutable(int32) = 0
        for i in {word}(start, stop, step):
            A[n] = i
            n = n + 1
        A[15] = n
    """
    a = np.full(16, -99, np.int32)
    run_block("A: tensor((16,), int32), start: scalar(int32), stop: scalar(int32), step: scalar(int32)", body, a, start, stop, step)
    expected = list(range(start, stop, step)) if step else []
    assert a[: len(expected)].tolist() == expected and a[15] == len(expected) and (a[len(expected) : 15] == -99).all()


def test_while_break_continue_return(run_block):
    body = """
        n: mutable(int32) = 0
        while n < 100:
            n = n + 1
            if n % 3 == 0:
                continue
            if n > 10:
                break
            A[n] = n
        for i in serial(20):
            if i == 15:
                return
            A[20 + i] = n
        A[63] = 1
    """
    a = np.zeros(64, np.int32)
    run_block("A: tensor((64,), int32)", body, a)
    expected = [0] * 64
    for n in range(1, 11):
        if n % 3:
            expected[n] = n
    expected[20:35] = [11] * 15
    assert a.tolist() == expected


def test_a_chain_of_three_hundred_elif(run_block):
    lines = ["if x == 0:", "    A[0] = 1000"]
    for i in range(1, 300):
        lines += [f"elif x == {i}:", f"    A[0] = {1000 + i}"]
    lines += ["else:", "    A[0] = -1"]
    for x, expected in ((0, 1000), (7, 1007), (299, 1299), (300, -1)):
        a = np.zeros(1, np.int32)
        run_block("A: tensor((1,), int32), x: scalar(int32)", "\n".join(lines), a, x)
        assert a[0] == expected


def test_sixty_nested_bodies(run_block):
    depth = 60
    lines = ["n: mutable(int32) = 0"]
    for level in range(depth):
        lines.append("    " * level + (f"for i{level} in serial({2 if level < 6 else 1}):" if level % 2 == 0 else f"if i{level - 1} < 2:"))
    lines.append("    " * depth + "n = n + 1")
    lines.append("A[0] = n")
    a = np.zeros(1, np.int32)
    run_block("A: tensor((1,), int32)", "\n".join(lines), a)
    assert a[0] == 8


# ---- Maps ----------------------------------------------------------------------------------------------------------------------------

POINT = """
    v: mutable(int32) = 0
    L = alloc((3,), int32, "local")
    for r in serial(3):
        L[r] = i + r
    for r in serial(i % 4, 2 * i - 3, i % 3 - 1):
        if r == 5:
            continue
        if r > 8:
            break
        v = v + r * L[r % 3]
    while v > 20:
        v = v - (i + 3)
        if v % 7 == 2:
            break
    if i % 2 == 0 and v > 0:
        w: int32 = v * 2
        v = w + 1
    elif i > 9:
        v = -v
    B[i] = v
"""


def python_point(i: int) -> int:
    v, local, step = 0, [i, i + 1, i + 2], i % 3 - 1
    for r in range(i % 4, 2 * i - 3, step) if step else ():
        if r == 5:
            continue
        if r > 8:
            break
        v += r * local[r % 3]
    while v > 20:
        v -= i + 3
        if v % 7 == 2:
            break
    if i % 2 == 0 and v > 0:
        v = v * 2 + 1
    elif i > 9:
        v = -v
    return v


@pytest.mark.parametrize("loop", ["parallel", "serial"])
def test_divergent_control_flow_in_a_map(loop, run_block):
    b = np.zeros(24, np.int32)
    run_block("B: tensor((24,), int32)", f"for i in {loop}(24):" + POINT.replace("\n", "\n    "), b)
    assert b.tolist() == [python_point(i) for i in range(24)]


def test_loops_of_narrow_variables_and_extreme_bounds(run_block):
    b = np.zeros(4, np.int64)
    body = """
        for i in parallel(4):
            n: mutable(int64) = int64(0)
            first: int64 = int64(-9223372036854775808) if i == 1 else int64(3)
            if i != 1:
                for r in serial(first, int64(9223372036854775807), int64(4611686018427387904)):
                    n = n + int64(1)
            else:
                for q in serial(cast(i, int8), int8(127), int8(i + 60)):
                    n = n + cast(q, int64)
            B[i] = n
    """.replace("int8(i + 60)", "cast(i + 60, int8)")
    run_block("B: tensor((4,), int64)", body, b)
    loops = len(range(3, 2**63 - 1, 2**62))
    assert b.tolist() == [loops, sum(range(1, 127, 61)), loops, loops]


def test_map_over_several_axes_in_row_major_points(run_block):
    b = np.zeros((3, 4, 5), np.int32)
    run_block("B: tensor((3, 4, 5), int32)", "for i, j, k in parallel(3, 4, 5):\n    B[i, j, k] = i * 100 + j * 10 + k", b)
    assert b.tolist() == [[[i * 100 + j * 10 + k for k in range(5)] for j in range(4)] for i in range(3)]


@pytest.mark.parametrize("extents", [(0,), (3, 0), (0, 4)])
def test_map_without_points(extents, run_block):
    b = np.zeros(4, np.int32)
    axes = "ij"[: len(extents)]
    run_block("B: tensor((4,), int32)", f"for {', '.join(axes)} in parallel({', '.join(map(str, extents))}):\n    B[i] = 1", b)
    assert not b.any()


def test_large_maps_run_in_chunks(run_block, monkeypatch):
    monkeypatch.setattr("zellige.interp.statements.MAXIMUM_POINTS", 7)
    b, c = np.zeros((5, 11), np.int32), np.zeros(11, np.int32)
    body = """
        L = alloc((11,), int32, "local")
        x: mutable(int32) = 0
        for i, j in parallel(5, 11):
            B[i, j] = i * 11 + j
        for j in parallel(11):
            L[j] = j + 1
            if j == 9:
                x = 4 * j
        for j in parallel(11):
            C[j] = L[10 - j] + x
    """
    run_block("B: tensor((5, 11), int32), C: tensor((11,), int32)", body, b, c)
    assert b.ravel().tolist() == list(range(55))
    assert c.tolist() == [11 - j + 36 for j in range(11)]


def test_nested_maps(run_block):
    b = np.zeros((4, 6), np.int32)
    body = """
        for i in parallel(4):
            s: int32 = i * i
            for j in parallel(i + 1):
                B[i, j] = s + j
    """
    run_block("B: tensor((4, 6), int32)", body, b)
    assert b.tolist() == [[i * i + j if j <= i else 0 for j in range(6)] for i in range(4)]


def test_outer_scratch_is_private_to_a_point(run_block, random):
    a, b = random.integers(-9, 9, (40, 2)).astype(np.int32), np.zeros(40, np.int32)
    body = """
        scratch = alloc((2,), int32, "local")
        v: mutable(int32) = 5
        scratch[0] = 100
        scratch[1] = 7
        for i in parallel(40):
            scratch[0] = A[i, 0] + scratch[1]
            if A[i, 1] > 0:
                v = A[i, 1]
            B[i] = scratch[0] * v
    """
    run_block("A: tensor((40, 2), int32), B: tensor((40,), int32)", body, a, b)
    assert b.tolist() == [(int(x) + 7) * (int(y) if y > 0 else 5) for x, y in a]


def test_elements_that_one_point_wrote_stay(run_block):
    b = np.zeros(8, np.int32)
    body = """
        L = alloc((8,), int32, "local")
        for i in serial(8):
            L[i] = -1
        for i in parallel(4):
            L[2 * i] = i * 10
        for i in parallel(8):
            B[i] = L[i]
    """
    run_block("B: tensor((8,), int32)", body, b)
    assert b.tolist() == [i // 2 * 10 if i % 2 == 0 else -1 for i in range(8)]


def test_tile_operations_of_a_single_point_stay(run_block):
    b = np.zeros(2, np.int32)
    body = """
        L = alloc((2,), int32, "local")
        fill(L[0:+2], 1)
        for i in parallel(1):
            fill(L[1:+1], 9)
        copy(L[0:+2], B[0:+2])
    """
    run_block("B: tensor((2,), int32)", body, b)
    assert b.tolist() == [1, 9]


def test_a_mutable_result_of_an_atomic(run_block):
    b, n = np.zeros(4, np.int32), np.zeros(1, np.int32)
    body = """
        for i in parallel(4):
            x: mutable(int32) = atomic("add", N[0], 2)
            x = x + 1
            B[i] = x
    """
    run_block("N: tensor((1,), int32), B: tensor((4,), int32)", body, n, b)
    assert b.tolist() == [1, 3, 5, 7] and n[0] == 8


def test_private_four_bit_elements_share_bytes(run_block):
    b = np.zeros(8, np.int32)
    body = """
        L = alloc((8,), int4, "local")
        for i in parallel(8):
            L[i] = cast(i - 4, int4)
        for i in parallel(8):
            B[i] = cast(L[7 - i], int32)
    """
    run_block("B: tensor((8,), int32)", body, b)
    assert b.tolist() == [3 - i for i in range(8)]


def test_tile_operations_on_a_points_own_buffer(run_block, random):
    a, b = random.integers(-9, 9, (6, 4)).astype(np.int32), np.zeros(6, np.int32)
    body = """
        for i in parallel(6):
            row = alloc((1, 4), int32, "local")
            total = alloc((1,), int32, "local")
            copy(A[i:+1, 0:+4], row[0:+1, 0:+4])
            reduce("sum", row[0:+1, 0:+4], total[0:+1], axis=1)
            B[i] = total[0]
    """
    run_block("A: tensor((6, 4), int32), B: tensor((6,), int32)", body, a, b)
    assert b.tolist() == [sum(row) for row in a.tolist()]


STATEMENTS = st.deferred(
    lambda: st.one_of(
        st.tuples(
            st.just("set"), st.integers(0, 2), st.sampled_from(["+", "-", "*", "//", "%", "^"]), st.integers(0, 2), st.integers(-4, 9)
        ),
        st.tuples(st.just("if"), st.integers(0, 2), st.integers(-5, 5), BODIES, BODIES),
        st.tuples(st.just("for"), st.integers(0, 4), BODIES),
        st.tuples(st.just("jump"), st.sampled_from(["break", "continue"]), st.integers(0, 2), st.integers(-5, 5)),
        st.tuples(st.just("store"), st.integers(0, 2)),
    )
)
BODIES = st.lists(STATEMENTS, min_size=1, max_size=4)


def as_text(statements, indent, in_loop, depth=0):
    lines = []
    for s in statements:
        if s[0] == "set":
            lines.append(f"v{s[1]} = (v{s[1]} {s[2]} (v{s[3]} + {s[4]})) % 50")
        elif s[0] == "if":
            lines += [f"if v{s[1]} > {s[2]}:", *as_text(s[3], 1, in_loop, depth + 1), "else:", *as_text(s[4], 1, in_loop, depth + 1)]
        elif s[0] == "for":
            lines += [f"for r{depth} in serial({s[1]} + i % 2):", f"    v0 = v0 + r{depth}", *as_text(s[2], 1, True, depth + 1)]
        elif s[0] == "jump" and in_loop:
            lines += [f"if v{s[2]} < {s[3]}:", f"    {s[1]}"]
        elif s[0] == "store":
            lines.append(f"B[i, {s[1]}] = v{s[1]} + B[i, {(s[1] + 1) % 3}]")
    return ["    " * indent + line for line in lines or ["v0 = v0"]]


@given(statements=BODIES)
@settings(max_examples=60)
def test_points_in_lock_step_do_what_each_does_alone(kernel_from, statements):
    found = []
    for loop in ("parallel", "serial"):
        lines = [f"for i in {loop}(7):", *(f"    v{n}: mutable(int32) = i - {2 * n}" for n in range(3)), *as_text(statements, 1, False)]
        b = np.zeros((7, 3), np.int32)
        interpret(kernel_from("B: tensor((7, 3), int32)", "\n".join(lines)), [b])
        found.append(b.tolist())
    assert found[0] == found[1]


# ---- atomics -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", ["int32", "uint8", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("op", ["add", "sub", "max", "min", "and", "or", "xor", "exchange"])
def test_atomics_act_one_after_the_other(op, t, run_block, random):
    if op in ("and", "or", "xor") and dtype(t).is_float:
        return
    a = random.integers(0, 9, 30).astype(dtype(t).numpy)
    place = random.integers(-1, 5, 30).astype(np.int32)
    b, old = np.full(4, 3).astype(dtype(t).numpy), np.zeros(30).astype(dtype(t).numpy)
    body = f"""
        for i in parallel(30):
            before: {t} = atomic("{op}", B[P[i]], A[i])
            OLD[i] = before
    """
    run_block(f"A: tensor((30,), {t}), P: tensor((30,), int32), B: tensor((4,), {t}), OLD: tensor((30,), {t})", body, a, place, b, old)
    cells = [3] * 4
    step = {
        "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "max": max, "min": min, "and": lambda x, y: x & y, "or": lambda x, y: x | y,
        "xor": lambda x, y: x ^ y, "exchange": lambda x, y: y,
    }[op]  # fmt: skip
    for i, at in enumerate(place.tolist()):
        value = a[i].item() if hasattr(a[i], "item") else float(a[i])
        if 0 <= at < 4:
            expected, cells[at] = cells[at], step(cells[at], value)
            cells[at] = cells[at] % 256 if t == "uint8" else cells[at]
        else:
            expected = 0
        assert float(old[i]) == expected
    assert [float(x) for x in b] == cells


def test_atomic_load_and_store(run_block):
    b, c = np.arange(4, dtype=np.int32), np.zeros(6, np.int32)
    body = """
        for i in parallel(6):
            x: int32 = atomic("load", B[i])
            C[i] = x + 1
        atomic("store", B[2], 50)
        atomic("store", B[9], 50)
    """
    run_block("B: tensor((4,), int32), C: tensor((6,), int32)", body, b, c)
    assert b.tolist() == [0, 1, 50, 3] and c.tolist() == [1, 2, 3, 4, 1, 1]


def test_atomics_on_vectors_act_on_each_element(run_block):
    a, b = np.arange(12, dtype=np.float32).reshape(6, 2), np.zeros((2, 2), np.float32)
    run_block("A: tensor((6,), float32x2), B: tensor((2,), float32x2)", 'for i in parallel(6):\n    atomic("add", B[i % 2], A[i])', a, b)
    assert b.tolist() == [[float(sum(a[i, k] for i in range(j, 6, 2))) for k in range(2)] for j in range(2)]


# ---- storage -------------------------------------------------------------------------------------------------------------------------


def test_element_access_outside_any_buffer(run_block):
    a, b = np.arange(1, 5, dtype=np.int32), np.full(4, 9, np.int32)
    body = """
        S = alloc((2, 3), int32, "shared")
        fill(S[0:+2, 0:+3], 8)
        for i in parallel(4):
            B[i] = A[i - 2] + S[i, 0] * 10
        B[4] = 77
        B[-1] = 77
        S[0, 3] = 1
        S[1, -1] = 1
        A[0] = S[1, 0] + S[0, 2]
    """
    run_block("A: tensor((4,), int32), B: tensor((4,), int32)", body, a, b)
    assert b.tolist() == [80, 80, 1, 2] and a[0] == 16


def test_fresh_storage_is_recognisable(run_block):
    results = {}
    for t in ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e8m0fnu", "int8", "int32", "uint64", "float6_e2m3fn"):
        out = np.zeros(3, np.float32).astype(dtype(t).numpy)
        run_block(f"B: tensor((3,), {t})", f'S = alloc((3,), {t}, "shared")\ncopy(S[0:+3], B[0:+3])', out)
        results[t] = out
    assert all(np.isnan(v.astype(np.float32)).all() for t, v in results.items() if t.startswith(("float32", "float16", "bfloat", "float8")))
    assert results["int8"].view(np.uint8).tolist() == [0xA5] * 3
    assert results["int32"].view(np.uint32).tolist() == [0xA5A5A5A5] * 3
    assert results["float6_e2m3fn"].view(np.uint8).tolist() == [0x25] * 3


def test_alloc_gives_fresh_storage_each_time(run_block):
    b = np.zeros(3, np.int32)
    body = """
        for r in serial(3):
            S = alloc((1,), int32, "shared")
            B[r] = S[0]
            S[0] = r
    """
    run_block("B: tensor((3,), int32)", body, b)
    assert b.view(np.uint32).tolist() == [0xA5A5A5A5] * 3


def test_views_share_the_storage(run_block):
    out, bits = np.zeros((3, 4), np.float32), np.zeros(12, np.uint32)
    body = """
        S = alloc((12,), float32, "shared")
        V = view(S, (3, 4), float32)
        W = view(V, (12,), uint32)
        for i in parallel(12):
            S[i] = cast(i, float32) - 2.5
        V[1, 1] = 9.0
        W[0] = uint32(1073741824)
        copy(V[0:+3, 0:+4], B[0:+3, 0:+4])
        for i in parallel(12):
            C[i] = W[i]
    """
    run_block("B: tensor((3, 4), float32), C: tensor((12,), uint32)", body, out, bits)
    expected = np.arange(12, dtype=np.float32) - np.float32(2.5)
    expected[5], expected[0] = 9.0, 2.0
    np.testing.assert_array_equal(out.ravel(), expected)
    np.testing.assert_array_equal(bits, expected.view(np.uint32))


def test_a_view_whose_shape_changes_from_iteration_to_iteration(run_block):
    b = np.zeros((3, 12), np.int32)
    body = """
        for r in serial(1, 4):
            V = view(S, (r, 12 // r), int32)
            for i, j in parallel(r, 12 // r):
                B[r - 1, j * r + i] = V[i, j]
    """
    run_block("S: tensor((12,), int32), B: tensor((3, 12), int32)", body, np.arange(12, dtype=np.int32), b)
    assert b.tolist() == [[n % r * (12 // r) + n // r for n in range(12)] for r in (1, 2, 3)]


def test_a_view_of_bytes_as_four_bit_elements(run_block):
    a, b = np.array([[0x21, 0xF8], [0x7A, 0x00]], np.uint8), np.zeros((2, 4), np.int32)
    body = """
        V = view(A, (2, 4), int4)
        for i, j in parallel(2, 4):
            B[i, j] = cast(V[i, j], int32)
        V[1, 3] = cast(-3, int4)
        V[0, 0] = cast(5, int4)
    """
    run_block("A: tensor((2, 2), uint8), B: tensor((2, 4), int32)", body, a, b)
    assert b.tolist() == [[1, 2, -8, -1], [-6, 7, 0, 0]]
    assert a.tolist() == [[0x25, 0xF8], [0x7A, 0xD0]]


def test_strided_parameters(run_text):
    text = """
        @sizes(m=int32, s=int32)
        def k(A: tensor((m, 3), float32, strides=(s, 1)), B: tensor((3, m), float32)):
            with launch(1) as (bx,):
                for i, j in parallel(m, 3):
                    B[j, i] = A[i, j]
                copy(B[0:+1, 0:+2], A[0:+2, 0:+1])
    """
    base = np.arange(40, dtype=np.float32).reshape(5, 8)
    before, b = base.copy(), np.zeros((3, 5), np.float32)
    run_text(text, base[:, :3], b)
    np.testing.assert_array_equal(b, before[:, :3].T)
    expected = before.copy()
    expected[0, 0], expected[1, 0] = before[0, 0], before[1, 0]
    np.testing.assert_array_equal(base, expected)


def test_arrays_that_are_not_dense_are_copied_in_and_out(run_block):
    base = np.zeros((4, 8), np.int32)
    run_block("B: tensor((8, 4), int32)", "for i, j in parallel(8, 4):\n    B[i, j] = i * 10 + j", base.T)
    assert base.tolist() == [[i * 10 + j for i in range(8)] for j in range(4)]


def test_tfloat32_memory_is_read_with_ten_bits(run_block):
    a, b = np.float32([1 + 2.0**-20, 1 + 3 * 2.0**-11]), np.zeros(2, np.float32)
    run_block("A: tensor((2,), tfloat32), B: tensor((2,), float32)", "for i in parallel(2):\n    B[i] = cast(A[i], float32)", a, b)
    assert b.tolist() == [1.0, 1 + 2.0**-9]


# ---- launches and parameters ---------------------------------------------------------------------------------------------------------


def test_symbolic_sizes_and_scalars(run_text, random):
    text = """
        @sizes(m=int32, n=int32)
        def k(A: tensor((m, n), float32), x: scalar(float32), flag: scalar(bool), B: tensor((m * n,), float32, role="output")) -> (B,):
            with launch((m + 3) // 4, n) as (by, bx):
                for i in parallel(4):
                    if by * 4 + i < m:
                        B[(by * 4 + i) * n + bx] = A[by * 4 + i, bx] * x if flag else -1.0
    """
    for m, n in ((1, 1), (6, 5), (9, 2), (0, 3)):
        a = random.standard_normal((m, n)).astype(np.float32)
        (b,) = run_text(text, a, 2.5, True)
        assert b.shape == (m * n,) and b.tolist() == [float(np.float32(v) * np.float32(2.5)) for v in a.ravel()]
    (b,) = run_text(text, np.ones((3, 2), np.float32), 2.5, False)
    assert b.tolist() == [-1.0] * 6


def test_launches_run_in_order_and_see_each_other(run_text):
    text = """
        def k(A: tensor((8,), int32), W: tensor((8,), int32, role="workspace"), B: tensor((8,), int32, role="output")) -> (B, A):
            with launch(8) as (bx,):
                W[bx] = A[bx] * 2
            with launch(8) as (bx,):
                B[bx] = W[7 - bx] + 1
                A[bx] = 0
    """
    a = np.arange(8, dtype=np.int32)
    b, same = run_text(text, a)
    assert b.tolist() == [(7 - i) * 2 + 1 for i in range(8)] and same is a and not a.any()


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_order_of_blocks(seed, run_text):
    text = """
        def k(N: tensor((1,), int32), B: tensor((4, 3), int32)):
            with launch(4, 3) as (bx, by):
                n: int32 = atomic("add", N[0], 1)
                B[bx, by] = n
    """
    b = np.zeros((4, 3), np.int32)
    run_text(text, np.zeros(1, np.int32), b, seed=seed)
    assert sorted(b.ravel().tolist()) == list(range(12))
    in_order = [[by * 4 + bx for by in range(3)] for bx in range(4)]
    assert (b.tolist() == in_order) == (seed is None)


def test_wrong_arguments_are_refused(run_block, run_text):
    with pytest.raises(ValueError, match="takes 1 or 1"):
        run_block("A: tensor((4,), int32)", "pass")
    with pytest.raises(ValueError, match="int32, got an array of float32"):
        run_block("A: tensor((4,), int32)", "pass", np.zeros(4, np.float32))
    with pytest.raises(ValueError, match="dimension 0 of A is 5, expected 4"):
        run_block("A: tensor((4,), int32)", "pass", np.zeros(5, np.int32))
    with pytest.raises(ValueError, match="1 dimensions, got an array of 2"):
        run_block("A: tensor((4,), int32)", "pass", np.zeros((2, 2), np.int32))
    with pytest.raises(ValueError, match="A is missing"):
        run_block("A: tensor((4,), int32)", "pass", None)
    with pytest.raises(ValueError, match="x is missing"):
        run_block("A: tensor((4,), int32), x: scalar(int32)", "pass", np.zeros(4, np.int32), None)


# ---- output and assertions -----------------------------------------------------------------------------------------------------------


def test_print(run_block, capsys):
    body = """
        print("hello")
        print("x", value=A[1])
        print("", value=A[0] > float16(1.0))
        print("tile", region=A[0:+3])
        for i in parallel(2):
            print("point", value=cast(i, int8))
    """
    run_block("A: tensor((3,), float16)", body, np.float16([0.1, 2.5, -1.0]))
    assert capsys.readouterr().out.splitlines() == ["hello", "x: 2.5", "False", "tile: [ 0.1,  2.5, -1. ]", "point: 0", "point: 1"]


def test_a_failed_assertion_stops_the_launch(run_block):
    b = np.zeros(8, np.int32)
    body = """
        for i in parallel(4):
            B[i] = 1
            assert i < 3, "too far"
            B[4 + i] = 1
    """
    with pytest.raises(LaunchError) as caught:
        run_block("B: tensor((8,), int32)", body, b)
    assert caught.value.code == "E620" and "too far" in str(caught.value) and caught.value.span.line == 8
    assert b.tolist() == [1] * 4 + [0] * 4
    run_block("B: tensor((8,), int32)", "for i in parallel(4):\n    if i > 1:\n        assert i > 1\nassume(B[0] > 5)", b)


def test_an_assertion_in_a_block_without_a_message(run_block):
    with pytest.raises(LaunchError, match="assertion failed\n"):
        run_block("B: tensor((8,), int32)", "assert B[0] == 1", np.zeros(8, np.int32))


def test_reports_do_not_change_the_result(run_block, random):
    a, results = random.standard_normal((9, 7)).astype(np.float32), []
    body = """
        S = alloc((4, 4), float32, "shared")
        F = alloc((4,), float32, "fragment")
        fill(F[0:+4], -3.0)
        for k in serial(3):
            copy(A[k * 3:+4, k * 2:+4], S[0:+4, 0:+4])
            for i, j in parallel(4, 4):
                S[i, j] = exp(S[i, j]) if S[i, j] < 0.5 else 0.25
            reduce("max", S[0:+4, 0:+4], F[0:+4], axis=1, clear=False)
        copy(F[0:+4], B[0:+4])
    """
    for report in (None, Report(), Report(races=False), Report(undefined=False, bounds=False)):
        b = np.zeros(4, np.float32)
        run_block("A: tensor((9, 7), float32), B: tensor((4,), float32)", body, a, b, report=report)
        results.append(b.tolist())
    assert all(r == results[0] for r in results) and all(math.isfinite(x) for x in results[0])


def test_bool_results(run_text):
    text = """
        def k(C: tensor((2, 2), bool, role="output")) -> (C,):
            with launch(1) as (bx,):
                for i, j in parallel(2, 2):
                    C[i, j] = i == j
    """
    (c,) = run_text(text)
    assert c.dtype == np.bool_ and c.tolist() == [[True, False], [False, True]]
