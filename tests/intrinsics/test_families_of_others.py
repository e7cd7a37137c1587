"""Families of instructions that other packages bring: taken in, loaded when asked for, refused with whose a name is."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from zellige.diagnostics import CompileError
from zellige_intrinsics import add_family, all_intrinsics, changed, families, family, intrinsic, product_rows, stamp
from zellige_intrinsics.specification import Copy, Product, Synchronisation
from zellige_intrinsics.tables import copy_row_of, copy_rows, taken_out, wait_rows

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
    assert products and set(products) <= set(names)
    assert not copy_rows("mine") and not wait_rows("mine")
    with changed("mine", without=(products[0],)):
        assert products[0] not in [row.name for row in product_rows("mine")]
        assert [row.name for row in taken_out("mine")] == [products[0]]
        assert stamp("mine")
    assert not stamp("mine")


def test_a_family_without_rows_has_its_products_and_leaves_copies_and_waits_to_nobody() -> None:
    """Which of its copies and waits a planner may choose is nowhere said; an added one is said."""
    assert {row.name for row in product_rows("amd")} == {value.name for value in family("amd") if isinstance(value, Product)}
    copies = [value for value in family("amd") if isinstance(value, Copy)]
    assert copies and any(isinstance(value, Synchronisation) for value in family("amd"))
    assert not copy_rows("amd") and not wait_rows("amd")
    more = replace(copies[0], name="a copy more")
    with changed("amd", with_these=(more,)):
        assert copy_rows("amd") == (copy_row_of(more),)
    for rows in (copy_rows, wait_rows):
        with pytest.raises(CompileError, match="E330"):
            rows("abacus")


def test_threads_that_ask_first_get_the_same(module: Callable[[str, str], str]) -> None:
    """Also where the module that is imported asks for a family itself."""
    add_family("mine", module("slow_instructions", f"import time\ntime.sleep(0.2)\nprefix = 'slow'\n{COPIED}"))
    with ThreadPoolExecutor(6) as pool:
        found = [future.result() for future in [pool.submit(family, "mine") for _ in range(6)]]
    assert found[0] and all(one is found[0] for one in found)


WRONG = {
    "raises for names": (
        "def __getattr__(name): raise OSError('module ' + name)", "reading {home}.INTRINSICS fails: OSError: module INTRINSICS",
    ),
    "ends for names": ("def __getattr__(name): raise SystemExit(name)", "reading {home}.INTRINSICS fails: SystemExit"),
    "raises when listed": (
        "class L(list):\n    def __iter__(self): raise OSError('tired')\nINTRINSICS = L([1])",
        "reading {home}.INTRINSICS fails: OSError: tired",
    ),
    "never made": (
        "from zellige_intrinsics.specification import Product\nINTRINSICS = (Product.__new__(Product),)",
        "reading {home}.INTRINSICS fails: AttributeError",
    ),
    "endless": (
        "from zellige_intrinsics.amd import INTRINSICS as A\nclass L(list):\n    def __iter__(self):\n        while True: yield A[0]\n"
        "INTRINSICS = L([1])", "{home}.INTRINSICS has more than 10,000 entries",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_module_lists_may_raise_whatever_it_likes(wrong: str, module: Callable[[str, str], str]) -> None:
    source, reason = WRONG[wrong]
    home = module(f"wrong_{wrong.replace(' ', '_')}", source)
    add_family("mine", home)
    with pytest.raises(CompileError) as caught:
        family("mine")
    assert caught.value.code == "E333"
    assert reason.format(home=home) in str(caught.value)
    assert family("amd")


@pytest.mark.parametrize("requires", [(5,), "acme1", ("",), (None,)])
def test_what_a_device_must_have_is_words(requires: object) -> None:
    with pytest.raises(CompileError, match="E331: .*requires"):
        replace(family("amd")[0], requires=requires)  # type: ignore[arg-type]


def test_no_family_is_loaded_for_the_sake_of_another(module: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that one of this package's families has is refused as soon as that one is there, and that one is served all the same."""
    monkeypatch.setattr(table, "_loaded", {})
    add_family("mine", module("mine_alone", "from zellige_intrinsics.amd import INTRINSICS as A\nINTRINSICS = [A[0]]\n"))
    (value,) = family("mine")
    assert set(table._loaded) == {"mine"}
    assert value in family("amd") and set(table._loaded) == {"amd"}
    with pytest.raises(CompileError, match="E333: .*zellige_intrinsics.amd has an instruction .* already"):
        family("mine")


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
        ("import sys\nsys.exit('no SDK')", "importing wrong fails: SystemExit: no SDK"),
        (
            "class Mute(Exception):\n    def __str__(self): raise OSError\nraise Mute",
            r"importing wrong fails: Mute: \(its text cannot be made\)",
        ),
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
