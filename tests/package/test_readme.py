"""The README keeps its promises: its programs run, and its two commands are there for the continuous integration to run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_it_opens_with_the_purpose_and_the_picture() -> None:
    opening = README.split("## ")[0]
    assert "run it on any device" in opening
    picture = re.search(r"!\[[^]]*\]\(([^)]+)\)", opening)
    assert picture is not None
    assert (ROOT / picture.group(1)).read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize("command", ["pip install -e . && zellige demo", "pip install -e '.[dev]' && pytest"])
def test_each_command_stands_alone_on_its_line(command: str) -> None:
    assert README.splitlines().count(command) == 1


def test_there_is_a_program() -> None:
    assert PROGRAMS


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_runs(program: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
