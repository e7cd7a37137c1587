"""The console that commands print tables to."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, redirect_stdout

from rich.console import Console


def told_apart() -> AbstractContextManager[object]:
    """What is printed meanwhile, by a backend that is asked, goes to the standard error: the output is the command's answer, which a
    program may read."""
    return redirect_stdout(sys.stderr)


def wide_console(width: int = 100) -> Console:
    """A console of at least ``width`` columns: in a narrow terminal or a log, a long line is easier to read than a table of fragments.

    Words in brackets are printed as they are: they come from kernels, messages and commands, and are no styles."""
    console = Console(markup=False)
    return console if console.width >= width else Console(width=width, markup=False)
