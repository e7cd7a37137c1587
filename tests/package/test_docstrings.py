"""Every public function, class and module says what it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("core", "backends", "intrinsics", "conformance")


def undocumented(tree: ast.Module) -> Iterator[str]:
    """Public names at the top level of a module, and the module itself, that have no docstring."""
    if not ast.get_docstring(tree) and tree.body:
        yield "the module"
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                yield node.name


def test_public_names_have_docstrings() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in undocumented(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not missing, "\n".join(missing)


def test_a_missing_docstring_is_found() -> None:
    source = '"""Module."""\ndef shown():\n    return 1\nclass Shown:\n    x = 1\ndef told():\n    """Told."""\ndef _own(): pass\n'
    assert list(undocumented(ast.parse(source))) == ["shown", "Shown"]
    assert list(undocumented(ast.parse("x = 1"))) == ["the module"]
