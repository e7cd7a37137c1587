"""Dialect names kept as a table of text in a backend's package.

In: the name of a package and of a file in it. Out: a tuple of :class:`DialectName` for the backend's manifest.
"""

from __future__ import annotations

from importlib.resources import files

from zellige.plugin.contract import DialectName


def read_dialect(package: str, file: str = "dialect.txt") -> tuple[DialectName, ...]:
    """The table: one ``name target`` a line, empty lines and lines that begin with ``#`` skipped. Raises ValueError for another line."""
    entries: list[DialectName] = []
    for number, line in enumerate(files(package).joinpath(file).read_text(encoding="utf-8").splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise ValueError(f"{package}/{file}:{number}: expected a name and a target, got {line!r}")
        entries.append(DialectName(name=words[0], target=words[1]))
    return tuple(entries)
