"""The example of each page of the language's error codes gives the code of its page, at the line that it marks."""

import re
import runpy
from pathlib import Path

import pytest

from zellige.diagnostics import ZelligeError, catalogue

PAGES = Path(__file__).parents[2] / "docs" / "errors"
OTHERS = {"E250", "E251", "E252", "E253"}  # codes of the front end in this range
CODES = [code for code in catalogue.CODES if re.fullmatch(r"E2[0-5]\d|E40[12]", code) and code not in OTHERS]


@pytest.mark.parametrize("code", CODES)
def test_the_example_of_a_page_gives_its_code(code, tmp_path):
    found = re.search(r"^```python\n(.*?)^```$", (PAGES / f"{code}.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    program = tmp_path / "example.py"
    program.write_text(found[1], encoding="utf-8")
    with pytest.raises(ZelligeError) as caught:
        runpy.run_path(str(program))
    assert caught.value.code == code, str(caught.value)
    marked = [number for number, line in enumerate(found[1].splitlines(), start=1) if f"# {code}" in line]
    assert len(marked) == 1
    span = caught.value.span
    if span is not None:
        assert span.line == marked[0]
    quoted = re.search(rf"# {code}: (.*)", found[1])
    if quoted is not None:
        assert quoted[1] in str(caught.value)
    assert caught.value.hint, "an error says what to do"
