"""What can be reached from some objects of Python's, and whether it has changed since it was looked at.

In: the objects that a call is given. Out: :class:`Observed`. Followed are containers, the user's objects, classes, functions and modules,
what iterators, methods and wrappers hold, and what a function's code, with the functions written inside it, mentions: names of its module
and attributes of the user's modules, by name or by text. Objects of libraries keep caches of their own: what they hold is known to exist,
and not compared. Looking runs no code of the user's.

Not seen: what objects and functions of libraries keep to themselves, a module that a function imports relatively while it runs, tensors
whose elements cannot be read and that count no changes, and what is left where more than ``_LIMIT`` objects can be reached.
"""

from __future__ import annotations

import contextvars
import enum
import functools
import gc
import operator
import sys
import types
import weakref
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from zellige.diagnostics.ownership import is_library, is_library_file, is_ours
from zellige.frontend.contents import tensor_bytes
from zellige.frontend.dependencies import MISSING, codes_in, content_of_cell
from zellige.frontend.holdings import attributes_of, parts_of_container, slots_of

_LIMIT: Final = 1 << 14  # objects that are looked at for one call

_VALUES: Final = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice, np.generic, np.dtype, enum.Enum)
PLAIN: Final = frozenset((bool, int, float, complex, str, bytes, type(None)))
_COMPARED: Final = (bool, int, float, complex, str, bytes)
_OF_THE_RUN: Final = (types.FrameType, types.TracebackType, types.CodeType)
_TRANSPARENT: Final = frozenset(("builtins", "itertools", "functools", "operator"))
"""Modules written in C whose objects only hand on what they hold."""

_CACHED: Final = type(functools.cache(len))

State = tuple[list[Any], list[Any]]
"""What of a value is compared, and what else can be reached through it."""


def is_own(value: Any) -> bool:
    """Whether a value is one of this package's classes."""
    return is_ours(type(value).__module__)


def is_users_class(kind: type) -> bool:
    """Whether a class is neither this package's nor a library's."""
    return not (is_ours(kind.__module__) or is_library(kind.__module__))


def _is_users(value: Any) -> bool:
    """Whether a value is a function or object of the user's."""
    if isinstance(value, types.FunctionType):
        return not (is_ours(value.__globals__.get("__name__")) or is_library_file(value.__code__.co_filename))
    return not isinstance(value, (type, types.ModuleType)) and is_users_class(type(value))


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor, which counts its changes or has elements to compare."""
    return hasattr(type(value), "_version") and hasattr(type(value), "__dlpack__")


# ---- what values hold


def _array_state(array: np.ndarray[Any, Any]) -> list[Any]:
    plain = np.asarray(array)
    found = [str(plain.shape), str(plain.strides), plain.dtype.str, getattr(array, "_mask", None)]
    if plain.dtype.hasobject:
        return [*found, *plain.ravel().tolist()]
    if not plain.nbytes:
        return found
    return [*found, zlib.crc32(np.ascontiguousarray(plain).reshape(-1).view(np.uint8).data)]


def _tensor_state(value: Any) -> list[Any]:
    """The elements where they are at hand; elsewhere the tensor's own count of its changes, which one made in inference mode has not."""
    if value.device.type == "cpu" or value.is_inference():
        elements = tensor_bytes(value)
        if elements is not None:
            return [str(tuple(value.shape)), str(value.dtype), zlib.crc32(elements.data)]
    return [] if value.is_inference() else [value._version]


def _iterator_state(value: Any) -> list[Any]:
    frame = getattr(value, "gi_frame", None) if isinstance(value, types.GeneratorType) else None
    shown = repr(value) if type(value).__module__ == "itertools" and type(value).__name__ in ("count", "repeat") else ""
    hint = operator.length_hint(value, -1) if type(value).__module__ in _TRANSPARENT else -1
    return [hint, shown, None if frame is None else frame.f_lasti]


_mentioned: Final[dict[int, tuple[types.CodeType, tuple[str, ...], frozenset[str]]]] = {}


