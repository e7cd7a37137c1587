"""Scalar operations by name, constants, and changes in turn, against plain Python."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest

from zellige.dtypes import dtype as as_dtype
from zellige.elements.operations import OPERATIONS, change_in_turn, constant, operate, operation_of, rounds
from zellige.ir.expr import Binary, BinaryOp, Compare, CompareOp, Math, Select, Unary, UnaryOp, Var
from zellige.ir.functions import FUNCTIONS

INT32, FLOAT16, FLOAT32 = (as_dtype(name) for name in ("int32", "float16", "float32"))


def test_no_two_sorts_of_operations_share_a_name() -> None:
    sorts = (tuple(FUNCTIONS), get_args(UnaryOp), get_args(BinaryOp), get_args(CompareOp))
    assert sum(map(len, sorts)) == len(OPERATIONS)


@pytest.mark.parametrize(
    "name, operands, dtype, expected",
    [
        ("neg", (7,), "int32", -7),
        ("invert", (0,), "uint8", 255),
        ("add", (250, 10), "uint8", 4),
        ("truncdiv", (-7, 2), "int32", -3),
        ("floordiv", (-7, 2), "int32", -4),
        ("lt", (1.0, 2.0), "float16", True),
        ("sqrt", (2.0,), "float32", np.float32(math.sqrt(2.0))),
        ("popcount", (255,), "int32", 8),
        ("mul", (1.0009765625, 1.0009765625), "float16", np.float16(1.0009765625 * 1.0009765625)),
    ],
)
def test_an_operation_by_its_name(name: str, operands: tuple[float, ...], dtype: str, expected: float) -> None:
    kind = as_dtype(dtype)
    assert operate(name, [np.array(operand, kind.numpy) for operand in operands], kind) == expected


def test_the_operation_of_a_node() -> None:
    x, y = Var(name="x", dtype=FLOAT16, kind="value"), Var(name="y", dtype=FLOAT16, kind="value")
    less = Compare(op="lt", left=x, right=y)
    assert operation_of(less) == ("lt", FLOAT16)
    assert operation_of(Binary(op="add", left=x, right=y)) == ("add", FLOAT16)
    assert operation_of(Unary(op="neg", value=x)) == ("neg", FLOAT16)
    assert operation_of(Math(function="isnan", args=(x,), dtype=as_dtype("bool"))) == ("isnan", FLOAT16)
    assert operation_of(x) is None
    assert operation_of(Select(condition=less, then=x, otherwise=y)) is None


@pytest.mark.parametrize(
    "value, dtype, expected",
    [(-1, "uint8", 255), (300, "int8", 44), (2**63, "uint64", 2**63), (True, "bool", True), (1 / 3, "float32", np.float32(1 / 3))],
)
def test_a_constant_wraps_or_rounds_once(value: float, dtype: str, expected: float) -> None:
    found = constant(value, as_dtype(dtype))
    assert found == expected
    assert found.dtype == as_dtype(dtype).numpy


def test_rounds_hold_each_position_once_and_in_order() -> None:
    groups = [list(group) for group in rounds(np.array([5, 3, 5, 5, 3]))]
    assert [sorted(group) for group in groups] == [[0, 1], [2, 4], [3]]
    assert list(rounds(np.empty(0, np.int64))) == []


@pytest.mark.parametrize("name", ["add", "max", "bitxor", "exchange", "store", "load"])
def test_changes_follow_one_another(name: str) -> None:
    generator = np.random.default_rng(3)
    cells = generator.integers(0, 50, (2, 5)).astype(np.int32)
    rows, columns, values = generator.integers(0, 2, 40), generator.integers(0, 5, 40), generator.integers(0, 50, 40).astype(np.int32)
    expected, held = cells.tolist(), []
    plain = {"add": int.__add__, "max": max, "bitxor": int.__xor__, "load": lambda old, new: old}
    for row, column, value in zip(rows.tolist(), columns.tolist(), values.tolist()):
        held.append(expected[row][column])
        expected[row][column] = plain.get(name, lambda old, new: new)(held[-1], value)
    before = change_in_turn(name, cells, (rows, columns), values, INT32)
    assert before.tolist() == held
    assert cells.tolist() == expected


def test_each_change_is_rounded() -> None:
    cells = np.array([2048.0], np.float16)
    change_in_turn("add", cells, (np.zeros(2, np.int64),), np.ones(2, np.float16), FLOAT16)
    assert cells[0] == 2048.0
