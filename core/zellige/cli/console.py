"""The console that commands print tables to, and what they keep out of it."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, redirect_stdout

from zellige.diagnostics.console import plain_console, wide_console

__all__ = ["plain_console", "told_apart", "wide_console"]


def told_apart() -> AbstractContextManager[object]:
    """What is printed meanwhile, by a backend that is asked, goes to the standard error: the output is the command's answer, which a
    program may read."""
    return redirect_stdout(sys.stderr)
