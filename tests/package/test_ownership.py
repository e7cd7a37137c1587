"""Whose code something is: ours, a library's or the user's; one rule for all that asks."""

from __future__ import annotations

import os
import sys
import sysconfig
import types
from pathlib import Path

import numpy as np
import pytest

from zellige.diagnostics.ownership import is_core, is_library, is_library_file, is_ours

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli", reason="before 3.11, Python reads no TOML")

ROOT = Path(__file__).parents[2]


def test_every_package_of_the_distribution_is_ours() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    packages = [path.rpartition("/")[2] for path in built]
    assert len(packages) >= 8
    assert [package for package in packages if not (is_ours(package) and is_ours(f"{package}.part"))] == []
    assert [package for package in packages if is_core(package)] == ["zellige", "zellige_intrinsics"]


@pytest.mark.parametrize("name", ["zelligefoo", "zellige_foo", "zellige_cpu_kernels", "my.zellige", "__main__", None, ""])
def test_a_name_that_begins_alike_is_somebody_elses(name: str | None) -> None:
    assert not is_ours(name) and not is_core(name)


def test_files_of_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / "dist-packages"
    packages.mkdir()
    kernel = str(packages / "kernel.py")
    assert not is_library_file(kernel), "no directory that Python finds packages in"
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    assert is_library_file(kernel)
    assert is_library_file(os.path.join(sysconfig.get_paths()["purelib"], "somebody", "part.py"))
    assert is_library_file(os.__file__) and is_library_file("<frozen importlib._bootstrap>")
    beside = Path(str(packages) + "2")
    for own in (tmp_path / "site-packages-demo" / "k.py", tmp_path / "about" / "site-packages" / "k.py", beside / "k.py"):
        assert not is_library_file(str(own)), own
    assert not is_library_file("<string>") and not is_library_file("kernel.py") and not is_library_file("<ipython-input-1>")


def test_a_link_to_a_library_is_a_library(tmp_path: Path) -> None:
    link = tmp_path / "linked"
    link.symlink_to(os.path.dirname(os.__file__), target_is_directory=True)
    assert is_library_file(str(link / "os.py"))


def test_modules_of_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_library("numpy") and is_library(np.linalg.__name__) and is_library("os") and is_library("itertools")
    assert not is_library(__name__) and not is_library("__main__") and not is_library("not_loaded_by_anybody")
    monkeypatch.setitem(sys.modules, "made_by_the_user", types.ModuleType("made_by_the_user"))
    assert not is_library("made_by_the_user")
