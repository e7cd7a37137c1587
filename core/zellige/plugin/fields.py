"""Whether a dataclass of the contract holds what its annotations say, however deep, and within the limits of its fields.

In: a type and a value that a stranger's code made. Out: :func:`type_problems`, one sentence for each field of a wrong type, and
:func:`limit_problems`, one for each number or text that breaks a limit. Python checks nothing of the kind, and what is wrong deep inside an
answer shows far away otherwise.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import re
import reprlib
import sys
import types
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, Protocol, Union, get_args, get_origin, get_type_hints

from zellige.diagnostics import InternalError, Span
from zellige.plugin.fit import Revision
from zellige.plugin.interruption import is_from_outside
from zellige.plugin.limits import EXPECTED, LARGEST, LINE, LONGEST_LINE, NAME, keywords

MOST_OF_A_TEXT: Final = 2000
"""Characters of what a stranger's exception says."""

MOST_OF_A_COMMAND: Final = 300
"""Characters of the command of a program that failed."""

MOST_OF_AN_OUTPUT: Final = 1500
"""Characters of the end of what it printed."""

_MISSING: Final = object()


@lru_cache(maxsize=64)
def hints_of(kind: type) -> dict[str, Any]:
    """The types of a dataclass's fields."""
    names: dict[str, Any] = {"Span": Span}
    if kind is Revision:
        from zellige.plan.nodes import Decision  # nobody else needs plans to say what a backend is

        names["Decision"] = Decision
    return get_type_hints(kind, localns=names)


@lru_cache(maxsize=64)
def _asked_of(kind: type) -> tuple[tuple[str, Any, type | None, frozenset[Any]], ...]:
    """The fields of a dataclass, each with its name, its type, the class of its values where that is text, a number or a truth value, and
    single values that it may have: None in an optional field, the choices of a literal."""
    found = []
    for field in dataclasses.fields(kind):
        hint = hints_of(kind)[field.name]
        parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        classes = [part for part in parts if part is not types.NoneType]
        plain = classes[0] if len(classes) == 1 and classes[0] in (str, int, float, bool) else None
        choices = get_args(hint) if get_origin(hint) is Literal else (None,) * (len(classes) < len(parts))
        found.append((field.name, hint, plain, frozenset(choices)))
    return tuple(found)


def _is_at_once(value: Any, plain: type | None, choices: frozenset[Any]) -> bool:
    """Whether a value of a field is seen to be of its type without a closer look. Nearly all are; every compilation looks at hundreds."""
    kind = type(value)
    if kind is types.NoneType or (kind is str and plain is None):
        return value in choices
    if kind is not plain:
        return False
    return value.isascii() if kind is str else bool(kind is bool or abs(value) < LARGEST)


def type_problems(kind: Any, value: Any, where: str) -> Iterator[str]:
    """What is wrong with ``value``, which stands at ``where`` and should be of the type ``kind``."""
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        if not isinstance(value, kind):
            yield _wrong(where, value, kind.__name__)
        elif kind is Span:
            yield from _place_problems(value, where)
        else:
            for name, hint, plain, choices in _asked_of(kind):
                held = getattr(value, name, _MISSING)
                if held is _MISSING:  # an object that was made without the class's own way
                    yield f"{where}.{name} is missing"
                elif not _is_at_once(held, plain, choices):
                    yield from type_problems(hint, held, f"{where}.{name}")
        return
    origin = get_origin(kind)
    if origin is Literal:
        if not any(value is choice or (type(value) is type(choice) and value == choice) for choice in get_args(kind)):
            yield _wrong(where, value, f"one of {', '.join(map(repr, get_args(kind)))}")
    elif origin in (Union, types.UnionType):
        if all(any(True for _ in type_problems(part, value, where)) for part in get_args(kind)):
            parts = [part for part in get_args(kind) if part is not type(None)]
            if len(parts) > 1:
                yield _wrong(where, value, " or ".join(_name(part) for part in parts))
            else:
                yield from type_problems(parts[0], value, where)
    elif origin is tuple:
        yield from _tuple_problems(get_args(kind), value, where)
    elif origin in (frozenset, set, list):
        if not isinstance(value, origin):
            yield _wrong(where, value, f"a {origin.__name__}")
        else:
            for item in value:
                yield from type_problems(get_args(kind)[0], item, f"an item of {where}")
    elif kind is types.NoneType:
        if value is not None:
            yield _wrong(where, value, "None")
    elif origin is collections.abc.Callable:
        if not callable(value):
            yield _wrong(where, value, "a function")
    elif origin is collections.abc.Mapping or kind in (Any, object):
        return
    elif is_protocol(kind):
        if not callable(value) or not isinstance(getattr(value, "name", None), str):
            yield _wrong(where, value, f"{kind.__name__}: a function with a name")
    elif isinstance(value, bool) is not (kind is bool) or not isinstance(value, (int, float) if kind is float else kind):
        yield _wrong(where, value, kind.__name__)
    elif kind in (str, bytes) and type(value) is not kind:  # its methods may answer otherwise than what it holds
        yield f"{where} is of the class {type(value).__name__}, a kind of {kind.__name__}; expected a {kind.__name__} itself"
    elif isinstance(value, str) and not is_text(value):
        yield f"{where} is {shortened(value)}, which holds characters that are no text (half of a surrogate pair)"
    elif kind in (int, float) and not abs(value) < LARGEST:
        yield _wrong(where, value, "a number of that size")


