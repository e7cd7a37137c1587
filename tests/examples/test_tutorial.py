"""The tutorial's pages are programs: their blocks run in order, and print what the page says."""

from __future__ import annotations

import doctest
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
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    checker = doctest.OutputChecker()
    example = doctest.Example("", wanted.output)
    assert checker.check_output(wanted.output, done.stdout, flags), checker.output_difference(example, done.stdout, flags) + done.stderr
