"""Backends of other packages, installed for a test: a folder on ``sys.path`` with modules and the metadata of their distributions."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zellige.cache import memo
from zellige.options import options
from zellige.plugin.registry import Registry, registry

PACKAGES = Path(__file__).parent / "packages"
sys.path.append(str(Path(__file__).parent / "sources"))  # what tests of this folder share


def add_distribution(site: Path, name: str, source: str, *, attribute: str = "backend") -> None:
    """A module ``plug_NAME`` and a distribution of its own that announces it."""
    (site / f"plug_{name}.py").write_text(source)
    info = site / f"plug_{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: plug-{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[zellige.backends]\n{name} = plug_{name}:{attribute}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder, with the machine that broken backends are made from, and caches of its own."""
    folder = tmp_path / "site"
    folder.mkdir()
    shutil.copy(PACKAGES / "acme_machine.py", folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("ZELLIGE_CACHE_DIR", str(tmp_path / "cache"))
    options.cache_clear()
    yield folder
    monkeypatch.undo()
    for name in [n for n in sys.modules if n.startswith("plug_") or n in ("acme_machine", "zellige_acme")]:
        del sys.modules[name]
    registry.cache_clear()
    memo.clear()
    options.cache_clear()


@pytest.fixture
def install(site: Path) -> Callable[..., Registry]:
    """Installs backends by name and source, and looks for all of them anew."""

    def installed(sources: dict[str, str], **settings: Any) -> Registry:
        for name, source in sources.items():
            add_distribution(site, name, source, **settings)
        importlib.invalidate_caches()
        registry.cache_clear()
        return registry()

    return installed
