"""What a stranger's package must leave as it is in each of its hooks, and while it is loaded: what belongs to the whole process.

In: a hook of a backend, or the loading of one, during which :mod:`zellige.plugin.own_names` watches more. Out: names of what it changed;
everything is as it was. A package that leaves the user's program in another folder would change what everybody else does, and nobody would
know whose doing it is. Launches are not watched.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

_READ_AT_ONCE: Final = ("PYTHON", "ZELLIGE_")
"""How the names of variables begin that change what Python and zellige do."""

_SIGNALS: Final = tuple(signal.Signals)
_HAS_ALARMS: Final = hasattr(signal, "setitimer")
_handler_of: Final[Callable[[int], Any]] = importlib.import_module("_signal").getsignal
"""``signal.getsignal`` makes members of an enumeration of the answers, which takes most of its time; every hook asks twice for all."""


@contextmanager
def process_kept() -> Iterator[list[str]]:
    """Gives back at the end what belongs to the whole process and is something else then, and lists it: the working directory, how NumPy
    handles errors, handlers of signals and an alarm that was set, settings of Python's (:mod:`zellige.plugin.python_settings`), the
    standard streams, and variables of the environment. A new variable may stay, since a vendor's library may need one of its own, but
    none that Python or zellige reads.

    The working directory, the environment, the alarm, Python's settings and which streams there are (not whether they are open) are looked
    at only where no other thread of Python's is there at the beginning. Beside others nobody knows whose doing a change is: the user's own
    thread may have made it, or another hook that overlaps, and neither may be refused or lose what it has set. How NumPy handles errors
    and how decimal numbers are rounded is each thread's own, and handlers of signals are set by the main thread alone: those are always
    looked at.
    """
    import numpy as np  # the command line does without until a backend is loaded

    from zellige.plugin.python_settings import SettingsKept  # a warm start does without
    from zellige.plugin.streams import StreamsKept

    is_alone = not _has_other_threads()
    folder, variables = (_folder(), _variables()) if is_alone else (None, None)
    is_armed = not is_alone or _is_alarm_set()
    errors, handlers, settings, streams = np.geterr(), _handlers(), SettingsKept(is_alone=is_alone), StreamsKept()
    replaced: list[str] = []
    try:
        yield replaced
    finally:
        if folder is not None and _folder() != folder:
            os.chdir(folder)
            replaced.append("the working directory")
        if np.geterr() != errors:
            np.seterr(**errors)
            replaced.append("how NumPy handles errors")
        for number, handler in handlers.items():
            if handler is not None and _handler_of(number) is not handler:
                signal.signal(number, handler)
                replaced.append(f"the handler of {number.name}")
        if not is_armed and _is_alarm_set():  # it would end the process later, with nobody to tell why
            signal.setitimer(signal.ITIMER_REAL, 0)
            replaced.append("the alarm of the process")
        replaced += settings.given_back()
        replaced += streams.given_back(is_alone=is_alone)
        streams.end()
        for name, value in [] if variables is None else _variables_to_restore(variables):
            _set_variable(name, value)
            replaced.append(f"the variable {name} of the environment")


class Onlooker(threading.Thread):
    """A thread of zellige's own that changes nothing of the process."""


def _has_other_threads() -> bool:
    """Whether another thread runs Python, or can go on to: those that zellige started to look on do not count."""
    ours = {thread.ident for thread in threading.enumerate() if isinstance(thread, Onlooker)}
    return not sys._current_frames().keys() <= {*ours, threading.get_ident()}


def _is_alarm_set() -> bool:
    return _HAS_ALARMS and signal.getitimer(signal.ITIMER_REAL)[0] > 0


def _folder() -> str | None:
    """The working directory; None where it has been removed."""
    try:
        return os.getcwd()
    except OSError:
        return None


def _handlers() -> dict[signal.Signals, Any]:
    """The handlers of signals; none on another thread than the main one, where Python lets nobody set them."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: _handler_of(number) for number in _SIGNALS}


def _variables() -> dict[Any, Any]:
    """The environment, encoded where Python holds it so: every hook looks at all of it twice, and texts would be made of it each time."""
    return dict(getattr(os.environ, "_data", os.environ))


def _variables_to_restore(before: dict[Any, Any]) -> list[tuple[str, str | None]]:
    """Names with what they held before, None for nothing."""
    now = _variables()
    if now == before:
        return []
    changed = [(os.fsdecode(name), os.fsdecode(value)) for name, value in before.items() if now.get(name) != value]
    new = [os.fsdecode(name) for name in now if name not in before]
    return [*changed, *((name, None) for name in new if name.startswith(_READ_AT_ONCE))]


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        del os.environ[name]
    else:
        os.environ[name] = value
