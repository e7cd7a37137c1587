"""What machines that are played by NumPy run with: points in lockstep, tiles of bytes, operations by their words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zellige.dtypes import dtype
from zellige.elements.lockstep import Points
from zellige.elements.operations import execute, instruction_of
from zellige.elements.tiles import Tile, last_change
from zellige.ir.expr import BOOL, Binary, Buffer, Cast, Const, Expr, Reinterpret, Select, Var
from zellige.ir.stmt import Atomic, ReducerUpdate, Store
from zellige.passes.tile_blocks import as_change

INT32, FLOAT32 = dtype("int32"), dtype("float32")


def collatz(n: int) -> tuple[int, list[int]]:
    """The steps of one point as plain Python: with a break, a continue and a return."""
    steps, seen = 0, []
    for i in range(0, 40, 3):
        if n == 1:
            break
        if i % 2:
            continue
        if n == 13:
            return -1, seen
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
        seen.append(n)
    return steps, seen


def test_points_in_lockstep_do_what_each_would_do_alone() -> None:
    points = Points(30)
    n, steps = np.arange(1, 31), np.zeros(30, int)
    result = np.full(30, -1)

    def body(i: np.ndarray[Any, Any]) -> None:
        nonlocal n, steps
        points.branch(n == 1, lambda: points.leave("break"), lambda: None)
        points.branch(np.broadcast_to(i % 2 == 1, 30), lambda: points.leave("continue"), lambda: None)
        points.branch(n == 13, lambda: points.leave("return"), lambda: None)

        def even() -> None:
            nonlocal n
            n = points.merged(n // 2, n)

        def odd() -> None:
            nonlocal n
            n = points.merged(3 * n + 1, n)

        points.branch(n % 2 == 0, even, odd)
        steps = points.merged(steps + 1, steps)

    points.repeat((np.asarray(0), np.asarray(40), np.asarray(3)), body)
    result = points.merged(steps, result)
    assert result.tolist() == [collatz(start)[0] for start in range(1, 31)]
    assert (result == -1).any()


@pytest.mark.parametrize(("start", "stop", "step"), [(0, 5, 1), (5, 0, -2), (3, 3, 1), (0, 9, 0), (-4, 4, 3)])
def test_bounds_of_one_value_and_of_many_agree(start: int, stop: int, step: int) -> None:
    runs = []
    for count in (1, 4):
        points, seen = Points(count), []
        bounds = tuple(np.full(count, b) if count > 1 else np.asarray(b) for b in (start, stop, step))
        points.repeat(bounds, lambda value: seen.append(int(np.ravel(value)[0])))  # noqa: B023
        assert points.mask.all()
        runs.append(seen)
    assert runs == [list(range(start, stop, step)) if step else []] * 2


def test_points_leave_a_loop_without_bounds_one_by_one() -> None:
    points, left = Points(5), np.arange(5)
    turns = 0

    def body(_: object) -> None:
        nonlocal turns, left
        points.branch(left == 0, lambda: points.leave("break"), lambda: None)
        left = points.merged(left - 1, left)
        turns += points.is_active

    points.repeat((), body)
    assert (left == 0).all()
    assert turns == 4
    assert points.mask.all()


def test_what_lies_outside_of_a_tile_is_not_touched() -> None:
    memory = np.arange(24, dtype=np.int32)
    tile = Tile.of_memory(memory.ctypes.data, INT32, (3, 4), (8, 1))
    rows, columns = np.array([0, 2, 3, -1]), np.array([1, 3, 0, 0])
    assert tile.read([rows, columns], np.int32(-7)).tolist() == [1, 19, -7, -7]
    tile.write([rows, columns], np.array([100, 101, 102, 103], np.int32))
    assert np.flatnonzero(memory != np.arange(24)).tolist() == [1, 19]
    box = tile.box((2, 2), (2, 3), np.int32(9))
    assert box.read().tolist() == [[18, 101, 9], [9, 9, 9]]
    box.write(np.arange(6, dtype=np.int32))
    assert memory[18:20].tolist() == [0, 1]
    assert memory[20:].tolist() == [20, 21, 22, 23]


def test_changes_happen_in_turn_and_say_what_was_there() -> None:
    tile = Tile.of_points(1, INT32, (4,))
    tile.box((0,), (4,), np.int32(0)).write(np.zeros(4, np.int32))
    places, mask = np.array([1, 1, 9, 2, 1]), np.array([True, True, True, False, True])
    before = tile.change("add", [places], np.array([1, 10, 100, 1000, 10000]), mask, is_asked=True)
    assert before.tolist() == [0, 1, 0, 0, 11]
    assert tile.box((0,), (4,), np.int32(0)).read().tolist() == [0, 10011, 0, 0]


def test_copies_of_points_come_back_where_they_changed() -> None:
    tile = Tile.of_points(1, FLOAT32, (3,))
    tile.write([np.arange(3)], np.zeros(3, np.float32))
    copies = tile.copies(4)
    before = copies.cells.copy()
    copies.write([np.array([0, 1, 1, 2])], np.array([5, 0, 6, -0.0], np.float32))
    tile.take_changes(copies, before)
    assert tile.read([np.arange(3)], np.float32(0)).tobytes() == np.array([5, 6, -0.0], np.float32).tobytes()
    assert last_change(np.array([1, 2, 1]), np.asarray(1)) == 2
    assert last_change(np.array([0.0, -0.0]), np.asarray(0.0)).tobytes() == np.float64(-0.0).tobytes()
    assert last_change(np.array([1, 1]), np.asarray(1)) == 1


X = Var(name="x", dtype=FLOAT32, kind="value")
VALUES = np.array([-1.75, 0.0, 3.5, 1e9], np.float32)


@pytest.mark.parametrize(
    ("node", "words", "operands", "wanted"),
    [
        (Cast(value=X, dtype=INT32), "cast float32 int32 nearest_even", (VALUES,), [-1, 0, 3, 1000000000]),
        (Cast(value=X, dtype=dtype("float16"), rounding="up", saturate=True), "cast float32 float16 up saturate", (VALUES,),
         [-1.75, 0, 3.5, 65504]),
        (Reinterpret(value=X, dtype=INT32), "reinterpret float32 int32", (VALUES,), VALUES.view(np.int32).tolist()),
        (Select(condition=Const(value=True, dtype=BOOL), then=X, otherwise=X), "select", (VALUES > 0, VALUES, -VALUES),
         [1.75, 0, 3.5, 1e9]),
        (Binary(op="floordiv", left=X, right=X), "floordiv float32", (VALUES, np.float32(2)), [-1, 0, 1, 5e8]),
        (Cast(value=X, dtype=INT32, rounding="stochastic"), None, (), []),
        (X, None, (), []),
    ],
)  # fmt: skip
def test_an_expression_s_operation_is_words_that_run(node: Expr, words: str | None, operands: tuple[Any, ...], wanted: list[Any]) -> None:
    found = instruction_of(node)
    assert (None if found is None else " ".join(found)) == words
    if found is not None:
        with np.errstate(all="ignore"):
            assert execute(found, operands).tolist() == wanted


def test_every_statement_that_changes_an_element_has_one_form() -> None:
    buffer = Buffer(name="b", dtype=INT32, shape=(Const(value=4, dtype=INT32),), space="global")
    at, old = (Const(value=0, dtype=INT32),), Var(name="old", dtype=INT32, kind="value")
    value = Const(value=3, dtype=INT32)
    store = as_change(Store(buffer=buffer, indices=at, value=value))
    masked = as_change(Atomic(op="and", buffer=buffer, indices=at, value=value, result=old))
    both = as_change(ReducerUpdate(op="all", buffer=buffer, indices=at, value=value))
    total = as_change(ReducerUpdate(op="abssum", buffer=buffer, indices=at, value=value))
    assert [one.name for one in (store, masked, both, total)] == ["store", "bitand", "and", "add"]
    assert (store.result, masked.result) == (None, old)
    assert both.value is not None
    assert both.value.dtype == INT32
