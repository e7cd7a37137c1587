"""What identifies a pass that a user hands over, so that kernels made with it are found again and never with another.

In: a function or an object that can be called. Out: text that is the same in another process exactly where the pass is the same code with
the same values: its module, name, code, the digest of its source file, the values that it holds, and plain values of its module and class
that it may read. A pass whose values or source cannot be told gets text of its own in this process, so that nothing made with it is found
by another.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import secrets
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, Final

from zellige.plugin.choices import Insert, Replace, Veto
from zellige.version import LOADED_NS, changed_ns

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN: Final = (bool, int, float, complex, str, bytes)
_own: Final[dict[int, tuple[object, str]]] = {}
"""Passes that cannot be told from outside, kept alive so that their identity is not given to another object."""


def identity_of(step: Any) -> str:
    """The text that stands for ``step`` in keys of the cache."""
    function = getattr(step, "function", step)  # a named pass around a function
    if isinstance(function, partial):
        given = repr((function.args, function.keywords))
        if not _ADDRESS.search(given):
            return f"{identity_of(function.func)} with {given} {getattr(step, 'name', '')}"
    code = function if inspect.isroutine(function) else type(function)
    values = _values(function) if inspect.isroutine(function) else repr(vars(function)) if hasattr(function, "__dict__") else repr(function)
    source = _source(code)
    if source is None or _ADDRESS.search(values) or isinstance(function, partial):
        kept = _own.setdefault(id(step), (step, secrets.token_hex(16)))
        return f"of this process {kept[1]}"
    written = _code(function) if inspect.isroutine(function) else f"{_code(type(function).__call__)} {_of_class(type(function))}"
    return f"{code.__module__}.{code.__qualname__} {written} {source} {values} {getattr(step, 'name', '')}"


def identity_of_change(change: Any) -> str:
    """The same of a pass or of a change to the passes of a stage: what it does to which, and the pass that it brings."""
    if isinstance(change, Insert):
        return f"insert {identity_of(change.step)} before {change.before} after {change.after}"
    if isinstance(change, Replace):
        return f"replace {change.name!r} by {identity_of(change.step)}"
    return f"leave out {change.name!r}" if isinstance(change, Veto) else identity_of(change)


def _code(function: Any) -> str:
    """Which code of its file a function is: several may have one name, as all lambdas of a scope have."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None:
        return ""
    read = getattr(function, "__globals__", {})
    plain = [(name, read[name]) for name in _names(code) if isinstance(read.get(name), _PLAIN)]
    return f"{hashlib.sha256(repr(_parts(code)).encode()).hexdigest()} {plain}"


def _names(code: CodeType) -> list[str]:
    inner = [name for one in code.co_consts if isinstance(one, CodeType) for name in _names(one)]
    return [*code.co_names, *inner]


def _of_class(kind: type) -> list[tuple[str, object]]:
    """The plain values of a class and of those above it."""
    held = [(name, value) for one in kind.__mro__ for name, value in vars(one).items()]
    return [(name, value) for name, value in held if not name.startswith("__") and isinstance(value, _PLAIN)]


def _parts(code: CodeType) -> tuple[object, ...]:
    constants = [_parts(one) if isinstance(one, CodeType) else _in_order(one) for one in code.co_consts]
    return code.co_firstlineno, code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants


def _in_order(constant: object) -> object:
    return sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant


def _values(function: Any) -> str:
    """The defaults of a function and what it holds of the scopes around it."""
    inner = getattr(function, "__func__", function)
    cells = [cell.cell_contents for cell in inner.__closure__ or ()] if hasattr(inner, "__closure__") else []
    return repr((getattr(inner, "__defaults__", None), getattr(inner, "__kwdefaults__", None), cells, getattr(function, "__self__", None)))


def _source(code: Any) -> str | None:
    """A digest of the file that holds ``code``; None where there is none, or it changed since this process began."""
    try:
        file = inspect.getsourcefile(code)
        if file is None or changed_ns(Path(file).stat()) >= LOADED_NS:
            return None
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except (TypeError, OSError):
        return None
