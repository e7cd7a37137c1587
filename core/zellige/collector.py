"""Python's collector of cycles, asked less often while a kernel is compiled.

In: a stretch of work that makes many objects and hardly a cycle, such as loading the planner. Out: :func:`rarely_collecting`, within which
the collector looks after many more new objects than usual; its settings are given back at the end, or with its first look after that where
one is due, unless somebody changed them meanwhile.

Each pass over all objects of a program takes tens of milliseconds where large packages are loaded, and one falls into nearly every first
compilation, which has nothing to collect: trees of frozen nodes are freed as soon as nobody holds them.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

OBJECTS: Final = 100_000
"""So many new objects are looked at together: a kernel of ordinary size makes fewer, a huge one is still looked through."""

_lock: Final = threading.Lock()
_inside: Final[list[int]] = [0, 0, 0]
"""How many stretches are under way, the threshold before the first of them, and the one that was set, 0 where none was."""


@contextmanager
def rarely_collecting() -> Iterator[None]:
    """Within it the collector looks after :data:`OBJECTS` new objects, in every thread; where it was switched off it stays off."""
    _begin()
    try:
        yield
    finally:
        _end()


def callers_threshold() -> tuple[int, ...]:
    """What everybody else has set, also while another holds for a stretch of work and until the look after it."""
    first, *others = gc.get_threshold()
    return (_inside[1] if _inside[2] and first == _inside[2] else first, *others)


def _begin() -> None:
    with _lock:
        if not _inside[0] and _give_back in gc.callbacks:
            gc.callbacks.remove(_give_back)
            _give_back("start")
        _inside[0] += 1
        if _inside[0] > 1:
            return
        first, *others = gc.get_threshold()
        _inside[1:] = first, 0
        if 0 < first < OBJECTS:
            _inside[2] = OBJECTS
            gc.set_threshold(OBJECTS, *others)


def _end() -> None:
    """Back to the caller's settings; where the new objects are more than those allow, after as many again: else the collector would look
    through them at once, before the call is at its end."""
    with _lock:
        _inside[0] -= 1
        first, *others = gc.get_threshold()
        if _inside[0] or not _inside[2] or first != _inside[2]:
            return
        due = gc.get_count()[0]
        if due < _inside[1]:
            gc.set_threshold(_inside[1], *others)
            return
        _inside[2] = due + _inside[1]
        gc.set_threshold(_inside[2], *others)
        gc.callbacks.append(_give_back)


def _give_back(phase: str, _: Mapping[str, int] | None = None) -> None:
    """The caller's threshold, from the collector's first look on, unless somebody set another one meanwhile. It stays among the callbacks
    until the next stretch: taken out while they are called, it would make the collector pass over the one behind it."""
    first, *others = gc.get_threshold()
    if phase == "start" and not _inside[0] and first == _inside[2]:
        gc.set_threshold(_inside[1], *others)
        _inside[2] = 0
