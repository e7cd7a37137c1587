"""Digests of the source of the packages that make code, so that a changed compiler never finds code of the old one.

In: the name of a package. Out: a digest of its files by content, equal for equal installations on two machines. Reading all source takes
longer than a warm start may, and so does looking for the files: what was found is kept with each folder's time of change and each file's
size, times of change and number, and counts as long as all of these are what they were. Source that changed since this process loaded the
compiler is not what made its code: what it compiles then is kept under keys of its own. The system's time of change counts as well as the
file's own, which a copy or a link may bring from elsewhere. Files of modules of core that a process has loaded are looked at once, when it
has loaded them: they say what it runs, whatever is written into them later.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from zellige.cache.disk import DiskStore
from zellige.version import LOADED_NS, changed_ns

CORE: Final = "zellige"
WITHOUT_EFFECT: Final = frozenset({"autotune", "cache", "claims", "cli", "demo", "diagnostics", "generate", "interp"})
"""Parts of core that neither make a kernel out of a function nor code out of a kernel."""

_LOOK_ONLY: Final = getattr(os, "O_PATH", os.O_RDONLY)
"""How a folder is opened in which nothing is read (open(2), O_PATH)."""

_ANY_TIME: Final = 0
"""A folder's time of change where it holds much that is no part of the package."""

_KIND: Final = "sources"
_FORMAT: Final = "7"


def source_digest(package: str, store: DiskStore) -> str:
    """A digest of a package's source by content; of a package that has none, its name."""
    if package not in _digests:
        roots = _roots(package)
        _digests[package] = _digest(roots, _left_out(package), store) if roots else package
    return _digests[package]


_digests: Final[dict[str, str]] = {}
"""What this process found, once for all: the source that it runs does not change."""


def _left_out(package: str) -> frozenset[str]:
    """The folders of a package that do not count."""
    return WITHOUT_EFFECT if package == CORE else frozenset()


def _digest(roots: Sequence[str], left_out: frozenset[str], store: DiskStore) -> str:
    """The digest of the files of a package; a random one where a file changed after this process began."""
    key = hashlib.sha256(repr((_FORMAT, roots, sorted(left_out))).encode()).hexdigest()
    known = store.find(_KIND, key)
    if known is not None:
        digest, latest, seen = json.loads(known)
        if is_unchanged(seen):
            return str(digest) if latest < LOADED_NS else secrets.token_hex(32)
    folders = [folder for root in roots for folder in _folders(root, left_out)]
    latest = max((file[1] for _, _, files in folders for file in files), default=0)
    if latest >= LOADED_NS:
        return secrets.token_hex(32)
    names = sorted((os.path.join(folder, file[0]), folder, file[0]) for folder, _, files in folders for file in files)
    places = {folder: _within(folder, roots) for folder, _, _ in folders}
    parts = [f"{places[folder]}{file} {hashlib.sha256(_content(path)).hexdigest()}" for path, folder, file in names]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    if all(changed < LOADED_NS for _, changed, _ in folders):  # else a file may come or go in the same moment
        store.keep(_KIND, key, json.dumps([digest, latest, _flat(folders)], separators=(",", ":")).encode())
    return digest


def stamp(packages: Iterable[str], modules: frozenset[str] | None) -> list[Any] | None:
    """The files of packages, for :func:`is_unchanged`: all of them, or without those of Python's whose modules are not among ``modules``,
    and folders that hold no others: what comes into one is found by nobody unless a file that counts changes.
    None where one is younger than this process, or a package has no files."""
    found: list[_Folder] = []
    loaded = frozenset(str(getattr(module, "__file__", "")) for module in list(sys.modules.values()))
    try:
        for package in packages:
            roots = _roots(package)
            if not roots:
                return None
            for root in roots:
                folders = list(_folders(root, _left_out(package)))
                found += folders if modules is None else _of_modules(folders, package, root, modules, loaded)
    except OSError:
        return None
    if any(changed >= LOADED_NS or any(file[1] >= LOADED_NS for file in files) for _, changed, files in found):
        return None
    return _flat(found)


def _of_modules(
    folders: Iterable[_Folder], package: str, root: str, modules: frozenset[str], loaded: frozenset[str]
) -> Iterator[_Folder]:
    """The folders of a package with the files of some modules, and those that are no Python; those of modules that are ``loaded`` from
    them count too, whatever names they bear."""
    for folder, changed, files in folders:
        inside = () if os.path.isfile(root) else (package, *os.path.relpath(folder, root).split(os.sep))
        above = ".".join(part for part in inside if part != os.curdir)
        counting = []
        for file in files:
            stem = file[0].removesuffix(".pyc").removesuffix(".py")
            name = above if stem == "__init__" else f"{above}.{stem}" if above else stem
            if stem == file[0] or name in modules or f"{folder}{os.sep}{file[0]}" in loaded:
                counting.append(file)
        if counting:
            yield folder, changed, counting


_loaded: Final[dict[str, dict[str, int]]] = {}
"""By folder and name the facts of the files of core's modules, as they were when this process had loaded them."""

_NONE: Final[Mapping[str, int]] = {}

_parts_of: Final = attrgetter("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")


