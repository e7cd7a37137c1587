"""Programs of the folder ``shared/cases`` beside the repository, each a public report written anew, on the simulator. They need torch."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("CASES", Path(__file__).resolve().parents[3] / "shared" / "cases" / "cases"))
CASES = sorted(FOLDER.glob("*.py"))

LONG = ("061", "062")
"""Cases whose many sizes take more than some seconds lane by lane: the slow tier runs them."""


def run(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TL_IMPL", "zellige")
    monkeypatch.setenv("TL_TARGET", "cuda:sm_80,simulate")
    spec = importlib.util.spec_from_file_location(f"case_{case.stem}", case)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    module.case("cpu")


def test_there_are_cases() -> None:
    if not CASES:
        pytest.skip(f"there is no folder {FOLDER}")
    assert all(any(case.name.startswith(number) for case in CASES) for number in LONG)


@pytest.mark.parametrize("case", [c for c in CASES if not c.name.startswith(LONG)], ids=lambda c: c.stem)
def test_a_case_is_right(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(case, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in CASES if c.name.startswith(LONG)], ids=lambda c: c.stem)
def test_a_long_case_is_right(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(case, monkeypatch)
