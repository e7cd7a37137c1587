"""The examples of the verifier's error pages give the code of their page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zellige.diagnostics import CompileError
from zellige.ir.parser import parse_kernel
from zellige.ir.verify import check

PAGES = sorted((Path(__file__).parents[2] / "docs" / "errors").glob("E2[67]?.md"))
WITHOUT_TEXT = {"E262", "E263"}  # text cannot say it


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in WITHOUT_TEXT], ids=lambda page: page.stem)
def test_the_example_of_a_page_gives_its_code(page: Path) -> None:
    found = re.search(r"^```text\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    with pytest.raises(CompileError) as raised:
        check(parse_kernel(found[1]))
    assert {d.code for d in raised.value.diagnostics} == {page.stem}
    marked = [number for number, line in enumerate(found[1].splitlines(), start=1) if page.stem in line]
    if marked:
        assert [d.span.line for d in raised.value.diagnostics if d.span] == marked


def test_there_is_a_page_for_each_code_of_the_verifier() -> None:
    assert [page.stem for page in PAGES] == [f"E{number}" for number in range(260, 280)]
