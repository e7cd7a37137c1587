"""Where something stands in the user's source, and that place drawn as text with a caret."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from types import CodeType, FrameType, TracebackType
from typing import Final

from zellige.diagnostics.ownership import is_ours, package_of


def calling_place() -> Span | None:
    """The place of the user's program that is running: the innermost frame outside of this package and of what its functions go through.
    None where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (is_ours(frame.f_globals.get("__name__")) or _top(frame) in _BETWEEN):
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith("<frozen"):
        return None
    return _place_of(frame.f_code, frame.f_lasti, frame.f_lineno)


def place_in(error: BaseException, is_wanted: Callable[[FrameType], bool]) -> Span | None:
    """The innermost place that an exception passed through, among the frames that are wanted. None where there is none."""
    found: TracebackType | None = None
    entry = error.__traceback__
    while entry is not None:
        found = entry if is_wanted(entry.tb_frame) else found
        entry = entry.tb_next
    return None if found is None else _place_of(found.tb_frame.f_code, found.tb_lasti, found.tb_lineno)


_MOST_DECORATORS: Final = 20
"""Lines in front of the ``def`` of a function."""

_BETWEEN: Final = ("zellige", "pluggy", "importlib", "contextlib", "functools")
"""The top-level packages through which functions of this package, and somebody else's code, are called."""


def _top(frame: FrameType) -> str:
    return package_of(frame.f_globals.get("__name__", ""))


def place_outside(error: BaseException) -> Span | None:
    """The innermost place that an exception passed through outside of this package and of what it calls others by."""

    def is_outside(frame: FrameType) -> bool:
        return _top(frame) not in _BETWEEN and not frame.f_code.co_filename.startswith("<frozen")

    return place_in(error, is_outside)


def place_of_function(function: object) -> Span | None:
    """The line that a function or method begins with, below its decorators. None for what is not written in Python."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if not isinstance(code, CodeType):
        return None
    lines = linecache.getlines(code.co_filename)
    begins = range(code.co_firstlineno, min(code.co_firstlineno + _MOST_DECORATORS, len(lines) + 1))
    line = next((at for at in begins if lines[at - 1].lstrip().startswith(("def ", "async def "))), code.co_firstlineno)
    text = linecache.getline(code.co_filename, line)
    return Span(code.co_filename, line, len(text) - len(text.lstrip()))


def _place_of(code: CodeType, at: int, line: int) -> Span:
    """The place of a step of a function's code, with its columns where Python knows them."""
    file = code.co_filename
    text = linecache.getline(file, line)
    positions = getattr(code, "co_positions", None)  # Python 3.11
    if positions is not None:
        first, last, column, end_column = next(islice(positions(), at // 2, None), (None, None, None, None))
        if first == line and column is not None and end_column is not None:
            before, inside = text.encode()[:column], text.encode()[:end_column]
            return Span(file, line, len(before.decode(errors="replace")), last, len(inside.decode(errors="replace")))
    return Span(file, line, len(text) - len(text.lstrip()))


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a source file. Lines count from 1, columns from 0 (characters), the end is exclusive."""

    file: str
    line: int
    column: int = 0
    end_line: int | None = None
    end_column: int | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"

    def source_line(self) -> str:
        """The text of the line where it begins; empty when the source cannot be read."""
        return linecache.getline(self.file, self.line).rstrip("\n")

    def excerpt(self) -> str:
        """The source line with carets under the span; empty when the source cannot be read."""
        text = self.source_line()
        if not text:
            return ""
        last = self.end_column if self.end_line in (None, self.line) and self.end_column is not None else len(text)
        width = max(1, min(last, len(text)) - self.column)
        gutter = f"{self.line:>5} | "
        lead = "".join("\t" if c == "\t" else " " for c in text[: self.column])
        return f"{gutter}{text}\n{' ' * (len(gutter) - 2)}| {lead}{'^' * width}"
