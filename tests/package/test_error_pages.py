"""Every code has its page and a test that triggers it, and no page outlives its code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zellige.diagnostics import Code, CompileError, LaunchError, Unsupported, catalogue

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "errors"
HEADINGS = ("## What it means", "## Example", "## What to do")


def mentioned_in_tests() -> set[str]:
    """Codes named in a test, or expected in a file that tests run."""
    here = Path(__file__)
    files = [p for p in (ROOT / "tests").rglob("*") if p.suffix in (".py", ".txt", ".tile", ".json") and p != here]
    return {code for path in files for code in re.findall(r"\bE[1-7]\d{2,3}\b", path.read_text(encoding="utf-8"))}


def test_every_code_has_a_page_with_its_title_and_sections() -> None:
    wrong = []
    for code in catalogue.CODES.values():
        page = PAGES / f"{code.id}.md"
        if not page.is_file():
            wrong.append(f"{code.id}: no page")
            continue
        text = page.read_text(encoding="utf-8")
        if not text.startswith(f"# {code.id}: {code.title}\n"):
            wrong.append(f"{code.id}: the page does not begin with '# {code.id}: {code.title}'")
        wrong += [f"{code.id}: no section '{heading}'" for heading in HEADINGS if f"\n{heading}\n" not in text]
        if not 8 <= len(text.splitlines()) <= 60:
            wrong.append(f"{code.id}: {len(text.splitlines())} lines")
    assert not wrong, "\n".join(wrong)


def test_every_page_has_a_code() -> None:
    assert {page.stem for page in PAGES.glob("E*.md")} <= set(catalogue.CODES)


def test_every_code_is_triggered_by_a_test() -> None:
    assert not sorted(set(catalogue.CODES) - mentioned_in_tests())


def test_every_code_says_what_to_do() -> None:
    assert not [code.id for code in catalogue.CODES.values() if not code.hint.strip()]


def test_an_empty_hint_gives_way_to_the_code_s_own() -> None:
    values = {"name": "A", "expected": "x", "dimensions": "1 dimension", "given": "y", "given_rank": 2}
    assert catalogue.E604.diagnose(None, hint="", **values).hint == catalogue.E604.hint
    assert catalogue.E604.diagnose(None, hint="no", **values).hint == "no"


def test_a_code_is_declared_once_and_within_the_numbering() -> None:
    with pytest.raises(ValueError, match="E701 is declared twice"):
        catalogue._code("E701", "again", "again")
    for wrong in ("E801", "E70", "701", "W701", "E2000", "E20001"):
        with pytest.raises(ValueError, match="is not a code"):
            catalogue._code(wrong, "title", "message")


def test_every_constant_carries_its_own_id() -> None:
    constants = {name: value for name, value in vars(catalogue).items() if re.fullmatch(r"E\d+", name)}
    assert {name: value.id for name, value in constants.items()} == {name: name for name in catalogue.CODES}


def test_a_module_of_codes_says_which_it_has() -> None:
    """Its first line names codes and ranges of them."""
    wrong = []
    for path in (ROOT / "core" / "zellige" / "diagnostics" / "codes").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        said = re.findall(r"E(\d+)(?: to E(\d+))?", text.splitlines()[0])
        declared = {int(number) for number in re.findall(r"^E(\d+) = code\(", text, flags=re.MULTILINE)}
        wrong += [f"{path.name}: E{n}" for n in sorted(declared) if not any(int(a) <= n <= int(b or a) for a, b in said)]
    assert not wrong, "\n".join(wrong)


def test_four_digits_are_for_a_stage_whose_three_are_used_up() -> None:
    """The next number of a stage is one: after E299 comes E2001, of the class that the first digit says."""
    numbers: dict[str, set[str]] = {}
    for name in catalogue.CODES:
        numbers.setdefault(name[:2], set()).add(name[2:])
    for stage, used in numbers.items():
        longer = sorted(number for number in used if len(number) == 3)
        assert longer == [f"{n:03}" for n in range(1, len(longer) + 1)], stage
        assert not longer or used >= {f"{n:02}" for n in range(1, 100)}, stage
    for stage, kind in (("4", Unsupported), ("6", LaunchError), ("2", CompileError)):
        assert type(Code(f"E{stage}001", "title", "message").error()) is kind