def _place_problems(place: Any, where: str) -> Iterator[str]:
    """What of a place is of a wrong type. The name of a file may hold what is no text: Python names files that are not UTF-8 so."""
    for field in dataclasses.fields(Span):
        held = getattr(place, field.name, _MISSING)
        if held is _MISSING:
            yield f"{where}.{field.name} is missing"
        elif field.name != "file" or not isinstance(held, str):
            yield from type_problems(hints_of(Span)[field.name], held, f"{where}.{field.name}")
        elif type(held) is not str:
            yield _wrong(f"{where}.file", held, "a str itself")


def odd_places(program: object) -> Iterator[str]:
    """What is wrong with the places of a program, whatever else its fields hold: those of a kernel or plan, of its statements and
    expressions. A place is only looked at when something is said of it, far from what made it."""
    stack: list[object] = [program]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            stack.extend(items_of(node))
        elif dataclasses.is_dataclass(node) and not isinstance(node, type) and id(node) not in seen:
            seen.add(id(node))
            for field in dataclasses.fields(node):
                held = getattr(node, field.name, None)
                if field.name != "span":
                    stack.append(held)
                elif held is not None:
                    yield from type_problems(Span, held, f"the span of a {type(node).__name__}")


def _tuple_problems(parts: tuple[Any, ...], value: Any, where: str) -> Iterator[str]:
    if not isinstance(value, tuple):
        yield _wrong(where, value, "a tuple")
        return
    items = items_of(value)
    kinds = (parts[0],) * len(items) if len(parts) == 2 and parts[1] is Ellipsis else parts
    if len(kinds) != len(items):
        yield f"{where} has {len(items)} items, expected {len(kinds)}"
        return
    for at, (one, item) in enumerate(zip(kinds, items)):
        if one is not str or type(item) is not str or not item.isascii():
            yield from type_problems(one, item, f"{where}[{at}]")


def limit_problems(value: Any, where: str, metadata: Mapping[str, Any] | None = None) -> Iterator[str]:
    """What of ``value``, which stands at ``where``, breaks a limit. ``metadata`` is that of the field that holds it."""
    if isinstance(value, (str, int, float)):
        if metadata is not None:
            kind = bool if isinstance(value, bool) else str if isinstance(value, str) else int
            yield from _broken(value, where, keywords(metadata, kind))
    elif isinstance(value, tuple):
        wrong = tuple(too_many(value, where, metadata or {}))
        yield from wrong
        for at, item in enumerate(() if wrong else items_of(value)):
            yield from limit_problems(item, f"{where}[{at}]", metadata)
    elif value is not None and dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            held = getattr(value, field.name)
            if held is not None and type(held) is not bool:
                yield from limit_problems(held, f"{where}.{field.name}" if where else field.name, field.metadata)


def too_many(value: object, where: str, metadata: Mapping[str, Any]) -> Iterator[str]:
    """What of a tuple says that it has more items than its field takes, whatever they are."""
    most = keywords(metadata, tuple).get("maxItems")
    if most is not None and isinstance(value, tuple) and tuple.__len__(value) > most:
        yield f"{where} has {tuple.__len__(value)} items, more than {most}"


