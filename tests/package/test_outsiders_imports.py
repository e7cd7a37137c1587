"""The backends of this repository import nothing that a package of somebody else could not: the contract, and core's documented parts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

OPEN = (
    "zellige.analysis",
    "zellige.diagnostics",
    "zellige.elements",
    "zellige.dtypes",
    "zellige.ir",
    "zellige.layouts",
    "zellige.log",
    "zellige.options",
    "zellige.pass_configs",
    "zellige.records",
    "zellige.passes",
    "zellige.plan",
    "zellige.plugin.capabilities",
    "zellige.plugin.choices",
    "zellige.plugin.contract",
    "zellige.plugin.dialect",
    "zellige.plugin.hooks",
    "zellige.runtime",
    "zellige.simt",
    "zellige.target",
    "zellige.language.dialects",
    "zellige.version",
)
"""What docs/write-a-backend.md names as open to every backend."""

FOLDERS = sorted(path for path in (ROOT / "backends").glob("*/zellige_*") if path.is_dir())


def imported(tree: ast.Module, package: str) -> Iterator[tuple[int, str]]:
    """Modules of zellige, of its own name and others, that a module imports, as ``from a import b`` and ``import a`` name them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0].startswith("zellige"):
            module = node.module or ""
            yield from ((node.lineno, f"{module}.{alias.name}" if module == "zellige" else module) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0].startswith("zellige"))


def closed(module: str, package: str) -> bool:
    """Whether an outsider could not import ``module``."""
    root = module.split(".")[0]
    if root in (package, "zellige_intrinsics"):
        return False
    return not any(module == name or module.startswith(f"{name}.") for name in OPEN)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_backend_imports_what_an_outsider_could(folder: Path) -> None:
    wrong = []
    for path in sorted(folder.rglob("*.py")):
        for line, module in imported(ast.parse(path.read_text(encoding="utf-8")), folder.name):
            if closed(module, folder.name):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {module}")
    assert not wrong, "\n".join(wrong)


def test_the_rule_is_effective() -> None:
    text = "from zellige.plugin.registry import registry\nimport zellige.driver\nfrom zellige import jit\nfrom zellige_cuda import x\n"
    found = [module for _, module in imported(ast.parse(text), "zellige_cpu") if closed(module, "zellige_cpu")]
    assert found == ["zellige.plugin.registry", "zellige.driver", "zellige.jit", "zellige_cuda"]
    assert not closed("zellige.ir.stmt", "zellige_cpu")
    assert not closed("zellige_cpu.host", "zellige_cpu")


def test_what_is_open_is_documented() -> None:
    page = (ROOT / "docs" / "write-a-backend.md").read_text(encoding="utf-8")
    assert [name for name in OPEN if f"`{name}`" not in page] == []
