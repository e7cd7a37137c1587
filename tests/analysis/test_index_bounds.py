"""Forms of index expressions, and proofs about them: sound against brute force, and strong enough for what kernels write."""

from __future__ import annotations

import itertools
from math import prod

import pytest
from hypothesis import given, strategies as st

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import ZERO, Form, is_index_dtype
from zellige.dtypes import dtype
from zellige.ir.expr import INT32, INT64, Binary, Cast, Compare, Const, Expr, Unary, Var, const


def variable(name: str, kind: str = "loop") -> Var:
    return Var(name=name, dtype=INT32, kind=kind)  # type: ignore[arg-type]


def op(word: str, left: Expr | int, right: Expr | int) -> Binary:
    sides = [const(x) if isinstance(x, int) else x for x in (left, right)]
    return Binary(op=word, left=sides[0], right=sides[1])  # type: ignore[arg-type]


def ranged(scope: Scope, name: str, low: int, high: int) -> Var:
    var = variable(name)
    scope.add_variable(var, Form.of(low), Form.of(high))
    return var


def value(expr: Expr, at: dict[Var, int]) -> int:
    """Exact integer arithmetic."""
    match expr:
        case Const():
            return int(expr.value)
        case Var():
            return at[expr]
        case Cast() | Unary():
            inner = value(expr.value, at)
            return -inner if isinstance(expr, Unary) else inner
        case Binary():
            x, y = value(expr.left, at), value(expr.right, at)
            words = {
                "add": lambda: x + y, "sub": lambda: x - y, "mul": lambda: x * y, "min": lambda: min(x, y), "max": lambda: max(x, y),
                "floordiv": lambda: x // y, "floormod": lambda: x % y, "bitand": lambda: x & y,
            }  # fmt: skip
            return words[expr.op]()
    raise AssertionError(expr)


def form_value(form: Form, at: dict[Var, int]) -> int:
    return sum(coefficient * prod(value(atom, at) for atom in monomial) for monomial, coefficient in form.terms.items())


# ---- against brute force -------------------------------------------------------------------------------------------------------------


@st.composite
def index_expressions(draw: st.DrawFn, variables: list[Var], depth: int = 3) -> Expr:
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.one_of(st.sampled_from(variables), st.integers(-9, 9).map(const)))
    inner = index_expressions(variables, depth - 1)
    word = draw(st.sampled_from(["add", "sub", "mul", "min", "max", "floordiv", "floormod", "bitand", "neg"]))
    left = draw(inner)
    if word == "neg":
        return Unary(op="neg", value=left)
    if word in ("floordiv", "floormod"):
        return op(word, left, draw(st.integers(1, 8)))
    return op(word, left, draw(st.integers(0, 15)) if word == "bitand" else draw(inner))


@given(data=st.data())
def test_a_form_has_the_value_of_its_expression_and_proofs_hold(data):
    scope = Scope()
    ranges = [(0, data.draw(st.integers(0, 5))), (data.draw(st.integers(-3, 0)), 3), (2, 4)]
    variables = [ranged(scope, name, low, high) for name, (low, high) in zip("ijk", ranges)]
    expr = data.draw(index_expressions(variables))
    form = scope.form(expr)
    points = [dict(zip(variables, point)) for point in itertools.product(*(range(low, high + 1) for low, high in ranges))]
    found = [value(expr, at) for at in points]
    assert [form_value(form, at) for at in points] == found
    if scope.is_nonnegative(form):
        assert min(found) >= 0
    smallest = scope.minimum(form, frozenset(variables))
    if smallest is not None:
        assert form_value(smallest, {}) <= min(found)


