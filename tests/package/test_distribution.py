"""The built wheel and sdist hold what an installation needs, and nothing of the tests."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import zellige
from zellige.diagnostics import catalogue

ROOT = Path(__file__).parents[2]
PACKAGES = ("zellige", "zellige_cpu", "zellige_cuda", "zellige_hip", "zellige_template", "zellige_template_simt", "zellige_intrinsics",
            "zellige_conformance")  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def test_the_wheel_holds_the_packages_and_the_error_pages(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"zellige-{zellige.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    folders = {name.split("/")[0] for name in names}
    assert folders == {*PACKAGES, f"zellige-{zellige.__version__}.dist-info"}
    for package in PACKAGES:
        assert {f"{package}/__init__.py", f"{package}/py.typed"} <= names
    assert {"zellige_cuda/dialect.txt", "zellige_hip/dialect.txt", "zellige/cli/main.py"} <= names
    assert {f"zellige/diagnostics/pages/{code}.md" for code in catalogue.CODES} <= names


def test_the_wheel_says_what_it_is(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    info = f"zellige-{zellige.__version__}.dist-info"
    archive = zipfile.ZipFile(wheel)
    points = archive.read(f"{info}/entry_points.txt").decode()
    for name in ("cpu", "cuda", "hip", "template"):
        assert f"{name} = zellige_{name}:backend" in points
    assert "zellige = zellige.cli.main:main" in points
    metadata = archive.read(f"{info}/METADATA").decode()
    needed = [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert {line.split()[1].split(">")[0] for line in needed} == {"click", "llvmlite", "ml-dtypes", "numpy", "pluggy", "rich"}
    for extra in ("cuda", "hip", "torch", "dev"):
        assert f"Provides-Extra: {extra}\n" in metadata
    assert "License-Expression: Apache-2.0" in metadata


def test_the_sdist_holds_the_tree(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    top = f"zellige-{zellige.__version__}"
    names = set(tarfile.open(sdist).getnames())
    for entry in (
        "core/zellige/__init__.py",
        "backends/cpu/zellige_cpu/__init__.py",
        "backends/template/zellige_template/__init__.py",
        "docs/tile-ir.md",
        "tests/conftest.py",
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        "LICENSE",
        ".ci/run",
    ):
        assert f"{top}/{entry}" in names


@pytest.mark.slow
def test_an_installed_wheel_works_without_the_source_tree(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    commands = tmp_path / "venv" / "bin"
    subprocess.run([commands / "pip", "install", "-q", str(wheel)], check=True, cwd=tmp_path)
    for arguments in (["--version"], ["doctor"], ["explain-error", "E705"], ["demo", "--quick"]):
        done = subprocess.run([commands / "zellige", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
