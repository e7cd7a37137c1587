"""What a process of its own tells counts line by line, also where it is ended in the middle of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from zellige.plugin.probing import answered_apart

PROGRAM = """
import os, sys, time
from zellige.plugin.probing import telling
word, how, file = sys.argv[1:]
with telling(file) as tell:
    tell(word=word, odd="\\u2028 \\ud800")
    tell(second={"deep": [1]})
with open(file, "a") as answer:
    answer.write('{"third": {"deep": 1}')
print("said", word)
sys.stdout.flush()
time.sleep(60) if how == "hangs" else os._exit(7)
"""


@pytest.mark.parametrize("how, code, seconds", [("dies", 7, 60.0), ("hangs", None, 3.0)])
def test_half_of_a_line_is_none(how: str, code: int | None, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of an object may end as a whole one does."""
    (tmp_path / "tells_apart.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = answered_apart("tells_apart", ("hello", how), seconds)
    assert found.told == ({"word": "hello", "odd": "\u2028 \ud800"}, {"second": {"deep": [1]}})
    assert found.code == code
    assert found.printed == "said hello"


def test_a_process_that_never_tells_has_told_nothing(tmp_path: Path) -> None:
    found = answered_apart("zellige_no_such_module", (), 60.0)
    assert found.told == () and found.code == 1 and "No module named" in found.printed
