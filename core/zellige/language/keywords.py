"""Keyword arguments: hints with names that belong to a target, and flags that are decided while compiling.

A keyword beyond an operation's own is a target's hint, which never changes what the operation means; a near miss of a known name is
a mistake, and one that a manifest lists as a device's own is refused elsewhere.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from zellige.diagnostics import catalogue
from zellige.frontend.values import here


def accept(operation: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raises TypeError, as Python does, for a keyword that is close to one of ``known``; E401 for one that asks for a device's own unit."""
    names = list(known)
    for name, value in given.items():
        targets = _targets_with(name) if value and name not in names else ()
        if targets:
            raise catalogue.E401.error(here(), name=f"{operation.removeprefix('T.')} with {name}", targets=", ".join(targets))
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
        if close and name not in names:
            raise TypeError(f"{operation}() got an unexpected keyword argument {name!r}; did you mean {close[0]!r}?")


def _targets_with(name: str) -> tuple[str, ...]:
    from zellige.plugin.registry import registry  # loading the backends takes time: only where a target's keyword is met

    return registry().dialect_targets(name)


def flag(value: Any, what: str) -> bool:
    """A keyword that is decided while compiling; E105 for a run-time value."""
    constant = getattr(value, "constant", value)
    if not isinstance(constant, (bool, int)):
        raise catalogue.E105.error(here(), given=what)
    return bool(constant)
