"""Failing programs become small, stay valid, and the end of a process is a result like any other."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from zellige.generate import Program, campaign, check_program, generate_seeded, shrink
from zellige.generate.campaign import first_problem, is_same, run_campaign
from zellige.generate.comparison import Problem
from zellige.generate.isolation import isolated
from zellige.generate.shrink import size_of
from zellige.ir.stmt import Gemm, Reduce, Scan
from zellige.ir.traverse import walk


def holds(program: Program, kind: type) -> bool:
    return any(isinstance(node, kind) for node in walk(program.kernel))


@pytest.mark.parametrize("kind", [Gemm, Reduce, Scan])
def test_a_program_shrinks_to_what_fails(kind: type) -> None:
    """The 'failure' is to hold a statement of one kind, in a program of which nothing is wrong."""
    program = next(p for p in map(generate_seeded, range(100)) if holds(p, kind) and 300 < size_of(p) < 800)
    small = shrink(program, lambda candidate: holds(candidate, kind) and check_program(candidate, is_thorough=False) == [], attempts=150)
    assert holds(small, kind)
    assert check_program(small) == []
    assert size_of(small) < 90
    assert len(small.kernel.launches) == 1


def test_nothing_shrinks_where_nothing_smaller_fails() -> None:
    program = generate_seeded(3)
    assert shrink(program, lambda candidate: False, attempts=20) is program


def test_the_number_of_attempts_is_kept() -> None:
    tried: list[Program] = []
    shrink(generate_seeded(3), lambda candidate: bool(tried.append(candidate)), attempts=17)
    assert len(tried) == 17


def test_a_value_comes_back_from_a_process_of_its_own() -> None:
    assert isolated(lambda: [os.getpid(), "x" * 200_000], seconds=60).value[0] != os.getpid()  # type: ignore[index]


def test_how_a_process_ended_is_told() -> None:
    assert isolated(lambda: os.kill(os.getpid(), signal.SIGKILL), seconds=60).failure == "the process was ended by signal 9"
    assert isolated(lambda: os._exit(3), seconds=60).failure == "the process ended with code 3"
    assert isolated(lambda: 1 // 0, seconds=60).failure.startswith("ZeroDivisionError: integer division or modulo by zero (test_shrink.py:")
    begin = time.monotonic()
    assert isolated(lambda: time.sleep(60), seconds=0.3).failure == "did not end within 0.3 seconds"
    assert time.monotonic() - begin < 50


def test_problems_are_of_one_kind() -> None:
    wrong = Problem(kind="target cpu", detail="C[0] is 1")
    assert is_same(Problem(kind="target cpu", detail="C[9] is 7"), wrong)
    assert is_same(Problem(kind="ended", detail="signal 11"), wrong)
    assert not is_same(Problem(kind="rule", detail=""), wrong)
    assert not is_same(None, wrong)
    refused = Problem(kind="refused by cpu", detail="error E412: one")
    assert is_same(Problem(kind="refused by cpu", detail="error E412: one"), refused)
    assert not is_same(Problem(kind="refused by cpu", detail="error E413: other"), refused)


def test_a_campaign_writes_what_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A checker that dislikes products: each program that has one is made small and written down."""

    def check(program: Program, targets: object, *, is_thorough: bool = True) -> list[Problem]:
        return check_program(program, is_thorough=False) or ([Problem(kind="target x", detail="a product")] if holds(program, Gemm) else [])

    monkeypatch.setattr(campaign, "check_program", check)
    monkeypatch.setattr(campaign, "minimal", lambda program, problem, targets: program)
    failures = list(run_campaign(0, 3, ("x",), flavour="blocks", folder=tmp_path))
    assert failures
    for failure in failures:
        assert failure.title == f"seed {failure.seed}: target x: a product"
        again = Program.load(tmp_path / f"fuzz-{failure.seed}.tile")
        assert again.text() == failure.program.text()
        assert first_problem(again, ("x",)) == failure.problem
