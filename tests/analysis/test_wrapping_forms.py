"""Forms are values: what the analyses say of index arithmetic is what the language computes, whatever the variables are."""

from __future__ import annotations

from math import prod
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from zellige.analysis.bounds import FAR, Scope
from zellige.analysis.forms import ZERO, Form
from zellige.ir.arithmetic import wrap, wrapped
from zellige.ir.expr import INT32, INT64, Binary, Cast, Compare, Const, Expr, Unary, Var, const
from zellige.ir.sizes import ROOM, greatest_size

KINDS = ("size", "scalar", "grid", "loop", "loop", "value", "value")


def variables() -> list[Var]:
    wide = (Var(name="l", dtype=INT64, kind="scalar"), Var(name="j", dtype=INT64, kind="loop"))
    return [*(Var(name=f"v{place}", dtype=INT32, kind=kind) for place, kind in enumerate(KINDS)), *wide]  # type: ignore[arg-type]


def known(scope: Scope, found: list[Var]) -> dict[Var, tuple[int, int]]:
    """Tell the scope of the variables, and between which numbers each lies."""
    size, scalar, cell, small, large, data, part, wide, axis = found
    for var in (size, scalar, wide):
        scope.add_parameter(var)
    scope.add_variable(cell, ZERO, scope.form(Binary(op="floordiv", left=size, right=const(64))))
    scope.add_variable(small, ZERO, Form.of(7))
    scope.add_variable(large, ZERO, Form.of(1 << 20))
    scope.add_data_variable(data)
    assert not scope.define(part, Binary(op="floormod", left=data, right=const(9)))
    scope.add_data_variable(part)
    scope.add_variable(axis, ZERO, Form.of(63))
    whole, widest = (-(1 << 31), (1 << 31) - 1), (-(1 << 63), (1 << 63) - 1)
    return {
        size: (0, greatest_size(INT32)), scalar: whole, cell: (0, 0), small: (0, 7), large: (0, 1 << 20), data: whole, part: (0, 8),
        wide: widest, axis: (0, 63),
    }  # fmt: skip


@st.composite
def arithmetic(draw: st.DrawFn, found: list[Var], dtype: Any, depth: int) -> Expr:
    half = 1 << (dtype.bits - 1)
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        near = [half - 1, -half, half - 3, 1 << (dtype.bits - 4), -5]
        numbers = st.one_of(st.integers(-9, 70), st.sampled_from(near)).map(lambda value: Const(value=value, dtype=dtype))
        return draw(st.one_of(st.sampled_from([v for v in found if v.dtype == dtype]), numbers))
    word = draw(st.sampled_from(["add", "sub", "mul", "add", "mul", "min", "max", "floordiv", "floormod", "neg", "shl", "cast", "scaled"]))
    if word == "cast" and dtype == INT64:
        return Cast(value=draw(arithmetic(found, INT32, depth - 1)), dtype=INT64)
    left = draw(arithmetic(found, dtype, depth - 1))
    match word:
        case "neg":
            return Unary(op="neg", value=left)
        case "floordiv" | "floormod":
            right: Expr = Const(value=draw(st.sampled_from([1, 2, 3, 8, 64])), dtype=dtype)
        case "shl":
            right = Const(value=draw(st.integers(0, 7)), dtype=dtype)
        case "scaled" | "cast":
            return Binary(op="mul", left=left, right=Const(value=draw(st.sampled_from([8, 64, -2, 1 << 16])), dtype=dtype))
        case _:
            right = draw(arithmetic(found, dtype, depth - 1))
    return Binary(op=word, left=left, right=right)  # type: ignore[arg-type]


def value(expr: Expr, at: dict[Var, int]) -> int:
    """What the language computes."""
    match expr:
        case Const():
            return int(expr.value)
        case Var():
            return at[expr]
        case Cast():
            return wrap(value(expr.value, at), expr.dtype)
        case Unary():
            return wrap(-value(expr.value, at), expr.dtype)
        case Binary():
            return wrapped(expr.op, value(expr.left, at), value(expr.right, at), expr.dtype)
    raise AssertionError(expr)


def form_value(form: Form, at: dict[Var, int]) -> int:
    return sum(coefficient * prod(value(atom, at) for atom in monomial) for monomial, coefficient in form.terms.items())


