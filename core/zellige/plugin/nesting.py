"""How often one hook of somebody else's backend, or one pass, runs at once: one that asks for itself never ends.

In: whose hook is entered, for which target, or whose pass. Out: a context in which it counts as running; E709, of a pass E718, where it
runs too often already. A hook that compiles for its own target asks for itself: on its own thread, where few calls inside each other have a
use, or on new ones, where many at once wait for each other. So does a pass that compiles with itself.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from zellige.diagnostics import catalogue

if TYPE_CHECKING:
    from zellige.plugin.handle import BackendHandle

MOST_CALLS_INSIDE: Final = 3
"""How often a hook may be running at once, on one thread and for one target: it may ask for itself, and must then answer."""

MOST_CALLS_AT_ONCE: Final = 32
"""How often a hook may be running at once for one target on all threads together; more of them wait for the others."""

SECONDS_BEFORE: Final = 30.0
"""How long they wait. Calls of several threads end sooner or later; those of a hook that asks for itself on new threads never do."""

_running: Final = threading.local()
"""The hooks that run on a thread, each as often as it was entered: a Counter by backend, hook and target; and passes by owner and name."""

_running_anywhere: Final[Counter[tuple[str, str, str]]] = Counter()
"""The same of all threads together."""

_ended: Final = threading.Condition()
"""Held to count those, and told whenever one has ended."""


def _counts() -> Counter[tuple[str, str, str]]:
    counts: Counter[tuple[str, str, str]] = _running.__dict__.setdefault("counts", Counter())
    return counts


@contextmanager
def pass_entered(name: str, owner: str) -> Iterator[None]:
    """The pass ``name`` of ``owner`` runs. E718 where it compiles with itself again and again."""
    counts, question = _counts(), (owner, "pass", name)
    if counts[question] >= MOST_CALLS_INSIDE:
        reason = f"it compiles with itself: it is running {counts[question]} times at once"
        raise catalogue.E718.error(name=name, who=owner, reason=reason)
    counts[question] += 1
    try:
        yield
    finally:
        counts[question] -= 1


@contextmanager
def entered(handle: BackendHandle, hook: str, target: str) -> Iterator[None]:
    """A hook of the backend runs for ``target`` (empty for none). E709 where it asks for itself again and again."""
    counts, question = _counts(), (handle.origin.text, hook, target)
    if counts[question] >= MOST_CALLS_INSIDE:
        reason = f"it asks for itself: it is running {counts[question]} times at once" + (f" for {target}" if target else "")
        raise catalogue.E709.error(name=handle.name, place=f"hook {hook}", reason=reason, vendor=handle.vendor)
    with _ended:
        if not _ended.wait_for(lambda: _running_anywhere[question] < MOST_CALLS_AT_ONCE, SECONDS_BEFORE):
            reason = f"it is running {_running_anywhere[question]} times at once, and none of them ends: does it ask for itself?"
            raise catalogue.E709.error(name=handle.name, place=f"hook {hook}", reason=reason, vendor=handle.vendor)
        _running_anywhere[question] += 1
    counts[question] += 1
    try:
        yield
    finally:
        counts[question] -= 1
        with _ended:
            _running_anywhere[question] -= 1
            _ended.notify()