def _broken(value: Any, where: str, limits: Mapping[str, Any]) -> Iterator[str]:
    if "maxLength" in limits and len(value) > limits["maxLength"]:
        yield f"{where} has {len(value)} characters, more than {limits['maxLength']}"
    elif "pattern" in limits and not _follows(limits["pattern"], value):
        yield f"{where} is {shortened(value)}, expected {EXPECTED[limits['pattern']]}"
    if "minimum" in limits and not value >= limits["minimum"]:
        yield f"{where} is {value:g}, less than {limits['minimum']}"
    elif "x-power-of-two" in limits and value & (value - 1):
        yield f"{where} is {value}, which is no power of two"


def _follows(pattern: str, value: str) -> bool:
    return re.fullmatch(pattern, value) is not None


def items_of(value: tuple[Any, ...] | list[Any]) -> list[Any]:
    """What a stranger's tuple or list holds, whatever its class says when it is asked."""
    return list(tuple.__iter__(value) if isinstance(value, tuple) else list.__iter__(value))


def is_blank(text: str) -> bool:
    """Whether a text, which may be long, says nothing."""
    return not text or text.isspace()


def _name(kind: Any) -> str:
    return repr(get_args(kind)[0]) if get_origin(kind) is Literal else str(getattr(kind, "__name__", kind))


def _wrong(where: str, value: Any, expected: str) -> str:
    return f"{where} is {shortened(value)}, expected {expected}"


def is_protocol(kind: object) -> bool:
    """Whether a type only lists what its values can do."""
    return isinstance(kind, type) and Protocol in kind.__bases__


def is_text(value: str) -> bool:
    """Whether a stranger's text can be written down: what is kept and hashed is UTF-8."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_line(value: str, *, may_be_empty: bool = False) -> bool:
    """Whether a stranger's text is one line of a report, as the limits of fields say it (:mod:`zellige.plugin.limits`); one that names
    something, unless it ``may_be_empty``."""
    return len(value) <= LONGEST_LINE and _follows(LINE if may_be_empty else NAME, value) and is_text(value)


def shortened(value: object) -> str:
    """A stranger's value as text that is neither long nor able to raise."""
    try:
        return reprlib.repr(value)
    except BaseException as error:  # reprlib passes on what is no Exception
        if is_from_outside(error):
            raise
        return f"<{type(value).__name__} whose text cannot be made>"


def cut(text: str) -> str:
    """A stranger's text as long as somebody may want to read it."""
    return text if len(text) <= MOST_OF_A_TEXT else f"{text[:MOST_OF_A_TEXT]} ..."


def _of_process(error: Any) -> str:
    """How a program ended (a ``subprocess.CalledProcessError``) and what it printed last; its command may be longer than anybody reads."""
    command = error.cmd if isinstance(error.cmd, (str, bytes)) else " ".join(map(str, error.cmd))
    shown = command.decode(errors="replace") if isinstance(command, bytes) else command
    text = f"exit status {error.returncode} of {shown if len(shown) <= MOST_OF_A_COMMAND else shown[:MOST_OF_A_COMMAND] + ' ...'}"
    printed = error.stderr or error.stdout
    if not printed:
        return text
    told = printed.decode(errors="replace") if isinstance(printed, bytes) else str(printed)
    told = "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in told[-MOST_OF_AN_OUTPUT:]).strip()
    return f"{text}\n{'... ' if len(printed) > MOST_OF_AN_OUTPUT else ''}{told}"


def said(error: BaseException) -> str:
    """A stranger's exception as text: its type and what it says, where it can say it."""
    try:
        text = f"internal error: {error.message}" if isinstance(error, InternalError) else str(error)  # whose it is, the teller knows
        if isinstance(error, getattr(sys.modules.get("subprocess"), "CalledProcessError", ())):  # who raises one has that module
            text = _of_process(error)
    except BaseException as other:  # a stranger's __str__ may raise anything; the type is still worth saying
        if is_from_outside(other):
            raise
        text = "(its text cannot be made)"
    return f"{type(error).__name__}: {cut(text)}" if text else type(error).__name__
