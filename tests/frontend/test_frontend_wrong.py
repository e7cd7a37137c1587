"""Wrong programs: each file of ``wrong`` is a program whose mistake is marked by a comment under the offending line.

``#    ^ E104`` says that the caret of the error points at that column of the line above and that the error has this code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from zellige.diagnostics import ZelligeError

FILES = sorted((Path(__file__).parent / "wrong").glob("*.py"))
MARK = re.compile(r"^#(?P<blank> *)\^ (?P<code>E\d{3,4})$")


def expected(path: Path) -> tuple[str, int, int]:
    """Code, line and column (from 0) that a file promises."""
    marks = [(number, found) for number, line in enumerate(path.read_text().splitlines(), 1) if (found := MARK.match(line))]
    assert len(marks) == 1, f"{path.name} has {len(marks)} marks"
    number, found = marks[0]
    return found["code"], number - 1, len(found["blank"]) + 1


def test_there_are_sixty_programs() -> None:
    assert len(FILES) >= 60


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_wrong_program(path: Path, wrong_program: Callable[[str], Callable[[], None]]) -> None:
    code, line, column = expected(path)
    with pytest.raises(ZelligeError) as caught:
        wrong_program(path.stem)()
    span = caught.value.span
    assert span is not None, f"{caught.value} has no place"
    assert (caught.value.code, Path(span.file).name, span.line, span.column) == (code, path.name, line, column), str(caught.value)
    text = str(caught.value)
    assert "^" in text and code in text
    assert all(diagnostic.hint for diagnostic in caught.value.diagnostics), "an error says what to do"
