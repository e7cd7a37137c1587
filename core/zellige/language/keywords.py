"""Keyword arguments: hints with names that belong to a target, flags that are decided while compiling, and what says nothing here.

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
from zellige.diagnostics.suggest import closest, closest_argument
from zellige.frontend import arithmetic
from zellige.frontend.values import Element, Tile, here
from zellige.ir.expr import Const, Expr
from zellige.ir.stmt import Hints
from zellige.language.tensors import any_type
from zellige.layout import Layout

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

EVICTIONS: Final = ("evict_normal", "evict_first", "evict_last")
SWIZZLES: Final = ("bank", "swizzle", "padded")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(arithmetic.python_number(getattr(value, "constant", value)), int)


def _is_from(least: int) -> Callable[[Any], bool]:
    return lambda value: (number := arithmetic.whole_number(value)) is not None and number >= least


def _is_among(names: tuple[str, ...]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in names


def _is_barrier(value: Any) -> bool:
    return isinstance(value, (Tile, Element)) or hasattr(value, "arrivals")


_TAKES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "align": ("an int", _is_from(-1)),
    "annotations": ("a dictionary", lambda value: isinstance(value, Mapping)),
    "eviction_policy": (f"one of {', '.join(EVICTIONS)}", _is_among(EVICTIONS)),
    "generator": ("the name of a generator", _is_text),
    "is_cpu": ("True or False", _is_flag),
    "loop_layout": ("a layout such as T.Fragment(...)", lambda value: isinstance(value, Layout)),
    "mbar": ("a barrier such as T.alloc_barrier(1)", _is_barrier),
    "name": ("a text", _is_text),
    "no_stack_info": ("True or False", _is_flag),
    "offset_factor": ("an int from 0 on", _is_from(0)),
    "prefer_async": ("True or False", _is_flag),
    "prefer_instruction": ("the name of an instruction", _is_text),
    "prelude": ("a text", _is_text),
    "span": ("nothing", lambda value: False),
    "swizzle": (f"one of {', '.join(SWIZZLES)}", _is_among(SWIZZLES)),
    "sync": ("a list", lambda value: isinstance(value, (list, tuple))),
    "warp_group_id": ("an int from 0 on", _is_from(0)),
    "warp_id": ("an int from 0 on", _is_from(0)),
    "wg_wait": ("an int from -1 on", _is_from(-1)),
}
"""What a keyword that changes no meaning takes, in words and as a test. None says nothing, whatever the keyword."""


def check_hints(operation: str, **given: Any) -> None:
    """E258 for a keyword that changes no meaning and holds what it cannot mean in any program; E217 for a dtype that is none."""
    for name, value in given.items():
        if value is None:
            continue
        if name == "dtype":
            any_type(value)
            continue
        wanted, is_taken = _TAKES[name]
        if not is_taken(value):
            described = repr(value) if isinstance(value, str) else arithmetic.describe(value)
            close = closest(value, {"eviction_policy": EVICTIONS, "swizzle": SWIZZLES}.get(name, ()))
            raise catalogue.E258.error(here(), operation=operation, wanted=f"{wanted} as {name}", given=f"{described}{close}")


def accept(operation: str, given: Mapping[str, Any], known: Iterable[str], *, hints_of: str = "") -> Hints:
    """The hints of targets among the keywords of an operation. E259 for a keyword that is neither a hint of the operation nor of any
    target, and for a target's that is no number, string or bool; ``known`` are its parameters, for the message."""
    hints = HINTS[hints_of or operation]
    check_hints(operation, **{name: value for name, value in given.items() if name in hints})
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
            if not named.keys().isdisjoint(ignored):
                check_hints(f"T.{apply.__name__}", **{name: named.pop(name) for name in ignored if name in named})
            return function(*positional, **named)

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


def text(value: Any, operation: str, name: str) -> str:
    """The argument ``name`` of an operation, a text that is there while compiling. E258: anything else."""
    if not isinstance(value, str):
        raise catalogue.E258.error(here(), operation=operation, wanted=f"a text as {name}", given=arithmetic.describe(value))
    return value


_DENSE: Final[Mapping[str, tuple[Any, ...]]] = {
    "axis_separators": ([], ()),
    "buffer_type": ("", "default"),
    "elem_offset": (0,),
    "scope": ("", "global"),
    "strides": ([], ()),
}
"""What arguments of older programs hold where elements lie densely from the first one on. None says so too."""


def refuse_placement(operation: str, **said: Any) -> None:
    """E259 for arguments of older programs that put the elements of a buffer elsewhere than densely from the first one on."""
    for name, value in said.items():
        if value is not None and not any(type(value) is type(plain) and value == plain for plain in _DENSE.get(name, ())):
            reason = f"does not take {name}={arithmetic.describe(value)}"
            raise catalogue.E259.error(here(), operation=operation, reason=reason, signature="shape, dtype, strides")


def count_of(value: Any, what: str, *, least: int = 1, hint: str | None = None) -> int:
    """A number from ``least`` on that is decided while compiling. E245: anything else."""
    number = arithmetic.whole_number(value)
    if number is None or number < least:
        raise catalogue.E245.error(here(), wanted=_int_from(least), given=f"{arithmetic.describe(value)} {what}", hint=hint)
    return number


def size_of(value: Any, what: str, *, least: int = 1) -> Expr:
    """An integer that a call may give; from ``least`` on where it is known while compiling. E205: no integer; E245: below ``least``."""
    size = arithmetic.index(value, here())
    if isinstance(size, Const) and size.value < least:
        raise catalogue.E245.error(here(), wanted=_int_from(least), given=f"{size.value} {what}")
    return size


def _int_from(least: int) -> str:
    return "a positive Python int" if least == 1 else f"a Python int from {least} on"
