"""Index arithmetic that wraps: what the tile IR says an index is, every target reads, and none goes outside of a buffer."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import ZERO, Form
from zellige.dtypes import dtype as as_dtype
from zellige.generate import Program
from zellige.generate.campaign import first_problem
from zellige.generate.comparison import interpreted, launched
from zellige.ir.expr import INT32, Binary, Buffer, Cast, Const, Load, Var, const
from zellige.ir.parser import parse_kernel
from zellige.ir.verify import check

sys.path.insert(0, str(Path(__file__).parents[1] / "simt"))
from simulated import TARGET  # noqa: E402

HEAD = """\
# tile-ir 1.0
def k(X: tensor((8,), int32), Y: tensor((8,), int64), A: tensor((40,), int32), C: tensor((8,), int32), D: tensor((2, 40), int32)):
    with launch(1, threads=(32,)) as (bx,):
        S = alloc((40,), int32, "shared")
        copy(A[:], S[:])
"""

X = (5, (1 << 29) + 3, (1 << 30) + 2, (1 << 31) - 1, -(1 << 31), -(1 << 30), (1 << 31) - 3, 260)

READS = {
    "A[X[i] * 8]": [((x * 8 + (1 << 31)) % (1 << 32)) - (1 << 31) for x in X],
    "S[X[i] * 4 + 1]": [((x * 4 + 1 + (1 << 31)) % (1 << 32)) - (1 << 31) for x in X],
    "A[X[i] * 4 // 4]": [(((x * 4 + (1 << 31)) % (1 << 32)) - (1 << 31)) // 4 for x in X],
    "A[(X[i] + 5) % 7]": [(((x + 5 + (1 << 31)) % (1 << 32)) - (1 << 31)) % 7 for x in X],
    "A[cast(X[i], uint8)]": [x % 256 for x in X],
    "S[cast(X[i], int16)]": [((x + (1 << 15)) % (1 << 16)) - (1 << 15) for x in X],
    "A[cast(X[i] * 2, int64)]": [((x * 2 + (1 << 31)) % (1 << 32)) - (1 << 31) for x in X],
    "S[cast(Y[i], uint64)]": [x % (1 << 64) for x in X],
    "A[cast(cast(X[i], uint8), int32) * 33554432 // 1048576]": [
        (((x % 256 * 33554432 + (1 << 31)) % (1 << 32)) - (1 << 31)) // 1048576 for x in X
    ],
}
"""An element of A or S for each i, and its index in Python's integers."""


def program_of(body: str) -> Program:
    kernel = parse_kernel(HEAD + body)
    check(kernel)
    numbers = np.arange(1, 41, dtype=np.int32)
    arrays = (np.array(X, np.int32), np.array(X, np.int64), numbers, np.full(8, -1, np.int32), np.zeros((2, 40), np.int32))
    return Program(kernel=kernel, arguments=arrays)


@pytest.mark.parametrize("target", ["interp", "cpu", TARGET, "template"])
@pytest.mark.parametrize("read", READS)
def test_an_element_is_the_one_that_the_index_says(read: str, target: str) -> None:
    program = program_of(f"        for i in parallel(8):\n            C[i] = {read}\n")
    expected = interpreted(program)
    actual, faults = launched(program, target, expected)
    assert faults == []
    assert actual.tensors[3].tolist() == [index + 1 if 0 <= index < 40 else 0 for index in READS[read]]


@pytest.mark.parametrize("target", ["cpu", TARGET])
@pytest.mark.parametrize(
    "body",
    [
        "for i in serial(8):\n            S[X[i] * 16] = i",
        "fill(S[X[4] * -2:+3], 7)",
        "fill(S[X[2] * 4:+3], 7)",
        "fill(S[int64(9223372036854775804):+5], 7)",
        "copy(A[X[2] * 4:+4], S[X[5] * 4:+4])",
        "q: int32 = X[1] * 8\n        if q >= 0 and q < 30:\n            S[q] = A[q + 3]",
        "for i in serial(8):\n            S[cast(Y[i], uint64) * cast(X[i], uint64)] = i",
    ],
)
def test_a_store_is_where_the_index_says(body: str, target: str) -> None:
    program = program_of(f"        {body}\n        copy(S[:], D[0, :])\n")
    assert first_problem(program, (target,), is_thorough=False) is None


