"""Programs that stand beside the packages (benchmarks, tools) import only what is there: they are run by hand, and no type checker reads
them."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(path for folder in ("benchmarks", "tools") for path in (ROOT / folder).glob("*.py"))


def missing(source: str) -> Iterator[str]:
    """The names of zellige's packages that a program imports and that they do not have."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0].startswith("zellige"):
            module = importlib.import_module(node.module)
            is_package = hasattr(module, "__path__")
            for alias in node.names:
                if not hasattr(module, alias.name) and not (is_package and find_spec(f"{node.module}.{alias.name}")):
                    yield f"{node.module}.{alias.name}"


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_program_imports_what_is_there(path: Path) -> None:
    assert list(missing(path.read_text(encoding="utf-8"))) == []


def test_a_name_that_is_gone_is_found() -> None:
    source = "def later():\n    from zellige.options import options, opinions\nfrom zellige import language\nimport numpy\n"
    assert list(missing(source)) == ["zellige.options.opinions"]