def places(draw: Any, ends: dict[Var, tuple[int, int]]) -> dict[Var, int]:
    """A value of each variable that its range allows."""
    found = list(ends)
    size, _, cell, _, _, data, part, _, _ = found
    at = {}
    for var, (low, high) in ends.items():
        at[var] = draw(st.one_of(st.integers(low, high), st.sampled_from([low, high, max(low, min(high, 3)), (low + high) // 2])))
    at[cell] = draw(st.sampled_from([0, at[size] // 64, at[size] // 128]))
    at[part] = at[data] % 9
    return at


@settings(max_examples=25)
@given(data=st.data())
def test_a_form_is_what_the_language_computes(data: st.DataObject) -> None:
    found = variables()
    scope = Scope()
    ends = known(scope, found)
    dtype = data.draw(st.sampled_from([INT32, INT32, INT64]))
    expr = data.draw(arithmetic(found, dtype, 4))
    form, place, total = scope.form(expr), scope.place(expr), scope.sum(expr)
    interval = scope.interval(form)
    for _ in range(4):
        at = places(data.draw, ends)
        real = value(expr, at)
        assert form_value(form, at) == real
        assert interval.low is not None and interval.high is not None and interval.low <= real <= interval.high
        assert (form_value(total, at) - real) % (1 << dtype.bits) == 0
        number = form_value(place, at)
        last = (1 << 31) - ROOM if dtype == INT32 else FAR
        assert number == real or not (0 <= number < last or 0 <= real < last)
        assert abs(number) <= 2 * FAR
        assert not scope.is_nonnegative(form) or real >= 0


@settings(max_examples=15)
@given(data=st.data())
def test_what_follows_from_a_comparison_holds(data: st.DataObject) -> None:
    """Of numbers that wrap too: a guard ``i < w - 1`` says nothing of ``w``."""
    found = variables()
    scope = Scope()
    ends = known(scope, found)
    dtype = data.draw(st.sampled_from([INT32, INT64]))
    left, right = (data.draw(arithmetic(found, dtype, 3)) for _ in range(2))
    compare = Compare(op=data.draw(st.sampled_from(["lt", "le", "gt", "ge", "eq"])), left=left, right=right)
    forms = scope.differences(compare)
    assert forms is not None
    for _ in range(4):
        at = places(data.draw, ends)
        x, y = value(left, at), value(right, at)
        holds = {"lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "eq": x == y}[compare.op]
        assert all(form_value(form, at) >= 0 for form in forms) == holds


def test_a_guard_by_a_scalar_that_may_wrap_proves_nothing_of_the_scalar() -> None:
    n, i = Var(name="n", dtype=INT32, kind="scalar"), Var(name="i", dtype=INT32, kind="loop")
    scope = Scope()
    scope.add_parameter(n)
    scope.add_variable(i, ZERO, None)
    less = Binary(op="sub", left=n, right=const(1))
    scope.assume(Compare(op="lt", left=i, right=less))
    assert scope.is_nonnegative(scope.form(less) - scope.form(i) - 1)
    assert not scope.is_nonnegative(scope.form(n) - scope.form(i) - 1)  # n may be the least number, and n - 1 the greatest


def test_the_arithmetic_of_usual_kernels_is_proven() -> None:
    """Tiles of a size, the position in a causal mask, a strided window: sums and products that stay what they are."""
    size, other, cell, step, i = (
        Var(name=name, dtype=INT32, kind=kind)  # type: ignore[arg-type]
        for name, kind in (("M", "size"), ("K", "size"), ("bx", "grid"), ("k", "loop"), ("i", "loop"))
    )
    scope = Scope()
    for var in (size, other):
        scope.add_parameter(var)

    def of(op: str, left: Expr, right: Expr | int) -> Binary:
        return Binary(op=op, left=left, right=right if isinstance(right, int) is False else const(right))  # type: ignore[arg-type]

    for var, extent, tile in ((cell, size, 128), (step, other, 64)):
        scope.add_variable(var, ZERO, scope.form(of("floordiv", of("add", extent, tile - 1), tile)) - 1)
    scope.add_variable(i, ZERO, Form.of(127))
    row = of("add", of("mul", cell, 128), i)
    for expr in (of("add", size, 127), row, of("mul", step, 64), of("sub", of("add", row, other), size), of("sub", row, 3)):
        assert scope.is_exact(expr), expr
    assert not scope.is_exact(of("mul", size, other))
    assert not scope.is_exact(of("add", size, other))


def test_a_counter_that_nobody_waits_for_is_counted() -> None:
    """A loop of unknown length shows how its places move, where they begin at a number that is known."""
    scope = Scope()
    n, k, late = (Var(name=name, dtype=INT32, kind=kind) for name, kind in (("n", "scalar"), ("k", "loop"), ("late", "loop")))  # type: ignore[arg-type]
    scope.add_parameter(n)
    scope.add_variable(k, ZERO, scope.form(n) - 1)
    scope.add_variable(late, scope.form(n), scope.form(n) + 7)

    def times(var: Var, factor: int) -> Expr:
        return Binary(op="mul", left=var, right=const(factor))

    assert scope.form(times(k, 8)) == Form.of(times(k, 8)) == scope.place(times(k, 8))
    assert scope.counted(times(k, 8)) == Form.of(k).scaled(8)
    assert scope.counted(times(k, 1 << 12)) == Form.of(times(k, 1 << 12)), "leaves int32 within the first iterations"
    assert scope.counted(times(late, 8)) == Form.of(times(late, 8)), "may begin anywhere"
    assert scope.counted(times(n, 8)) == Form.of(times(n, 8)), "a scalar is no counter"
    assert not scope.fits(scope.counted(times(k, 8)), INT32), "who takes it must test it"


def test_a_value_that_did_not_wrap_in_fewer_iterations_may_in_all() -> None:
    scope = Scope()
    k, x = Var(name="k", dtype=INT32, kind="loop"), Var(name="x", dtype=INT32, kind="value")
    value = Binary(op="mul", left=k, right=const(8))
    scope.add_variable(k, ZERO, Form.of(1000))
    assert scope.define(x, value)
    assert scope.form(x) == Form.of(k).scaled(8)
    scope.add_variable(k, ZERO, Form.of((1 << 31) - 2))
    assert not scope.define(x, value)
    assert scope.form(x) == Form.of(x)
