"""How far tuning is, shown on a terminal.

In: what was compiled and measured. Out: a bar on standard error while it is a terminal; nothing elsewhere.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar, TaskID


class Progress:
    """Counts trials; several threads may report."""

    def __init__(self, name: str, total: int) -> None:
        self._name = name
        self._total = total
        self._measuring = total
        self._bar: Bar | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.markup import escape
            from rich.progress import Progress as Bar

            from zellige.diagnostics.console import plain_console

            self._bar = Bar(console=plain_console(is_error=True), transient=True)
            self._bar.start()
            self._compiling: TaskID = self._bar.add_task(f"{escape(self._name)}: compiling", total=self._total)
            self._trying: TaskID = self._bar.add_task("measuring", total=self._total)
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def compiled(self, *, is_out: bool) -> None:
        """One more was compiled; ``is_out``: it will not be measured."""
        with self._lock:
            if self._bar is not None:
                self._bar.advance(self._compiling)
                self._measuring -= is_out
                self._bar.update(self._trying, total=self._measuring)

    def measured(self, best: float | None) -> None:
        """One more was measured; ``best`` is the least time so far in milliseconds."""
        with self._lock:
            if self._bar is not None:
                shown = "measuring" if best is None else f"measuring, best {best:.4g} ms"
                self._bar.update(self._trying, advance=1, description=shown)
