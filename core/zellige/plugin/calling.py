"""Calling the hooks of one backend.

In: a backend's object. Out: :func:`hooks_of`, through which its hooks are asked for and called with the arguments that each of them names.
pluggy calls those of other packages. Those of zellige's own that are plain methods are called as they stand, with the same answers: pluggy
takes longer to look at a backend than a warm start may take for all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any, Final, Protocol

import pluggy

from zellige.plugin.hooks import PROJECT, BackendHooks
from zellige.plugin.signatures import MARK, as_written, hook_parameters


class Hooks(Protocol):
    """The hooks that one backend has."""

    @property
    def plugin(self) -> object:
        """The backend's object."""

    def has(self, hook: str) -> bool:
        """Whether the backend has a hook of that name."""

    def call(self, hook: str, arguments: Mapping[str, object]) -> Any:
        """The answer of a hook; None where the backend does not have it."""


def hooks_of(plugin: object, name: str, *, is_own: bool) -> Hooks:
    """The hooks of a backend's object that is taken in under ``name``. Raises what pluggy raises for hooks that it refuses."""
    methods = _plain_methods(plugin) if is_own else None
    return _OfPluggy(plugin, name) if methods is None else _AsTheyStand(plugin, methods)


_Method = tuple[FunctionType, tuple[str, ...]]
"""A hook and the names of the arguments that it takes."""


def _plain_methods(plugin: object) -> Mapping[str, _Method] | None:
    """The hooks that are written in the classes of an object; None where one of them is not a plain method, which pluggy then calls."""
    found: dict[str, _Method] = {}
    kinds = type(plugin).__mro__
    if isinstance(plugin, type) or any("__getattr__" in vars(kind) or "__getattribute__" in vars(kind) for kind in kinds[:-1]):
        return None
    for kind in reversed(kinds):
        for name, member in vars(kind).items():
            marked = getattr(getattr(member, "__func__", member), MARK, None)
            if marked is None:
                found.pop(name, None)  # a method without the mark stands in the place of a hook
                continue
            if type(member) is not FunctionType or member.__kwdefaults__ or member.__defaults__:
                return None
            if marked["wrapper"] or marked["hookwrapper"] or marked["specname"]:
                return None
            code = member.__code__
            found[name] = member, code.co_varnames[1 : code.co_argcount]
    return None if found.keys() & getattr(plugin, "__dict__", {}).keys() else found


class _AsTheyStand:
    """Methods that are called with the arguments that they name."""

    def __init__(self, plugin: object, methods: Mapping[str, _Method]) -> None:
        self.plugin: Final = plugin
        self._methods: Final = methods

    def has(self, hook: str) -> bool:
        return hook in self._methods

    def call(self, hook: str, arguments: Mapping[str, object]) -> Any:
        found = self._methods.get(hook)
        if found is None:
            return None
        function, names = found
        return function(self.plugin, *[arguments[name] for name in names])


class _OfPluggy(pluggy.PluginManager):
    """Looks only at the hooks that a backend has: one with the mark on another name is refused before, and looking at everything takes as
    long as all the rest of taking a backend in."""

    def __init__(self, plugin: object, name: str) -> None:
        super().__init__(PROJECT)
        self.plugin: Final = plugin
        self._offered = frozenset(hook for hook in hook_parameters() if as_written(plugin, hook) is not None)
        self.add_hookspecs(BackendHooks)
        self.register(plugin, name=name)
        self.check_pending()

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        return super().parse_hookimpl_opts(plugin, name) if name in self._offered else None

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:
        return super().parse_hookspec_opts(module_or_class, name) if name in self._offered else None

    def has(self, hook: str) -> bool:
        caller = getattr(self.hook, hook, None)
        return caller is not None and bool(caller.get_hookimpls())

    def call(self, hook: str, arguments: Mapping[str, object]) -> Any:
        caller = getattr(self.hook, hook, None)
        return None if caller is None else caller(**arguments)
