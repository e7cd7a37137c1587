"""Symbolic sizes: which there are, in which order, and their values from given shapes."""

from __future__ import annotations

import pytest

from zellige.ir.arithmetic import exact
from zellige.ir.expr import INT32, INT64, Binary, Cast, Compare, Const, Expr, Load, Select, Unary, Var
from zellige.ir.parser import parse_kernel
from zellige.ir.sizes import SizeError, SizeSystem, evaluate_size, size_vars
from zellige.ir.stmt import Kernel

TEXT = """\
# tile-ir 1.0
@sizes(M=int32, N=int64, ldc=int64, lda=int64)
def k(
    A: tensor((M * 2, 8), float32, strides=(lda, 1)),
    C: tensor((N, M), float32, role="output", strides=(ldc, 1)),
    n: size(int32),
    B: tensor((M, n), float16),
    D: tensor((N, M + n), float16),
) -> (C,):
    with launch(M) as (bx,):
        pass
"""


def kernel_of(text: str = TEXT) -> Kernel:
    return parse_kernel(text)


def names(variables: tuple[Var, ...]) -> list[str]:
    return [v.name for v in variables]


def test_order_is_that_of_appearance_shapes_before_strides() -> None:
    assert names(size_vars(kernel_of())) == ["M", "N", "lda", "ldc"]


def test_equations_and_who_solves_what() -> None:
    system = SizeSystem.of(kernel_of())
    assert [(e.param, e.dimension, e.what, e.solves.name if e.solves else None) for e in system.equations] == [
        (0, 0, "extent", None),
        (0, 1, "extent", None),
        (3, 0, "extent", "M"),
        (3, 1, "extent", None),
        (4, 0, "extent", "N"),
        (4, 1, "extent", None),
        (0, 0, "stride", "lda"),
        (0, 1, "stride", None),
    ]
    assert names(system.unsolved) == ["ldc"]


def solvable() -> tuple[Kernel, SizeSystem]:
    kernel = kernel_of(TEXT.replace(', strides=(ldc, 1)', "").replace(", ldc=int64", ""))
    return kernel, SizeSystem.of(kernel)


def test_solving_and_mismatches() -> None:
    kernel, system = solvable()
    n = kernel.params[2].var  # type: ignore[union-attr]
    shapes = {0: (10, 8), 3: (5, 3), 4: (7, 8)}
    values, wrong = system.solve(shapes, {0: (64, 1)}, {n: 3})
    assert {v.name: value for v, value in values.items()} == {"M": 5, "N": 7, "lda": 64}
    assert wrong == ()
    _, wrong = system.solve({0: (10, 9), 3: (6, 4), 4: (7, 8)}, {0: (64, 2)}, {n: 3})
    assert [(m.equation.param, m.equation.dimension, m.equation.what, m.expected, m.given) for m in wrong] == [
        (0, 0, "extent", 12, 10),
        (0, 1, "extent", 8, 9),
        (3, 1, "extent", 3, 4),
        (4, 1, "extent", 9, 8),
        (0, 1, "stride", 1, 2),
    ]


def test_what_cannot_be_solved() -> None:
    system = SizeSystem.of(kernel_of())
    with pytest.raises(SizeError, match="no argument gives the size ldc"):
        system.solve({}, {}, {})
    _, system = solvable()
    with pytest.raises(SizeError, match="the size n has no value"):
        system.solve({0: (10, 8), 3: (5, 3), 4: (7, 8)}, {0: (64, 1)}, {})


def number(value: int) -> Const:
    return Const(value=value, dtype=INT32)


M = Var(name="M", dtype=INT32, kind="size")


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (Binary(op="mul", left=M, right=number(2**31 - 1)), 10 * (2**31 - 1)),  # sizes do not wrap
        (Binary(op="floordiv", left=Unary(op="neg", value=M), right=number(3)), -4),
        (Binary(op="truncdiv", left=Unary(op="neg", value=M), right=number(3)), -3),
        (Binary(op="truncmod", left=Unary(op="neg", value=M), right=number(3)), -1),
        (Binary(op="floormod", left=M, right=number(0)), 0),
        (Binary(op="shl", left=M, right=number(-1)), 0),
        (Unary(op="invert", value=M), -11),
        (Cast(value=M, dtype=INT64), 10),
        (Select(condition=Compare(op="ge", left=M, right=number(10)), then=number(1), otherwise=number(2)), 1),
        (Binary(op="max", left=M, right=number(12)), 12),
    ],
)
def test_sizes_are_evaluated_in_unbounded_integers(expr: Expr, value: int) -> None:
    assert evaluate_size(expr, {M: 10}) == value


def test_logic_in_sizes() -> None:
    yes, no = Compare(op="gt", left=M, right=number(1)), Compare(op="lt", left=M, right=number(1))
    for op, left, right, value in (("and", yes, no, 0), ("or", no, yes, 1), ("or", no, no, 0), ("and", yes, yes, 1)):
        assert evaluate_size(Binary(op=op, left=left, right=right), {M: 10}) == value  # type: ignore[arg-type]
    assert evaluate_size(Unary(op="not", value=no), {M: 10}) == 1


def test_a_deep_size_and_what_is_no_size() -> None:
    total: Expr = M
    for _ in range(5000):
        total = Binary(op="add", left=total, right=number(1))
    assert evaluate_size(total, {M: 1}) == 5001
    buffer = kernel_of().params[0].buffer  # type: ignore[union-attr]
    with pytest.raises(SizeError, match="Load does not belong in a size"):
        evaluate_size(Load(buffer=buffer, indices=(number(0), number(0))), {})
    with pytest.raises(ValueError, match="truediv is not an operator of integers"):
        exact("truediv", 1, 2)


def test_a_multiple_gives_a_size_that_stands_alone_nowhere() -> None:
    text = """\
# tile-ir 1.0
@sizes(M=int32, N=int32)
def k(A: tensor((M * 3 + 1, N), int32), B: tensor((N - 2,), int32)):
    with launch(1) as (bx,):
        pass
"""
    system = SizeSystem.of(kernel_of(text))
    m, n = system.variables
    assert not system.unsolved
    assert system.solve({0: (7, 5), 1: (3,)}, {}, {}) == ({m: 2, n: 5}, ())
    values, mismatches = system.solve({0: (8, 5), 1: (4,)}, {}, {})
    assert values == {m: 2, n: 5} and [(x.expected, x.given) for x in mismatches] == [(7, 8), (3, 4)]
    assert [x.expected for x in system.solve({0: (0, 5), 1: (3,)}, {}, {})[1]] == [1]
