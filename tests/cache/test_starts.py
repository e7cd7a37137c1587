"""Kernels that are found in one piece: taken while their grounds hold, never when one of them has changed."""

from __future__ import annotations

import ast
import importlib.util
import os
import py_compile
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zellige import recollection
from zellige.cache import memo, recall, sources, starts, store
from zellige.cache.artifacts import Unreadable
from zellige.cache.disk import DiskStore
from zellige.diagnostics import ZelligeError
from zellige.plugin import installed
from zellige.plugin.handle import BackendHandle
from zellige.plugin.registry import begin_with, registry

PROGRAM = """
import numpy as np
import zellige as zl
import zellige.language as T

@zl.jit(target="{target}"{options})
def kernel(A, factor=2.0):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(1) as _:
        for j in T.Parallel(N):
            {body}
            B[j] = A[j] * factor
    return B
"""
A = np.arange(16, dtype=np.float32)


class Runs:
    """Runs the program from always the same file, as a new process would."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = path
        self._asked: list[bool] = []
        conditions_of = recollection.conditions_of

        def counted(*arguments: Any) -> str:
            self._asked.append(True)
            return conditions_of(*arguments)

        monkeypatch.setattr(recollection, "conditions_of", counted)

    def __call__(self, target: str = "cpu", options: str = "", body: str = "pass") -> bool:
        """Whether the kernel was found in one piece: nobody asked what keys of other entries are made of."""
        self._path.write_text(PROGRAM.format(target=target, options=options, body=body))
        memo.clear()
        recall._conditions.cache_clear()
        self._asked.clear()
        spec = importlib.util.spec_from_file_location("program_that_starts", self._path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert np.array_equal(module.kernel(A), A * 2)
        return not self._asked


@pytest.fixture
def runs(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    del folder
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return Runs(tmp_path / "program.py", monkeypatch)


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "v1" / "starts").rglob("*") if path.is_file())


# ---- the whole way


def test_a_kernel_is_found_in_one_piece(runs: Runs, folder: Path) -> None:
    assert not runs()
    assert len(entries(folder)) == 1
    before = store().statistics()
    assert runs()
    after = store().statistics()
    assert (after.found - before.found, after.missed - before.missed) == (1, 0)


def test_one_that_is_gone_is_kept_again(runs: Runs, folder: Path) -> None:
    runs()
    entries(folder)[0].unlink()
    assert not runs()
    assert runs()


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:60], lambda d: b"", lambda d: d[:-1] + bytes((d[-1] ^ 1,))])
def test_what_is_damaged_is_not_taken(runs: Runs, folder: Path, damage: Callable[[bytes], bytes]) -> None:
    runs()
    (entry,) = entries(folder)
    entry.write_bytes(damage(entry.read_bytes()))
    assert not runs()
    assert runs()


@pytest.mark.parametrize("content", [b"", b"\x05\0\0\0 {}[]", b"\x02\0\0\0{}" + bytes(24), b"\x02\0\0\0[]"])
def test_what_is_proven_but_none_is_not_taken(runs: Runs, folder: Path, content: bytes) -> None:
    runs()
    (entry,) = entries(folder)
    store().keep("starts", entry.name, content)
    assert not runs()


def test_a_start_that_holds_too_little_is_unreadable(runs: Runs, folder: Path) -> None:
    runs()
    data = store().look("starts", entries(folder)[0].name)
    assert data is not None
    assert starts.unpack_start(data) is not None
    for cut in (data[:-1], data + b" "):
        with pytest.raises(Unreadable):
            starts.unpack_start(cut)


@pytest.mark.parametrize("hook", ["description", "cache_key"])
def test_another_machine_takes_none(runs: Runs, monkeypatch: pytest.MonkeyPatch, hook: str) -> None:
    runs()
    assert runs()
    monkeypatch.setattr(BackendHandle, hook, lambda self, ctx: "another machine")
    assert not runs()


def test_code_that_links_no_more_is_compiled_again(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs()
    load, asked = BackendHandle.load, []

    def refuses_once(self: Any, *arguments: Any) -> Any:
        asked.append(True)
        if len(asked) == 1:
            raise recall.InternalError("the machine code cannot be linked")
        return load(self, *arguments)

    monkeypatch.setattr(BackendHandle, "load", refuses_once)
    assert runs()
    assert len(asked) == 2


@pytest.mark.parametrize("case", ["auto", "configs"])
def test_what_follows_from_more_is_not_kept_in_one_piece(
    runs: Runs, folder: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setenv("ZELLIGE_TARGET", "auto")
    chosen: dict[str, dict[str, str]] = {
        "auto": {"target": "auto"},
        "configs": {"options": ', pass_configs={"tl.enable_fast_math": True}'},
    }
    for _ in range(2):
        assert not runs(**chosen[case])
    assert not entries(folder)


def test_other_arguments_and_targets_are_other_starts(runs: Runs, folder: Path) -> None:
    runs()
    assert not runs(body="pass; pass")
    assert not runs(target="llvm")
    assert len(entries(folder)) == 3


def test_a_kernel_follows_from_all_files_where_nobody_knows_which_made_it(runs: Runs, folder: Path) -> None:
    def files() -> int:
        data = store().look("starts", entries(folder)[0].name)
        assert data is not None
        kept = starts.unpack_start(data)
        assert kept is not None
        return sum(len(names.split("/")) for _, _, names, _ in kept.grounds.files)

    runs()
    some = files()
    entries(folder)[0].unlink()
    for entry in (folder / "v1" / "sources").rglob("*"):
        if entry.is_file():
            entry.unlink()
    assert not runs()
    every = sources.stamp(("zellige", "zellige_cpu", "zellige_intrinsics"), None)
    assert every is not None
    assert files() == sum(len(names.split("/")) for _, _, names, _ in every) > some > 100


def test_points_that_are_known_make_a_registry_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    points = registry().own_points()
    assert ["cpu", "zellige_cpu:backend"] in points
    registry.cache_clear()
    try:
        with monkeypatch.context() as patch:
            patch.setattr("zellige.plugin.registry.installed_points", lambda *_: pytest.fail("nobody searches"))
            begin_with(points)
            assert registry().own_points() == points
            assert registry().backend(registry().resolve("cpu")).origin.is_own
        begin_with([])
        assert registry().own_points() == points, "a registry that is there stays"
    finally:
        registry.cache_clear()


# ---- files of packages


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a module that is loaded, one that is not, and a table."""
    made = tmp_path / "roots" / "some_backend"
    (made / "deep").mkdir(parents=True)
    (made / "__init__.py").write_text("from some_backend.deep import loaded\n")
    (made / "deep" / "__init__.py").write_text("")
    (made / "deep" / "loaded.py").write_text("a = 1\n")
    (made / "deep" / "other.py").write_text("b = 1\n")
    (made / "table.txt").write_text("c\n")
    monkeypatch.syspath_prepend(str(made.parent))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sources, "LOADED_NS", 2**62)
    importlib.import_module("some_backend")
    yield made
    for name in [name for name in sys.modules if name.partition(".")[0] == "some_backend"]:
        del sys.modules[name]


