"""Expressions on the CPU, in vectors and one point at a time, against the interpreter: every dtype, NaN, division, masks, tails."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import zellige as zl
import zellige.language as T
from zellige.dtypes import DType, all_dtypes, dtype
from zellige.ir.expr import Binary, Load, const
from zellige.ir.stmt import Store
from zellige.ir.traverse import rebuilt, rewrite

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "int4", "uint4"]
FLOATS = ["float16", "bfloat16", "float32", "float64", "tfloat32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float6_e2m3fn"]
EXTENTS = [2, 6, 16, 34, 64, 70, 130]


def values(random: np.random.Generator, name: str, count: int) -> np.ndarray:
    """Elements of a type: all its extremes among small numbers."""
    t = dtype(name)
    if t.is_bool:
        return random.integers(0, 2, count).astype(bool)
    if t.bits == 4:
        return random.integers(0, 256, count // 2).astype(np.uint8)
    if t.is_integer:
        info = np.iinfo(t.numpy)
        wide = random.integers(info.min, info.max, count, endpoint=True, dtype=t.numpy)
        return np.where(random.random(count) < 0.6, random.integers(0, 8, count).astype(t.numpy), wide)
    if t.bits <= 8:
        return random.integers(0, 1 << t.bits, count).astype(np.uint8).view(t.numpy)
    special = random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 65504.0, 1e30], count)
    with np.errstate(all="ignore"):
        found = np.where(random.random(count) < 0.2, special, random.integers(-8, 8, count) * 0.5).astype(t.numpy)
    return (found.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) if name == "tfloat32" else found


# ---- random expressions --------------------------------------------------------------------------------------------------------------


@st.composite
def expressions(draw: st.DrawFn, name: str, depth: int, leaves: dict[str, list[str]]) -> str:
    """The text of an expression of a dtype over elements and constants."""

    def inner(of: str) -> str:
        return draw(expressions(of, depth - 1, leaves))

    if depth == 0 or draw(st.integers(0, 6)) == 0:
        if name in leaves and draw(st.booleans()):
            return draw(st.sampled_from(leaves[name]))
        if name == "bool":
            return draw(st.sampled_from(["True", "False"]))
        number = draw(st.integers(0, 7)) if name in INTEGERS else draw(st.sampled_from([0.5, 1.0, 2.0, -1.5, 0.0]))
        return f"cast({number}, {name})"
    kind = draw(st.sampled_from(["operator", "operator", "cast", "select"]))
    if name == "bool":
        if kind == "select":
            return f"({inner('bool')} {draw(st.sampled_from(['and', 'or']))} not {inner('bool')})"
        of = draw(st.sampled_from(INTEGERS + FLOATS))
        return f"({inner(of)} {draw(st.sampled_from(['<', '<=', '>', '>=', '==', '!=']))} {inner(of)})"
    if kind == "select":
        return f"({inner(name)} if {inner('bool')} else {inner(name)})"
    if kind == "cast":
        other = draw(st.sampled_from([t for t in [*INTEGERS, *FLOATS, "bool"] if t != name]))
        return f"cast({inner(other)}, {name})"
    if name in INTEGERS:
        op = draw(st.sampled_from("+ - * // % & | ^ << >> min max truncdiv truncmod abs".split()))
    else:
        op = draw(st.sampled_from("+ - * / min max min_nan max_nan abs floor // % truncmod".split()))
    if op in ("abs", "floor"):
        return f"{op}({inner(name)})"
    return f"{op}({inner(name)}, {inner(name)})" if op.isalpha() or "_" in op else f"({inner(name)} {op} {inner(name)})"


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, str, list[str], int]:
    """Parameters, body, the dtypes of the parameters, and how many elements each has."""
    count = draw(st.sampled_from(EXTENTS))
    names = draw(st.lists(st.sampled_from([*INTEGERS, *FLOATS, "bool"]), min_size=1, max_size=3))
    result = draw(st.sampled_from([*INTEGERS, *FLOATS, "bool"]))
    leaves: dict[str, list[str]] = {"int32": ["i"]}
    for place, name in enumerate(names):
        index = draw(st.sampled_from(["i", "i + 1", "i - 1", f"{count - 1} - i", f"(i * 3) % {count}", "i // 2"]))
        leaves.setdefault(name, []).append(f"A{place}[{index}]")
    body = f"B[i] = {draw(expressions(result, 3, leaves))}"
    if draw(st.booleans()):
        body = f"if {draw(expressions('bool', 2, leaves))}:\n        {body}"
    tensors = [*(f"A{place}: tensor(({count},), {name})" for place, name in enumerate(names)), f"B: tensor(({count},), {result})"]
    parameters = ", ".join(tensors)
    return parameters, f"for i in parallel({count}):\n    {body}", [*names, result], count


@given(program=programs(), seed=st.integers(0, 1000))
@settings(max_examples=60)
def test_random_expressions(check_block, program, seed):
    parameters, body, names, count = program
    random = np.random.default_rng(seed)
    arguments = [values(random, name, count) for name in names]
    if names[-1] in ("uint4", "int4"):
        arguments[-1][:] = 0
    check_block(parameters, body, *arguments)


@pytest.mark.parametrize("machine", ["avx2", "sse"])
@given(program=programs(), seed=st.integers(0, 1000))
@settings(max_examples=12)
def test_random_expressions_on_machines_with_less(check_block, tools, machine, program, seed):
    parameters, body, names, count = program
    random = np.random.default_rng(seed)
    check_block(parameters, body, *[values(random, name, count) for name in names], host=tools["reduced_host"](machine))


# ---- divisions -----------------------------------------------------------------------------------------------------------------------

DIVISIONS = {"floordiv": "({} // {})", "floormod": "({} % {})", "truncdiv": "truncdiv({}, {})", "truncmod": "truncmod({}, {})"}


def divided(op: str, a: int, b: int, t: DType) -> int:
    """The quotient or remainder in Python's integers; 0 where the divisor is 0 or the type has no such quotient."""
    if b == 0 or (op in ("floordiv", "truncdiv") and b == -1 and a == t.min):
        return 0
    quotient = a // b if op.startswith("floor") else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient if op.endswith("div") else a - quotient * b


