"""Backends of other packages, installed for a test: a folder on ``sys.path`` with modules and the metadata of their distributions."""

from __future__ import annotations

import importlib
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from zellige import claims
from zellige.plugin import describing, probing
from zellige.plugin.probing import AnsweredApart, whole_lines
from zellige.plugin.registry import Registry, registry

PACKAGES = Path(__file__).parent / "packages"
sys.path.append(str(Path(__file__).parent / "sources"))  # what tests of this folder share


@pytest.fixture
def site(site: Path) -> Path:
    """With the machine that broken backends are made from."""
    shutil.copy(PACKAGES / "acme_machine.py", site)
    return site


@pytest.fixture
def install(site: Path, announce: Callable[..., Path]) -> Callable[..., Registry]:
    """Installs backends by name and source, and looks for all of them anew."""

    def installed(sources: dict[str, str], *, attribute: str = "backend") -> Registry:
        for name, source in sources.items():
            (site / f"plug_{name}.py").write_text(source)
            announce(site, f"plug-{name}", f"{name} = plug_{name}:{attribute}\n")
        importlib.invalidate_caches()
        registry.cache_clear()
        return registry()

    return installed


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What is asked in processes of its own is asked in this one: the same program, as in a new process without a registry, tells the same
    file. For tests of what is asked and of what is said about it; those of processes that end, hang or print use real ones."""
    file = tmp_path / "told_in_this_process"

    def answered(module: str, arguments: Sequence[str], seconds: float) -> AnsweredApart:
        registry.cache_clear()
        with redirect_stdout(io.StringIO()) as printed, redirect_stderr(printed):
            code = importlib.import_module(module).main([*arguments, str(file)])
        told = tuple(map(json.loads, whole_lines(file.read_text(encoding="utf-8"))))
        return AnsweredApart(told=told, code=code, printed=printed.getvalue().strip())

    for module in (probing, describing, claims):
        monkeypatch.setattr(module, "answered_apart", answered)
    yield
    registry.cache_clear()