def _edit(path: Path) -> None:
    """Another text of the same length at another time, in place."""
    with path.open("r+") as file:
        file.write("x")
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize("is_some", [False, True])
@pytest.mark.parametrize("change", ["deep/loaded.py", "table.txt", "new", "gone", "deep/other.py"])
def test_a_changed_file_is_seen(package: Path, is_some: bool, change: str) -> None:
    noted = sources.stamp(("some_backend",), frozenset(sys.modules) if is_some else None)
    assert noted is not None
    assert sources.is_unchanged(noted)
    if change == "new":
        (package / "deep" / "more.py").write_text("")
    elif change == "gone":
        (package / "deep" / "other.py").unlink()
    else:
        _edit(package / change)
    is_without_effect = is_some and change == "deep/other.py"  # no code of it had a part in what was made
    assert sources.is_unchanged(noted) == is_without_effect


@pytest.mark.parametrize("way", ["in place", "another file"])
def test_a_file_that_changed_is_seen_whatever_time_it_says(package: Path, way: str) -> None:
    """A build that gives all files one time of change, with code of the same length."""
    noted, table = sources.stamp(("some_backend",), None), package / "table.txt"
    assert noted is not None
    status, length = table.stat(), len(table.read_bytes())
    if way == "another file":
        (package.parent / "kept").hardlink_to(table)  # so that its number is not given again
        table.unlink()
    table.write_bytes(b"x" * length)
    os.utime(table, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.utime(package, ns=(0, noted[0][1]))
    assert not sources.is_unchanged(noted)


def test_a_link_that_leads_elsewhere_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LOADED_NS", 2**62)
    for name, text in (("v1", "F = 2"), ("v2", "F = 3")):
        (tmp_path / name / "linked_backend").mkdir(parents=True)
        (tmp_path / name / "linked_backend" / "__init__.py").write_text(text)
        for path in (tmp_path / name / "linked_backend" / "__init__.py", tmp_path / name / "linked_backend", tmp_path / name):
            os.utime(path, ns=(1, 1))
    link = tmp_path / "current"
    link.symlink_to(tmp_path / "v1")
    monkeypatch.syspath_prepend(str(link))
    noted = sources.stamp(("linked_backend",), None)
    assert noted is not None
    assert sources.is_unchanged(noted)
    link.unlink()
    link.symlink_to(tmp_path / "v2")
    assert not sources.is_unchanged(noted)


def test_byte_code_counts_where_its_source_was_left_out(package: Path) -> None:
    module = package / "deep" / "other.py"
    py_compile.compile(str(module), cfile=f"{module}c")
    beside = sources.stamp(("some_backend",), None)
    module.unlink()
    alone = sources.stamp(("some_backend",), None)
    assert beside is not None
    assert alone is not None
    names = [{name for _, _, files, _ in noted for name in files.split("/")} for noted in (beside, alone)]
    assert [name for name in names[0] if name.endswith(".pyc")] == []
    assert [name for name in names[1] if name.endswith(".pyc")] == ["other.pyc"]
    Path(f"{module}c").write_bytes(b"other")
    assert not sources.is_unchanged(alone)


@pytest.fixture
def core_is_it(package: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package in core's place, seen when its modules were loaded."""
    monkeypatch.setattr(sources, "CORE", "some_backend")
    monkeypatch.setattr(sources, "_loaded", {})
    return package


def test_a_loaded_file_of_core_is_what_it_was_when_it_was_loaded(core_is_it: Path) -> None:
    noted = sources.stamp(("some_backend",), None)
    assert noted is not None
    sources.see_loaded()
    _edit(core_is_it / "deep" / "loaded.py")
    assert sources.is_unchanged(noted), "this process runs what was noted"
    sources.see_loaded()
    assert sources.is_unchanged(noted), "it is looked at once"
    changed = sources.stamp(("some_backend",), None)
    assert changed is not None
    assert not sources.is_unchanged(changed), "a start of the compiler that came meanwhile is not for this process"


@pytest.mark.parametrize("change", ["deep/loaded.py", "deep/other.py", "table.txt", "new", "gone"])
def test_a_file_of_core_that_changed_before_it_was_loaded_is_seen(core_is_it: Path, change: str) -> None:
    noted = sources.stamp(("some_backend",), None)
    assert noted is not None
    if change == "new":
        (core_is_it / "deep" / "more.py").write_text("")
    elif change == "gone":
        (core_is_it / "deep" / "other.py").unlink()
    else:
        _edit(core_is_it / change)
    sources.see_loaded()
    assert not sources.is_unchanged(noted)


def test_only_loaded_files_of_core_are_believed(core_is_it: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = sources.stamp(("some_backend",), None)
    assert noted is not None
    sources.see_loaded()
    assert {name for names in sources._loaded.values() for name in names} == {"__init__.py", "loaded.py"}
    _edit(core_is_it / "deep" / "other.py")
    assert not sources.is_unchanged(noted)
    monkeypatch.setattr(sources, "_loaded", {})
    monkeypatch.setattr(sources, "LOADED_NS", 1)
    sources.see_loaded()
    assert not any(sources._loaded.values()), "younger than this process: it may not be what was loaded"


def test_a_process_that_compiles_has_seen_what_it_loaded() -> None:
    program = "import os, zellige.jit, zellige.cache.sources as s; print(sorted(os.path.basename(f) for f, n in s._loaded.items() if n))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"zellige", "frontend", "ir", "plugin"} <= set(ast.literal_eval(done.stdout))
    assert "cache" not in ast.literal_eval(done.stdout)


def test_a_module_alone_is_its_file_and_not_the_folder(package: Path) -> None:
    (package.parent / "single.py").write_text("a = 1\n")
    importlib.import_module("single")
    try:
        noted = sources.stamp(("single",), frozenset(sys.modules))
        assert noted is not None
        assert [names for _, _, names, _ in noted] == ["single.py"]
        (package.parent / "another.py").write_text("")
        assert sources.is_unchanged(noted)
        _edit(package.parent / "single.py")
        assert not sources.is_unchanged(noted)
    finally:
        del sys.modules["single"]


def test_a_package_in_several_places_is_all_of_them(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [package.parent / "shared_name", package.parent.parent / "more" / "shared_name"]
    for number, part in enumerate(parts):
        part.mkdir(parents=True)
        (part / f"part{number}.py").write_text("")
    monkeypatch.syspath_prepend(str(parts[1].parent))
    importlib.invalidate_caches()
    noted = sources.stamp(("shared_name",), None)
    assert noted is not None
    assert {names for _, _, names, _ in noted} == {"part0.py", "part1.py"}
    before = sources._digest(sources._roots("shared_name"), frozenset(), store())
    _edit(parts[1] / "part1.py")
    assert not sources.is_unchanged(noted)
    assert sources._digest(sources._roots("shared_name"), frozenset(), store()) != before


def test_a_package_in_an_archive_is_the_archive(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = package.parent / "packed.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("packed_up/__init__.py", "a = 1\n")
    monkeypatch.syspath_prepend(str(archive))
    importlib.invalidate_caches()
    noted = sources.stamp(("packed_up",), None)
    assert noted is not None
    assert [names for _, _, names, _ in noted] == ["packed.zip"]
    os.utime(archive, ns=(1, 1))
    assert not sources.is_unchanged(noted)


def test_a_package_without_files_has_no_start(package: Path) -> None:
    del package
    assert sources.stamp(("there_is_none",), None) is None


def test_files_younger_than_the_process_are_not_noted(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del package
    monkeypatch.setattr(sources, "LOADED_NS", 0)
    assert sources.stamp(("some_backend",), None) is None


WAYS_TO_KEEP_TIMES: dict[str, Callable[[Path], object]] = {
    "in place": _edit,
    "another file": lambda file: _put(file),
    "a folder that is put there": lambda file: _put_folder(file),
}
"""As copies that keep times, links to a store of packages, and unpacked archives do it."""


def _put(file: Path) -> None:
    made = file.with_name("made")
    made.write_text(file.read_text().replace("1", "5"))
    os.utime(made, ns=(1, 1))
    made.replace(file)
    os.utime(file.parent, ns=(1, 1))


def _put_folder(file: Path) -> None:
    shutil.copytree(file.parent, file.parent.with_name("made"))
    _put(file.parent.with_name("made") / file.name)
    file.parent.rename(file.parent.with_name("before"))
    file.parent.with_name("made").rename(file.parent)


@pytest.mark.parametrize("way", WAYS_TO_KEEP_TIMES)
def test_source_that_is_replaced_with_old_times_is_younger_than_the_process(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """What the process compiles then comes of the code that it loaded, and is found by nobody who has the new one."""
    time.sleep(0.02)  # the system's clock for files goes in steps of some milliseconds
    now = time.time_ns()
    time.sleep(0.02)
    monkeypatch.setattr(sources, "LOADED_NS", now)
    monkeypatch.setattr(sources, "_digests", {})
    disk = DiskStore(tmp_path / "kept")
    digest = sources.source_digest("some_backend", disk)
    assert sources.stamp(("some_backend",), None) is not None
    file = package / "deep" / "loaded.py"
    WAYS_TO_KEEP_TIMES[way](file)
    assert file.stat().st_mtime_ns == 1
    assert sources.stamp(("some_backend",), None) is None
    sources._digests.clear()
    first = sources.source_digest("some_backend", disk)
    sources._digests.clear()
    assert len({digest, first, sources.source_digest("some_backend", disk)}) == 3, "each process has its own"
    monkeypatch.setattr(sources, "LOADED_NS", 2**62)  # one that began later
    sources._digests.clear()
    assert sources.source_digest("some_backend", disk) not in (digest, first)


# ---- what is installed


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path of two folders, the second with a distribution."""
    (tmp_path / "first").mkdir()
    info = tmp_path / "second" / "own-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[some.group]\na = b:c\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "second"), str(tmp_path / "missing.zip")])
    installed._names.cache_clear()
    yield tmp_path
    installed._names.cache_clear()


def _renamed(root: Path) -> None:
    (root / "second" / "own-1.0.dist-info").rename(root / "second" / "own-1.1.dist-info")


def _same_time(points: Path) -> None:
    status = points.stat()
    points.write_text("[some.group]\na = b:d\n")
    os.utime(points, ns=(status.st_atime_ns, status.st_mtime_ns))


def _archived(root: Path) -> None:
    with zipfile.ZipFile(root / "missing.zip", "w") as file:
        file.writestr("a", "b")


CHANGES: dict[str, Callable[[Path], object]] = {
    "installed": lambda root: (root / "first" / "more-1.0.dist-info").mkdir(),
    "another version": _renamed,
    "other points": lambda root: (root / "second" / "own-1.0.dist-info" / "entry_points.txt").write_text("[some.group]\na = other:c\n"),
    "other points at the same time": lambda root: _same_time(root / "second" / "own-1.0.dist-info" / "entry_points.txt"),
    "no points": lambda root: (root / "second" / "own-1.0.dist-info" / "entry_points.txt").unlink(),
    "a package before": lambda root: (root / "first" / "some_package").mkdir(),
    "a module before": lambda root: (root / "first" / "some_package.py").write_text(""),
    "an archive": _archived,
    "another path": lambda root: sys.path.append(str(root)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("of", ["own", ""])
def test_what_is_installed_is_seen(places: Path, monkeypatch: pytest.MonkeyPatch, change: str, is_old: bool, of: str) -> None:
    monkeypatch.setattr(installed, "LOADED_NS", 2**62 if is_old else 0)  # of young folders no time is trusted
    noted = installed.noted_places("some.group", of, ["some_package"])
    assert noted is not None
    assert installed.are_unchanged(noted)
    (places / "first" / "results.txt").write_text("a program wrote beside itself")
    assert installed.are_unchanged(noted)
    CHANGES[change](places)
    assert not installed.are_unchanged(noted)


def test_a_folder_of_the_path_that_has_an_old_time_is_looked_through(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    time.sleep(0.02)
    monkeypatch.setattr(installed, "LOADED_NS", time.time_ns())
    before = installed.noted_places("some.group", "", [])
    time.sleep(0.02)
    (places / "first" / "more-1.0.dist-info").mkdir()
    os.utime(places / "first", ns=(1, 1))
    after = installed.noted_places("some.group", "", [])
    assert before is not None
    assert after is not None
    assert [one["places"][0][1] < 0 for one in (before, after)] == [False, True]


@pytest.mark.usefixtures("places")
def test_somebody_elses_finder_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    noted = installed.noted_places("some.group", "own", [])
    assert noted is not None

    class Finder(PathFinder):
        pass

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert not installed.are_unchanged(noted)
    assert installed.noted_places("some.group", "own", []) is None
    assert installed.noted_places("some.group", "there-is-none", []) is None


def test_what_made_a_kernel_is_known_to_later_processes(runs: Runs, folder: Path) -> None:
    """A start that is gone, or could not be kept at first, is kept again with the files that made it and no others."""
    def files() -> set[tuple[str, str]]:
        data = store().look("starts", entries(folder)[0].name)
        assert data is not None
        kept = starts.unpack_start(data)
        assert kept is not None
        return {(path, name) for path, _, names, _ in kept.grounds.files for name in names.split("/")}

    runs()
    first = files()
    entries(folder)[0].unlink()
    assert not runs()
    assert first <= files(), "this process may have loaded more since"
    every = sources.stamp(("zellige", "zellige_cpu", "zellige_intrinsics"), None)
    assert every is not None
    assert len(files()) < sum(len(names.split("/")) for _, _, names, _ in every)


def test_a_kernel_that_is_found_shows_its_source(runs: Runs) -> None:
    def source() -> str:
        (kernel,) = {id(k): k for e in sys.modules["program_that_starts"].kernel._entries.values() for k in e.kernels.values()}.values()
        return str(kernel.get_kernel_source())

    assert not runs()
    made = source()
    assert runs()
    assert source() == made
    assert "define" in made


def test_code_that_tells_places_tells_those_of_the_function_as_it_stands(runs: Runs) -> None:
    def told() -> tuple[str, int]:
        with pytest.raises(ZelligeError) as caught:
            sys.modules["program_that_starts"].kernel(-A - 1)
        span = caught.value.diagnostics[0].span
        assert span is not None
        return span.file, span.line

    body = 'T.device_assert(A[j] >= 0, "negative")'
    line = next(number for number, text in enumerate(PROGRAM.splitlines(), 1) if "{body}" in text)
    assert not runs(body=body)
    first = told()
    assert first[1] == line
    assert runs(body=body)
    assert told() == first
    moved = "pass\n            " + body
    assert not runs(body=moved), "the same code from another line is another start"
    assert told() == (first[0], line + 1)
    assert runs(body=moved)
    assert told() == (first[0], line + 1)
