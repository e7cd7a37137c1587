"""Where something stands in the user's source, and that place drawn as text with a caret."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from types import FrameType


def calling_place() -> Span | None:
    """The place of the user's program that is running: the innermost frame outside of this package. None where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own_module(frame.f_globals):
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith("<frozen"):
        return None
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line)
    positions = getattr(frame.f_code, "co_positions", None)  # Python 3.11
    if positions is not None:
        first, last, column, end_column = next(islice(positions(), frame.f_lasti // 2, None), (None, None, None, None))
        if first == line and column is not None and end_column is not None:
            before, inside = text.encode()[:column], text.encode()[:end_column]
            return Span(file, line, len(before.decode(errors="replace")), last, len(inside.decode(errors="replace")))
    return Span(file, line, len(text) - len(text.lstrip()))


def is_own_module(names: Mapping[str, object]) -> bool:
    """Whether a module's dictionary is that of this package or of a package of its family."""
    return str(names.get("__name__", "")).partition(".")[0].startswith("zellige")


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
