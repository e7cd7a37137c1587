"""The tutorial's pages are programs: their blocks run in order, and print what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "tutorial"
PAGES = sorted(FOLDER.glob("[0-9]*.md"))


@dataclass(frozen=True, kw_only=True)
class Page:
    """``program`` has each line of code at the line of the page where it stands; ``output`` is what the page says it prints."""

    program: str
    output: str


def read(text: str) -> Page:
    program: list[str] = []
    output: list[str] = []
    kind = ""
    for line in text.splitlines():
        is_fence = line.startswith("```")
        if is_fence:
            kind = "" if kind else line[3:].strip()
        program.append(line if kind == "python" and not is_fence else "")
        if kind == "text" and not is_fence:
            output.append(line)
    return Page(program="\n".join(program) + "\n", output="\n".join(output) + "\n")


def pattern(output: str) -> str:
    """What must be printed: a line ``...`` stands for any lines, and ``...`` in a line for any text. Blank lines do not count."""
    parts = []
    for line in output.splitlines():
        if line == "...":
            parts.append(r"(?:.*\n)*?")
        elif line.strip():
            parts.append(re.escape(line).replace(re.escape("..."), ".*") + r"\n")
    return "".join(parts)


def test_the_pages_are_listed_in_order() -> None:
    listed = re.findall(r"^\d\. \[.*?\]\((.*?)\)", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == [page.name for page in PAGES] and len(PAGES) == 9


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_runs_and_prints_what_it_says(page: Path, tmp_path: Path) -> None:
    wanted = read(page.read_text(encoding="utf-8"))
    path = tmp_path / f"page_{page.stem.replace('-', '_')}.py"
    path.write_text(wanted.program, encoding="utf-8")
    environment = {**os.environ, "ZELLIGE_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    printed = "".join(f"{line}\n" for line in done.stdout.splitlines() if line.strip())
    assert re.fullmatch(pattern(wanted.output), printed), f"printed:\n{printed}\nthe page says:\n{wanted.output}\n{done.stderr}"


def test_a_page_that_is_wrong_is_found() -> None:
    page = read("a\n```python\nprint(1)\n```\n\n```text\none\n...\ntwo ... four\n```\n")
    assert page == Page(program="\n\nprint(1)\n\n\n\n\n\n\n\n", output="one\n...\ntwo ... four\n")
    assert re.fullmatch(pattern(page.output), "one\ntwo three four\n")
    assert re.fullmatch(pattern(page.output), "one\nmore\nand more\ntwo 2 four\n")
    for wrong in ("one\n", "one\ntwo\n", "zero\none\ntwo 3 four\n", "one\ntwo 3 four\nfive\n", "one\n  two 3 four\n"):
        assert not re.fullmatch(pattern(page.output), wrong)
