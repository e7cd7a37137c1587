"""What identifies a pass that a user hands over, so that kernels made with it are found again and never with another.

In: a function or an object that can be called. Out: text that is the same in another process exactly where the pass is the same code with
the same values: its module, name, the digest of its source file, and the values that it holds. A pass whose values or source cannot be
told gets text of its own in this process, so that nothing made with it is found by another.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import secrets
from pathlib import Path
from typing import Any, Final

from zellige.plugin.choices import Insert, Replace, Veto
from zellige.version import LOADED_NS, changed_ns

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
_own: Final[dict[int, tuple[object, str]]] = {}
"""Passes that cannot be told from outside, kept alive so that their identity is not given to another object."""


def identity_of(step: Any) -> str:
    """The text that stands for ``step`` in keys of the cache."""
    function = getattr(step, "function", step)  # a named pass around a function
    code = function if inspect.isroutine(function) else type(function)
    values = _values(function) if inspect.isroutine(function) else repr(vars(function)) if hasattr(function, "__dict__") else repr(function)
    source = _source(code)
    if source is None or _ADDRESS.search(values):
        kept = _own.setdefault(id(step), (step, secrets.token_hex(16)))
        return f"of this process {kept[1]}"
    return f"{code.__module__}.{code.__qualname__} {source} {values} {getattr(step, 'name', '')}"


def identity_of_change(change: Any) -> str:
    """The same of a pass or of a change to the passes of a stage: what it does to which, and the pass that it brings."""
    if isinstance(change, Insert):
        return f"insert {identity_of(change.step)} before {change.before} after {change.after}"
    if isinstance(change, Replace):
        return f"replace {change.name!r} by {identity_of(change.step)}"
    return f"leave out {change.name!r}" if isinstance(change, Veto) else identity_of(change)


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