@given(data=st.data())
def test_facts_are_used_soundly(data):
    scope = Scope()
    i, j = ranged(scope, "i", 0, 6), ranged(scope, "j", -2, 5)
    word = data.draw(st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]))
    condition = Compare(op=word, left=data.draw(index_expressions([i, j], 2)), right=data.draw(index_expressions([i, j], 2)))
    holds = data.draw(st.booleans())
    inner = scope.inner()
    inner.assume(condition, holds=holds)
    form = scope.form(data.draw(index_expressions([i, j], 2)))
    truth = {"lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__, "eq": int.__eq__, "ne": int.__ne__}[word]
    allowed = [
        at
        for point in itertools.product(range(7), range(-2, 6))
        if truth(value(condition.left, at := dict(zip((i, j), point))), value(condition.right, at)) == holds
    ]
    if inner.is_nonnegative(form):
        assert all(form_value(form, at) >= 0 for at in allowed)
    if scope.is_always_nonnegative(form):
        assert all(form_value(form, dict(zip((i, j), point))) >= 0 for point in itertools.product(range(7), range(-2, 6)))


# ---- what kernels write --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def tiled():
    """A grid over N in tiles of 128, with a symbolic N."""
    scope = Scope()
    size, block, inside = variable("N", "size"), variable("bx", "grid"), variable("i")
    scope.add_variable(size, ZERO, None)
    scope.add_variable(block, ZERO, scope.form(op("floordiv", op("add", size, 127), 128)) - 1)
    scope.add_variable(inside, ZERO, Form.of(127))
    return scope, size, op("add", op("mul", block, 128), inside)


def test_a_tile_reaches_beyond_a_symbolic_end_unless_guarded(tiled):
    scope, size, index = tiled
    assert scope.is_within(scope.form(index), scope.form(size)) == (True, False)
    guarded = scope.inner()
    guarded.assume(Compare(op="lt", left=index, right=size))
    assert guarded.is_within(scope.form(index), scope.form(size)) == (True, True)
    assert scope.is_within(scope.form(index), scope.form(size)) == (True, False)
    other = scope.inner()
    other.assume(Compare(op="ge", left=index, right=size), holds=False)
    assert other.is_within(scope.form(index), scope.form(size)) == (True, True)


def test_a_fact_under_a_mask_is_told_from_one_that_holds(tiled):
    scope, size, index = tiled
    masked = scope.inner(is_masked=True)
    masked.assume(Compare(op="lt", left=index, right=size))
    bound = scope.form(size) - scope.form(index) - 1
    assert masked.is_nonnegative(bound) and not masked.is_nonnegative(bound, unmasked_only=True)


@pytest.mark.parametrize("is_an_extent", [False, True])
def test_flat_indices_with_symbolic_sizes(is_an_extent):
    """A product of sizes may wrap, but not where a tensor has as many elements along a dimension: no launch takes one so large."""
    scope = Scope()
    rows, columns = variable("M", "size"), variable("K", "size")
    for size in (rows, columns):
        scope.add_parameter(size)
    if is_an_extent:
        scope.add_extent(op("mul", rows, columns))
    row, column = variable("r"), variable("c")
    scope.add_variable(row, ZERO, scope.form(rows) - 1)
    scope.add_variable(column, ZERO, scope.form(columns) - 1)
    flat = scope.form(op("add", op("mul", row, columns), column))
    assert scope.is_within(flat, scope.form(op("mul", rows, columns))) == (is_an_extent, is_an_extent)
    assert scope.is_within(flat + 1, scope.form(op("mul", rows, columns))) == (is_an_extent, False)


def test_quotient_and_remainder_of_a_flat_index_come_apart():
    scope = Scope()
    row, column = ranged(scope, "r", 0, 15), ranged(scope, "c", 0, 31)
    flat = op("add", op("mul", row, 32), column)
    assert scope.form(op("floordiv", flat, 32)) == Form.of(row)
    assert scope.form(op("floormod", flat, 32)) == Form.of(column)
    partial = scope.form(op("floordiv", flat, 8))
    assert scope.is_within(partial, Form.of(64)) == (True, True)
    assert scope.is_within(partial, Form.of(63)) == (True, False)


def test_a_quotient_does_not_lean_on_a_guard():
    scope = Scope()
    x = ranged(scope, "x", 0, 100)
    guarded = scope.inner()
    guarded.assume(Compare(op="lt", left=x, right=const(8)))
    assert guarded.is_nonnegative(Form.of(7) - Form.of(x))
    assert guarded.form(op("floordiv", x, 8)) != ZERO
    assert scope.form(op("floordiv", x, 8)) != ZERO


def test_minimum_and_maximum_are_opened(tiled):
    scope, size, index = tiled
    left = op("sub", size, op("mul", index.left.left, 128))
    shorter = op("min", left, 128)
    assert scope.is_nonnegative(Form.of(128) - scope.form(shorter))
    assert scope.is_nonnegative(scope.form(left) - scope.form(shorter))
    assert not scope.is_nonnegative(scope.form(shorter) - 1)
    assert scope.is_nonnegative(scope.form(op("max", left, 0)))


def test_only_signed_wide_arithmetic_is_exact():
    scope = Scope()
    narrow = Var(name="n", dtype=dtype("uint32"), kind="scalar")
    total = Binary(op="sub", left=narrow, right=Const(value=1, dtype=dtype("uint32")))
    assert not is_index_dtype(total.dtype) and scope.form(total) == Form.of(total)
    assert not scope.is_pure(total)
    widened = Cast(value=variable("i"), dtype=INT64)
    assert scope.form(widened) == scope.form(widened.value)


def test_mutable_variables_and_elements_give_no_facts():
    scope = Scope()
    changing, fixed = variable("m", "mutable"), variable("v", "value")
    scope.add_data_variable(fixed)
    scope.assume(Compare(op="ge", left=changing, right=const(5)))
    scope.assume(Compare(op="ge", left=fixed, right=const(5)))
    assert not scope.is_nonnegative(Form.of(changing) - 5)
    assert scope.is_nonnegative(Form.of(fixed) - 5)
    scope.assume(Compare(op="ge", left=op("add", fixed, 1), right=const(100)))  # wraps: says nothing about fixed
    assert not scope.is_nonnegative(Form.of(fixed) - 99)


@pytest.mark.parametrize(
    "source,target,low,high",
    [
        ("uint8", "int32", 0, 255), ("int8", "int32", -128, 127), ("bool", "int32", 0, 1), ("uint32", "int64", 0, (1 << 32) - 1),
        ("uint32", "int32", None, None), ("int64", "int32", None, None), ("uint64", "int64", None, None), ("float32", "int32", None, None),
    ],
)  # fmt: skip
def test_a_cast_keeps_the_range_of_its_operand_only_where_it_keeps_its_value(source, target, low, high):
    scope = Scope()
    operand = Var(name="x", dtype=dtype(source), kind="value")
    form = scope.form(Cast(value=operand, dtype=dtype(target)))
    assert scope.is_nonnegative(form) == (low is not None and low >= 0)
    for end in (1, 128, 255, (1 << 32) - 1):
        assert scope.is_nonnegative(Form.of(end) - form) == (high is not None and high <= end)
