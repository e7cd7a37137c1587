"""One place makes rich's consoles, and what others wrote gives the terminal no orders through them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from zellige.autotune.progress import Progress
from zellige.autotune.results import Trial, table_of
from zellige.diagnostics.console import plain_console

ROOTS = ("core/zellige", "backends", "intrinsics", "conformance")
ROOT = Path(__file__).parents[2]
PLACE = ROOT / "core/zellige/diagnostics/console.py"
ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def makers(file: Path) -> list[int]:
    """The lines of a file that make a console of rich's, or use the one that rich makes by itself."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    made = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module in ("rich", "rich.console") and is_at_run_time(n, tree)]
    return [n.lineno for n in made if any(alias.name in ("Console", "print", "get_console") for alias in n.names)]


def is_at_run_time(node: ast.ImportFrom, tree: ast.Module) -> bool:
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    return not any(node in ast.walk(block) for block in blocks)


def test_consoles_are_made_in_one_place() -> None:
    files = [file for root in ROOTS for file in (ROOT / root).rglob("*.py")]
    assert len(files) > 300
    assert [(file.name, lines) for file in files if (lines := makers(file)) and file != PLACE] == []
    assert makers(PLACE)


def test_names_of_others_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    plain_console(width=200).print(table_of((Trial(config={"block": "[red]\x1b[31m"}, outcome="measured", latency=1.0),), None, ()))
    shown = capsys.readouterr().out
    assert "[red]\\x1b[31m" in shown and not ORDERS.search(shown)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    with Progress("[red]name\x07", 2) as progress:
        progress.compiled(is_out=False)
    shown = capsys.readouterr().err
    assert "[red]name" in shown and "\x07" not in shown
