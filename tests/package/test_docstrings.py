"""Every public function, class and module says what it is, and what it refers to is there."""

from __future__ import annotations

import ast
import re
import sys
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


REFERENCE = re.compile(r":(?:mod|func|class|data|meth|attr):`~?([\w.]+)`")


def named_in(tree: ast.AST) -> set[str]:
    """What a module names: what it defines or imports, and fields and methods of its classes."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found.update((alias.asname or alias.name).partition(".")[0] for alias in names)
            case _:
                pass
    return found


def modules_of(root: Path, folders: tuple[str, ...]) -> dict[str, set[str]]:
    """The modules of the packages under these folders by name, each with what it names."""
    found: dict[str, set[str]] = {}
    for path in sorted(path for folder in folders for path in (root / folder).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[2 if parts[0] == "backends" else 1 :]).removesuffix(".__init__")
        found[name] = named_in(ast.parse(path.read_text(encoding="utf-8")))
    return found


def is_there(reference: str, home: str, modules: dict[str, set[str]]) -> bool:
    """Whether a reference, as a docstring of the module ``home`` writes it, names something; what is Python's own does."""
    parts = reference.split(".")
    if parts[0] not in {name.partition(".")[0] for name in modules}:
        return parts[0] in modules[home] or parts[0] in sys.stdlib_module_names
    end = max(end for end in range(1, len(parts) + 1) if ".".join(parts[:end]) in modules)
    return all(part in modules[".".join(parts[:end])] for part in parts[end:][:1])


def test_what_docstrings_refer_to_is_there() -> None:
    modules = modules_of(ROOT, FOLDERS)
    wrong = []
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        home = ".".join(parts[2 if parts[0] == "backends" else 1 :]).removesuffix(".__init__")
        references = set(REFERENCE.findall(path.read_text(encoding="utf-8")))
        wrong += [f"{path.relative_to(ROOT)}: {one}" for one in sorted(references) if not is_there(one, home, modules)]
    assert not wrong, "\n".join(wrong)


def test_a_reference_to_nothing_is_found() -> None:
    modules = {"zellige": set(), "zellige.simt": {"verify_all"}, "zellige.simt.ir": {"Barrier"}}
    assert is_there("zellige.simt.ir.Barrier", "zellige", modules)
    assert is_there("Barrier", "zellige.simt.ir", modules)
    assert not is_there("zellige.simt.verify", "zellige.simt.ir", modules)
    assert not is_there("verify_all", "zellige.simt.ir", modules)


def test_a_missing_docstring_is_found() -> None:
    source = '"""Module."""\ndef shown():\n    return 1\nclass Shown:\n    x = 1\ndef told():\n    """Told."""\ndef _own(): pass\n'
    assert list(undocumented(ast.parse(source))) == ["shown", "Shown"]
    assert list(undocumented(ast.parse("x = 1"))) == ["the module"]
