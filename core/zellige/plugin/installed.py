"""Installed distributions, found without reading what they say of themselves.

In: the group of some entry points, or the name of a distribution. Out: the entry points of the group, each with its distribution, sorted
by name and value; the distribution's version. Of distributions that are installed twice the first on the path counts, as in
importlib.metadata.

Only lists of entry points are opened, and only those that name the group are parsed: importlib.metadata parses the metadata of every
distribution, which takes longer than a warm start may. Where the path holds archives or somebody else's finder has a say,
importlib.metadata is asked.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, EntryPoint
from typing import Final

OWN_DISTRIBUTION: Final = "zellige"

_ENDINGS: Final = (".dist-info", ".egg-info")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """An entry point and the name of the distribution that has it. ``fault``: why the distribution's list of them cannot be read; the entry
    point then bears the distribution's name."""

    point: EntryPoint
    distribution: str
    fault: str = ""


def installed_points(group: str, distribution: str = "") -> list[Installed]:
    """The entry points of ``group``, of all that is installed now, or of one distribution."""
    if _are_folders_all():
        found = list(_from_folders(group, distribution))
    else:
        found = [
            one
            for made in importlib.metadata.distributions()
            if distribution in ("", made.name)
            for one in _points(lambda made=made: made.entry_points, group, str(made.name))  # type: ignore[misc]
        ]
    return sorted(found, key=lambda one: (one.point.name, one.point.value))


@lru_cache(maxsize=64)
def installed_version(distribution: str) -> str:
    """The version of a distribution, or "none" where it is not installed. The answer is kept for the life of the process."""
    folder = _folders().get(_normal(distribution)) if _are_folders_all() else None
    title = os.path.basename(folder or "")
    if title.endswith(".dist-info"):
        return title.removesuffix(".dist-info").partition("-")[2]
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _are_folders_all() -> bool:
    """Whether distributions can be nowhere else than in folders of the path."""
    others = [f for f in sys.meta_path if f is not PathFinder and getattr(f, "find_distributions", None) is not None]
    return not others and not any(place.endswith(".egg") or os.path.isfile(place) for place in sys.path)


def _from_folders(group: str, distribution: str) -> Iterator[Installed]:
    _listed.cache_clear()
    for name, folder in _folders().items():
        if distribution and name != _normal(distribution):
            continue
        if group in _text(os.path.join(folder, "entry_points.txt")):
            title = os.path.basename(folder).rpartition(".")[0].partition("-")[0]
            yield from _points(lambda folder=folder: Distribution.at(folder).entry_points, group, title)  # type: ignore[misc]


def _points(listed: Callable[[], Iterable[EntryPoint]], group: str, distribution: str) -> Iterator[Installed]:
    """The entry points of a distribution in a group; one that says what is wrong where the list is garbled."""
    try:
        yield from [Installed(point=point, distribution=distribution) for point in listed() if point.group == group]
    except Exception as error:  # noqa: BLE001 - the parser of a stranger's file raises what it happens to meet
        point = EntryPoint(name=distribution or "unknown", value="entry_points.txt", group=group)
        fault = f"its entry_points.txt cannot be read: {type(error).__name__}: {error}"
        yield Installed(point=point, distribution=distribution, fault=fault)


def _folders() -> dict[str, str]:
    """The folder of each distribution, by its name as names are compared."""
    return _listed(tuple(sys.path))


@lru_cache(maxsize=1)
def _listed(path: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for place in path:
        try:
            names = sorted(name for name in os.listdir(place or ".") if name.endswith(_ENDINGS))
        except OSError:
            continue  # a folder of the path that is not there, which Python passes over as well
        for name in names:
            found.setdefault(_normal(name.rpartition(".")[0].partition("-")[0]), os.path.join(place or ".", name))
    return found


def _normal(name: str) -> str:
    plain = name.replace("_", "-").replace(".", "-").lower()
    return re.sub("-+", "-", plain) if "--" in plain else plain


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""  # it has no entry points
