"""The standard streams of the process, which a backend may print to and must leave open.

In: a hook, or the loading of a backend. Out: names of the streams that were replaced or closed; they are again what they were. A stream
that was closed is another object afterwards, for the same file: whoever holds the old one cannot be helped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

_NAMES: Final = ("stdout", "stderr")


class StreamsKept:
    """The streams as they are now. :meth:`given_back` gives them back; :meth:`end` must follow."""

    def __init__(self) -> None:
        self._kept = [_Stream(name) for name in _NAMES]

    def given_back(self, *, is_alone: bool) -> Iterator[str]:
        """What was closed, and, where no other thread can have done it (``is_alone``), what was replaced."""
        for stream in self._kept:
            yield from stream.given_back(is_alone=is_alone)

    def end(self) -> None:
        for stream in self._kept:
            stream.end()


class _Stream:
    """One of them, with a second handle of its file where it has one: the first may be closed, and nothing else would lead to it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stream: Any = getattr(sys, name)
        self._is_open = self._stream is not None and not getattr(self._stream, "closed", False)
        self._file = self._second = -1
        if self._is_open:
            with suppress(OSError, AttributeError, ValueError):  # one of a notebook or of a test has no file
                self._file = self._stream.fileno()
                self._second = os.dup(self._file)

    def given_back(self, *, is_alone: bool) -> Iterator[str]:
        is_closed = self._is_open and getattr(self._stream, "closed", False)
        if self._second >= 0 and self._lost_its_file(is_alone=is_alone):
            os.dup2(self._second, self._file, inheritable=self._file <= 2)
            if not is_closed:
                yield f"the file of sys.{self._name}"
        if is_closed:
            self._open_again()
            yield f"sys.{self._name} by closing it"
        elif is_alone and getattr(sys, self._name) is not self._stream:
            setattr(sys, self._name, self._stream)
            yield f"sys.{self._name}"

    def _lost_its_file(self, *, is_alone: bool) -> bool:
        """Whether its number is closed, or another file's now: that may be another thread's doing."""
        try:
            return not os.path.sameopenfile(self._file, self._second) and is_alone
        except OSError:
            return True

    def _open_again(self) -> None:
        """A stream of the same file; the one that the process began with where it had none."""
        old, first = self._stream, f"__{self._name}__"
        if self._second < 0:
            setattr(sys, self._name, getattr(sys, first))
            return
        new = open(self._file, "w", buffering=1, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115 - it stays
        if getattr(sys, first) is old:
            setattr(sys, first, new)
        setattr(sys, self._name, new)

    def end(self) -> None:
        if self._second >= 0:
            os.close(self._second)
