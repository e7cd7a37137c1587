"""What a stranger's package must leave as it is: while it is loaded functions, classes and constants of zellige's own modules, and the ways
that modules are found by; then and in each of its hooks what belongs to the whole process.

In: the loading of a backend, or a hook of it. Out: the names that it gave another meaning; they have their own again. A package that
replaces functions of core would change what every other backend does, and nobody would know whose doing it is; one that leaves the user's
program in another folder, so too. Modules of core that are loaded meanwhile are looked at as soon as they are there. Names of core that are
replaced later, inside of a hook, are not seen, and launches are not watched: this keeps accidents and shortcuts from the others, it is no
wall against an enemy.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any, Final

_CORE: Final = "zellige"
_KINDS: Final = (types.FunctionType, types.BuiltinFunctionType, type)
_METHODS: Final = (types.FunctionType, staticmethod, classmethod, property)

_READ_AT_ONCE: Final = ("PYTHON", "ZELLIGE_")
"""How the names of variables begin that change what Python and zellige do."""

_Names = list[tuple[Any, str, Any]]
"""An owner, a name and what the owner has under it."""


@contextmanager
def own_names_kept() -> Iterator[list[str]]:
    """Gives the names back that are replaced or gone at the end, and lists them."""
    before = [name for module in _modules() for name in _names_of(module)]
    ways = [(name, getattr(sys, name), list(getattr(sys, name))) for name in ("path", "meta_path", "path_hooks")]
    watch = _WatchedFinder(before)
    sys.meta_path.insert(0, watch)
    try:
        with process_kept() as replaced:
            yield replaced
    finally:
        for name, held, entries in ways:
            if getattr(sys, name) is not held or any(entry not in held for entry in entries):
                added = [entry for entry in getattr(sys, name) if entry not in entries]
                setattr(sys, name, held)
                held[:] = [*entries, *added]
                replaced.append(f"sys.{name}")
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not watch]
        for owner, name, value in before:
            if vars(owner).get(name) is not value:
                setattr(owner, name, value)
                replaced.append(f"{_title(owner)}.{name}")


@contextmanager
def process_kept() -> Iterator[list[str]]:
    """Gives back at the end what belongs to the whole process and is something else then, and lists it: the working directory, how NumPy
    handles errors, handlers of signals, and variables of the environment. A new variable may stay, since a vendor's library may need one of
    its own, but none that Python or zellige reads.

    The working directory and the environment are looked at only where no other thread of Python's is there at the beginning. Beside others
    nobody knows whose doing a change is: the user's own thread may have made it, or another hook that overlaps, and neither may be refused
    or lose what it has set. How NumPy handles errors is each thread's own, and handlers of signals are set by the main thread alone: those
    are always looked at.
    """
    import numpy as np  # the command line does without until a backend is loaded

    is_alone = not _has_other_threads()
    folder, variables = (_folder(), dict(os.environ)) if is_alone else (None, None)
    errors, handlers = np.geterr(), _handlers()
    replaced: list[str] = []
    try:
        yield replaced
    finally:
        if folder is not None and _folder() != folder:
            os.chdir(folder)
            replaced.append("the working directory")
        if np.geterr() != errors:
            np.seterr(**errors)
            replaced.append("how NumPy handles errors")
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
                replaced.append(f"the handler of {number.name}")
        for name, value in [] if variables is None else _variables_to_restore(variables):
            _set_variable(name, value)
            replaced.append(f"the variable {name} of the environment")


class Onlooker(threading.Thread):
    """A thread of zellige's own that changes nothing of the process."""


def _has_other_threads() -> bool:
    """Whether another thread runs Python, or can go on to: those that zellige started to look on do not count."""
    ours = {thread.ident for thread in threading.enumerate() if isinstance(thread, Onlooker)}
    return not sys._current_frames().keys() <= {*ours, threading.get_ident()}


def _folder() -> str | None:
    """The working directory; None where it has been removed."""
    try:
        return os.getcwd()
    except OSError:
        return None


def _handlers() -> dict[signal.Signals, Callable[..., Any] | int | None]:
    """The handlers of signals; none on another thread than the main one, where Python lets nobody set them."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in signal.Signals}


def _variables_to_restore(before: dict[str, str]) -> list[tuple[str, str | None]]:
    """Names with what they held before, None for nothing."""
    now = dict(os.environ)
    if now == before:
        return []
    changed = [(name, value) for name, value in before.items() if now.get(name) != value]
    return [*changed, *((name, None) for name in now if name not in before and name.startswith(_READ_AT_ONCE))]


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        del os.environ[name]
    else:
        os.environ[name] = value


class _WatchedFinder(MetaPathFinder):
    """Finds core's modules as the other finders do, and writes down what they hold once they have been executed."""

    def __init__(self, seen: _Names) -> None:
        self._seen = seen

    def find_spec(self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None) -> ModuleSpec | None:
        if not _is_core(name):
            return None
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        spec = next((found for finder in others if (found := finder.find_spec(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _WatchedLoader(spec.loader, self._seen)
        return spec


class _WatchedLoader(Loader):
    """Another loader, which the module has for its own once it is there."""

    def __init__(self, loader: Loader, seen: _Names) -> None:
        self._loader, self._seen = loader, seen

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._seen += _names_of(module)


def _is_core(name: str) -> bool:
    return name == _CORE or name.startswith(f"{_CORE}.")


def _modules() -> list[types.ModuleType]:
    """Core's modules as far as they are loaded."""
    return [module for name, module in list(sys.modules.items()) if _is_core(name)]


def _names_of(module: types.ModuleType) -> _Names:
    """What a module holds, and the classes that are defined in it."""
    classes = [value for value in list(vars(module).values()) if isinstance(value, type) and value.__module__ == module.__name__]
    return [(owner, name, value) for owner in (module, *classes) for name, value in _held(owner).items()]


def _held(owner: Any) -> dict[str, Any]:
    kinds = _METHODS if isinstance(owner, type) else _KINDS
    is_module = not isinstance(owner, type)
    return {name: value for name, value in list(vars(owner).items()) if isinstance(value, kinds) or (is_module and name.isupper())}


def _title(owner: Any) -> str:
    return f"{owner.__module__}.{owner.__qualname__}" if isinstance(owner, type) else str(owner.__name__)
