"""What a stranger's package must leave as it is while it is loaded: functions, classes and constants of zellige's own modules, and the ways
that modules are found by.

In: the loading of a backend. Out: the names that it gave another meaning; they have their own again. A package that replaces functions of
core would change what every other backend does, and nobody would know whose doing it is. Modules of core that are loaded meanwhile are
looked at as soon as they are there. What is replaced later, inside of a hook, is not seen: this keeps accidents and shortcuts from the
others, it is no wall against an enemy.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any, Final

_CORE: Final = "zellige"
_KINDS: Final = (types.FunctionType, types.BuiltinFunctionType, type)
_METHODS: Final = (types.FunctionType, staticmethod, classmethod, property)

_Names = list[tuple[Any, str, Any]]
"""An owner, a name and what the owner has under it."""


@contextmanager
def own_names_kept() -> Iterator[list[str]]:
    """Gives the names back that are replaced or gone at the end, and lists them."""
    before = [name for module in _modules() for name in _names_of(module)]
    ways = [(name, getattr(sys, name), list(getattr(sys, name))) for name in ("path", "meta_path", "path_hooks")]
    replaced: list[str] = []
    watch = _WatchedFinder(before)
    sys.meta_path.insert(0, watch)
    try:
        yield replaced
    finally:
        for name, held, entries in ways:
            if getattr(sys, name) is not held or any(entry not in held for entry in entries):
                added = [entry for entry in getattr(sys, name) if entry not in entries]
                setattr(sys, name, held)
                held[:] = [*entries, *added]
                replaced.append(f"sys.{name}")
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not watch]
        for owner, name, value in before:
            if vars(owner).get(name) is not value:
                setattr(owner, name, value)
                replaced.append(f"{_title(owner)}.{name}")


class _WatchedFinder(MetaPathFinder):
    """Finds core's modules as the other finders do, and writes down what they hold once they have been executed."""

    def __init__(self, seen: _Names) -> None:
        self._seen = seen

    def find_spec(self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None) -> ModuleSpec | None:
        if not _is_core(name):
            return None
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        spec = next((found for finder in others if (found := finder.find_spec(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _WatchedLoader(spec.loader, self._seen)
        return spec


class _WatchedLoader(Loader):
    """Another loader, which the module has for its own once it is there."""

    def __init__(self, loader: Loader, seen: _Names) -> None:
        self._loader, self._seen = loader, seen

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._seen += _names_of(module)


def _is_core(name: str) -> bool:
    return name == _CORE or name.startswith(f"{_CORE}.")


def _modules() -> list[types.ModuleType]:
    """Core's modules as far as they are loaded."""
    return [module for name, module in list(sys.modules.items()) if _is_core(name)]


def _names_of(module: types.ModuleType) -> _Names:
    """What a module holds, and the classes that are defined in it."""
    classes = [value for value in list(vars(module).values()) if isinstance(value, type) and value.__module__ == module.__name__]
    return [(owner, name, value) for owner in (module, *classes) for name, value in _held(owner).items()]


def _held(owner: Any) -> dict[str, Any]:
    kinds = _METHODS if isinstance(owner, type) else _KINDS
    is_module = not isinstance(owner, type)
    return {name: value for name, value in list(vars(owner).items()) if isinstance(value, kinds) or (is_module and name.isupper())}


def _title(owner: Any) -> str:
    return f"{owner.__module__}.{owner.__qualname__}" if isinstance(owner, type) else str(owner.__name__)
