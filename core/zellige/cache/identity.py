"""What identifies passes and other functions that a user hands over, so that what was made with them is found again and never with others.

In: any value, such as the passes of a compilation. Out: text that is equal in another process only where the value is the same: the code
of its functions and classes, what they hold, and what that reads by name, through helper functions and other modules
(:class:`~zellige.frontend.dependencies.Look`). What cannot be told from outside, such as an open file or a function of an unknown
library, gets text of its own in this process, so that nothing made with it is found by another. Text that differs without need costs a
compilation; text that is equal without reason would give a wrong kernel.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import sys
import types
from dataclasses import fields, is_dataclass
from typing import Any, Final

import numpy as np
import numpy.random  # which NumPy loads when it is asked for; until then nothing shows what a function takes from it

from zellige.cache.keys import UNTOLD
from zellige.diagnostics.ownership import is_core
from zellige.frontend.contents import add_attributes, home_of_builtin, object_of
from zellige.frontend.dependencies import ATOMS, LIBRARIES, Look, Same, Unclear, plain_function
from zellige.frontend.holdings import HEAP_TYPE

_ADDRESS: Final = re.compile(r"\bat 0x[0-9a-fA-F]+")
_LONG: Final = 256
"""Bytes from which on a digest stands for them."""

_own: Final[dict[int, tuple[object, str]]] = {}
"""What cannot be told from outside, kept alive so that its text is not given to another object."""


def identity_of(value: object) -> str:
    """The text that stands for ``value`` in keys of the cache."""
    look = _Telling()
    look.pending.append(value)
    try:
        texts = [_text(part) for part in look.follow()]
    except Unclear:
        texts = [f"{UNTOLD}{secrets.token_hex(16)}"]  # there is too much to look at
    found = hashlib.sha256("\n".join((sys.version, *texts)).encode(errors="surrogatepass")).hexdigest()
    return f"{UNTOLD}{found}" if any(UNTOLD in text for text in texts) else found


class _Untold:
    """Stands among parts for an object that cannot be told from outside."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class _Telling(Look):
    """A look whose parts mean the same in another process. What is unclear counts by being itself, and the rest is looked at."""

    most_parts = 500_000
    most_bytes = sys.maxsize

    def itself(self, value: Any) -> Any:
        return Same(type(value))  # where it lies says nothing in another process; what it holds and how it is shared are parts as well

    def value(self, value: Any) -> None:
        kind = type(value)
        try:
            if (kind is set or kind is frozenset) and all(type(one) in ATOMS for one in value):
                self.add(kind, *sorted(map(_atom, value)))  # in an order that another process has too
            elif is_core(kind.__module__) and not isinstance(value, (type, types.ModuleType)) and plain_function(value) is None:
                self._object_of_core(value, kind)
            else:
                super().value(value)
        except Unclear:
            self.parts.append(_Untold(value))
            if not isinstance(value, (type, types.FunctionType)):
                add_attributes(self, value)

    def _object_of_core(self, value: Any, kind: type) -> None:
        """One of core's: a dataclass by what it was made from, beside which it may keep what it found, such as its hash."""
        if is_dataclass(value):
            held = [field.name for field in fields(value) if field.init]
            self.add(kind, *held)
            self.pending += [getattr(value, name) for name in held]
        else:
            object_of(self, value, kind)

    def function(self, function: types.FunctionType) -> None:
        self.add(function.__module__, function.__qualname__, function.__name__)
        super().function(function)

    def attributes(self, function: types.FunctionType) -> dict[str, Any]:
        """None of a library's own function: another library may have marked it, as torch marks one of enum's, and it does the same."""
        home = str(function.__module__)
        is_library_s = home.partition(".")[0] in LIBRARIES and _stands_in(home, function.__qualname__, function)
        return {} if is_library_s else super().attributes(function)

    def imported(self, function: types.FunctionType, name: str) -> None:
        if name not in sys.modules and not is_core(name) and name.partition(".")[0] not in LIBRARIES:
            self.parts.append(_Untold(function))  # what it will import when it runs, or a module beside its own, has not been seen
        super().imported(function, name)


