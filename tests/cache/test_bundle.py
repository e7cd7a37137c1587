"""Bundles: what was compiled here runs elsewhere, and a file that is anything else is refused."""

from __future__ import annotations

import json
import os
import stat
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import zellige as zl
from zellige.cache import bundle, memo, recall, store
from zellige.cache.artifacts import packed
from zellige.cache.disk import DiskStore
from zellige.cli.main import group
from zellige.options import options


@pytest.fixture
def exported(folder: Path, tmp_path: Path, scaled: Any) -> Path:
    for factor in (2.0, 3.0):
        zl.compile(scaled(factor), out_idx=-1, target="cpu")
    file = tmp_path / "kernels.zip"
    summary = bundle.export_bundle(store(), file)
    assert (summary.artifacts, summary.binaries) == (2, 2)
    return file


def contents(folder: Path) -> dict[tuple[str, str], bytes | None]:
    disk = DiskStore(folder)
    return {(kind, key): disk.find(kind, key) for kind, key in disk.entries() if kind in ("artifacts", "binaries")}


def test_an_imported_kernel_is_not_compiled(
    exported: Path, folder: Path, tmp_path: Path, steps: Any, monkeypatch: pytest.MonkeyPatch, scaled: Any
) -> None:
    elsewhere = tmp_path / "elsewhere"
    monkeypatch.setenv("ZELLIGE_CACHE_DIR", str(elsewhere))
    memo.clear()
    options.cache_clear()
    recall._conditions.cache_clear()
    summary = bundle.import_bundle(store(), exported)
    assert summary.artifacts == 2 and contents(elsewhere) == contents(folder)
    kernel = zl.compile(scaled(3.0), out_idx=-1, target="cpu")
    assert kernel(np.ones(64, np.float32))[0] == 3 and steps.taken == (0, 0)


def test_a_kernel_is_exported_by_itself(
    folder: Path, tmp_path: Path, steps: Any, monkeypatch: pytest.MonkeyPatch, scaled: Any
) -> None:
    zl.compile(scaled(2.0), out_idx=-1, target="cpu")
    file = tmp_path / "new" / "scaled.kernel"
    zl.compile(scaled(3.0), out_idx=-1, target="cpu").export_library(file)
    monkeypatch.setenv("ZELLIGE_CACHE_DIR", str(tmp_path / "elsewhere"))
    memo.clear()
    options.cache_clear()
    recall._conditions.cache_clear()
    summary = bundle.import_bundle(store(), file)
    assert (summary.artifacts, summary.binaries) == (1, 1)
    assert steps.taken != (0, 0)
    kernel = zl.compile(scaled(3.0), out_idx=-1, target="cpu")
    assert kernel(np.ones(64, np.float32))[0] == 3 and steps.taken == (0, 0)
    with pytest.raises(zl.Unsupported, match="E440"):
        zl.compile(scaled(3.0), out_idx=-1, target="interp").export_library(file)


