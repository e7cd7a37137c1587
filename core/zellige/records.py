"""Dataclasses that are made in a tenth of the time, for modules that are loaded when a kernel is compiled.

In: a class with annotated fields. Out: the same class, with slots where they are asked for, that behaves as the decorator of
:mod:`dataclasses` makes it, and is a dataclass to ``fields``, ``replace``, ``asdict`` and ``is_dataclass``.

The library's decorator writes each method of a class as text and has Python compile it: six texts for a frozen class, 0.7 ms, and a first
compilation loads 170 such classes. Here ``__init__`` alone is written so, since objects are made often, and not before the first object is
made; methods that compare, hash, print and forbid are closures and functions that all classes share. A class that is out of the ordinary
is the library's. To type checkers the two decorators are one.
"""

from __future__ import annotations

import dataclasses
import operator
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True) -> Any:
        """What ``dataclasses.dataclass`` makes of a class with these arguments."""
        if cls is None:
            return lambda given: _made(given, frozen=frozen, slots=slots, kw_only=kw_only, eq=eq)
        return _made(cls, frozen=frozen, slots=slots, kw_only=kw_only, eq=eq)


_FIELDS: Final = "__dataclass_fields__"
_PARAMS: Final = "__dataclass_params__"
_NONE: Final[Mapping[str, Any]] = {}

_SPECIAL: Final = re.compile("ClassVar|InitVar|KW_ONLY")
"""What annotations hold that are more than the type of a field."""

_FIELD: Final = vars(dataclasses).get("_FIELD")
"""How the library marks fields of objects. One that has no such mark makes all classes."""


class _NotGiven:
    """The default of a parameter whose field has a function that makes one."""

    def __repr__(self) -> str:
        return "<factory>"


_NOT_GIVEN: Final = _NotGiven()


def _made(cls: type, *, frozen: bool, slots: bool, kw_only: bool, eq: bool) -> type:
    if not _is_plain(cls, frozen=frozen):
        return dataclasses.dataclass(frozen=frozen, slots=slots, kw_only=kw_only, eq=eq)(cls)
    written = vars(cls)
    is_hash_written = "__hash__" in written and not (written["__hash__"] is None and "__eq__" in written)
    known = {name: field for base in cls.__mro__[:0:-1] for name, field in vars(base).get(_FIELDS, _NONE).items()}
    known.update(_own_fields(cls, kw_only))
    fields = [field for field in known.values() if field._field_type is _FIELD]
    _check_order(fields)
    made: Any = _with_slots(cls, fields) if slots else cls
    setattr(made, _FIELDS, known)
    setattr(made, _PARAMS, _parameters(frozen, slots, kw_only, eq))
    methods: dict[str, Any] = {"__init__": _Initialiser(made, fields, is_frozen=frozen), "__repr__": _shown}
    methods["__match_args__"] = tuple(field.name for field in fields if field.init and not field.kw_only)
    if eq:
        get = _getter(tuple(field.name for field in fields if field.compare))
        methods["__eq__"] = _comparing(get)
        if not is_hash_written:
            made.__hash__ = _hashing(get) if frozen else None
    if frozen and slots:
        methods.update(__getstate__=_state, __setstate__=_set_state)
    for name, method in methods.items():
        if name not in written:
            setattr(made, name, method)
    if frozen:
        made.__setattr__, made.__delattr__ = _refuse_assignment, _refuse_deletion
    return made  # type: ignore[no-any-return]


# ---- fields and slots


def _is_plain(cls: type, *, frozen: bool) -> bool:
    """Whether a class is one that is made here. The library knows all rules of the others: metaclasses, slots and attributes of its own,
    annotations that are no texts or say more than a type, wrong defaults, frozen classes beside others."""
    written, annotations, above = vars(cls), cls.__annotations__, cls.__mro__[1:-1]
    return (
        _FIELD is not None
        and type(cls) is type
        and written.keys().isdisjoint(("__slots__", "__setattr__", "__delattr__") if frozen else ("__slots__",))
        and all(isinstance(text, str) and (_is_of_class(text) or not _SPECIAL.search(text)) for text in annotations.values())
        and all(_default(value).__class__.__hash__ is not None for name in annotations if (value := written.get(name)) is not None)
        and all(name in annotations for name, value in written.items() if isinstance(value, dataclasses.Field))
        and all(vars(base)[_PARAMS].frozen == frozen for base in above if _PARAMS in vars(base))
        and all(isinstance(vars(base).get("__slots__", ()), tuple) for base in above)
    )