# ---- parts as text


def _text(part: Any) -> str:
    kind = type(part)
    if kind in ATOMS:
        return _atom(part)
    if kind is tuple:
        return f"({', '.join(map(_text, part))})"
    if kind is Same:
        return _named(part.value)
    return _of_this_process(part.value) if kind is _Untold else _named(part)


def _atom(value: Any) -> str:
    if type(value) is int:
        return hex(value)
    if type(value) is bytes and len(value) > _LONG:
        return f"{len(value)} bytes {hashlib.sha256(value).hexdigest()}"
    return f"{type(value).__name__} {value!r}"


def _named(value: Any) -> str:
    """An object of which a look says only that it is the same: as other processes call it, else as this one does."""
    kind = type(value)
    if kind is types.CodeType:
        return _code(value)
    if isinstance(value, type):
        return _class(value)
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}" if sys.modules.get(value.__name__) is value else _of_this_process(value)
    if isinstance(value, _DESCRIPTORS):
        return f"{kind.__name__} {_class(value.__objclass__)} {value.__name__}"
    if kind is re.Pattern:
        return f"pattern {value.pattern!r} {value.flags}"
    if kind.__module__ == "logging":
        return f"{kind.__name__} {value.name}"  # it is told something, and asked for its level alone
    if isinstance(value, np.dtype) or kind.__module__ in _WRITTEN:
        written = repr(value)
        return _of_this_process(value) if _ADDRESS.search(written) else f"{kind.__name__} {written}"
    if value is sys.stdout or value is sys.stderr:
        return "standard output"
    home = "numpy" if isinstance(value, np.ufunc) else home_of_builtin(value) if kind in _FUNCTIONS else None
    name = getattr(value, "__name__", None)
    return f"{home}.{name}" if _stands_in(home, name, value) else _of_this_process(value)


_WRITTEN: Final = ("torch", "typing", "types", "datetime", "_collections")
"""Modules of which those objects that never change say as text all that they are."""

_FUNCTIONS: Final = (types.BuiltinFunctionType, type(np.sum))

_DESCRIPTORS: Final = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.ClassMethodDescriptorType,
)  # fmt: skip


def _class(value: type) -> str:
    """A class by its name; one of core or of a library, into which nobody looks, only where it stands under that name."""
    home, name = str(value.__module__), value.__qualname__
    is_seen = not is_core(home) and home.partition(".")[0] not in LIBRARIES
    is_told = is_seen or not value.__flags__ & HEAP_TYPE
    return f"class {home}.{name}" if is_told or _stands_in(home, name, value) else _of_this_process(value)


def _stands_in(home: object, name: object, value: object) -> bool:
    """Whether a module that is loaded has ``value`` under a name, which may be that of a part of a part."""
    found: Any = sys.modules.get(str(home))
    for word in str(name).split("."):
        found = vars(found).get(word) if isinstance(found, (type, types.ModuleType)) else None
    return (found.__func__ if isinstance(found, staticmethod) else found) is value


def _code(code: types.CodeType) -> str:
    """A digest of all of a code that decides what it does: not of where it stands."""
    parts = (
        code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_code, code.co_names, code.co_varnames,
        code.co_freevars, code.co_cellvars, code.co_name, getattr(code, "co_exceptiontable", b""),
    )  # fmt: skip
    return hashlib.sha256(repr((parts, [_constant(one) for one in code.co_consts])).encode(errors="surrogatepass")).hexdigest()


def _constant(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return _code(value)
    if isinstance(value, (tuple, frozenset)):
        parts = [_constant(one) for one in value]
        return f"{type(value).__name__} {sorted(parts) if isinstance(value, frozenset) else parts}"
    return hex(value) if type(value) is int else f"{type(value).__name__} {value!r}"


def _of_this_process(value: object) -> str:
    """Text that no other object and no other process has. A function that looks at files, the clock or chance may give something else each
    time, and has text that is never found again."""
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
        return f"{UNTOLD}{secrets.token_hex(16)}"
    return f"{UNTOLD}{_own.setdefault(id(value), (value, secrets.token_hex(16)))[1]}"
