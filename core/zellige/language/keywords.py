"""Keyword arguments: hints with names that belong to a target, and flags that are decided while compiling.

A keyword beyond an operation's own is a target's hint, which never changes what the operation means; a near miss of a known name is
a mistake.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from zellige.diagnostics import catalogue
from zellige.frontend.values import here

F = TypeVar("F", bound=Callable[..., Any])


def accept(operation: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raises TypeError, as Python does, for a keyword that is close to one of ``known``."""
    names = list(known)
    for name in given:
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.85)
        if close and name not in names:
            raise TypeError(f"{operation}() got an unexpected keyword argument {name!r}; did you mean {close[0]!r}?")


def without(*ignored: str) -> Callable[[F], F]:
    """Makes a function accept keywords of older code that say nothing: the operands' own dtypes and places decide."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def apply(*positional: Any, **named: Any) -> Any:
            return function(*positional, **{name: value for name, value in named.items() if name not in ignored})

        return apply  # type: ignore[return-value]

    return decorate


def flag(value: Any, what: str) -> bool:
    """A keyword that is decided while compiling; E105 for a run-time value."""
    constant = getattr(value, "constant", value)
    if not isinstance(constant, (bool, int)):
        raise catalogue.E105.error(here(), given=what)
    return bool(constant)
