"""Importing zellige is light: nothing heavy is loaded before it is used. Counted in modules, since times vary."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("llvmlite", "ml_dtypes", "torch", "click", "rich", "pluggy", "zellige_cpu", "zellige_cuda", "zellige_hip", "sympy", "asyncio")


def loaded(statement: str) -> set[str]:
    """The modules in memory after ``statement`` in a fresh process."""
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import zellige", "import zellige as tilelang\nimport zellige.language as T\nT.copy"])
def test_importing_loads_nothing_heavy(statement: str) -> None:
    assert not loaded(statement) & set(HEAVY)


def test_help_of_the_command_line_loads_no_backend() -> None:
    program = "import sys\nsys.argv = ['zellige', '--help']\nfrom zellige.cli.main import main\ntry: main()\nexcept SystemExit: pass"
    assert not loaded(program) & {"llvmlite", "torch", "ml_dtypes", "numpy", "zellige_cpu", "zellige_cuda", "rich"}