def _mentions(code: types.CodeType) -> tuple[tuple[str, ...], frozenset[str]]:
    """The names that a code mentions, with the functions written inside it, and the words by which it may mean attributes."""
    known = _mentioned.get(id(code))
    if known is None:
        names: dict[str, None] = {}
        words: set[str] = set()
        for inner in codes_in(code):
            names.update(dict.fromkeys(inner.co_names))
            words.update(constant for constant in inner.co_consts if type(constant) is str and constant.isidentifier())
        known = _mentioned[id(code)] = code, tuple(names), frozenset(words.union(names))
    return known[1], known[2]


def _attributes(value: Any) -> list[Any]:
    """What an object of a user's class holds by name and in slots, with its class."""
    kind = type(value)
    found: list[Any] = [kind]
    for name, held in attributes_of(value).items():
        if not isinstance(_of_class(kind, name), functools.cached_property):
            found += (name, held)
    found += (held for owner, _, held in slots_of(value) if is_users_class(owner))
    return found


def _of_class(kind: type, name: str) -> Any:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def _class_state(kind: type) -> list[Any]:
    """What a user's class holds. Python adds names of its own between underscores when it is asked for them."""
    held = [part for name, part in vars(kind).items() if not (name[:2] == name[-2:] == "__") or isinstance(part, types.FunctionType)]
    return [*held, *kind.__bases__]


