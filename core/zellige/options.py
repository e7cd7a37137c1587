"""What a caller and the environment may change about compiling and running.

In: keyword arguments of ``jit`` and ``compile``, and the process's environment variables, which are read here and nowhere else.
Out: :class:`CompileOptions` (travels with one compilation and is part of what identifies its result) and :class:`Options` (of the process).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from zellige.diagnostics import ZelligeWarning, catalogue
from zellige.diagnostics.suggest import closest
from zellige.target import AUTO

_T = TypeVar("_T")

LogLevel = Literal["debug", "info", "warning", "error"]
_LOG_LEVELS: Final[tuple[LogLevel, ...]] = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """Settings of one compilation.

    ``fast_math`` lets a backend use approximate mathematics functions and reassociate sums. ``specialise`` allows producer and consumer
    roles. ``synchronise_shared`` lets the compiler insert barriers for hazards on block-shared buffers. ``index_bits`` fixes the width of
    address arithmetic (None: chosen from the sizes). ``compile_flags`` are handed to the backend's own compiler. ``backend_configs`` are
    pass-config keys that core does not know, as written by the user: the backend uses those it knows and warns of the others.
    ``passes`` are passes of the user's, or changes to those that are there (Insert, Replace, Veto of the contract, which stands above this
    module), each with its stage; who takes one looks which it is. ``schedule`` is one of the stage "pipeline", or the name of a backend's.
    ``of_passes`` stands for both as they were when compiling began, for keys: what a pass keeps may change while it runs.
    ``is_verbose``, ``is_forced`` (nothing compiled before is taken) and ``debug_root`` (where every stage is written) do not change the
    result.
    """

    fast_math: bool = False
    specialise: bool = True
    synchronise_shared: bool = True
    index_bits: Literal[32, 64] | None = None
    compile_flags: tuple[str, ...] = ()
    backend_configs: tuple[tuple[str, bool | int | float | str | None], ...] = ()
    passes: tuple[tuple[str, object], ...] = ()
    schedule: str | Callable[[Any], Any] | None = None
    of_passes: str = field(default="", compare=False)
    is_verbose: bool = field(default=False, compare=False)
    is_forced: bool = field(default=False, compare=False)
    debug_root: Path | None = field(default=None, compare=False)


def _default_cache_dir(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".cache")
    return Path(base) / "zellige"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of the process, each from one environment variable (in ``metadata``) or its default.

    ``cache_size`` is how many bytes the cache on disk may take.
    ``threads`` is the number of worker threads a host backend may use (0: one a core that the process may run on).
    ``lanes`` is how many lanes the interpreter gives to a kernel whose launch does not say. ``checks`` are the interpreter's optional
    reports: any of races, undefined, bounds. ``isolate_probes``: backends of other packages are first loaded, and look for their devices,
    in processes of their own, so that one that crashes or hangs is only not available.
    """

    target: str = field(default=AUTO, metadata={"variable": "ZELLIGE_TARGET"})
    cache_dir: Path = field(default=Path("."), metadata={"variable": "ZELLIGE_CACHE_DIR"})
    cache_size: int = field(default=1 << 30, metadata={"variable": "ZELLIGE_CACHE_SIZE"})
    cache_enabled: bool = field(default=True, metadata={"variable": "ZELLIGE_CACHE"})
    threads: int = field(default=0, metadata={"variable": "ZELLIGE_NUM_THREADS"})
    lanes: int = field(default=32, metadata={"variable": "ZELLIGE_LANES"})
    isolate_probes: bool = field(default=False, metadata={"variable": "ZELLIGE_ISOLATE_PROBES"})
    checks: frozenset[str] = field(default=frozenset(), metadata={"variable": "ZELLIGE_CHECKS"})
    log_level: LogLevel = field(default="warning", metadata={"variable": "ZELLIGE_LOG"})
    debug_root: Path | None = field(default=None, metadata={"variable": "ZELLIGE_DEBUG_ROOT"})

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Options:
        """Read every variable. Raises E741 for a wrong value; warns of a ``ZELLIGE_`` variable that does not exist."""
        variables = _variables()
        given = {name: environ[name] for name in environ if name.startswith("ZELLIGE_")}
        for name in sorted(given.keys() - set(variables.values())):
            known = ", ".join(sorted(variables.values()))
            own = [variable.removeprefix("ZELLIGE_") for variable in variables.values()]
            meant = closest(name.removeprefix("ZELLIGE_"), own, "ZELLIGE_{}") or "; it has " + known
            warnings.warn(f"{name} is not a setting of zellige{meant}", ZelligeWarning, stacklevel=2)

        def read(name: str, default: _T, expected: str, convert: Callable[[str], _T], words: tuple[str, ...] = ()) -> _T:
            text = given.get(variables[name])
            if text is None or text == "":
                return default
            try:
                return convert(text)
            except (ValueError, KeyError, RuntimeError) as error:  # RuntimeError: a ~user who has no home
                wrong = next((word for word in map(str.strip, text.split(",")) if word.lower() not in words), "")
                meant = closest(wrong, words)
                raise catalogue.E741.error(variable=variables[name], value=text, expected=expected, suggestion=meant) from error

        return cls(
            target=read("target", AUTO, "a target", str),
            cache_dir=read("cache_dir", None, "a directory", _path) or _default_cache_dir(environ),
            cache_size=read("cache_size", 1 << 30, "a number of bytes such as 512M or 2G", _bytes),
            cache_enabled=read("cache_enabled", True, "0 or 1", _switch),
            threads=read("threads", 0, f"a count of threads up to {MOST}, 0 for one a core", _count),
            lanes=read("lanes", 32, f"a positive count of lanes up to {MOST}", _positive),
            isolate_probes=read("isolate_probes", False, "0 or 1", _switch),
            checks=read("checks", frozenset(), f"a comma-separated list of {', '.join(CHECKS)}", _checks, CHECKS),
            log_level=read("log_level", "warning", " or ".join(_LOG_LEVELS), _log_level, _LOG_LEVELS),
            debug_root=read("debug_root", None, "a directory", _path),
        )


