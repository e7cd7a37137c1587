"""What lies in storage while a program runs abstractly, and which accesses nothing orders.

In: accesses as boxes, with the operation they belong to. Out: for a read, the operations whose results it sees (:class:`Contents`); and
pairs of conflicting accesses that no chain of synchronisation orders (:class:`Accesses`).

Order is kept in vector clocks: a *thread* is a role, or a token, whose operations finish in order. An access has the clock at which it may
begin and the thread and count at which it has certainly ended; it comes after another when its clock has reached that count.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import field
from typing import TypeAlias

from zellige.plan.checks.touches import Box, Touch, covers, overlaps
from zellige.records import dataclass

Clock: TypeAlias = "dict[str, int]"
Seen: TypeAlias = "frozenset[tuple[int, frozenset[int]]]"
"""Writers whose results are seen, each with those that it wrote over in part."""


def join(clock: Clock, other: Clock) -> None:
    """Let ``clock`` know all that ``other`` knows."""
    for thread, count in other.items():
        if clock.get(thread, 0) < count:
            clock[thread] = count


@dataclass(frozen=True, slots=True)
class _Written:
    box: Box
    writer: int
    over: frozenset[int]
    is_exact: bool


def _hides(touch: Touch, entry: _Written) -> bool:
    """A write whose elements are not sure hides only such a one of the same box, which keeps the list short."""
    return covers(touch.box, entry.box) if touch.is_exact else touch.box == entry.box and not entry.is_exact


@dataclass(slots=True)
class Contents:
    """For each piece of storage the writes whose results lie in it, oldest first. ``work`` counts those looked at so far."""

    work: int = 0
    _entries: dict[Hashable, list[_Written]] = field(default_factory=dict)

    def clear(self, key: Hashable) -> None:
        """What lay there is undefined now."""
        self._entries.pop(key, None)

    def write(self, key: Hashable, touch: Touch, writer: int) -> None:
        """Note a write; it hides older ones that it covers."""
        entries = self._entries.get(key, ())
        self.work += len(entries)
        kept = [entry for entry in entries if not _hides(touch, entry)]
        over = frozenset(entry.writer for entry in kept if overlaps(entry.box, touch.box))
        kept.append(_Written(touch.box, writer, over, touch.is_exact))
        self._entries[key] = kept

    def read(self, key: Hashable, box: Box) -> Seen:
        """Whose results a read of ``box`` sees."""
        entries = self._entries.get(key, ())
        self.work += len(entries)
        return frozenset((entry.writer, entry.over) for entry in entries if overlaps(entry.box, box))

    def keys_written(self) -> Iterator[Hashable]:
        """All storage that something was written to."""
        yield from self._entries

    def all_of(self, key: Hashable) -> Seen:
        """Whose results lie in the storage."""
        return frozenset((entry.writer, entry.over) for entry in self._entries.get(key, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One access: who did it (``role``, ``what``), and where it has ended."""

    role: str
    what: str
    statement: int
    thread: str
    count: int
    box: Box
    is_write: bool

    @property
    def is_asynchronous(self) -> bool:
        """Whether a token, not its role, says when it has ended."""
        return self.thread != self.role


@dataclass(slots=True)
class Accesses:
    """The accesses that a later one may still conflict with: of each thread, statement and box the last."""

    _last: dict[Hashable, dict[Hashable, Access]] = field(default_factory=dict)

    def add(self, key: Hashable, access: Access, clock: Clock) -> list[Access]:
        """Note an access that may begin at ``clock``; the earlier ones it conflicts with and is not after."""
        earlier = self._last.setdefault(key, {})
        found = []
        ordered: list[Hashable] = []
        for name, other in earlier.items():
            if not overlaps(other.box, access.box):
                continue
            is_after = clock.get(other.thread, 0) >= other.count
            if is_after:
                if access.is_write and covers(access.box, other.box):
                    ordered.append(name)  # what comes after this access comes after the other
                continue
            if (access.is_write or other.is_write) and not _is_same_operation(access, other):
                found.append(other)
        for name in ordered:
            del earlier[name]
        earlier[access.thread, access.statement, access.is_write, access.box] = access
        return found


def _is_same_operation(one: Access, other: Access) -> bool:
    return one.thread == other.thread and one.count == other.count
