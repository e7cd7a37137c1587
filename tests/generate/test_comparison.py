"""What counts as a difference, and that one is found: wrong values, wrong signs of zero, bytes outside of a tensor."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from zellige.dtypes import dtype
from zellige.generate import Program, check_program, comparison
from zellige.generate.comparison import Outcome, difference, differences, interpreted, launched, with_stages
from zellige.generate.facts import Fact
from zellige.ir.expr import Buffer, Const
from zellige.ir.stmt import Kernel, Store
from zellige.ir.traverse import rewrite

COPY = "def k(A: tensor((4,), float32), C: tensor((4,), float32)):\n    with launch(1) as (bx,):\n        copy(A[:], C[:])\n"


def tensor(of: str) -> Buffer:
    return Buffer(name="C", dtype=dtype(of), shape=())


EXACT = Fact(low=-1e30, high=1e30)


@pytest.mark.parametrize(
    "expected, actual, fact, differs",
    [
        ([1.0, 2.0], [1.0, 2.0], EXACT, False),
        ([1.0, 2.0], [1.0, 2.0000002], EXACT, True),
        ([1.0, 2.0], [1.0, 2.0000002], replace(EXACT, error=1e-6), False),
        ([1.0, 2.0], [1.0, 2.1], replace(EXACT, error=1e-6), True),
        ([np.nan], [np.nan], EXACT, False),
        ([np.nan], [0.0], replace(EXACT, error=1.0), True),
        ([np.inf], [np.inf], replace(EXACT, error=1.0), False),
        ([np.inf], [-np.inf], replace(EXACT, error=1.0), True),
        ([np.inf], [3e38], replace(EXACT, error=1e30), True),
        ([0.0], [-0.0], EXACT, True),
        ([0.0], [-0.0], replace(EXACT, is_zero_open=True), False),
    ],
)
def test_what_counts_as_a_difference(expected: list[float], actual: list[float], fact: Fact, differs: bool) -> None:
    found = difference(np.array(expected, np.float32), np.array(actual, np.float32), tensor("float32"), fact)
    assert (found is not None) == differs


def test_a_difference_names_the_place() -> None:
    found = difference(np.array([[1, 2], [3, 4]], np.int16), np.array([[1, 2], [9, 4]], np.int16), tensor("int16"), EXACT)
    assert found == "C[1, 0] is 9, expected 3 exactly; 1 of 4 elements of int16 differ"


def test_packed_elements_are_told_apart() -> None:
    found = difference(np.array([0x21], np.uint8), np.array([0x31], np.uint8), tensor("int4"), EXACT)
    assert found is not None
    assert found.startswith("C[1] is 3, expected 2")


class Faulty:
    """A compiled kernel that does ``fault`` instead of anything else."""

    def __init__(self, fault: Callable[[Sequence[int]], None]) -> None:
        self._fault = fault

    def launch(self, pointers: Sequence[int], scalars: Sequence[Any], sizes: Sequence[int]) -> None:
        self._fault(pointers)


def poke(address: int, value: float) -> None:
    ctypes.c_float.from_address(address).value = value


@pytest.mark.parametrize("where, is_outside", [(-4, True), (16, True), (0, False), (12, False)])
def test_bytes_outside_of_a_tensor_are_watched(
    program_of: Callable[..., Program], monkeypatch: pytest.MonkeyPatch, where: int, is_outside: bool
) -> None:
    program = program_of(COPY, np.arange(4, dtype=np.float32), np.zeros(4, np.float32))
    monkeypatch.setattr(comparison, "compile_kernel", lambda *_: Faulty(lambda pointers: poke(pointers[1] + where, 5.0)))
    outcome, faults = launched(program, "any", interpreted(program))
    assert bool(faults) == is_outside
    assert is_outside or outcome.tensors[1].tolist().count(5.0) == 1


def test_bytes_between_the_rows_of_a_tensor_are_watched(program_of: Callable[..., Program], monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def k(A: tensor((2, 3), float32, strides=(5, 1))):\n    with launch(1) as (bx,):\n        pass\n"
    program = program_of(text, np.zeros((2, 5), np.float32)[:, :3])
    for place, is_outside in ((3, True), (5, False), (7, False), (8, True)):
        monkeypatch.setattr(comparison, "compile_kernel", lambda *_, p=place: Faulty(lambda pointers: poke(pointers[0] + 4 * p, 5.0)))
        assert bool(launched(program, "any", interpreted(program))[1]) == is_outside


def test_a_wrong_target_is_found(program_of: Callable[..., Program], monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(COPY, np.arange(4, dtype=np.float32), np.zeros(4, np.float32))
    assert check_program(program, ("cpu",)) == []
    monkeypatch.setattr(comparison, "compile_kernel", lambda *_: Faulty(lambda pointers: None))
    (problem,) = check_program(program, ("cpu",))
    assert problem.kind == "target cpu"
    assert problem.detail.startswith("C[1] is 0.0, expected 1.0 exactly; 3 of 4")


def test_a_pass_that_changes_the_result_is_found(program_of: Callable[..., Program], monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def k(C: tensor((4,), float32)):\n    with launch(1) as (bx,):\n        C[2] = 7.0\n"
    program = program_of(text, np.zeros(4, np.float32))

    def wrong(kernel: Kernel, _target: object) -> Kernel:
        return rewrite(
            kernel, lambda node: replace(node, value=Const(value=8.0, dtype=dtype("float32"))) if isinstance(node, Store) else node
        )

    monkeypatch.setattr(comparison, "legalise", wrong)
    (problem,) = check_program(program)
    assert problem.kind == "passes"
    assert "C[2] is 8.0, expected 7.0" in problem.detail


@pytest.mark.parametrize(
    "body, kind",
    [
        ("for i in parallel(4):\n            C[i % 2] = cast(i, float32)", "report"),
        ('t = alloc((4,), float32, "shared")\n        copy(t[:], C[:])', "rule"),
        ("t = alloc((4,), float32)\n        copy(t[:], C[:])\n        fill(t[:], 1)", "invalid"),
        ("C[0] = cast(bx, float32)", "report"),
        ('atomic("exchange", C[0], cast(bx, float32))', "order"),
    ],
)
def test_programs_that_are_no_good(program_of: Callable[..., Program], body: str, kind: str) -> None:
    text = f"def k(C: tensor((4,), float32)):\n    with launch(3) as (bx,):\n        {body}\n"
    if kind == "invalid":
        program = program_of(text.replace(body, "pass"), np.zeros(4, np.float32))
        spoilt = replace(program.kernel, results=(3,))
        assert [problem.kind for problem in check_program(replace(program, kernel=spoilt))] == ["invalid"]
        return
    assert [problem.kind for problem in check_program(program_of(text, np.zeros(4, np.float32)))] == [kind]


def test_another_number_of_stages_is_another_kernel(program_of: Callable[..., Program]) -> None:
    text = (
        "def k(C: tensor((4,), float32)):\n    with launch(1) as (bx,):\n"
        "        for i in pipelined(4, stages=2):\n            C[i] = cast(i, float32)\n"
    )
    program = program_of(text, np.zeros(4, np.float32))
    other = with_stages(program.kernel, 0)
    assert other is not program.kernel
    assert with_stages(other, 0) is other
    outcomes = [interpreted(program, kernel=kernel) for kernel in (program.kernel, other)]
    assert list(differences(program, *outcomes, None)) == []
    assert list(differences(program, outcomes[0], Outcome(tensors={0: np.ones(4, np.float32)}), None)) != []
