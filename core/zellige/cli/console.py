"""The console that commands print tables to."""

from __future__ import annotations

from rich.console import Console


def wide_console(width: int = 100) -> Console:
    """A console of at least ``width`` columns: in a narrow terminal or a log, a long line is easier to read than a table of fragments.

    Words in brackets are printed as they are: they come from kernels, messages and commands, and are no styles."""
    console = Console(markup=False)
    return console if console.width >= width else Console(width=width, markup=False)