def test_equal_caches_give_equal_files_and_a_choice_is_exported(exported: Path, tmp_path: Path) -> None:
    bundle.export_bundle(store(), tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == exported.read_bytes()
    assert bundle.export_bundle(store(), tmp_path / "a.zip", kernels=frozenset({"scale"})).artifacts == 2
    assert bundle.export_bundle(store(), tmp_path / "b.zip", kernels=frozenset({"other"})).artifacts == 0
    assert bundle.export_bundle(store(), tmp_path / "c.zip", targets=frozenset({"cpu"})).artifacts == 2
    assert bundle.export_bundle(store(), tmp_path / "d.zip", targets=frozenset({"interp"})).artifacts == 0


Change = Callable[[dict[str, bytes]], None]


def rewritten(file: Path, change: Change, attributes: dict[str, int] | None = None) -> Path:
    """The bundle with changed entries."""
    with zipfile.ZipFile(file) as old:
        entries = {name: old.read(name) for name in old.namelist()}
    change(entries)
    made = file.with_name("changed.zip")
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for name, data in entries.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (attributes or {}).get(name, 0)
            info.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(info, data)
    return made


def manifest_of(entries: dict[str, bytes]) -> Any:
    return json.loads(entries[bundle.MANIFEST])


def with_manifest(entries: dict[str, bytes], manifest: Any) -> None:
    entries[bundle.MANIFEST] = json.dumps(manifest).encode()


def add(name: str, data: bytes = b"x") -> Change:
    """An entry that the manifest lists rightly."""

    def change(entries: dict[str, bytes]) -> None:
        import hashlib

        manifest = manifest_of(entries)
        manifest["entries"].append({"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()})
        with_manifest(entries, manifest)
        entries[name] = data

    return change


def first(entries: dict[str, bytes], kind: str) -> str:
    return next(name for name in entries if name.startswith(kind))


def damaged(entries: dict[str, bytes]) -> None:
    name = first(entries, "binaries")
    entries[name] = entries[name][:-1] + b"!"


def longer(entries: dict[str, bytes]) -> None:
    entries[first(entries, "binaries")] += b"!"


def unlisted(entries: dict[str, bytes]) -> None:
    entries[f"binaries/{'0' * 64}"] = b"x"


def missing(entries: dict[str, bytes]) -> None:
    del entries[first(entries, "artifacts")]


def without_manifest(entries: dict[str, bytes]) -> None:
    del entries[bundle.MANIFEST]


def of_another_format(entries: dict[str, bytes]) -> None:
    with_manifest(entries, {**manifest_of(entries), "format": 99})


def with_broken_manifest(entries: dict[str, bytes]) -> None:
    entries[bundle.MANIFEST] = b'{"format": 1, "entries": [3]}'


def with_endless_sizes(entries: dict[str, bytes]) -> None:
    manifest = manifest_of(entries)
    with_manifest(entries, {**manifest, "entries": [{**entry, "size": float("inf")} for entry in manifest["entries"]]})


PACKED = packed({"kernel": "k", "target": "cpu", "binary": "0", "format": "f", "facts": "", "places": [], "packing": "zlib"}, bytes(9))


REFUSED: list[tuple[Change, str]] = [
    (damaged, "which is not what its manifest says"),
    (longer, "which is larger than it may be"),
    (unlisted, "other entries than its manifest lists"),
    (missing, "other entries than its manifest lists"),
    (without_manifest, "has no manifest"),
    (of_another_format, "is of format 99"),
    (with_broken_manifest, "manifest that cannot be read"),
    (with_endless_sizes, "manifest that cannot be read"),
    (add("../../evil"), "no name of an entry"),
    (add("/etc/evil"), "no name of an entry"),
    (add(f"binaries/../{'0' * 64}"), "no name of an entry"),
    (add(f"secret/{'0' * 64}"), "no name of an entry"),
    (add("binaries/"), "no plain file"),
    (add(f"binaries/{'0' * 64}", b"\3\0\0\0abc"), "which cannot be used"),
    (add(f"artifacts/{'0' * 64}", b"\2\0\0\0{}"), "which cannot be used"),
    (add(f"artifacts/{'0' * 64}", PACKED), "which cannot be used: its text is packed"),
]


@pytest.mark.parametrize("change, reason", REFUSED)
def test_a_changed_bundle_is_refused_whole(exported: Path, tmp_path: Path, change: Change, reason: str) -> None:
    file = rewritten(exported, change)
    with pytest.raises(zl.CompileError, match=f"E745: .*{reason}"):
        bundle.import_bundle(DiskStore(tmp_path / "new"), file)
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "evil").exists() and not (tmp_path.parent / "evil").exists()


def test_a_device_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(zl.CompileError, match="E745: .*is no regular file"):
        bundle.import_bundle(DiskStore(tmp_path / "new"), Path(os.devnull))  # /dev/zero, which never ends, is refused by the same line


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_special_files_are_refused(exported: Path, tmp_path: Path, kind: int) -> None:
    with zipfile.ZipFile(exported) as old:
        name = next(n for n in old.namelist() if n.startswith("binaries/"))
    file = rewritten(exported, lambda _entries: None, {name: (kind | 0o777) << 16})
    with pytest.raises(zl.CompileError, match="E745: .*which is no plain file"):
        bundle.import_bundle(DiskStore(tmp_path / "new"), file)


def test_two_entries_of_one_name_are_refused(exported: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(exported, "a") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file.writestr(bundle.MANIFEST, b"{}")
    with pytest.raises(zl.CompileError, match="E745: .*two entries of one name"):
        bundle.import_bundle(DiskStore(tmp_path / "new"), exported)


def test_bombs_are_refused_before_they_unfold(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = rewritten(exported, add(f"binaries/{'0' * 64}", bytes(4 << 20)))
    assert bomb.stat().st_size < 1 << 20
    monkeypatch.setattr(bundle, "MOST_ENTRY_BYTES", 1 << 20)
    with pytest.raises(zl.CompileError, match="E745: .*larger than it may be"):
        bundle.import_bundle(DiskStore(tmp_path / "new"), bomb)
    monkeypatch.setattr(bundle, "MOST_BYTES", 1 << 20)
    with pytest.raises(zl.CompileError, match="E745: .*unpacks to more than"):
        bundle.import_bundle(DiskStore(tmp_path / "new"), bomb)
    monkeypatch.setattr(bundle, "MOST_ENTRIES", 2)
    with pytest.raises(zl.CompileError, match="E745: .*entries, at most 2 are taken"):
        bundle.import_bundle(DiskStore(tmp_path / "new"), bomb)


@pytest.mark.parametrize("data", [b"", b"no zip file", b"PK\x05\x06" + bytes(18)])
def test_files_of_another_kind_are_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "file.zip"
    file.write_bytes(data)
    with pytest.raises(zl.CompileError, match="E745: "):
        bundle.import_bundle(DiskStore(tmp_path / "new"), file)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damage_is_refused_however_a_bundle_is_packed(exported: Path, tmp_path: Path, method: int) -> None:
    file = tmp_path / "other.zip"
    with zipfile.ZipFile(exported) as old, zipfile.ZipFile(file, "w", method) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
        packed = [(info.header_offset + 30 + len(info.filename.encode()), info.compress_size) for info in new.infolist()]
    data = file.read_bytes()
    for begin, size in packed[:20]:
        place = begin + size // 2
        file.write_bytes(data[:place] + bytes(byte ^ 0xFF for byte in data[place : place + 8]) + data[place + 8 :])
        with pytest.raises(zl.CompileError, match="E745: "):
            bundle.import_bundle(DiskStore(tmp_path / "new"), file)


def test_every_cut_of_a_bundle_is_refused(exported: Path, tmp_path: Path) -> None:
    data = exported.read_bytes()
    file = tmp_path / "cut.zip"
    for length in range(0, len(data), max(1, len(data) // 50)):
        file.write_bytes(data[:length])
        with pytest.raises(zl.CompileError, match="E745: "):
            bundle.import_bundle(DiskStore(tmp_path / "new"), file)


def test_the_command_line(exported: Path, folder: Path, tmp_path: Path) -> None:
    run = CliRunner()
    shown = run.invoke(group, ["cache", "stats"])
    assert str(folder) in shown.output and "artifacts 2" in shown.output and "1.0 GiB" in shown.output
    made = run.invoke(group, ["cache", "export", str(tmp_path / "cli.zip"), "--kernel", "scale"])
    assert made.exit_code == 0 and "2 kernels" in made.output
    assert "removed" in run.invoke(group, ["cache", "clear"]).output
    assert contents(folder) == {}
    taken = run.invoke(group, ["cache", "import", str(tmp_path / "cli.zip")])
    assert taken.exit_code == 0 and "2 kernels" in taken.output and len(contents(folder)) == 4
    failed = run.invoke(group, ["cache", "export", str(tmp_path / "no" / "folder.zip")])
    assert failed.exit_code == 1 and "cannot be written" in failed.output


def test_a_file_that_is_no_bundle_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text("import zellige\n", encoding="utf-8")
    with pytest.raises(FileExistsError, match="no bundle"):
        bundle.write_bundle({}, file)
    assert file.read_text(encoding="utf-8") == "import zellige\n"
    bundle.write_bundle({}, tmp_path / "new.zip")
    bundle.write_bundle({}, tmp_path / "new.zip")
