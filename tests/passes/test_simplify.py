"""``simplify`` gives smaller programs of the same bits; the runner checks every pass."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from zellige.diagnostics import InternalError
from zellige.dtypes import DType, dtype
from zellige.interp import interpret
from zellige.ir import stmt as s
from zellige.ir.expr import BOOL, INT32, INT64, Binary, Buffer, Cast, Compare, Const, Expr, Load, Select, Unary, Var
from zellige.ir.traverse import walk
from zellige.ir.verify import verify
from zellige.passes.runner import run_passes
from zellige.passes.simplify import simplified, simplify

POINTS = 48
INTEGERS = [dtype(name) for name in ("int32", "uint8", "int8", "int64", "uint32", "uint64", "int4")]
FLOATS = [dtype(name) for name in ("float32", "float16", "float64", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz")]
TYPES = [*INTEGERS, *FLOATS, BOOL]


def number(value: float, of: DType = INT32) -> Const:
    return Const(value=value, dtype=of)


class Expressions:
    """Random expressions full of zeros, ones, equal operands and nested constants, which is what simplifying looks for."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.vars = {of.name: [Var(name=f"{of.name}_{i}", dtype=of, kind="value") for i in range(2)] for of in TYPES}

    def constant(self, of: DType) -> Const:
        if of.is_bool:
            return number(self.rng.random() < 0.5, of)
        if of.is_integer:
            return number(self.rng.choice([v for v in (0, 0, 1, 1, -1, 2, 3, 7, of.min, of.max) if of.min <= v <= of.max]), of)
        return number(self.rng.choice([0.0, -0.0, 1.0, -1.0, 0.1, 3.0, 1e30, float("inf"), float("nan")]), of)

    def make(self, of: DType, depth: int) -> Expr:
        rng = self.rng
        if depth == 0 or rng.random() < 0.1:
            return self.constant(of) if rng.random() < 0.5 else rng.choice(self.vars[of.name])
        left = self.make(of, depth - 1)
        draw = rng.random()
        if draw < 0.1:
            otherwise = left if rng.random() < 0.3 else self.make(of, depth - 1)
            return Select(condition=self.make(BOOL, depth - 1), then=left, otherwise=otherwise)
        if draw < 0.25:
            inner = self.make(rng.choice(TYPES), depth - 1)
            rounding: Any = rng.choice(["nearest_even", "nearest_even", "toward_zero", "up", "down"])
            return Cast(value=inner, dtype=of, rounding=rounding, saturate=rng.random() < 0.2)
        right = left if rng.random() < 0.15 else self.constant(of) if rng.random() < 0.5 else self.make(of, depth - 1)
        if of.is_bool:
            if draw < 0.4:
                return Unary(op="not", value=left)
            if draw < 0.7:
                other = rng.choice([*INTEGERS, *FLOATS])
                first = self.make(other, depth - 1)
                second = first if rng.random() < 0.3 else self.make(other, depth - 1)
                op: Any = rng.choice(["eq", "ne", "lt", "le", "gt", "ge"])
                return Compare(op=op, left=first, right=second)
            return Binary(op=rng.choice(["and", "or", "bitand", "bitor", "bitxor"]), left=left, right=right)
        if draw < 0.32:
            return Unary(op="invert" if of.is_integer and rng.random() < 0.5 else "neg", value=left)
        if of.is_float:
            # no min and max: which of two zeros they give is open
            return Binary(op=rng.choice(["add", "sub", "mul", "truediv"]), left=left, right=right)
        ops: list[Any] = ["add", "add", "sub", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max", "shl", "shr"]
        return Binary(op=rng.choice([*ops, "bitand", "bitor", "bitxor"]), left=left, right=right)

    def kernel(self, exprs: Sequence[Expr]) -> s.Kernel:
        """A kernel that stores each expression at POINTS points, its variables loaded from one tensor each."""
        point = Var(name="i", dtype=INT32, kind="loop")
        used = [v for many in self.vars.values() for v in many]
        inputs = [Buffer(name=v.name, dtype=v.dtype, shape=(number(POINTS),)) for v in used]
        outputs = [Buffer(name=f"out_{i}", dtype=e.dtype, shape=(number(POINTS),)) for i, e in enumerate(exprs)]
        body = [s.Bind(var=v, value=Load(buffer=b, indices=(point,))) for v, b in zip(used, inputs)]
        body += [s.Store(buffer=b, indices=(point,), value=e) for b, e in zip(outputs, exprs)]  # type: ignore[misc]
        region = s.Map(axes=(point,), extents=(number(POINTS),), body=tuple(body))
        params = [s.TensorParam(buffer=b) for b in inputs] + [s.TensorParam(buffer=b, role="output") for b in outputs]
        launch = s.Launch(grid_vars=(), grid=(), body=(region,))
        results = tuple(range(len(inputs), len(params)))
        return s.Kernel(name="k", params=tuple(params), launches=(launch,), results=results)

    def inputs(self) -> list[np.ndarray[Any, Any]]:
        """Random values of every variable: small ones, edges, and for floats the special ones."""
        found = []
        for many in self.vars.values():
            for var in many:
                of = var.dtype
                if of.is_bool:
                    values: list[Any] = [self.rng.random() < 0.5 for _ in range(POINTS)]
                elif of.is_integer:
                    low, high = int(of.min), int(of.max)
                    values = [self.rng.choice([low, high, self.rng.randint(low, high), self.rng.randint(0, 7)]) for _ in range(POINTS)]
                else:
                    special = [0.0, -0.0, float("inf"), float("-inf"), float("nan")]
                    values = [self.rng.choice([*special, self.rng.uniform(-8, 8), self.rng.uniform(-300, 300)]) for _ in range(POINTS)]
                with np.errstate(all="ignore"):
                    found.append(np.array(values).astype(of.numpy) if not of.is_integer else np.array([int(v) for v in values], of.numpy))
        return found


def packed(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """int4 values two to a byte, low nibble first, as a tensor holds them."""
    codes = values.astype(np.int8).view(np.uint8) & 15
    return (codes[0::2] | codes[1::2] << 4).astype(np.uint8)


def same_bits(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    """Equal bit for bit; a NaN may have any bits."""
    if left.dtype.kind not in "biu" and left.dtype.name != "bool":
        with np.errstate(all="ignore"):
            both = np.isnan(left.astype(np.float64)) & np.isnan(right.astype(np.float64))
        left, right = left[~both], right[~both]
    return left.tobytes() == right.tobytes()


@given(seed=st.integers(0, 2**32))
@settings(max_examples=50)
def test_simplified_expressions_give_the_same_bits(seed: int) -> None:
    rng = random.Random(seed)
    made = Expressions(rng)
    exprs = [made.make(of, 4) for of in TYPES if of.name != "int4"]
    kernel = made.kernel(exprs)
    assert verify(kernel) == []
    smaller = run_passes(kernel, (simplify,))
    inputs = [packed(a) if a.dtype.name == "int4" else a for a in made.inputs()]
    nothing = [None] * len(exprs)
    for expr, before, after in zip(exprs, interpret(kernel, [*inputs, *nothing]), interpret(smaller, [*inputs, *nothing])):
        assert same_bits(before, after), f"{expr}\n{simplified(expr)}"
    assert len(list(walk(smaller))) <= len(list(walk(kernel)))
    assert simplify(smaller) is smaller


X = Var(name="x", dtype=INT32, kind="value")
U = Var(name="u", dtype=dtype("uint8"), kind="value")
F = Var(name="f", dtype=dtype("float32"), kind="value")
L = Var(name="l", dtype=INT64, kind="value")
FLAG = Var(name="flag", dtype=BOOL, kind="value")


def b(op: Any, left: Expr, right: Expr) -> Binary:
    return Binary(op=op, left=left, right=right)


def c(value: float, of: DType = INT32) -> Const:
    return number(value, of)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b("add", b("mul", X, c(1)), c(0)), X),
        (b("add", c(3), X), b("add", X, c(3))),
        (b("sub", b("add", X, c(3)), c(3)), X),
        (b("sub", b("sub", X, c(3)), c(4)), b("sub", X, c(7))),
        (b("add", b("sub", X, c(3)), c(5)), b("add", X, c(2))),
        (b("add", b("add", X, c(2**31 - 1)), c(2)), b("sub", X, c(2**31 - 1))),
        (b("add", b("sub", U, c(3, U.dtype)), c(1, U.dtype)), b("sub", U, c(2, U.dtype))),
        (b("mul", b("mul", X, c(8)), c(4)), b("mul", X, c(32))),
        (b("mul", b("mul", X, c(2**16)), c(2**16)), c(0)),
        (b("floordiv", b("floordiv", X, c(8)), c(4)), b("floordiv", X, c(32))),
        (b("floordiv", b("floordiv", X, c(2**20)), c(2**20)), b("floordiv", b("floordiv", X, c(2**20)), c(2**20))),
        (b("floormod", b("floormod", X, c(12)), c(4)), b("floormod", X, c(4))),
        (b("floormod", b("floormod", X, c(12)), c(5)), b("floormod", b("floormod", X, c(12)), c(5))),
        (b("floordiv", b("mul", X, c(4)), c(4)), b("floordiv", b("mul", X, c(4)), c(4))),  # the product may have wrapped
        (b("sub", X, X), c(0)),
        (b("floordiv", X, X), b("floordiv", X, X)),  # 0 // 0 is 0
        (b("min", b("min", X, c(7)), c(3)), b("min", X, c(3))),
        (b("bitand", X, c(-1)), X),
        (b("bitor", U, c(255, U.dtype)), c(255, U.dtype)),
        (b("floordiv", c(7), c(-2)), c(-4)),
        (b("floordiv", c(-(2**31)), c(-1)), c(0)),
        (b("floormod", c(5), c(0)), c(0)),
        (b("add", F, c(0.0, F.dtype)), b("add", F, c(0.0, F.dtype))),  # -0.0 + 0.0 is 0.0
        (b("sub", F, c(0.0, F.dtype)), F),
        (b("add", F, c(-0.0, F.dtype)), F),
        (b("mul", F, c(0.0, F.dtype)), b("mul", F, c(0.0, F.dtype))),  # infinity * 0.0 is NaN
        (b("sub", F, F), b("sub", F, F)),
        (b("add", c(0.1, F.dtype), c(0.2, F.dtype)), c(float(np.float32(0.1) + np.float32(0.2)), F.dtype)),
        (b("min", c(2.0, F.dtype), c(1.0, F.dtype)), c(1.0, F.dtype)),
        (b("min", c(-0.0, F.dtype), c(0.0, F.dtype)), b("min", c(-0.0, F.dtype), c(0.0, F.dtype))),
        (b("max", c(float("nan"), F.dtype), c(0.0, F.dtype)), b("max", c(float("nan"), F.dtype), c(0.0, F.dtype))),
        (Compare(op="lt", left=X, right=X), c(False, BOOL)),
        (Compare(op="eq", left=F, right=F), Compare(op="eq", left=F, right=F)),  # a NaN is not itself
        (Unary(op="not", value=Compare(op="lt", left=X, right=c(3))), Compare(op="ge", left=X, right=c(3))),
        (Unary(op="not", value=Compare(op="lt", left=F, right=F)), Unary(op="not", value=Compare(op="lt", left=F, right=F))),
        (Unary(op="not", value=Unary(op="not", value=FLAG)), FLAG),
        (b("and", FLAG, c(True, BOOL)), FLAG),
        (b("or", FLAG, c(True, BOOL)), c(True, BOOL)),
        (Select(condition=c(False, BOOL), then=X, otherwise=c(3)), c(3)),
        (Select(condition=FLAG, then=X, otherwise=X), X),
        (Cast(value=Cast(value=X, dtype=INT64), dtype=INT32), X),
        (Cast(value=Cast(value=L, dtype=INT32), dtype=INT64), Cast(value=Cast(value=L, dtype=INT32), dtype=INT64)),
        (Cast(value=c(300), dtype=dtype("uint8")), c(44, dtype("uint8"))),
        (Cast(value=c(-1.9, F.dtype), dtype=INT32), c(-1)),
        (Cast(value=c(1e20, F.dtype), dtype=INT32), c(2**31 - 1)),
    ],
)
def test_what_becomes_what(before: Expr, after: Expr) -> None:
    assert simplified(before) == after


