"""What a stranger's package must leave as it is while it is loaded: the functions and classes of zellige's own modules.

In: the loading of a backend. Out: the names that it gave another meaning; they have their own again. A package that replaces functions of
core would change what every other backend does, and nobody would know whose doing it is. Seen is what was loaded before: this keeps
accidents and shortcuts from the others, it is no wall against an enemy.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_CORE: Final = "zellige"
_KINDS: Final = (types.FunctionType, types.BuiltinFunctionType, type)
_METHODS: Final = (types.FunctionType, staticmethod, classmethod, property)


@contextmanager
def own_names_kept() -> Iterator[list[str]]:
    """Gives the names back that are replaced or gone at the end, and lists them."""
    before = [(owner, name, value) for owner in _owners() for name, value in _held(owner).items()]
    replaced: list[str] = []
    try:
        yield replaced
    finally:
        for owner, name, value in before:
            if vars(owner).get(name) is not value:
                setattr(owner, name, value)
                replaced.append(f"{_title(owner)}.{name}")


def _owners() -> list[Any]:
    """Core's modules as far as they are loaded, and the classes that are defined in them."""
    modules = [module for name, module in list(sys.modules.items()) if name == _CORE or name.startswith(f"{_CORE}.")]
    classes = [
        value for module in modules for value in list(vars(module).values())
        if isinstance(value, type) and value.__module__ == module.__name__
    ]  # fmt: skip
    return [*modules, *classes]


def _held(owner: Any) -> dict[str, Any]:
    kinds = _METHODS if isinstance(owner, type) else _KINDS
    return {name: value for name, value in vars(owner).items() if isinstance(value, kinds)}


def _title(owner: Any) -> str:
    return f"{owner.__module__}.{owner.__qualname__}" if isinstance(owner, type) else str(owner.__name__)