def pairs_of(t: DType) -> list[tuple[int, int]]:
    """Dividends and divisors of both signs, with and without a rest, zeros and the ends of the type."""
    low, high = int(t.min), int(t.max)
    numbers = sorted({n for n in (low, low + 1, -13, -8, -7, -6, -1, 0, 1, 6, 7, 8, 13, high - 1, high) if low <= n <= high})
    return [(a, b) for a in numbers for b in numbers]


@pytest.mark.parametrize("head", ["parallel", "serial"])
@pytest.mark.parametrize("name", [name for name in INTEGERS if dtype(name).bits >= 8])
def test_divisions_are_those_of_python(tools, name: str, head: str) -> None:
    """By elements and by constants, in vectors and one at a time."""
    t = dtype(name)
    pairs = pairs_of(t)
    constants = [c for c in (-8, -7, -1, 0, 1, 2, 3, 7, 8, 16, 100) if t.min <= c <= t.max] + sorted({int(t.min), int(t.max)} - {0})
    right = ["V[i]", *(f"{name}({c})" for c in constants)]
    rows = [(op, r) for op in DIVISIONS for r in range(len(right))]
    stores = "\n    ".join(f"B[{row}, i] = {DIVISIONS[op].format('U[i]', right[r])}" for row, (op, r) in enumerate(rows))
    count = len(pairs)
    parameters = f"U: tensor(({count},), {name}), V: tensor(({count},), {name}), B: tensor(({len(rows)}, {count}), {name})"
    kernel = tools["block_kernel"](parameters, f"for i in {head}({count}):\n    {stores}")
    u, v = (np.array(side, t.numpy) for side in zip(*pairs))
    b = np.zeros((len(rows), count), t.numpy)
    b = tools["agree"](kernel, u, v, b)[2]
    for row, (op, r) in enumerate(rows):
        divisors = [y for _, y in pairs] if r == 0 else [constants[r - 1]] * count
        assert b[row].tolist() == [divided(op, x, y, t) for (x, _), y in zip(pairs, divisors)], (op, right[r])


@pytest.mark.parametrize("op", DIVISIONS)
@pytest.mark.parametrize("divisor", ["n", "3", "-3", "4", "-4"])
def test_divisions_in_an_index_are_those_of_python(tools, op: str, divisor: str) -> None:
    place = DIVISIONS[op].format("(i - 20)", divisor)
    body = f"for i in parallel(40):\n    B[i] = A[{place} + 20]\nfor i in serial(40):\n    C[i] = A[{place} + 20]"
    tensors = ", ".join(f"{name}: tensor((40,), int32)" for name in "ABC")
    kernel = tools["block_kernel"](f"n: scalar(int32), {tensors}", body)
    a = np.arange(100, 140, dtype=np.int32)
    for n in (5, -5, 1, -1, 0) if divisor == "n" else (0,):
        by = n if divisor == "n" else int(divisor)
        *_, b, c = tools["agree"](kernel, n, a, np.zeros(40, np.int32), np.zeros(40, np.int32))
        indices = [divided(op, i - 20, by, dtype("int32")) + 20 for i in range(40)]
        assert b.tolist() == c.tolist() == [100 + x if 0 <= x < 40 else 0 for x in indices]


# ---- what has a rule of its own ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 17, 33, 64, 65, 100, 129])
@pytest.mark.parametrize("t", [t.name for t in all_dtypes()])
def test_copies_of_every_type_and_length(check_block, random, t, count):
    length = count + count % 2  # a packed dimension is even
    a, b = values(random, t, length), values(random, t, length)
    check_block(f"A: tensor(({length},), {t}), B: tensor(({length},), {t})", f"for i in parallel({count}):\n    B[i] = A[i]", a, b)


def test_guarded_loads_touch_nothing(check_block, random):
    a = random.standard_normal(100).astype(np.float32)
    body = """
        for i in parallel(128):
            B[i] = A[i - 3] if i >= 3 and i < n else -1.0
            C[i] = 1.0 if i < 3 or A[i - 3] > 0.0 else 0.0
    """
    arguments = "A: tensor((100,), float32), n: scalar(int32), B: tensor((128,), float32), C: tensor((128,), float32)"
    for n in (0, 1, 50, 103, 500):
        check_block(arguments, body, a, n, np.zeros(128, np.float32), np.zeros(128, np.float32))


