"""Backends of other packages, installed for a test: a folder on ``sys.path`` with modules and the metadata of their distributions."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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