MOST: Final = 1 << 16
"""Threads of a process, lanes of a launch: more than any machine has, and few enough to make room for."""

CHECKS: Final = ("bounds", "races", "undefined")
"""What the interpreter can report beside its result."""


@lru_cache(maxsize=1)
def _variables() -> dict[str, str]:
    """The environment variable of each field of :class:`Options`."""
    return {f.name: str(f.metadata["variable"]) for f in fields(Options)}


def variable(name: str) -> str:
    """The environment variable that sets the field ``name`` of :class:`Options`."""
    return _variables()[name]


@lru_cache(maxsize=1)
def options() -> Options:
    """The settings of this process, read from the environment at the first call. ``options.cache_clear()`` reads again."""
    return Options.from_environment(os.environ)


@contextmanager
def probes_isolated() -> Iterator[None]:
    """Backends of other packages are asked in processes of their own meanwhile, unless the environment says whether they are."""
    name = variable("isolate_probes")
    if os.environ.get(name):
        yield
        return
    os.environ[name] = "1"
    options.cache_clear()
    try:
        yield
    finally:
        del os.environ[name]
        options.cache_clear()


def _path(text: str) -> Path:
    return Path(text).expanduser() if text.startswith("~") else Path(text)


def _switch(text: str) -> bool:
    return {"0": False, "off": False, "false": False, "1": True, "on": True, "true": True}[text.strip().lower()]


def _bytes(text: str) -> int:
    units = {"K": 10, "M": 20, "G": 30, "T": 40}
    word = text.strip().upper().removesuffix("B").removesuffix("I")
    shift = units.get(word[-1:], 0)
    value = int(word[:-1] if shift else word) << shift
    if value < 0:
        raise ValueError(text)
    return value


def _count(text: str) -> int:
    value = int(text)
    if not 0 <= value <= MOST:
        raise ValueError(text)
    return value


def _positive(text: str) -> int:
    value = _count(text)
    if value < 1:
        raise ValueError(text)
    return value


def _checks(text: str) -> frozenset[str]:
    names = frozenset(word.strip() for word in text.split(",") if word.strip())
    if not names <= set(CHECKS):
        raise ValueError(text)
    return names


def _log_level(text: str) -> LogLevel:
    for level in _LOG_LEVELS:
        if level == text.strip().lower():
            return level
    raise ValueError(text)
