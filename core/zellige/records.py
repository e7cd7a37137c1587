"""Dataclasses that are made in a third of the time, for modules that are loaded when a kernel is compiled.

In: a class with annotated fields. Out: the same class, with slots where they are asked for, that behaves as the decorator of
:mod:`dataclasses` makes it, and is a dataclass to ``fields``, ``replace``, ``asdict`` and ``is_dataclass``.

The library's decorator writes each method of a class as text and has Python compile it: six texts for a frozen class, 0.7 ms, and a first
compilation loads 160 such classes. Here ``__init__`` alone is written so, since objects are made often; methods that compare, hash, print
and forbid are closures and functions that all classes share. To type checkers the two decorators are one.
"""

from __future__ import annotations

import dataclasses
import operator
import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True) -> Any:
        """What ``dataclasses.dataclass`` makes of a class with these arguments. TypeError for fields of ``InitVar``."""
        if cls is None:
            return lambda given: _made(given, frozen=frozen, slots=slots, kw_only=kw_only, eq=eq)
        return _made(cls, frozen=frozen, slots=slots, kw_only=kw_only, eq=eq)


_FIELDS: Final = "__dataclass_fields__"


class _NotGiven:
    """The default of a parameter whose field has a function that makes one."""

    def __repr__(self) -> str:
        return "<factory>"


_NOT_GIVEN: Final = _NotGiven()


def _made(cls: type, *, frozen: bool, slots: bool, kw_only: bool, eq: bool) -> type:
    if any(_FIELDS in vars(base) for base in cls.__mro__[1:]):  # fields are inherited, and being frozen: the library knows all rules
        return dataclasses.dataclass(frozen=frozen, slots=slots, kw_only=kw_only, eq=eq)(cls)
    written = vars(cls)
    is_hash_written = "__hash__" in written and not (written["__hash__"] is None and "__eq__" in written)
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    known = dataclasses.fields(made)
    if any("InitVar" in str(field.type) for field in getattr(made, _FIELDS).values()):
        raise TypeError(f"{cls.__qualname__} has fields of InitVar, which {__name__} does not make")
    methods: dict[str, Any] = {"__init__": _initialiser(made, known, is_frozen=frozen), "__repr__": _shown}
    if eq:
        get = _getter(tuple(field.name for field in known if field.compare))
        methods["__eq__"] = _comparing(get)
        if frozen and not is_hash_written:
            methods["__hash__"] = _hashing(get)
    if frozen and slots:
        methods.update(__getstate__=_state, __setstate__=_set_state)
    for name, method in methods.items():
        if name not in vars(made):
            setattr(made, name, method)
    if eq and not frozen and not is_hash_written:
        made.__hash__ = None
    if frozen:
        if "__setattr__" in written or "__delattr__" in written:
            raise TypeError(f"cannot overwrite __setattr__ or __delattr__ of {cls.__qualname__}, which is frozen")
        made.__setattr__, made.__delattr__ = _refuse_assignment, _refuse_deletion
    stated = made.__dataclass_params__
    stated.init, stated.repr, stated.eq, stated.frozen = True, True, eq, frozen
    return made  # type: ignore[no-any-return]


# ---- methods of one class


def _initialiser(cls: type, fields: tuple[dataclasses.Field[Any], ...], *, is_frozen: bool) -> Callable[..., None]:
    """``__init__`` with the fields as parameters, those for keywords alone at the end."""
    names: dict[str, Any] = {"_not_given": _NOT_GIVEN}
    parameters: tuple[list[str], list[str]] = ([], [])
    body: list[str] = []
    for field in fields:
        name, default = field.name, ""
        value = name
        if field.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"], default = field.default_factory, "=_not_given"
            value = f"_make_{name}() if {name} is _not_given else {name}"
        elif field.default is not dataclasses.MISSING:
            names[f"_default_{name}"], default = field.default, f"=_default_{name}"
        if field.init:
            parameters[bool(field.kw_only)].append(name + default)
        elif default:
            value = f"_make_{name}()" if default == "=_not_given" else f"_default_{name}"
        else:
            continue
        body.append(_assignment(cls, name, value, names, is_frozen=is_frozen))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    signature = ", ".join(["self", *parameters[0], *(["*", *parameters[1]] if parameters[1] else [])])
    exec(f"def __init__({signature}):\n " + ("\n ".join(body) or "pass"), names)
    made: Any = names["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {**{field.name: field.type for field in fields if field.init}, "return": None}
    return made  # type: ignore[no-any-return]


def _assignment(cls: type, name: str, value: str, names: dict[str, Any], *, is_frozen: bool) -> str:
    """The line that sets a field; of a frozen class around what forbids it."""
    if not is_frozen:
        return f"self.{name} = {value}"
    slot = vars(cls).get(name)
    if hasattr(slot, "__set__"):
        names[f"_set_{name}"] = slot.__set__  # type: ignore[union-attr]
        return f"_set_{name}(self, {value})"
    names["_set"] = object.__setattr__
    return f"_set(self, {name!r}, {value})"


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """What takes these attributes of an object together."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    if not names:
        return lambda value: ()
    (name,) = names
    return lambda value: (getattr(value, name),)


def _comparing(get: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:
        return get(self) == get(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hashing(get: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(get(self))

    return __hash__


# ---- methods of all classes


@reprlib.recursive_repr()
def _shown(self: Any) -> str:
    told = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{self.__class__.__qualname__}({told})"


def _refuse_assignment(self: Any, name: str, value: object) -> None:
    if _FIELDS in vars(type(self)) or name in getattr(self, _FIELDS):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)  # an attribute that an ordinary class adds


def _refuse_deletion(self: Any, name: str) -> None:
    if _FIELDS in vars(type(self)) or name in getattr(self, _FIELDS):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state):
        object.__setattr__(self, field.name, value)
