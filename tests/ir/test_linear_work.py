"""The work of every stage of the tile IR grows with the program, not faster: counted in calls, which do not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from zellige.dtypes import dtype
from zellige.ir import stmt as s
from zellige.ir.expr import INT32, Binary, Buffer, Cast, Compare, Const, Expr, Load, Var
from zellige.ir.parser import parse_kernel
from zellige.ir.printer import print_kernel
from zellige.ir.traverse import same_structure
from zellige.ir.verify import verify
from zellige.passes.simplify import simplify

F32 = dtype("float32")


def number(value: int) -> Const:
    return Const(value=value, dtype=INT32)


def kernel_of(count: int, *, lanes: bool) -> s.Kernel:
    """``count`` times five statements: names that are all alike, views, branches, regions that load their offsets."""
    size = Var(name="n", dtype=INT32, kind="size")
    tensor = Buffer(name="A", dtype=F32, shape=(size, number(64)))
    block, lane = Var(name="bx", dtype=INT32, kind="grid"), Var(name="tx", dtype=INT32, kind="lane")
    tile = Buffer(name="S", dtype=F32, shape=(number(64),), space="shared")
    body: list[s.Stmt] = [s.Alloc(buffer=tile)]
    row: Expr = block
    for index in range(count):
        view = Buffer(name="V", dtype=INT32, shape=(number(8), number(8)), space="shared", alias=tile)
        loaded = Load(buffer=view, indices=(number(index % 8), number(1)))
        value = Binary(op="add", left=loaded, right=Binary(op="mul", left=row, right=number(3)))
        x = Var(name="x", dtype=INT32, kind="value")
        inner = Var(name="x", dtype=F32, kind="mutable")
        body += [
            s.Bind(var=x, value=value),
            s.Copy(src=s.Region(buffer=tensor, offsets=(x, number(0)), extents=(number(1), number(64))), dst=s.whole(tile)),
            s.If(
                condition=Compare(op="lt", left=x, right=number(index)),
                then=(s.Bind(var=inner, value=Cast(value=x, dtype=F32)), s.Assign(var=inner, value=Load(buffer=tile, indices=(x,)))),
            ),
        ]
        row = x
    launch = s.Launch(grid_vars=(block,), grid=(size,), threads=(number(32),), lane_vars=(lane,) if lanes else (), body=tuple(body))
    return s.Kernel(name="k", params=(s.TensorParam(buffer=tensor),), launches=(launch,))


def calls(work: Callable[[], Any]) -> int:
    """How many calls of functions, in Python and in C, ``work`` makes."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


STAGES: dict[str, Callable[[s.Kernel], Callable[[], Any]]] = {
    "verify": lambda k: lambda: verify(k),
    "print": lambda k: lambda: print_kernel(k),
    "parse": lambda k: lambda text=print_kernel(k): parse_kernel(text),  # type: ignore[misc]
    "same_structure": lambda k: lambda other=parse_kernel(print_kernel(k)): same_structure(k, other),  # type: ignore[misc]
    "simplify": lambda k: lambda: simplify(k),
}


@pytest.mark.parametrize("lanes", [False, True])
@pytest.mark.parametrize("stage", STAGES)
def test_the_work_for_a_statement_does_not_grow(stage: str, lanes: bool) -> None:
    few, many = kernel_of(20, lanes=lanes), kernel_of(160, lanes=lanes)
    assert verify(many) == []
    calls(STAGES[stage](few))  # what is done once
    a, b = calls(STAGES[stage](few)), calls(STAGES[stage](many))
    assert b / 160 <= 1.1 * a / 20