@pytest.mark.parametrize("target", ["cpu", TARGET, "template"])
@pytest.mark.parametrize(
    ("body", "stored"),
    [
        ("copy(A[{0}:+4], S[0:+4])", {0: 0, 1: 0, 2: 1, 3: 2}),
        ("copy(A[0:+4], S[{0}:+4])", {0: 3, 1: 4}),
        ("fill(S[{0}:+5], 7)", {0: 7, 1: 7, 2: 7}),
        ('reduce("sum", A[{0}:+8], S[3:+1], axis=0)', {3: 1 + 2 + 3 + 4 + 5 + 6}),
        ('scan("sum", A[{0}:+4], S[0:+4], axis=0)', {0: 0, 1: 0, 2: 1, 3: 3}),
        ('atomic_tile("add", A[0:+4], S[{0}:+4])', {0: 1 + 3, 1: 2 + 4}),
        ("for i in parallel(4):\n            S[i] = A[{0} + cast(i, uint64)]", {0: 0, 1: 0, 2: 1, 3: 2}),
        ("for i in parallel(4):\n            S[{0} + cast(i, uint64)] = i", {0: 2, 1: 3}),
    ],
)
def test_a_large_constant_of_uint64_is_below_zero(body: str, stored: dict[int, int], target: str) -> None:
    program = program_of(f"        {body.format('uint64(18446744073709551614)')}\n        copy(S[:], D[0, :])\n")
    expected = interpreted(program)
    assert expected.tensors[4][0].tolist() == [stored.get(at, at + 1) for at in range(40)]
    actual, faults = launched(program, target, expected)
    assert faults == []
    assert actual.tensors[4].tolist() == expected.tensors[4].tolist()


def test_data_in_a_form_are_one_number_of_their_type() -> None:
    table = Buffer(name="X", dtype=INT32, shape=(const(8),))
    i = Var(name="i", dtype=INT32, kind="loop")
    scope = Scope()
    scope.add_variable(i, ZERO, Form.of(7))
    data = Load(buffer=table, indices=(const(0),))
    times = Binary(op="mul", left=data, right=const(64))
    both = Binary(op="add", left=times, right=i)
    assert scope.form(both) == Form.of(both) and not scope.is_exact(both)
    place = scope.place(both)
    assert place == Form.of(times) + Form.of(i)
    assert scope.multiple_of(place - Form.of(i)) == 64
    assert scope.place(Binary(op="add", left=data, right=i)) == Form.of(data) + Form.of(i)
    small = Cast(value=Load(buffer=Buffer(name="B", dtype=as_dtype("uint8"), shape=(const(8),)), indices=(const(0),)), dtype=INT32)
    assert scope.form(Binary(op="mul", left=small, right=const(64))) == Form.of(small).scaled(64)
    assert not scope.is_nonnegative(scope.form(Binary(op="mul", left=small, right=const(1 << 25))))
    last = Const(value=(1 << 31) - 1, dtype=INT32)
    assert scope.form(last).constant == (1 << 31) - 1
    assert not scope.is_exact(Binary(op="add", left=last, right=i))


def test_a_variable_that_is_written_again_stands_for_its_new_value() -> None:
    """As in Maps of lanes whose axes have other names."""
    value, one, other = (Var(name=n, dtype=INT32, kind=k) for n, k in (("y", "value"), ("i", "loop"), ("j", "loop")))  # type: ignore[arg-type]
    scope = Scope()
    for axis in (one, other):
        scope.add_variable(axis, ZERO, Form.of(7))
    twice = Binary(op="add", left=value, right=value)
    for axis in (one, other):
        assert scope.define(value, axis)
        assert scope.form(twice) == Form.of(axis).scaled(2)
