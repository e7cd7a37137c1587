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
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, EntryPoint
from typing import Any, Final

from zellige.version import LOADED_NS, changed_ns

OWN_DISTRIBUTION: Final = "zellige"

_ENDINGS: Final = (".dist-info", ".egg-info")
_POINTS: Final = "entry_points.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """An entry point and the name of the distribution that has it. ``fault``: why the distribution's list of them cannot be read; the entry
    point then bears the distribution's name."""

    point: EntryPoint
    distribution: str
    fault: str = ""


def installed_points(group: str, distribution: str = "") -> list[Installed]:
    """The entry points of ``group``, of all that is installed now, or of one distribution."""
    _names.cache_clear()
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
    folder = _folder_of(distribution) if _are_folders_all() else None
    title = os.path.basename(folder or "")
    if title.endswith(".dist-info"):
        return title.removesuffix(".dist-info").partition("-")[2]
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def misspelt_group(group: str, name: str) -> str:
    """What is to be said of an entry point ``name`` that an installed distribution has in a group written nearly as ``group``, which nobody
    asks for; empty where there is none."""
    from difflib import get_close_matches  # only a mistake pays for it

    for made in importlib.metadata.distributions():
        for point in _entry_points_of(made):
            if point.name == name and point.group != group and get_close_matches(point.group.lower(), (group,), cutoff=0.8):
                return f"; {made.name} has {name} in the group {point.group!r} of entry points, expected {group!r}"
    return ""


def _entry_points_of(made: Distribution) -> Iterable[EntryPoint]:
    try:
        return made.entry_points
    except (OSError, ValueError, AttributeError):  # a list that cannot be read is said elsewhere
        return ()


def is_importable(package: str) -> bool:
    """Whether a package or module is there, nested as its dots say. Nothing is imported: neither it nor what it lies in."""
    top, *inner = package.split(".")
    try:
        spec = importlib.util.find_spec(top)
        for part in inner:
            if spec is None or spec.submodule_search_locations is None:
                return False
            spec = PathFinder.find_spec(f"{spec.name}.{part}", list(spec.submodule_search_locations))
    except (ImportError, ValueError):
        return False  # found by nobody, or by a finder that cannot say
    return spec is not None


Places = dict[str, Any]
"""What :func:`noted_places` notes: the names of the packages, the group of entry points (empty: of one distribution alone), and of each
place its path, its time of change (-1: look each time), the names there that count, and of each list of entry points there that counts its
path, size, times of change and number."""


def noted_places(group: str, distribution: str, packages: Iterable[str]) -> Places | None:
    """What the versions of all distributions, the places of some packages, and the entry points of a distribution follow from, for
    :func:`are_unchanged`; without a ``distribution`` the entry points of the ``group`` of all of them. None where distributions are found
    in other ways than by folders of the path, or the distribution is not there."""
    if not _are_folders_all():
        return None
    own = _folder_of(distribution) if distribution else None
    if distribution and own is None:
        return None
    wanted = sorted(packages)
    places = []
    for place in sys.path:
        changed = _changed(place)  # before it is looked through
        if own is None:
            lists = _lists(place, group)
        else:
            is_there = os.path.join(place or ".", os.path.basename(own)) == own  # as it is made, whatever separators the path ends in
            lists = [_status(os.path.join(own, _POINTS))] if is_there else []
        places.append([place, changed if changed < LOADED_NS else -1, _counting(place, wanted), lists])
    return {"packages": wanted, "group": "" if distribution else group, "places": places}


def are_unchanged(noted: Places) -> bool:
    """Whether looking again would find the same; folders in which nothing came or went are not looked through."""
    if [place[0] for place in noted["places"]] != sys.path or _have_other_finders():
        return False
    for place, changed, names, lists in noted["places"]:
        if any(_status(known[0]) != known for known in lists):
            return False
        if changed < 0 or _changed(place) != changed:
            if os.path.isfile(place) or _counting(place, noted["packages"]) != names:
                return False
            if noted["group"] and _lists(place, noted["group"]) != lists:  # installed again under the same version, with other entry points
                return False
    return True


