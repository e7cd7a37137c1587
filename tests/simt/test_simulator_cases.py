"""Programs of the folder ``shared/cases`` beside the repository, each a public report written anew, on the simulator. They need torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("CASES", Path(__file__).resolve().parents[3] / "shared" / "cases" / "cases"))
CASES = sorted(FOLDER.glob("*.py"))

LONG = ("061", "062")
"""Cases whose many sizes take more than some seconds lane by lane: the slow tier runs them."""


def run(case: Path) -> None:
    variables = {**os.environ, "TL_IMPL": "zellige", "TL_TARGET": "cuda:sm_80,simulate"}
    done = subprocess.run([sys.executable, str(case), "cpu"], env=variables, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_there_are_cases() -> None:
    if not CASES:
        pytest.skip(f"there is no folder {FOLDER}")
    assert all(any(case.name.startswith(number) for case in CASES) for number in LONG)


@pytest.mark.parametrize("case", [c for c in CASES if not c.name.startswith(LONG)], ids=lambda c: c.stem)
def test_a_case_is_right(case: Path) -> None:
    run(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in CASES if c.name.startswith(LONG)], ids=lambda c: c.stem)
def test_a_long_case_is_right(case: Path) -> None:
    run(case)
