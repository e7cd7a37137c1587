"""What objects of Python's own hold: containers, attributes and slots. Looking runs no code of the objects' classes.

In: an object. Out: its parts in an order of their own. What a part means is said by who looks: :mod:`zellige.frontend.contents` compares
them to tell whether a kernel must be traced again, :mod:`zellige.frontend.observation` to tell whether a call has changed something.
"""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from zellige.frontend.dependencies import MISSING

HEAP_TYPE: Final = 1 << 9
"""Py_TPFLAGS_HEAPTYPE of CPython's object.h: classes made while the program runs."""


def _entries(value: Mapping[Any, Any], items: Callable[[Any], Iterable[tuple[Any, Any]]] = dict.items) -> list[Any]:
    found = [part for pair in items(value) for part in pair]
    return [len(found), *found]


def _elements(value: Iterable[Any]) -> list[Any]:
    found = list(value)
    return [len(found), *found]


CONTAINERS: Final[dict[type, Callable[[Any], list[Any]]]] = {
    collections.OrderedDict: lambda value: _entries(value, collections.OrderedDict.items),
    collections.defaultdict: lambda value: [value.default_factory, *_entries(value)],
    collections.deque: lambda value: [value.maxlen, *_elements(collections.deque.__iter__(value))],
    dict: _entries,
    list: lambda value: _elements(list.__iter__(value)),
    tuple: lambda value: _elements(tuple.__iter__(value)),
    set: lambda value: _elements(set.__iter__(value)),
    frozenset: lambda value: _elements(frozenset.__iter__(value)),
    functools.partial: lambda value: [value.func, value.args, value.keywords, vars(value)],
}
"""What objects of these classes, and of classes made from them, hold beside attributes; a class made from another stands before it."""


def parts_of_container(value: Any) -> list[Any] | None:
    """What a container holds beside attributes of its own class; None for what is none."""
    return next((parts(value) for kind, parts in CONTAINERS.items() if isinstance(value, kind)), None)


def attributes_of(value: Any) -> dict[str, Any]:
    """An object's own attributes, without asking a method of its class; empty where it has none."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def slots_of(value: Any) -> Iterator[tuple[type, str, Any]]:
    """The slots of an object, those with private names too: the class that has the slot, its name, and what it holds, MISSING where that is
    nothing."""
    for owner in type(value).__mro__:
        for name, slot in vars(owner).items() if owner.__flags__ & HEAP_TYPE else ():
            if isinstance(slot, types.MemberDescriptorType) and not name.endswith("offset__"):  # where C keeps something of its own
                try:
                    yield owner, name, slot.__get__(value, type(value))
                except AttributeError:
                    yield owner, name, MISSING
