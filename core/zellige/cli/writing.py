"""What a command writes to a place that its caller names: one that cannot be written is a wrong argument, no failure of the command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Tells of files that cannot be written, by their names where the system gives them."""
    try:
        yield
    except OSError as error:
        raise click.ClickException(f"{error.filename or place} cannot be written: {error.strerror or error}") from error
