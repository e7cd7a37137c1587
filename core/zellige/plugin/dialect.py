"""Dialect names kept as a table of text in a backend's package, and what the functions behind such names may be.

In: the name of a package and of a file in it; what a backend's hook ``dialect`` answered. Out: a tuple of :class:`DialectName` for the
backend's manifest; what is wrong with a function (:func:`operation_problem`), and what it is known by again (:func:`code_of`).
"""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib.util import find_spec

from zellige.plugin.contract import DialectName
from zellige.plugin.fields import shortened
from zellige.plugin.signatures import later_kind


class WrongOperation(ValueError):
    """An operation that the text form of a program could not hold. Where a backend's function asks for it, that is E703."""


def operation_problem(name: str, value: object) -> str:
    """What is wrong with what stands behind the name ``T.<name>``; empty where nothing is."""
    if not callable(value):
        return f"its hook dialect answered {shortened(value)} for T.{name}, expected a function"
    later = later_kind(value)
    return f"its operation T.{name} is {later}, which does nothing when it is called: write it so that it acts at once" if later else ""


def code_of(function: object) -> object:
    """What a function is known by, also where a hook makes it anew each time."""
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__func__", function)
    return getattr(function, "__code__", function if isinstance(function, type) else type(function))


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
    loaded = sys.modules.get(package)  # as it is where a backend's manifest is asked for
    home = loaded.__spec__ if loaded is not None else find_spec(package)
    if home is not None and home.origin is not None:
        path = os.path.join(os.path.dirname(home.origin), file)
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as text:
                return text.read()
    from importlib.resources import files

    return files(package).joinpath(file).read_text(encoding="utf-8")
