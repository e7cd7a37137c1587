"""The static checks hold: ruff, mypy in strict mode, and the layers of imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str) -> str:
    """Run a tool in the repository's root; its output when it succeeds, a failed test with the output when not."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-8000:]
    return output


def test_ruff_finds_nothing() -> None:
    run(sys.executable, "-m", "ruff", "check", "--no-cache", ".")


def test_types_are_complete_and_right() -> None:
    assert "no issues found" in run(sys.executable, "-m", "mypy", "--no-incremental")


def test_imports_run_one_way() -> None:
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    assert "0 broken" in run(sys.executable, "-c", program, "--no-cache")


def test_a_core_module_that_imports_a_backend_would_be_found(tmp_path: Path) -> None:
    """The contracts bite: a copy of the tree with one forbidden import breaks them."""
    import shutil

    for folder in ("core", "backends", "intrinsics", "conformance"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "core" / "zellige" / "ir" / "__init__.py").open("a") as module:
        module.write("\nimport zellige_cpu\n")
    backends = [tmp_path / "backends" / name for name in ("cpu", "cuda", "hip", "template")]
    roots = [str(folder) for folder in (tmp_path / "core", *backends, tmp_path / "intrinsics", tmp_path / "conformance")]
    program = f"import sys; sys.path[:0] = {roots!r}; from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run([sys.executable, "-c", program, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Core imports no backend BROKEN" in done.stdout


@pytest.mark.parametrize("name", ["run", "full"])
def test_the_scripts_of_the_continuous_integration_parse(name: str) -> None:
    run("bash", "-n", f".ci/{name}")
