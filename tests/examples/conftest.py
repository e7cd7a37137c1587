"""Loading an example as its own module, with its folder importable as when it runs as a script."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="session")
def load_example() -> Iterator[Callable[[str], ModuleType]]:
    sys.path.insert(0, str(FOLDER))
    loaded: list[str] = []

    def load(name: str) -> ModuleType:
        module_name = f"example_{name}"
        if module_name not in sys.modules:
            spec = importlib.util.spec_from_file_location(module_name, FOLDER / f"{name}.py")
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[module_name] = module
            loaded.append(module_name)
            spec.loader.exec_module(module)
        return sys.modules[module_name]

    yield load
    sys.path.remove(str(FOLDER))
    for name in [*loaded, "_harness", "_bounds"]:
        sys.modules.pop(name, None)