def _lists(place: str, group: str) -> list[list[Any]]:
    """The lists of entry points in a place of the path that name the group."""
    found = []
    for name in _listed(place):
        path = os.path.join(place or ".", name, _POINTS)
        if group in _text(path):
            found.append(_status(path))
    return found


def _changed(place: str) -> int:
    """When something came into a folder of the path or went; 0 where there is none."""
    try:
        return changed_ns(os.stat(place or "."))
    except OSError:
        return 0


def _counting(place: str, packages: list[str]) -> list[str]:
    """The names in a place of the path by which distributions and the packages are found."""
    try:
        return sorted(name for name in os.listdir(place or ".") if name.endswith(_ENDINGS) or name.partition(".")[0] in packages)
    except OSError:
        return []


def _status(path: str) -> list[Any]:
    """Path, size, times of change and number of a file; -1 where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return [path, -1, -1, -1, -1]
    return [path, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _are_folders_all() -> bool:
    """Whether distributions can be nowhere else than in folders of the path."""
    return not _have_other_finders() and not any(_is_archive(place) for place in sys.path)


def _have_other_finders() -> bool:
    return any(f is not PathFinder and getattr(f, "find_distributions", None) is not None for f in sys.meta_path)


def _is_archive(place: str) -> bool:
    """Whether a place of the path is a file, or looks like one; a folder whose distributions were listed is none."""
    return place.endswith(".egg") or (not _names(place) and os.path.isfile(place))


def _from_folders(group: str, distribution: str) -> Iterator[Installed]:
    alone = _folder_of(distribution) if distribution else None
    folders = _folders() if not distribution else [] if alone is None else [alone]
    for folder in folders:
        if group in _text(os.path.join(folder, _POINTS)):
            title = os.path.basename(folder).rpartition(".")[0].partition("-")[0]
            yield from _points(lambda folder=folder: Distribution.at(folder).entry_points, group, title)  # type: ignore[misc]


def _points(listed: Callable[[], Iterable[EntryPoint]], group: str, distribution: str) -> Iterator[Installed]:
    """The entry points of a distribution in a group; one that says what is wrong where the list is garbled."""
    try:
        yield from [Installed(point=point, distribution=distribution) for point in listed() if point.group == group]
    except (MemoryError, RecursionError):  # whoever asks has used up the memory or the stack: no list is wrong for that
        raise
    except Exception as error:  # noqa: BLE001 - the parser of a stranger's file raises what it happens to meet
        point = EntryPoint(name=distribution or "unknown", value="entry_points.txt", group=group)
        fault = f"its entry_points.txt cannot be read: {type(error).__name__}: {error}"
        yield Installed(point=point, distribution=distribution, fault=fault)


def _folders() -> list[str]:
    """The folder of each distribution, in the order of the path."""
    found: dict[str, str] = {}
    for place in sys.path:
        for name in _names(place):
            found.setdefault(_title(name), os.path.join(place or ".", name))
    return list(found.values())


def _folder_of(distribution: str) -> str | None:
    """The folder of one distribution; None where it is not installed. Names that begin otherwise are not looked at."""
    wanted = _normal(distribution)
    first = (wanted[:1], wanted[:1].upper())
    for place in sys.path:
        for name in _names(place):
            if name.startswith(first) and _title(name) == wanted:
                return os.path.join(place or ".", name)
    return None


@lru_cache(maxsize=256)
def _names(place: str) -> tuple[str, ...]:
    return _listed(place)


def _listed(place: str) -> tuple[str, ...]:
    """The folders of distributions in a place of the path."""
    try:
        return tuple(sorted([name for name in os.listdir(place or ".") if name.endswith(_ENDINGS)]))
    except OSError:
        return ()  # a folder of the path that is not there, which Python passes over as well


def _title(folder: str) -> str:
    """The name of the distribution that a folder is of, as names are compared."""
    return _normal(folder.rpartition(".")[0].partition("-")[0])


def _normal(name: str) -> str:
    plain = name.replace("_", "-").replace(".", "-").lower()
    return re.sub("-+", "-", plain) if "--" in plain else plain


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""  # it has no entry points
