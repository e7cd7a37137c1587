"""Calling the hooks of one backend, through pluggy.

In: a backend's object. Out: :class:`Hooks`, which says what hooks it has and calls them with the arguments that each of them names.

Every hook has a plugin manager of its own, made when the hook is first called: pluggy looks at all names of an object that is registered,
and takes longer for that than a warm start may take for everything. For another package's backend all are made at once, so that what pluggy
refuses is known when the backend is taken in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import pluggy

from zellige.plugin.hooks import PROJECT, BackendHooks
from zellige.plugin.signatures import MARK, as_written, hook_parameters


class Hooks:
    """The hooks of a backend's object that is taken in under ``name``. ``at_once``: pluggy looks at all of them now, and what it raises
    for one that it refuses is raised here."""

    def __init__(self, plugin: object, name: str, *, at_once: bool) -> None:
        self.plugin: Final = plugin
        self._name: Final = name
        self._offered: Final = frozenset(hook for hook in hook_parameters() if _is_marked(as_written(plugin, hook)))
        self._callers: Final[dict[str, Callable[..., Any]]] = {}
        if at_once:
            for hook in hook_parameters():
                if hook in self._offered:
                    self._caller(hook)

    def has(self, hook: str) -> bool:
        """Whether the backend has a hook of that name."""
        return hook in self._offered

    def call(self, hook: str, arguments: Mapping[str, object]) -> Any:
        """The answer of a hook; None where the backend does not have it."""
        return self._caller(hook)(**arguments) if self.has(hook) else None

    def _caller(self, hook: str) -> Callable[..., Any]:
        made = self._callers.get(hook)
        if made is None:
            manager = pluggy.PluginManager(PROJECT)
            manager.add_hookspecs(cast("type", _Only(BackendHooks, hook)))
            manager.register(_Only(self.plugin, hook), name=self._name)
            manager.check_pending()
            made = self._callers[hook] = getattr(manager.hook, hook)
        return made


def _is_marked(written: object) -> bool:
    return hasattr(getattr(written, "__func__", written), MARK)


class _Only:
    """One attribute of an object, and nothing else that pluggy would look at."""

    def __init__(self, whole: object, name: str) -> None:
        self._names: Final = [name]
        setattr(self, name, getattr(whole, name))

    def __dir__(self) -> list[str]:
        return self._names
