"""Settings of Python's that hold for the whole process, which a backend must leave as they are.

In: a hook, or the loading of a backend. Out: what it set otherwise, in words; everything is as it was. What libraries that a vendor's needs
set while they are imported stays: a higher limit of recursion, and filters for warnings of their own or with their words.
"""

from __future__ import annotations

import builtins
import gc
import locale
import logging
import operator
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from zellige.collector import callers_threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    is_same: Callable[[Any, Any], object] = operator.eq
    may_stay: Callable[[Any, Any], bool] = lambda before, now: False
    """Whether another value is nobody's harm."""

    def is_kept(self, before: Any) -> bool:
        try:
            now = self.read()
            return bool(self.is_same(before, now)) or self.may_stay(before, now)
        except Exception:  # noqa: BLE001 - it was removed, or is something of a stranger's that cannot be compared
            return False


def _hook(owner: Any, name: str) -> _Setting:
    """What a module calls for everybody, such as for an exception that nobody has caught."""
    return _Setting(
        name=f"{owner.__name__}.{name}", read=lambda: getattr(owner, name), write=lambda value: setattr(owner, name, value),
        is_same=operator.is_,
    )  # fmt: skip


def _umask() -> int:
    mask = os.umask(0o077)  # there is no way to read it alone; until it is back nobody else can read what is made
    os.umask(mask)
    return mask


def _set_locale(value: str) -> None:
    with suppress(locale.Error):  # one that the system no longer has
        locale.setlocale(locale.LC_ALL, value)


def _set_filters(value: tuple[Any, ...]) -> None:
    found: Any = getattr(warnings, "filters", None)
    filters = found if isinstance(found, list) else []
    filters[:] = [*(one for one in filters if not _is_for_everybody(one) and one not in value), *value]
    warnings.filters = filters
    with warnings.catch_warnings():
        pass  # what was decided by other filters is decided anew


def _filters_may_stay(before: tuple[Any, ...], now: tuple[Any, ...]) -> bool:
    """Whether those for everybody are the same, and no other is lost: a library says again what it wants of its own warnings, which puts
    that first."""
    ours, theirs = ([one for one in entries if _is_for_everybody(one)] for entries in (before, now))
    return ours == theirs and all(one in now for one in before)


def _is_for_everybody(entry: Any) -> bool:
    """Whether a filter is for all warnings of a kind of Python's, whoever warns of what; also one that breaks every warning."""
    if not (isinstance(entry, tuple) and len(entry) == 5 and isinstance(entry[2], type)):
        return True
    _, message, category, module, _ = entry
    return message is None and module is None and getattr(builtins, category.__name__, None) is category


SETTINGS: Final = (
    _Setting(
        name="whether garbage is collected", read=gc.isenabled, write=lambda is_on: gc.enable() if is_on else gc.disable()
    ),
    _Setting(
        name="when garbage is collected", read=callers_threshold, write=lambda counts: gc.set_threshold(*counts)
    ),
    _Setting(
        name="the limit of recursion", read=sys.getrecursionlimit, write=sys.setrecursionlimit,
        may_stay=lambda before, now: bool(now > before),
    ),
    _Setting(name="how often threads take turns", read=sys.getswitchinterval, write=sys.setswitchinterval),
    _Setting(name="which levels of logging are off", read=lambda: logging.root.manager.disable, write=logging.disable),
    _Setting(name="filters of warnings", read=lambda: tuple(warnings.filters), write=_set_filters, may_stay=_filters_may_stay),
    _hook(sys, "excepthook"),
    _hook(sys, "unraisablehook"),
    _hook(sys, "displayhook"),
    _hook(threading, "excepthook"),
    _hook(warnings, "showwarning"),
    _Setting(name="the mask of new files", read=_umask, write=os.umask),
    _Setting(name="the locale", read=lambda: locale.setlocale(locale.LC_ALL), write=_set_locale),
)  # fmt: skip


def _may_stay_traced(before: Any, now: Any) -> bool:
    """Whether somebody looks on who did before, or a debugger that was begun meanwhile, such as at a breakpoint in a hook."""
    debugger = getattr(sys.modules.get("bdb"), "Bdb", ())
    return (before is not None and now is not None) or isinstance(getattr(now, "__self__", None), debugger)


OF_A_THREAD: Final = (
    _Setting(
        name="the function that traces (sys.settrace)", read=sys.gettrace, write=sys.settrace, is_same=operator.is_,
        may_stay=_may_stay_traced,
    ),
    _Setting(
        name="the function that profiles (sys.setprofile)", read=sys.getprofile, write=sys.setprofile, is_same=operator.is_,
        may_stay=_may_stay_traced,
    ),
)  # fmt: skip
"""Those that each thread has for itself, beside how it computes with decimal numbers."""


class SettingsKept:
    """The settings as they are now. ``is_alone``: no other thread can change those of the whole process meanwhile; else only those are
    looked at that each thread has for itself."""

    def __init__(self, *, is_alone: bool) -> None:
        self._held: list[tuple[_Setting, Any]] = []
        for one in (*OF_A_THREAD, *(SETTINGS if is_alone else ())):
            with suppress(Exception):  # what is not there now is not looked at
                self._held.append((one, one.read()))
        self._decimal = _decimal()

    def given_back(self) -> Iterator[str]:
        """What is something else now has its own again; its name."""
        for one, value in self._held:
            if not one.is_kept(value):
                with suppress(Exception):  # where what sets it was removed, the next hook finds it so
                    one.write(value)
                yield one.name
        now = _decimal()
        if now is None:
            return
        before = self._decimal or sys.modules["decimal"].DefaultContext.copy()  # what a thread begins with
        if _rules(now) != _rules(before):
            with suppress(Exception):  # as above
                sys.modules["decimal"].setcontext(before)
            yield "how decimal numbers are rounded"


def _decimal() -> Any:
    """How this thread computes with decimal numbers, as a copy; None where nobody has loaded the module, or somebody took it apart."""
    try:
        return sys.modules["decimal"].getcontext().copy()
    except Exception:  # noqa: BLE001 - a module in which a stranger has replaced or removed what is asked for
        return None


def _rules(context: Any) -> tuple[object, ...]:
    """All but the flags, which any computation sets."""
    return (
        context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp, dict(context.traps),
    )  # fmt: skip
