"""Calling the hooks of one backend, through pluggy.

In: a backend's object. Out: :class:`Hooks`, which says what hooks it has and calls them with the arguments that each of them names.

A hook is registered when it is first called: pluggy looks at all names of an object that is registered, and takes longer for that than a
warm start may take for everything. Those that a start asks one after the other are registered together, which takes less than one by one.
For another package's backend that was not taken in before all are registered at once, so that what pluggy refuses is known then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import pluggy

from zellige.diagnostics.span import Span, place_of_function
from zellige.plugin.hooks import PROJECT, BackendHooks
from zellige.plugin.signatures import MARK, as_written, hook_parameters

ASKED_TOGETHER: Final = ("describe_key", "cache_key", "runtime")
"""What is asked for a kernel that is found on disk, after ``manifest``, which is asked whenever targets are listed. ``describe`` is asked
where there is no ``describe_key``, ``probe`` where there is a ``compat``."""


class Hooks:
    """The hooks of a backend's object that is taken in under ``name``. ``at_once``: pluggy looks at all of them now, and what it raises
    for one that it refuses is raised here."""

    def __init__(self, plugin: object, name: str, *, at_once: bool) -> None:
        self.plugin: Final = plugin
        self._name: Final = name
        self._offered: Final[dict[str, bool]] = {}
        self._callers: Final[dict[str, Callable[..., Any]]] = {}
        if at_once:
            self._register(tuple(hook_parameters()))

    def has(self, hook: str) -> bool:
        """Whether the backend has a hook of that name."""
        found = self._offered.get(hook)
        if found is None:
            found = self._offered[hook] = hasattr(BackendHooks, hook) and _is_marked(as_written(self.plugin, hook))
        return found

    def place(self, hook: str) -> Span | None:
        """Where a hook of the backend's begins; None where it has none, or one that is not written in Python."""
        return place_of_function(as_written(self.plugin, hook)) if self.has(hook) else None

    def call(self, hook: str, arguments: Mapping[str, object]) -> Any:
        """The answer of a hook; None where the backend does not have it."""
        return self._caller(hook)(**arguments) if self.has(hook) else None

    def _caller(self, hook: str) -> Callable[..., Any]:
        if hook not in self._callers:
            self._register(ASKED_TOGETHER if hook in ASKED_TOGETHER else (hook,))
        return self._callers[hook]

    def _register(self, hooks: tuple[str, ...]) -> None:
        """Have pluggy look at those of the hooks that the backend has."""
        offered = [hook for hook in hooks if self.has(hook)]
        manager = pluggy.PluginManager(PROJECT)
        manager.add_hookspecs(cast("type", _Only(BackendHooks, offered)))
        manager.register(_Only(self.plugin, offered), name=self._name)
        manager.check_pending()
        for hook in offered:
            self._callers[hook] = getattr(manager.hook, hook)


def _is_marked(written: object) -> bool:
    return hasattr(getattr(written, "__func__", written), MARK)


class _Only:
    """Some attributes of an object, and nothing else that pluggy would look at."""

    def __init__(self, whole: object, names: list[str]) -> None:
        self._names: Final = names
        for name in names:
            setattr(self, name, getattr(whole, name))

    def __dir__(self) -> list[str]:
        return self._names
