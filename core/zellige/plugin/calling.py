"""Calling the hooks of one backend, through pluggy.

In: a backend's object. Out: :class:`Hooks`, which says what hooks it has and calls them with the arguments that each of them names.

A hook is registered when it is first called, alone: pluggy looks at all names of an object that is registered, and takes longer for that
than a warm start may take for everything. For another package's backend that was not taken in before all are registered at once, so that
what pluggy refuses is known then. What a start asks is called as pluggy would call the one function that is registered, with the arguments
that it names; where the function's mark asks for more than that, or its arguments are not told by its code, pluggy calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import Any, Final, cast

import pluggy

from zellige.plugin.hooks import PROJECT, BackendHooks
from zellige.plugin.signatures import MARK, as_written, hook_parameters

OF_A_START: Final = ("manifest", "describe_key", "cache_key", "runtime")
"""What is asked for a kernel that is found on disk, as far as every backend may have it: ``describe`` is asked where there is no
``describe_key``, ``probe`` where there is a ``compat``, and these are registered."""

_OF_SEVERAL: Final = ("hookwrapper", "wrapper", "specname")
"""What a mark may ask for that calling one function alone does not give."""

_TAKES_ANY: Final = 0x04 | 0x08
"""Flags of code that takes any number of arguments (inspect.CO_VARARGS, CO_VARKEYWORDS)."""


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

    def call(self, hook: str, arguments: Mapping[str, object]) -> Any:
        """The answer of a hook; None where the backend does not have it."""
        return self._caller(hook)(**arguments) if self.has(hook) else None

    def _caller(self, hook: str) -> Callable[..., Any]:
        if hook not in self._callers:
            alone = _called_alone(getattr(self.plugin, hook)) if hook in OF_A_START else None
            if alone is None:
                self._register((hook,))
            else:
                self._callers[hook] = alone
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


def _called_alone(method: Any) -> Callable[..., Any] | None:
    """A call of a method with those of the arguments that it names; None where pluggy has more to do."""
    function = method.__func__ if type(method) is MethodType else None
    if type(function) is not FunctionType or function.__defaults__ or function.__kwdefaults__:
        return None
    code = function.__code__
    if code.co_flags & _TAKES_ANY or code.co_kwonlyargcount or any(getattr(function, MARK).get(asked) for asked in _OF_SEVERAL):
        return None
    names = code.co_varnames[1 : code.co_argcount]
    return partial(_with_named, method, names)  # which can be pickled with the backend


def _with_named(method: Callable[..., Any], names: tuple[str, ...], /, **given: object) -> Any:
    """The answer of a method that gets those of the arguments that it names."""
    return method(*[given[name] for name in names])


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
