"""Names of the language in a file of a backend's package: read for others at once, for our own when somebody asks for one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zellige.diagnostics import ZelligeError
from zellige.plugin import dialect
from zellige.plugin.handle import BackendHandle
from zellige.plugin.origin import Origin
from zellige.plugin.registry import registry

SOURCE = '''
from zellige.plugin.contract import API, Capabilities, Manifest
from zellige.plugin.hooks import hookimpl

class Tabled:
    API = API

    @hookimpl
    def manifest(self):
        return Manifest(name="tabled", vendor="a", version="1", kind="accelerator", targets=("tabled",), dialect_table="names.txt")

    @hookimpl
    def probe(self):
        return ()

    @hookimpl
    def describe(self, target):
        return Capabilities(target=str(target))
'''


@pytest.fixture
def tabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., BackendHandle]]:
    """Takes in a backend with a table of that text."""
    home = tmp_path / "tabled_backend"
    home.mkdir()
    (home / "__init__.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))

    def take(text: str | None, *, is_own: bool = False) -> BackendHandle:
        if text is not None:
            (home / "names.txt").write_text(text)
        plugin: Any = importlib.import_module("tabled_backend").Tabled()
        return BackendHandle(Origin(name="tabled", value="tabled", load=lambda: plugin, is_own=is_own), plugin)

    yield take
    sys.modules.pop("tabled_backend", None)


def test_the_table_is_what_the_manifest_could_list(tabled: Callable[..., BackendHandle]) -> None:
    handle = tabled("# a comment\n\ntabled_dma tabled\ntabled_mma tabled:v2\n")
    assert [(entry.name, entry.target) for entry in handle.dialect_names] == [("tabled_dma", "tabled"), ("tabled_mma", "tabled:v2")]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (None, "its table of names 'names.txt' cannot be read: FileNotFoundError"),
        ("tabled_dma\n", "names.txt:1: expected a name and a target, got 'tabled_dma'"),
        ("dma! tabled\n", "in its table of names: 'dma!' is no name of the language"),
        ("dma cpu\n", "dialect says that 'cpu' has 'dma', which is none of its targets"),
        ("dma tabled\ndma tabled\n", "dialect names 'dma' 2 times"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(tabled: Callable[..., BackendHandle], text: str | None, fault: str) -> None:
    with pytest.raises(ZelligeError) as caught:
        tabled(text)
    assert caught.value.code == "E703"
    assert fault in str(caught.value)


def test_our_own_tables_are_read_when_a_name_is_asked_for(tabled: Callable[..., BackendHandle], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(dialect, "read_dialect", lambda *_: pytest.fail("nobody asked"))
        handle = tabled("tabled_dma tabled\n", is_own=True)
    assert [entry.name for entry in handle.dialect_names] == ["tabled_dma"]


def test_the_tables_of_our_own_backends_are_right() -> None:
    found = {handle.manifest.name: len(handle.dialect_names) for handle in registry().backends if handle.manifest.dialect_table}
    assert set(found) >= {"cuda", "hip"}
    assert min(found.values()) > 5
