"""Families of instructions that other packages bring: taken in, loaded when asked for, refused with whose a name is."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zellige.diagnostics import CompileError
from zellige_intrinsics import add_family, all_intrinsics, changed, families, family, intrinsic, product_rows, stamp
from zellige_intrinsics.tables import copy_rows, taken_out, wait_rows

table = importlib.import_module("zellige_intrinsics.homes")

COPIED = """
from dataclasses import replace
from zellige_intrinsics import family
INTRINSICS = [replace(value, name=f"{{prefix}} {{value.name}}") for value in family("amd") if value.completion is None]
""".replace("{{", "{").replace("}}", "}")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], str]]:
    """Writes a module that can be imported; families that a test adds are gone after it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(table, "_others", {})
    monkeypatch.setattr(table, "_loaded", dict(table._loaded))
    written: list[str] = []

    def made(name: str, source: str) -> str:
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        importlib.invalidate_caches()
        written.append(name)
        return name

    yield made
    for name in written:
        sys.modules.pop(name, None)


def test_it_stands_beside_the_others(module: Callable[[str, str], str]) -> None:
    home = module("their_instructions", f"prefix = 'my'\n{COPIED}")
    add_family("mine", home)
    add_family("mine", home)
    assert families()[-1] == "mine" and home not in sys.modules, "imported when it is asked for"
    names = [value.name for value in family("mine")]
    assert names and all(name.startswith("my ") for name in names)
    assert intrinsic(names[0]) is family("mine")[0]
    assert set(names) < {value.name for value in all_intrinsics()}
    products = [row.name for row in product_rows("mine")]
    assert products and set(products) | {row.name for row in (*copy_rows("mine"), *wait_rows("mine"))} <= set(names)
    with changed("mine", without=(products[0],)):
        assert products[0] not in [row.name for row in product_rows("mine")]
        assert [row.name for row in taken_out("mine")] == [products[0]]
        assert stamp("mine")
    assert not stamp("mine")


def test_rows_of_a_family_without_rows_are_those_of_its_specifications() -> None:
    assert {row.name for row in product_rows("amd")} == {value.name for value in family("amd") if type(value).__name__ == "Product"}


@pytest.mark.parametrize(
    "name, home, reason",
    [
        ("nvidia", "acme.instructions", "the family nvidia is that of zellige_intrinsics.nvidia"),
        ("taken", "acme.instructions", "the family taken is that of somebody.else_s"),
        ("Mine", "acme.instructions", "no lower-case identifier"),
        ("mine", "acme/instructions.py", "is no full name of a module"),
        ("mine", "", "is no full name of a module"),
    ],
)
def test_names_that_clash_are_refused_with_whose_they_are(name: str, home: str, reason: str, module: Callable[[str, str], str]) -> None:
    add_family("taken", "somebody.else_s")
    before = families()
    with pytest.raises(CompileError, match=f"E333: .*{reason}"):
        add_family(name, home)
    assert families() == before


@pytest.mark.parametrize(
    "source, reason",
    [
        ("import there_is_no_such_module", "importing wrong fails: ModuleNotFoundError"),
        ("", "wrong has no specifications in INTRINSICS"),
        ("INTRINSICS = ('dot',)", "is a str, no specification"),
        ("from zellige_intrinsics.amd import INTRINSICS", "zellige_intrinsics.amd has an instruction .* already"),
        (f"prefix = 'my'\n{COPIED}INTRINSICS *= 2", "wrong has an instruction my .* already"),
        (f"prefix = 'their'\n{COPIED}", "theirs has an instruction their .* already"),
    ],
)
def test_modules_that_are_no_family_are_refused(source: str, reason: str, module: Callable[[str, str], str]) -> None:
    add_family("theirs", module("theirs", f"prefix = 'their'\n{COPIED}"))
    assert family("theirs")
    add_family("wrong", module("wrong", source))
    for _ in range(2):
        with pytest.raises(CompileError, match=f"E333: .*{reason}"):
            family("wrong")


def test_an_unknown_family_is_called_one() -> None:
    with pytest.raises(CompileError, match="E330: there is no family of intrinsics abacus"):
        family("abacus")