def _facts(status: os.stat_result) -> int:
    """One number for a file's size, when its content was changed as it says, when anything of it was as the system says, and its number: a
    build that gives all files one time of change, and a link that leads elsewhere, show in the latter two alone. Numbers are hashed alike
    in all processes of one Python; another notes the files anew."""
    return hash(_parts_of(status))


def see_loaded() -> None:
    """Look at the files of core's modules that are loaded by now and not looked at yet."""
    for name, module in list(sys.modules.items()):
        package, _, inside = name.partition(".")
        if package != CORE or inside.partition(".")[0] in WITHOUT_EFFECT:
            continue
        folder, _, file = str(getattr(module, "__file__", None) or "").rpartition(os.sep)
        known = _loaded.setdefault(folder, {})
        if not folder or file in known:
            continue
        try:
            status = os.stat(module.__file__ or "")
        except OSError:
            continue  # in an archive, or gone: looked for when it is asked about
        if changed_ns(status) < LOADED_NS:
            known[file] = _facts(status)


def is_unchanged(seen: list[Any]) -> bool:
    """Whether folders and files are what they were: of each folder its path, time of change, the names of its files (with a slash between
    them), and one number for the facts of all of these. Files of loaded modules are what they were when they were loaded."""
    look, parts = os.stat, _parts_of
    for path, changed, names, number in seen:
        files, known = names.split("/") if names else [], _loaded.get(path, _NONE)
        if known and all(map(known.__contains__, files)):
            if number != hash(tuple(map(known.__getitem__, files))) or not _is_of(path, changed):
                return False
            continue
        try:
            folder = os.open(path, _LOOK_ONLY)
        except OSError:
            return False
        try:
            if changed != _ANY_TIME and changed_ns(look(folder)) != changed:
                return False
            if number != hash(tuple([known[file] if file in known else hash(parts(look(file, dir_fd=folder))) for file in files])):
                return False
        except OSError:
            return False
        finally:
            os.close(folder)
    return True


def _is_of(path: str, changed: int) -> bool:
    """Whether a folder changed last at that time."""
    try:
        return changed == _ANY_TIME or changed_ns(os.stat(path)) == changed
    except OSError:
        return False


_File = tuple[str, int, int]
"""Name, time of change, and facts."""

_Folder = tuple[str, int, list[_File]]
"""Path, time of change, and files."""


def _flat(folders: Sequence[_Folder]) -> list[Any]:
    return [[path, changed, "/".join(f[0] for f in files), hash(tuple([f[2] for f in files]))] for path, changed, files in folders]


def _folders(root: str, left_out: frozenset[str]) -> Iterator[_Folder]:
    """The folders of a package in order, each with its files of source; of a package that is one file, that alone. Folders in ``left_out``
    and of Python's byte code, byte code beside its source, and texts for people do not count."""
    if os.path.isfile(root):
        status = os.stat(root)
        yield os.path.dirname(root), _ANY_TIME, [(os.path.basename(root), changed_ns(status), _facts(status))]
        return
    pending = [root]
    while pending:
        path = pending.pop()
        changed = changed_ns(os.stat(path))
        files: list[_File] = []
        inner: list[str] = []
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir():
                    is_in = entry.name != "__pycache__" and not (path == root and entry.name in left_out)
                    inner += [entry.path] if is_in else []
                elif not entry.name.endswith(".md"):
                    status = entry.stat()
                    files.append((entry.name, changed_ns(status), _facts(status)))
        names = {file[0] for file in files}
        yield path, changed, sorted(file for file in files if not _is_made_of(file[0], names))
        pending.extend(sorted(inner, reverse=True))


def _is_made_of(name: str, names: set[str]) -> bool:
    """Whether a file is byte code whose source lies beside it; where that was left out of an installation, the byte code is what runs."""
    return name.endswith(".pyc") and f"{name.removesuffix('.pyc')}.py" in names


def _within(folder: str, roots: Sequence[str]) -> str:
    """What stands before the names of a folder's files inside of its package, which is the same wherever the package lies: nothing in its
    root, nor where the package is a file."""
    root = max((root for root in roots if folder == root or folder.startswith(f"{root}{os.sep}")), key=len, default=folder)
    return "" if folder == root else f"{os.path.relpath(folder, root)}{os.sep}"


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def _roots(package: str) -> list[str]:
    """Where a top-level package lies, without importing it: its folder, or several where there is no ``__init__`` and each distribution may
    add to it; the file of a module alone, or the archive that holds it. Empty for what is built in or not there."""
    if not package:
        return []
    loaded = sys.modules.get(package)
    spec = getattr(loaded, "__spec__", None) or (importlib.util.find_spec(package) if loaded is None else None)
    file = getattr(loaded, "__file__", None) or getattr(spec, "origin", None)
    folders = getattr(loaded, "__path__", None) or getattr(spec, "submodule_search_locations", None)
    found = [str(folder) for folder in folders] if folders is not None else [str(file)] if file else []
    return sorted({_existing(path) for path in found} - {""})


def _existing(path: str) -> str:
    """A path that is there, or the archive that it leads into; empty where there is neither."""
    if os.path.exists(path):
        return path
    above = os.path.dirname(path)
    while above != os.path.dirname(above) and not os.path.exists(above):
        above = os.path.dirname(above)
    return above if os.path.isfile(above) else ""