def launched(*body: s.Stmt) -> s.Kernel:
    return s.Kernel(name="k", params=(), launches=(s.Launch(grid_vars=(), grid=(), body=body),))


def test_branches_that_are_decided_and_loops_that_run_nothing_go() -> None:
    def bind(value: int) -> s.Bind:
        return s.Bind(var=Var(name="x", dtype=INT32, kind="value"), value=c(value))

    def loop(start: int, stop: int, step: int) -> s.For:
        var = Var(name="i", dtype=INT32, kind="loop")
        return s.For(var=var, start=c(start), stop=c(stop), step=c(step), kind=s.Serial(), body=(bind(9),))

    yes, no = c(True, BOOL), Compare(op="gt", left=c(1), right=c(2))
    kernel = launched(
        s.If(condition=yes, then=(bind(1),), otherwise=(bind(2),)),
        s.If(condition=no, then=(bind(3),)),
        s.If(condition=no, then=(bind(4),), otherwise=(bind(5), bind(6))),
        loop(0, 0, 1), loop(0, 5, -1), loop(0, 1, 1),
        s.Assume(condition=yes), s.Assert(condition=yes), s.Assert(condition=no),
    )  # fmt: skip
    body = simplify(kernel).launches[0].body
    assert [type(x).__name__ for x in body] == ["Bind", "Bind", "Bind", "For", "Assert"]
    assert [x.value.value for x in body[:3]] == [1, 5, 6]  # type: ignore[union-attr]


def test_nothing_to_do_gives_the_same_object() -> None:
    kernel = launched(s.Bind(var=X, value=c(1)))
    assert simplify(kernel) is kernel
    assert run_passes(kernel, (simplify, simplify)) is kernel


def test_a_deep_sum_is_folded_without_recursion() -> None:
    total: Expr = X
    for _ in range(5000):
        total = b("add", total, c(1))
    assert simplified(total) == b("add", X, c(5000))


class Broken:
    name = "broken"

    def __call__(self, kernel: s.Kernel) -> s.Kernel:
        return launched(s.Break())


def test_the_runner_names_the_pass_that_breaks_a_kernel() -> None:
    seen: list[str] = []
    kernel = launched(s.Bind(var=X, value=b("add", c(1), c(2))))
    with pytest.raises(InternalError, match=r"pass broken made a kernel that is not well formed:\nerror E270"):
        run_passes(kernel, (simplify, Broken(), simplify), observe=lambda name, _: seen.append(name))
    assert seen == ["simplify"]