class Observed:
    """The state of what can be reached from some objects.

    ``is_inside``: only what the objects hold themselves, not what their classes and functions take from around them.
    ``is_whole`` says that nothing was left out for being too much.
    """

    def __init__(self, roots: Iterable[Any], *, is_inside: bool = False) -> None:
        self.states: dict[int, tuple[Any, list[Any]]] = {}
        self.is_whole = True
        self._roots = tuple(roots)
        self._is_inside = is_inside
        self._held: dict[int, Any] = {}
        self._words: set[str] = set()
        self._modules: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        pending = deque(self._roots)
        while pending or self._ask_modules(pending):
            if len(self.states) + len(self._held) >= _LIMIT:
                self.is_whole = False
                break
            self._look_at(pending.popleft(), pending)

    def _look_at(self, value: Any, pending: deque[Any]) -> None:
        if id(value) in self.states or value is MISSING:
            return
        if isinstance(value, types.ModuleType):
            self._add_module(value)
            return
        if self._is_inside and isinstance(value, (type, types.FunctionType, types.MethodType)):
            return
        state = self._state(value)
        if state is not None:
            self.states[id(value)] = (value, state[0])
            pending.extend(part for parts in state for part in parts if type(part) not in PLAIN)

    def _add_module(self, module: types.ModuleType) -> None:
        name = str(vars(module).get("__name__"))
        if not (self._is_inside or id(module) in self._modules or is_ours(name) or is_library(name)):
            self._modules[id(module)] = (vars(module), {})

    def _ask_modules(self, pending: deque[Any]) -> bool:
        """Looks at the names of modules that any code mentions; what they lead to may mention more."""
        for names, asked in self._modules.values():
            for word in self._words - asked.keys():
                asked[word] = names.get(word, MISSING)
                pending.append(asked[word])
        return bool(pending)

    def _code(self, code: types.CodeType, around: dict[str, Any]) -> list[Any]:
        """What code takes from its module, and from others by importing them."""
        names, words = _mentions(code)
        self._words |= words
        for name in names:
            module = sys.modules.get(name)
            if module is not None:
                self._add_module(module)
        return [around.get(name, MISSING) for name in names]

    def _function_state(self, function: types.FunctionType) -> State:
        """What a function takes from around it; of a library's the user's functions and objects that it was made around."""
        cells = [content_of_cell(cell) for cell in function.__closure__ or ()]
        if is_ours(function.__globals__.get("__name__")):
            return [], []
        if is_library_file(function.__code__.co_filename):
            return [], [part for part in cells if _is_users(part)]
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        attributes = [part for item in vars(function).items() for part in item]
        return [*cells, *defaults, *attributes, *self._code(function.__code__, function.__globals__)], []

    def _generator_state(self, value: Any) -> State:
        frame = value.gi_frame
        if frame is None or is_ours(frame.f_globals.get("__name__")):
            return _iterator_state(value), []
        code = value.gi_code
        if is_library_file(code.co_filename):
            return _iterator_state(value), list(frame.f_locals.values())
        return _iterator_state(value), [*frame.f_locals.values(), *self._code(code, frame.f_globals)]

    def _state(self, value: Any) -> State | None:
        """None for what holds nothing that can change."""
        if isinstance(value, (*_VALUES, *_OF_THE_RUN)) or is_own(value):
            return None
        held = parts_of_container(value)
        match value:
            case _ if held is not None:
                found = held
            case np.ndarray():
                found = _array_state(value)
            case bytearray() | memoryview():
                return [bytes(value)], [value.obj] if isinstance(value, memoryview) else []
            case type():
                return (_class_state(value), []) if is_users_class(value) and not isinstance(value, enum.EnumMeta) else None
            case types.FunctionType():
                return self._function_state(value)
            case types.MethodType():
                return [value.__self__, value.__func__], []
            case types.BuiltinFunctionType():
                return [value.__self__], []
            case weakref.ReferenceType():
                return [weakref.ReferenceType.__call__(value)], []
            case contextvars.ContextVar():
                return [value.get(None)], []
            case types.GeneratorType():
                return self._generator_state(value)
            case _:
                return self._object_state(value)
        return (found, []) if type(value).__module__ in ("builtins", "collections", "numpy") else (found + self._users_part(value), [])

    def _users_part(self, value: Any) -> list[Any]:
        return _attributes(value) if is_users_class(type(value)) else []

    def _object_state(self, value: Any) -> State:
        kind = type(value)
        found = _tensor_state(value) if is_tensor(value) else []
        if is_users_class(kind):
            return found + _attributes(value), []
        if kind is types.SimpleNamespace:
            return [part for item in vars(value).items() for part in item], []
        if hasattr(kind, "__next__"):
            found = _iterator_state(value)
        if isinstance(value, _CACHED):
            return [], [value.__wrapped__, *self._hold(value)]
        if kind.__module__ in _TRANSPARENT:
            return found, gc.get_referents(value)
        return found, [] if is_tensor(value) else self._hold(value)

    def _hold(self, value: Any) -> list[Any]:
        """Notes what an object of a library's holds; the user's functions and objects in it are given back."""
        users: list[Any] = []
        pending = [value]
        while pending:
            if len(self.states) + len(self._held) >= _LIMIT:
                self.is_whole = False
                break
            top = pending.pop()
            blocked = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, *_OF_THE_RUN)
            if _is_users(top):
                users.append(top)
            elif not (id(top) in self._held or type(top) in PLAIN or isinstance(top, blocked) or is_own(top)):
                self._held[id(top)] = top
                pending += gc.get_referents(top)
        return users

    def again(self) -> Observed:
        """The same objects, looked at now."""
        return Observed(self._roots, is_inside=self._is_inside)

    def has(self, value: object) -> bool:
        """Whether the value was there."""
        return id(value) in self.states or id(value) in self._held

    def keeps(self, value: object) -> bool:
        """Whether an object of a library's holds the value."""
        return id(value) in self._held

    def values(self) -> list[Any]:
        """All that was looked at and can change."""
        return [value for value, _ in self.states.values()]

    def changes(self) -> Iterator[Any]:
        """What is not as it was."""
        for value, before in list(self.states.values()):
            state = self._state(value)
            if state is None or not _is_same(before, state[0]):
                yield value
        for names, asked in list(self._modules.values()):
            if not _is_same(list(asked.values()), [names.get(word, MISSING) for word in asked]):
                yield sys.modules.get(str(names.get("__name__")), names)


def _is_same(before: list[Any], after: list[Any]) -> bool:
    if len(before) != len(after):
        return False
    if all(map(operator.is_, before, after)):
        return True
    return all(a is b or (type(a) is type(b) and isinstance(a, _COMPARED) and a == b) for a, b in zip(before, after))
