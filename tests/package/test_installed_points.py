"""Entry points are the same as importlib.metadata's, wherever distributions lie."""

from __future__ import annotations

import os
import sys
import zipfile
from importlib.metadata import Distribution, entry_points, version
from pathlib import Path

import pytest

from zellige.plugin.installed import are_unchanged, installed_points, installed_version, noted_places


def described(group: str) -> list[tuple[str, str]]:
    return [(one.point.name, one.point.value) for one in installed_points(group)]


def distribution(folder: Path, name: str, lines: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[console_scripts]\nother = m:f\n\n[some.group]\n{lines}\n")


@pytest.mark.parametrize("group", ["zellige.backends", "console_scripts", "there.is.none"])
def test_the_installed_ones_are_those_of_the_standard_library(group: str) -> None:
    assert sorted(described(group)) == sorted({(point.name, point.value) for point in entry_points(group=group)})


def test_the_first_of_two_installations_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(tmp_path / "one", "a_plugin", "x = first:plugin")
    distribution(tmp_path / "two", "A.Plugin", "x = second:plugin")
    distribution(tmp_path / "two", "another", "b = third:plugin")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "missing"), str(tmp_path / "one"), str(tmp_path / "two"), *sys.path])
    found = installed_points("some.group")
    assert [(one.point.name, one.point.value, one.distribution) for one in found] == [
        ("b", "third:plugin", "another"), ("x", "first:plugin", "a_plugin"),
    ]  # fmt: skip


def test_distributions_in_an_archive_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "plugins.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("packed-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: packed\nVersion: 1.0\n")
        file.writestr("packed-1.0.dist-info/entry_points.txt", "[some.group]\nz = packed:plugin\n")
    monkeypatch.syspath_prepend(str(archive))
    assert [(one.point.name, one.distribution) for one in installed_points("some.group")] == [("z", "packed")]


def test_no_list_is_wrong_where_the_stack_is_used_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: object) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    distribution(tmp_path, "a_plugin", "x = first:plugin")
    monkeypatch.syspath_prepend(str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(Distribution, "entry_points", property(read))
        with pytest.raises(RecursionError):
            installed_points("some.group")
    assert described("some.group") == [("x", "first:plugin")]


@pytest.mark.parametrize("name", ["numpy", "llvmlite", "ml_dtypes", "ml-dtypes", "zellige"])
def test_versions_are_those_of_the_standard_library(name: str) -> None:
    assert installed_version(name) == version(name)


def test_what_is_not_installed_has_no_version() -> None:
    assert installed_version("there-is-no-such-thing") == "none"


@pytest.mark.parametrize("form", ["{0}", "{0}/", "{0}//", "{0}/../plugins", "./plugins", "plugins/", "../{1}/plugins"])
def test_a_list_of_entry_points_is_watched_however_its_place_is_written(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(tmp_path / "plugins", "a_plugin", "x = first:plugin")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [form.format(tmp_path / "plugins", tmp_path.name), *sys.path])
    noted = noted_places("some.group", "a_plugin", ())
    assert noted is not None
    assert are_unchanged(noted)
    file = tmp_path / "plugins" / "a_plugin-1.0.dist-info" / "entry_points.txt"
    before = os.stat(file.parent.parent)
    file.write_text("[some.group]\nx = another:plugin\n")
    assert os.stat(file.parent.parent).st_mtime_ns == before.st_mtime_ns, "the folder itself tells nothing"
    assert not are_unchanged(noted)
