"""Keyword arguments: hints with names that belong to a target, and flags that are decided while compiling.

A hint never changes what an operation means. :data:`HINTS` lists those that programs written for TileLang pass and that are no parameters
here; the hints of a target stand in its backend's manifest and go with the statement, where that backend's lowering finds them. Any other
keyword is a mistake.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from zellige.diagnostics import catalogue
from zellige.diagnostics.suggest import closest_argument
from zellige.frontend import arithmetic
from zellige.frontend.values import here
from zellige.ir.stmt import Hints

F = TypeVar("F", bound=Callable[..., Any])

HINTS: Final[Mapping[str, frozenset[str]]] = {
    "T.Kernel": frozenset(),
    "T.Parallel": frozenset(),
    "T.Pipelined": frozenset(("sync",)),
    "T.copy": frozenset(("annotations", "loop_layout", "prefer_instruction")),
    "T.async_copy": frozenset(("annotations", "eviction_policy", "loop_layout", "swizzle")),
    "T.im2col": frozenset(("annotations",)),
    "T.gemm": frozenset(("annotations",)),
    "T.gemm_sp": frozenset(("annotations",)),
    "T.gemm_blockscaled": frozenset(("annotations", "mbar", "wg_wait")),
    "T.atomic_add": frozenset(("annotations",)),
    "T.atomic_max": frozenset(("annotations",)),
    "T.atomic_min": frozenset(("annotations",)),
    "T.reduce": frozenset(("annotations",)),
}
"""Keywords without effect here that an operation takes beside its parameters, by operation; ``T.reduce`` stands for all reductions."""


def accept(operation: str, given: Mapping[str, Any], known: Iterable[str], *, hints_of: str = "") -> Hints:
    """The hints of targets among the keywords of an operation. E259 for a keyword that is neither a hint of the operation nor of any
    target, and for a target's that is no number, string or bool; ``known`` are its parameters, for the message."""
    hints = HINTS[hints_of or operation]
    unknown = [name for name in given if name not in hints]
    if not unknown:
        return ()
    from zellige.plugin.registry import registry

    for name in unknown:
        if not registry().hint_targets(name):
            raise catalogue.E259.error(
                here(),
                operation=operation,
                reason=f"has no argument {name!r}{closest_argument(name, (*known, *hints))}",
                signature=", ".join(known),
            )
    return tuple((name, _told(operation, name, given[name], known)) for name in unknown)


def _told(operation: str, name: str, value: Any, known: Iterable[str]) -> bool | int | float | str:
    """What a hint of a target says, which its backend reads while compiling. E259 for what a program's text cannot hold."""
    constant = getattr(value, "constant", value)
    if isinstance(constant, (bool, int, float, str)):
        kind = next(kind for kind in (bool, int, float, str) if isinstance(constant, kind))
        return kind(constant)
    given = f"takes a bool, a number or a string as the hint {name!r}, not {arithmetic.describe(value)}"
    raise catalogue.E259.error(here(), operation=operation, reason=given, signature=", ".join(known))


def refuse_hints(operation: str, hints: Hints, why: str) -> None:
    """E259 for hints of a target in a place where no statement would carry them."""
    for name, _ in hints:
        reason = f"has no place for the hint {name!r}: {why}"
        raise catalogue.E259.error(here(), operation=operation, reason=reason, signature="no hints of targets")


def without(*ignored: str) -> Callable[[F], F]:
    """Makes a function accept keywords of older code that say nothing: the operands' own dtypes and places decide."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def apply(*positional: Any, **named: Any) -> Any:
            return function(*positional, **{name: value for name, value in named.items() if name not in ignored})

        extra = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in ignored]
        signature = inspect.signature(function)
        apply.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *extra])  # type: ignore[attr-defined]
        return apply  # type: ignore[return-value]

    return decorate


def flag(value: Any, operation: str, name: str) -> bool:
    """The keyword ``name`` of an operation, decided while compiling. E105: a run-time value; E258: neither True nor False."""
    number = arithmetic.python_number(getattr(value, "constant", value))
    if isinstance(number, int):
        return bool(number)
    if number is None and hasattr(value, "constant"):
        raise catalogue.E105.error(here(), given=f"{name} of {operation}")
    raise catalogue.E258.error(here(), operation=operation, wanted=f"True or False as {name}", given=arithmetic.describe(value))


def check_annotations(value: Any, operation: str) -> None:
    """``annotations`` of other programs is a dictionary without effect. E258: anything else, such as a value to be stored."""
    if value is not None and not isinstance(value, Mapping):
        raise catalogue.E258.error(here(), operation=operation, wanted="a dictionary as annotations", given=arithmetic.describe(value))


def count_of(value: Any, what: str, *, least: int = 1, hint: str | None = None) -> int:
    """A number from ``least`` on that is decided while compiling. E245: anything else."""
    number = arithmetic.whole_number(value)
    if number is None or number < least:
        raise catalogue.E245.error(here(), given=f"{arithmetic.describe(value)} {what}", hint=hint)
    return number
