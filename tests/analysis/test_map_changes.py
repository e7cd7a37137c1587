"""What the points of a Map change of the code around it: one answer for the planner, the backends and passes."""

from __future__ import annotations

from typing import Any

import pytest

from zellige.analysis.map_changes import OuterChanges, outer_changes
from zellige.ir.expr import INT32, Buffer, Const, Region, Var, const
from zellige.ir.stmt import Alloc, Assign, Atomic, Bind, Copy, Fill, For, Kernel, Launch, Map, ReducerUpdate, Serial, Store
from zellige.passes.tile_blocks import map_as_loops, private_changes
from zellige.plan.facts import LaunchFacts

POINT = Var(name="p", dtype=INT32, kind="loop")
OUTER = Var(name="outer", dtype=INT32, kind="mutable")
INNER = Var(name="inner", dtype=INT32, kind="mutable")


def buffer(name: str, space: Any) -> Buffer:
    return Buffer(name=name, dtype=INT32, shape=(const(4),), space=space)


LOCAL, SHARED, MADE = buffer("local", "local"), buffer("shared", "shared"), buffer("made", "local")


def changes(*body: Any, own: Any = None) -> OuterChanges:
    over = Map(axes=(POINT,), extents=(const(4),), body=body)
    return outer_changes(over) if own is None else outer_changes(over, own)


def everything(of: Buffer) -> Region:
    return Region(buffer=of, offsets=(const(0),), extents=(const(4),))


ONE = Const(value=1, dtype=INT32)
LOOP = Var(name="step", dtype=INT32, kind="loop")
INNER_LOOP = For(var=LOOP, start=const(0), stop=const(2), step=const(1), kind=Serial(), body=(Assign(var=OUTER, value=LOOP),))


@pytest.mark.parametrize(
    ("body", "variables", "buffers"),
    [
        ((Assign(var=OUTER, value=ONE),), (OUTER,), ()),
        ((Bind(var=INNER, value=ONE), Assign(var=INNER, value=ONE)), (), ()),
        ((Store(buffer=LOCAL, indices=(POINT,), value=ONE),), (), (LOCAL,)),
        ((Store(buffer=SHARED, indices=(POINT,), value=ONE),), (), ()),
        ((Alloc(buffer=MADE), Fill(dst=everything(MADE), value=ONE)), (), ()),
        ((Copy(src=everything(SHARED), dst=everything(LOCAL)),), (), (LOCAL,)),
        ((Atomic(op="add", buffer=LOCAL, indices=(POINT,), value=ONE),), (), ()),
        ((ReducerUpdate(buffer=LOCAL, indices=(POINT,), op="sum", value=ONE),), (), ()),
        ((Atomic(op="add", buffer=SHARED, indices=(POINT,), value=ONE, result=OUTER),), (OUTER,), ()),
        ((Bind(var=INNER, value=ONE), Atomic(op="add", buffer=SHARED, indices=(POINT,), value=ONE, result=INNER)), (), ()),
        ((INNER_LOOP,), (OUTER,), ()),
    ],
)
def test_what_is_changed_outside(body: tuple[Any, ...], variables: tuple[Var, ...], buffers: tuple[Buffer, ...]) -> None:
    found = changes(*body)
    assert (found.variables, found.buffers) == (variables, buffers)
    over = Map(axes=(POINT,), extents=(const(4),), body=body)
    assert private_changes(over) == (*variables, *buffers)
    assert (map_as_loops(over) is None) == bool(variables)  # nothing here reads the buffers that it changes


def test_a_result_without_a_value_before_is_the_points_own() -> None:
    taken = Atomic(op="add", buffer=SHARED, indices=(POINT,), value=ONE, result=OUTER)
    assert changes(taken, own=lambda var: var is OUTER).variables == ()
    fresh = Var(name="fresh", dtype=INT32, kind="value")
    assert changes(Atomic(op="add", buffer=SHARED, indices=(POINT,), value=ONE, result=fresh)).variables == ()


def test_what_points_read_is_told() -> None:
    found = changes(Copy(src=everything(SHARED), dst=everything(LOCAL)))
    assert found.read == {SHARED}
    assert map_as_loops(Map(axes=(POINT,), extents=(const(4),), body=(Copy(src=everything(LOCAL), dst=everything(LOCAL)),))) is None


def test_the_planner_asks_the_same() -> None:
    taken = Atomic(op="add", buffer=SHARED, indices=(POINT,), value=ONE, result=Var(name="taken", dtype=INT32, kind="value"))
    over = Map(axes=(POINT,), extents=(const(4),), body=(taken, Assign(var=OUTER, value=POINT)))
    launch = Launch(grid_vars=(Var(name="cell", dtype=INT32, kind="grid"),), grid=(const(1),), body=(Bind(var=OUTER, value=ONE), over))
    facts = LaunchFacts(Kernel(name="points", params=(), launches=(launch,)), launch)
    assert facts.outer(over) == {OUTER}
