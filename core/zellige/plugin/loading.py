"""Loading one backend, whatever is wrong with it.

In: an :class:`Origin`, where a backend's object comes from. Out: a :class:`~zellige.plugin.handle.BackendHandle`, or :class:`Quarantined`
with the error that its target raises: the import failed (E701), another version of the contract (E702), a wrong shape or answer (E703).
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Final

import pluggy

from zellige.diagnostics import ZelligeError, catalogue
from zellige.diagnostics.error import raised_at
from zellige.diagnostics.span import place_outside
from zellige.options import options
from zellige.plugin.contract import API
from zellige.plugin.fields import said, shortened
from zellige.plugin.handle import BackendHandle
from zellige.plugin.interruption import is_from_outside
from zellige.plugin.manifest import MOST_PROBLEMS
from zellige.plugin.origin import OF_ZELLIGE, Origin
from zellige.plugin.probing import LOAD_CRASHED, LOAD_TIMEOUT, isolated_once, patience

LOAD_SECONDS: Final = 20.0
"""How long a process of its own may load a backend and look for its devices."""

FATAL: Final = (LOAD_CRASHED, LOAD_TIMEOUT)
"""What such a process answers when loading here would do the same to this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A backend that could not be taken in: the error its target raises, and the traceback of the failure."""

    origin: Origin
    error: ZelligeError
    traceback: str


def loader(text: str) -> Callable[[], object]:
    """What loads ``module:attribute``."""
    module, _, attribute = text.partition(":")
    return lambda: getattr(importlib.import_module(module), attribute)


def refused(origin: Origin, reason: str) -> Quarantined:
    """A backend that breaks the contract (E703)."""
    return Quarantined(origin=origin, error=catalogue.E703.error(name=origin.name, reason=reason), traceback="")


def _taken_in(origin: Origin, *, is_known: bool = False) -> BackendHandle:
    """A backend's object, validated. E702 for another version of the contract, E703 for what is no backend."""
    plugin = origin.load()
    if isinstance(plugin, type):
        reason = f"its entry point names the class {plugin.__name__}, expected an object, such as {plugin.__name__}()"
        raise catalogue.E703.error(name=origin.name, reason=reason)
    theirs = getattr(plugin, "API", None)
    if not hasattr(plugin, "API" if not isinstance(plugin, ModuleType) else "manifest"):  # a module may have imported API
        raise catalogue.E703.error(name=origin.name, reason=f"its entry point names {_no_backend(plugin)}")
    if not (isinstance(theirs, tuple) and len(theirs) == 2 and all(type(part) is int and part >= 0 for part in theirs)):
        raise catalogue.E703.error(name=origin.name, reason=f"its API is {shortened(theirs)}, expected (major, minor)")
    if theirs[0] != API[0] or theirs[1] > API[1]:
        raise catalogue.E702.error(name=origin.name, theirs=".".join(map(str, theirs)), ours=".".join(map(str, API)))
    handle = BackendHandle(origin, plugin, is_known=is_known)
    if handle.manifest.api not in (theirs, API):  # what it says of nothing is ours
        said = ".".join(map(str, handle.manifest.api))
        raise handle.at_fault(f"its API is {'.'.join(map(str, theirs))}, and its manifest says that it was written for contract {said}")
    return handle


def _no_backend(plugin: object) -> str:
    """What an entry point names that is no backend, and what it was to name as far as that can be seen."""
    expected = "expected an object with API = (major, minor) and hooks"
    if isinstance(plugin, ModuleType):
        inside = (name for name, value in vars(plugin).items() if not isinstance(value, type) and hasattr(value, "manifest"))
        found = next(inside, None)
        return f"the module {plugin.__name__}, {expected}" + (f", such as {plugin.__name__}:{found}" if found else "")
    if isinstance(plugin, FunctionType):
        return f"the function {plugin.__name__}, {expected}; it is not called"
    other = next((name for name in dir(plugin) if name != "API" and str(name).upper() == "API"), "")
    return f"a {type(plugin).__name__} without API, {expected}" + (f" (it has {other})" if other else "")


def _taken_in_apart(origin: Origin, ours: Iterable[str], replaced: list[str]) -> BackendHandle:
    """The same of a stranger. E703 where it gave a name that is not its own another meaning; all have their own again, and ``replaced``
    says which, also where loading it fails."""
    from zellige.plugin.own_names import OwnNamesKept  # warm starts do without

    kept = OwnNamesKept(ours)
    try:
        with kept:
            handle = _taken_in(origin)
    except (ZelligeError, pluggy.PluginValidationError) as error:
        if not kept.replaced:
            raise
        raise catalogue.E703.error(name=origin.name, reason=_undone(kept.replaced)) from error  # core does not judge right then
    finally:
        replaced += kept.replaced
    if replaced:
        raise catalogue.E703.error(name=origin.name, reason=_undone(replaced))
    return handle


def _undone(replaced: list[str]) -> str:
    more = f" and {len(replaced) - MOST_PROBLEMS} more" if len(replaced) > MOST_PROBLEMS else ""
    return f"loading it replaced {', '.join(replaced[:MOST_PROBLEMS])}{more}, which is not its own; that was undone"


def load(origin: Origin, *, ours: Iterable[str] = OF_ZELLIGE, is_watched: bool = True) -> BackendHandle | Quarantined:
    """Load and validate one backend. Whatever goes wrong is kept, since a stranger's package must not break ours, the packages named
    ``ours``. A stranger is not ``is_watched`` for what it replaces where an earlier process has watched the same files."""
    if options().isolate_probes and not origin.is_own:
        report = isolated_once(origin, LOAD_SECONDS)
        if report.unavailable is not None and report.unavailable.code in FATAL:
            failed = catalogue.E701.error(name=origin.name, entry_point=origin.text, reason=report.unavailable.reason)
            return Quarantined(origin=origin, error=failed, traceback=report.traceback)
    replaced: list[str] = []
    try:
        if origin.is_own:
            return _taken_in(origin)
        with patience(origin, "loading"):
            if not is_watched:
                return _taken_in(origin, is_known=True)
            return _taken_in_apart(origin, ours, replaced)
    except ZelligeError as error:
        return Quarantined(origin=origin, error=error, traceback=traceback.format_exc())
    except pluggy.PluginValidationError as error:
        text = traceback.format_exc()
        broken = catalogue.E703.error(name=origin.name, reason=str(error).replace("\n", " "))
        return Quarantined(origin=origin, error=broken, traceback=text)
    except BaseException as error:  # a stranger's module may raise anything while it is imported
        # Nothing else passes on, as it does from hooks: a module that runs out of memory, or warns where warnings are errors, would take
        # all others with it, whoever is to blame. It is set aside for the life of this process.
        if is_from_outside(error) or (origin.is_own and isinstance(error, RecursionError)):  # ours recurse no more than who asked for them
            raise
        text = traceback.format_exc()
        line = place_outside(error)
        reason = f"{said(error)}; {_undone(replaced)}" if replaced else said(error)
        failed = catalogue.E701.error(name=origin.name, entry_point=origin.text, reason=reason, notes=raised_at(line))
        return Quarantined(origin=origin, error=failed, traceback=text)