def _is_of_class(annotation: str) -> bool:
    return annotation.startswith(("ClassVar[", "typing.ClassVar["))


def _default(value: Any) -> Any:
    return value.default if isinstance(value, dataclasses.Field) else value


def _own_fields(cls: type, kw_only: bool) -> dict[str, Any]:
    """The fields that a class adds; their defaults become the class's attributes."""
    found: dict[str, Any] = {}
    for name, annotation in cls.__annotations__.items():
        if _is_of_class(annotation):
            continue
        given: Any = getattr(cls, name, dataclasses.MISSING)
        if isinstance(given, MemberDescriptorType):  # the slot of a class above
            given = dataclasses.MISSING
        is_written = isinstance(given, dataclasses.Field)
        field: Any = given if is_written else dataclasses.field(default=given)
        field.name, field.type, field._field_type = name, annotation, _FIELD
        if field.kw_only is dataclasses.MISSING:
            field.kw_only = kw_only
        if is_written and field.default is dataclasses.MISSING:
            delattr(cls, name)
        elif is_written:
            setattr(cls, name, field.default)
        found[name] = field
    return found


def _check_order(fields: Iterable[dataclasses.Field[Any]]) -> None:
    """TypeError for a parameter that must be given behind one that need not be."""
    has_default = False
    for field in fields:
        if field.init and not field.kw_only:
            is_given = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            if is_given and has_default:
                raise TypeError(f"non-default argument {field.name!r} follows default argument")
            has_default = has_default or not is_given


def _with_slots(cls: type, fields: Sequence[dataclasses.Field[Any]]) -> type:
    """The class anew, with a slot for each field that no class above has one for."""
    there = {slot for base in cls.__mro__[1:-1] for slot in vars(base).get("__slots__", ())}
    names = [field.name for field in fields]
    body = {name: value for name, value in vars(cls).items() if name not in names and name not in ("__dict__", "__weakref__")}
    body.update(__slots__=tuple(name for name in names if name not in there), __qualname__=cls.__qualname__)
    return type(cls.__name__, cls.__bases__, body)


@lru_cache
def _parameters(frozen: bool, slots: bool, kw_only: bool, eq: bool) -> Any:
    """What the library notes of a class made with these flags."""
    example: Any = type("Example", (), {"__doc__": "For its parameters."})
    example = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(example)
    stated = getattr(example, _PARAMS)
    stated.init, stated.repr, stated.eq, stated.frozen = True, True, eq, frozen
    return stated


# ---- methods of one class


class _Initialiser:
    """``__init__`` of a class until somebody looks for it: its text is written and compiled then, and of most classes that a compilation
    loads no object is made."""

    __slots__ = ("cls", "fields", "is_frozen")

    def __init__(self, cls: type, fields: Sequence[dataclasses.Field[Any]], *, is_frozen: bool) -> None:
        self.cls, self.fields, self.is_frozen = cls, fields, is_frozen

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        made: Any = _initialiser(self.cls, self.fields, is_frozen=self.is_frozen)
        if vars(self.cls).get("__init__") is self:
            setattr(self.cls, "__init__", made)  # noqa: B010 - type checkers take it for a method of theirs
        return made.__get__(instance, owner)


def _initialiser(cls: type, fields: Sequence[dataclasses.Field[Any]], *, is_frozen: bool) -> Callable[..., None]:
    """``__init__`` with the fields as parameters, those for keywords alone at the end."""
    names: dict[str, Any] = {"__name__": cls.__module__, "_not_given": _NOT_GIVEN}  # its frames are the module's, not a caller's
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
    slot = getattr(cls, name, None)
    if isinstance(slot, MemberDescriptorType):
        names[f"_set_{name}"] = slot.__set__
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
