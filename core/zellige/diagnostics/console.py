"""The consoles that tables, bars and pages are printed to: the one place where rich's are made.

In: nothing. Out: :func:`plain_console` and :func:`wide_console`. What others wrote, the name of a device or what an exception says, gives
the terminal no orders and stands for no style.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from zellige.diagnostics.printable import visible


class _PlainConsole(Console):
    """A console that gives the terminal no orders but its own: control characters in what others wrote are shown as escapes."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def plain_console(*, is_error: bool = False, width: int | None = None) -> Console:
    """A console of the standard output, or of the standard error, as wide as the terminal or ``width`` columns.

    Words in brackets or between colons are printed as they are: they come from kernels, messages, targets and commands, and are no styles
    or pictures."""
    return _PlainConsole(stderr=is_error, width=width, markup=False, emoji=False)


def wide_console(width: int = 100) -> Console:
    """A console of at least ``width`` columns: in a narrow terminal or a log, a long line is easier to read than a table of fragments."""
    console = plain_console()
    return console if console.width >= width else plain_console(width=width)
