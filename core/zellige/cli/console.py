"""The console that commands print tables to."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, redirect_stdout

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from zellige.diagnostics.printable import visible


def told_apart() -> AbstractContextManager[object]:
    """What is printed meanwhile, by a backend that is asked, goes to the standard error: the output is the command's answer, which a
    program may read."""
    return redirect_stdout(sys.stderr)


class _PlainConsole(Console):
    """A console that gives the terminal no orders but its own: what others wrote, a name of a device or what an exception says, is shown
    with its control characters as escapes."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def wide_console(width: int = 100) -> Console:
    """A console of at least ``width`` columns: in a narrow terminal or a log, a long line is easier to read than a table of fragments.

    Words in brackets are printed as they are: they come from kernels, messages and commands, and are no styles."""
    console = _PlainConsole(markup=False)
    return console if console.width >= width else _PlainConsole(width=width, markup=False)
