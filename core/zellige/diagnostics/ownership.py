"""Whose code something is: this package's, a library's, or the user's.

In: the name of a module, or the file that code was compiled from. Out: the answer that everything gives which treats the three differently:
places in errors, what E119 looks into, what a compiled kernel depends on.

Core is :data:`CORE_PACKAGES`. Ours are core and what zellige's distribution brings besides: the packages that its entry points name, and
those of :data:`_BESIDE`. A package whose name merely begins alike is somebody else's. A library is Python's own, and what lies in a
directory for installed packages; that is one of Python's own (:mod:`sysconfig`, :mod:`site`) or an entry of ``sys.path`` called
``site-packages`` or ``dist-packages``. All else is the user's: a package in development, code without a file, and a directory that
merely has such a name somewhere above it.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Final

CORE_PACKAGES: Final = frozenset({"zellige", "zellige_intrinsics"})
"""The packages that belong to core."""

_DISTRIBUTION: Final = "zellige"
_BESIDE: Final = frozenset({"zellige_conformance", "zellige_template_simt"})
"""Packages of the distribution that no entry point names."""

_INSTALLED: Final = ("site-packages", "dist-packages")


def package_of(module: object) -> str:
    """The top-level package of a module's name."""
    return str(module).partition(".")[0]


def is_core(module: object) -> bool:
    """Whether the module of that name is one of core's packages."""
    return package_of(module) in CORE_PACKAGES


def is_ours(module: object) -> bool:
    """Whether the module of that name came with this package: core, its backends, its suites."""
    package = package_of(module)
    return package in CORE_PACKAGES or (package.startswith("zellige_") and package in _brought())


@functools.cache
def _brought() -> frozenset[str]:
    from importlib.metadata import PackageNotFoundError, distribution  # few names begin as ours do

    try:
        points = distribution(_DISTRIBUTION).entry_points
    except PackageNotFoundError:  # a source tree that is not installed has no backends either
        return _BESIDE
    return _BESIDE | {package_of(point.value.partition(":")[0]) for point in points}


def is_library(module: object) -> bool:
    """Whether the module of that name is Python's own or an installed package's."""
    name = str(module)
    loaded = None if name == "__main__" else sys.modules.get(name) or sys.modules.get(package_of(name))
    file = getattr(loaded, "__file__", None)
    if file is not None:
        return is_library_file(str(file))
    return package_of(name) in sys.stdlib_module_names and name != "__main__"


def is_library_file(file: str) -> bool:
    """Whether code of that file is Python's own or an installed package's."""
    return _lies_in(file, _library_places(tuple(sys.path)))


@functools.lru_cache(maxsize=4096)
def _lies_in(file: str, places: tuple[str, ...]) -> bool:
    if file.startswith("<"):
        return file.startswith("<frozen ")
    return any(path.startswith(places) for path in _spellings(file))


@functools.lru_cache(maxsize=16)
def _library_places(paths: tuple[str, ...]) -> tuple[str, ...]:
    """The directories of libraries, as files in them begin."""
    import sysconfig

    known = sysconfig.get_paths()
    found = [known[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    found.append(os.path.dirname(os.__file__))
    found += [path for path in paths if os.path.basename(os.path.normpath(path)) in _INSTALLED]
    site = sys.modules.get("site")
    if site is not None:
        found += [*site.getsitepackages(), *([site.USER_SITE] if site.USER_SITE else [])]
    return tuple(sorted({spelt + os.sep for path in found for spelt in _spellings(path)}))


def _spellings(path: str) -> tuple[str, str]:
    """A path as it is written and as its links lead."""
    return os.path.normcase(os.path.abspath(path)), os.path.normcase(os.path.realpath(path))
