"""What a Python function depends on besides its arguments, so that a compiled kernel is reused only while none of it has changed.

In: a function. Out: :class:`Dependencies`, whose :meth:`~Dependencies.state` is compared before a kernel is reused. Followed are the
names that the function's code and the annotations in it mention, in its closure and its module, and through the functions and macros
among them; lists, dicts and plain objects by their content, modules by the attributes that the code mentions.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_DEPTH: Final = 4  # how deep containers and objects are looked into
_ATOMS: Final = (bool, int, float, complex, str, bytes, type(None))
_MISSING: Final = object()


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code and that of the functions written inside it."""
    pending = [code]
    while pending:
        top = pending.pop()
        yield top
        pending.extend(c for c in top.co_consts if isinstance(c, types.CodeType))


def plain_function(value: Any) -> types.FunctionType | None:
    """The Python function behind a function, a method, a macro, a kernel or a decorator's wrapper; None where there is none."""
    for _ in range(8):
        if isinstance(value, types.FunctionType):
            return value
        if isinstance(value, types.MethodType):
            value = value.__func__
        elif isinstance(value, (staticmethod, classmethod)) or "__wrapped__" in getattr(value, "__dict__", {}):
            value = value.__wrapped__
        else:
            return None
    return None


def _is_own(module: object) -> bool:
    return str(module).split(".")[0] in ("zellige", "builtins")


@dataclass(frozen=True, eq=False)
class Dependencies:
    """The places that a function reads. ``cells`` are closure cells, ``names`` are names of module dictionaries."""

    codes: tuple[types.FunctionType, ...]
    cells: tuple[types.CellType, ...]
    names: tuple[tuple[dict[str, Any], str], ...]
    attributes: tuple[tuple[types.ModuleType, str], ...]

    @classmethod
    def of(cls, function: types.FunctionType) -> Dependencies:
        """Follows ``function`` and every function of the user that it can reach by name."""
        from zellige.frontend.source import annotated_names  # which itself tells functions apart by what is here

        functions: dict[types.FunctionType, None] = {}
        cells: dict[int, types.CellType] = {}
        names: dict[tuple[int, str], tuple[dict[str, Any], str]] = {}
        attributes: dict[tuple[str, str], tuple[types.ModuleType, str]] = {}
        pending = [function]
        while pending:
            top = pending.pop()
            if top in functions or _is_own(top.__module__):
                continue
            functions[top] = None
            mentioned = {name for code in codes_in(top.__code__) for name in code.co_names} | annotated_names(top)
            found: list[Any] = [*(top.__defaults__ or ()), *(top.__kwdefaults__ or {}).values()]
            for cell in top.__closure__ or ():
                cells[id(cell)] = cell
                found.append(_content(cell))
            for name in mentioned & set(top.__globals__):
                names[id(top.__globals__), name] = (top.__globals__, name)
                found.append(top.__globals__[name])
            for value in found:
                if isinstance(value, types.ModuleType):
                    if not _is_own(value.__name__):
                        attributes.update({(value.__name__, n): (value, n) for n in mentioned if n in vars(value)})
                    continue
                inner = plain_function(value)
                if inner is not None:
                    pending.append(inner)
        return cls(tuple(functions), tuple(cells.values()), tuple(names.values()), tuple(attributes.values()))

    def state(self) -> tuple[Any, ...]:
        """What all those places hold now, comparable with ``==``."""
        held = [_frozen(_content(cell), _DEPTH) for cell in self.cells]
        held += [_frozen(names.get(name, _MISSING), _DEPTH) for names, name in self.names]
        held += [_frozen(getattr(module, name, _MISSING), _DEPTH) for module, name in self.attributes]
        held += [Same(function.__code__) for function in self.codes]
        return tuple(held)

    def values(self) -> list[Any]:
        """The very objects that all those places hold now."""
        held = [names.get(name, _MISSING) for names, name in self.names]
        if self.cells:
            held += [_content(cell) for cell in self.cells]
        if self.attributes:
            held += [getattr(module, name, _MISSING) for module, name in self.attributes]
        for function in self.codes:
            held.append(function.__code__)
        return held

    def unchanging(self) -> list[Any] | None:
        """:meth:`values`, if nothing about the state can change while the places hold these very objects; else None."""
        held = self.values()
        return held if all(type(_frozen(value, 1)) is Same or type(value) in _ATOMS for value in held) else None


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _frozen(value: Any, depth: int) -> Any:
    """A comparable picture of a value: atoms by type and value, containers and plain objects by content, anything else by identity."""
    kind = type(value)
    if kind in _ATOMS:
        return (kind, repr(value) if kind is float else value)
    if depth > 0:
        if kind in (list, tuple):
            return (kind, tuple(_frozen(v, depth - 1) for v in value))
        if kind is dict:
            return (kind, tuple((_frozen(k, depth - 1), _frozen(v, depth - 1)) for k, v in value.items()))
        if kind in (set, frozenset):
            return (kind, frozenset(_frozen(v, depth - 1) for v in value))
        attributes = getattr(value, "__dict__", None)
        if type(attributes) is dict and not callable(value) and not isinstance(value, types.ModuleType) and not _is_own(kind.__module__):
            return (Same(value), _frozen(attributes, depth - 1))
    return Same(value)


class Same:
    """Equal only to another of the very same object; keeps it alive, so that its address is not used again."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other._value is self._value

    def __hash__(self) -> int:
        return id(self._value)