def test_an_index_that_is_one_place_for_all_lanes_but_outside_for_some(check_block):
    a, b = np.arange(1, 21, dtype=np.int64).reshape(20, 1, 1), np.zeros((12, 17), np.int64)
    body = "for i, j in parallel(12, 17):\n    B[i, j] = A[j % 20, 0 - j, (i * 7) % 1]"
    check_block("A: tensor((20, 1, 1), int64), B: tensor((12, 17), int64)", body, a, b)


def test_an_index_cast_from_a_wider_or_unsigned_type_may_be_negative(check_block):
    u = np.array([3, 0, (1 << 32) - 1, 1 << 31, 7, 8], np.uint32)
    w = np.array([-1, 5, 1 << 40, (1 << 32) + 2, -(1 << 63), 0], np.int64)
    body = """
        S = alloc((8,), float32, "shared")
        for i in parallel(8):
            S[i] = cast(i, float32) + 1.0
        for i in parallel(6):
            B[i] = S[cast(U[i], int32)]
            C[i] = S[cast(W[i], int32)]
    """
    parameters = "U: tensor((6,), uint32), W: tensor((6,), int64), B: tensor((6,), float32), C: tensor((6,), float32)"
    check_block(parameters, body, u, w, np.zeros(6, np.float32), np.zeros(6, np.float32))


def test_a_quotient_by_a_guarded_divisor_is_not_taken_before_the_guard(check_block):
    body = """
        for r in serial(3):
            if r >= 1:
                B[r] = 7 // r + A[bx // r]
    """
    check_block("A: tensor((16,), int32), B: tensor((3,), int32)", body, np.arange(16, dtype=np.int32), np.zeros(3, np.int32))


def test_elements_at_indices_that_are_elements(check_block):
    index = "i"
    for _ in range(150):
        index = f"A[{index}]"
    a = np.random.default_rng(1).permutation(16).astype(np.int32)
    body = f"for i in parallel(16):\n    B[i] = {index}"
    check_block("A: tensor((16,), int32), B: tensor((16,), int32)", body, a, np.zeros(16, np.int32))


def test_a_sum_of_five_thousand_terms(tools):
    kernel = tools["block_kernel"]("A: tensor((16,), int32), B: tensor((4,), int32)", "for i in parallel(4):\n    B[i] = A[i]")

    def long_sum(node):
        if not isinstance(node, Store):
            return node
        total = node.value
        for n in range(5000):
            index = Binary(op="bitand", left=Binary(op="add", left=node.value.indices[0], right=const(n)), right=const(15))
            total = Binary(op="add", left=total, right=Load(buffer=node.value.buffer, indices=(index,)))
        return rebuilt(node, value=total)

    tools["agree"](rewrite(kernel, long_sum), np.arange(16, dtype=np.int32), np.zeros(4, np.int32))


def test_sixty_self_doublings(check_block):
    steps = "\n    ".join(f"x{n + 1}: int32 = x{n} + x{n}" for n in range(60))
    body = f"for i in parallel(8):\n    x0: int32 = A[i]\n    {steps}\n    B[i] = x60 + x59"
    check_block("A: tensor((8,), int32), B: tensor((8,), int32)", body, np.arange(8, dtype=np.int32), np.zeros(8, np.int32))


def test_fast_arithmetic_keeps_nan_and_infinity(tools, random):
    from zellige.options import CompileOptions

    body = "for i in parallel(64):\n    B[i] = A[i] * 0.5 + A[i] / 3.0\n    C[i] = A[i] != A[i]"
    kernel = tools["block_kernel"]("A: tensor((64,), float32), B: tensor((64,), float32), C: tensor((64,), bool)", body)
    a = random.standard_normal(64).astype(np.float32)
    a[3], a[9] = np.nan, np.inf
    tools["agree"](kernel, a, np.zeros(64, np.float32), np.zeros(64, bool), rtol=1e-6, options=CompileOptions(fast_math=True))


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_the_rest_of_a_division_by_what_is_no_number(name: str) -> None:
    """LLVM takes it for a number where it sees that the divisor is a constant and the dividend finite."""

    @zl.jit(target="cpu")
    def make():
        @T.prim_func
        def rest(A: T.Tensor((2,), "int8"), B: T.Tensor((4,), name)):
            with T.Kernel(1) as bx:
                zero = T.cast(bx, name)
                B[0] = T.fmod(T.cast(A[0], name), zero / zero)
                B[1] = T.fmod(T.cast(A[1], name), zero / zero)
                B[2] = T.fmod(T.cast(A[1], name), zero)
                B[3] = T.fmod(T.cast(A[1], name), zero + 2)

        return rest

    b = np.zeros(4, name)
    make()(np.array([0, 3], np.int8), b)
    np.testing.assert_array_equal(b, [np.nan, np.nan, np.nan, 1])
