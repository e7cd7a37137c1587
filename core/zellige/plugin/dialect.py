"""Dialect names kept as a table of text in a backend's package.

In: the name of a package and of a file in it. Out: a tuple of :class:`DialectName` for the backend's manifest.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from zellige.plugin.contract import DialectName


def read_dialect(package: str, file: str = "dialect.txt") -> tuple[DialectName, ...]:
    """The table: one ``name target`` a line, empty lines and lines that begin with ``#`` skipped. Raises ValueError for another line."""
    entries: list[DialectName] = []
    for number, line in enumerate(_text(package, file).splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise ValueError(f"{package}/{file}:{number}: expected a name and a target, got {line!r}")
        entries.append(DialectName(name=words[0], target=words[1]))
    return tuple(entries)


def _text(package: str, file: str) -> str:
    """A file of a package: from its folder, or by importlib.resources, which takes longer to load, where the package is in no folder."""
    spec = find_spec(package)
    path = Path(spec.origin).with_name(file) if spec is not None and spec.origin is not None else None
    if path is not None and path.is_file():
        return path.read_text(encoding="utf-8")
    from importlib.resources import files

    return files(package).joinpath(file).read_text(encoding="utf-8")
