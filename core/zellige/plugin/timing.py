"""Timers, cache flushes and inspections of somebody else's backend, each watched while it works.

In: what the hooks ``timers``, ``cache_flush`` and ``inspections`` answered. Out: the same to whoever calls them (:func:`watched_timer`,
:class:`WatchedFlush`, :func:`watched_inspection`); what they raise is said of the backend and its hook (E709), and so is what they answer
where that cannot be (E703). What the function raises that is timed, and what a file raises that the user named, stays as it is.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from zellige.plugin.contract import CacheFlush
from zellige.plugin.fields import items_of, shortened
from zellige.plugin.signatures import later_kind

if TYPE_CHECKING:
    from zellige.plugin.handle import BackendHandle

Timer = Callable[[Callable[[], object], int, Callable[[], object]], list[float]]

_TAKES: Final[dict[str, tuple[str, ...]]] = {"timers": ("run", "repeats", "before"), "inspections": ("kernel",)}


def function_problem(hook: Literal["inspections", "timers"], name: str, function: Callable[..., Any]) -> str:
    """What is wrong with a function of a hook that answers functions, before it is called; empty where nothing is."""
    later = later_kind(function)
    if later:
        return f"{name} of its hook {hook} is {later}, which does nothing when it is called: write it so that it answers at once"
    takes = _TAKES[hook]
    bind = "bind" if hook == "timers" else "bind_partial"  # an inspection may take more, which the user gives
    try:
        getattr(inspect.signature(function), bind)(*takes)
    except TypeError as error:
        return f"{name} of its hook {hook} cannot be called as {name}({', '.join(takes)}): {error}"
    except ValueError:  # a function of C code, which has no signature
        return ""
    return ""


def watched_timer(handle: BackendHandle, name: str, timer: Callable[..., Any]) -> Timer:
    """A timer whose answer is checked."""
    place = f"hook timers (the timer {name})"

    def timed(run: Callable[[], object], repeats: int, before: Callable[[], object]) -> list[float]:
        failures: list[BaseException] = []

        def kept(step: Callable[[], object]) -> Callable[[], object]:
            def call() -> object:
                try:
                    return step()
                except BaseException as error:
                    failures.append(error)
                    raise

            return call

        try:
            answer = handle.blaming(place, lambda: _times(timer(kept(run), repeats, kept(before)), repeats))
        except BaseException:
            if failures:  # what is timed failed, and not what times it
                raise failures[0] from None
            raise
        if failures:
            raise failures[0]
        if isinstance(answer, str):
            raise handle.at_fault(f"the timer {name} of its hook timers {answer}")
        return answer

    return timed


def _times(answer: object, repeats: int) -> list[float] | str:
    """The milliseconds that a timer answered, or what is wrong with them."""
    expected = f", expected a list of {repeats} times in milliseconds"
    if not isinstance(answer, (list, tuple)):
        return f"answered {shortened(answer)}{expected}"
    items = items_of(answer)
    if len(items) != repeats:
        return f"answered {len(items)} times{expected}"
    for item in items:
        if isinstance(item, bool) or not isinstance(item, (int, float)) or not (math.isfinite(item) and item >= 0):
            return f"answered the time {shortened(item)}{expected}"
    return [float(item) for item in items]


class WatchedFlush:
    """What empties the caches of a device, as somebody else's backend does it."""

    def __init__(self, handle: BackendHandle, flush: CacheFlush) -> None:
        self._handle, self._flush = handle, flush
        self.size_bytes = 0

    def __call__(self) -> None:
        self._blaming(lambda: self._flush())

    def __enter__(self) -> WatchedFlush:
        entered: object = self._blaming(lambda: self._flush.__enter__())
        if not isinstance(entered, CacheFlush):
            reason = f"its hook cache_flush answered what opens as {shortened(entered)}, expected itself"
            raise self._handle.at_fault(reason)
        self._flush, self.size_bytes = entered, self._size(entered)
        return self

    def __exit__(self, *exception: object) -> None:
        self._blaming(lambda: self._flush.__exit__(*exception))

    def _size(self, flush: CacheFlush) -> int:
        """How much is written or read, checked."""
        found: object = self._blaming(lambda: flush.size_bytes)
        if isinstance(found, bool) or not isinstance(found, int) or found < 0:
            reason = f"its hook cache_flush answered what has {shortened(found)} for size_bytes, expected a number of bytes"
            raise self._handle.at_fault(reason)
        return found

    def _blaming(self, do: Callable[[], Any]) -> Any:
        return self._handle.blaming("hook cache_flush", do)


def watched_inspection(handle: BackendHandle, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """An inspection, which takes the compiled kernel and what the user gives."""

    def inspected(kernel: object, *arguments: object, **keywords: object) -> Any:
        failures: list[BaseException] = []

        def call() -> Any:
            try:
                return function(kernel, *arguments, **keywords)
            except BaseException as error:
                if _is_users(handle, error, [*arguments, *keywords.values()]):
                    failures.append(error)
                    return None
                raise

        answer = handle.blaming(f"hook inspections (the method {name})", call)
        if failures:
            raise failures[0]
        return answer

    return inspected


def _is_users(handle: BackendHandle, error: BaseException, given: Sequence[object]) -> bool:
    """Whether an exception is about what the user gave: a file that cannot be written, or arguments that do not fit."""
    if isinstance(error, OSError):
        files = {os.fspath(one) for one in given if isinstance(one, (str, os.PathLike))}
        named = (error.filename, error.filename2)
        return any(isinstance(one, (str, bytes, os.PathLike)) and os.fspath(one) in files for one in named)
    return isinstance(error, TypeError) and not handle.owns(error)


def functions_of(handle: BackendHandle, hook: Literal["inspections", "timers"], found: Mapping[str, Any]) -> dict[str, Any]:
    """The functions of a hook, watched. E703 for one that cannot be called."""
    made: dict[str, Any] = {}
    for name, function in found.items():
        problem = function_problem(hook, name, function) if callable(function) else ""
        if problem:
            raise handle.at_fault(problem)
        watched = watched_timer if hook == "timers" else watched_inspection
        made[name] = watched(handle, name, function)
    return made
