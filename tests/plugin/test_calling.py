"""Hooks of zellige's own backends, called as they stand: the same as what pluggy answers; what is no plain method is left to pluggy."""

from __future__ import annotations

from typing import Any

import pluggy
import pytest

from zellige.plugin import calling
from zellige.plugin.calling import hooks_of
from zellige.plugin.hooks import hookimpl
from zellige.plugin.registry import registry
from zellige.plugin.signatures import hook_parameters


class Plain:
    @hookimpl
    def manifest(self) -> str:
        return "manifest"

    @hookimpl
    def describe(self, target: str) -> str:
        return f"describe {target}"

    @hookimpl
    def fit(self, ctx: Any, planned: Any) -> tuple[Any, ...]:
        return planned, ctx

    @hookimpl
    def passes(self, stage: str, ctx: Any) -> tuple[Any, ...]:
        return stage, ctx

    @hookimpl
    def candidates(self, operation: object) -> None:
        return None

    def tools(self) -> str:
        return "unmarked"


class Heir(Plain):
    @hookimpl
    def describe(self) -> str:
        return "mine"

    def candidates(self, operation: object) -> None:
        """Has lost its mark."""


ARGUMENTS: dict[str, dict[str, object]] = {
    "manifest": {}, "describe": {"target": "acme"}, "fit": {"planned": 1, "asked": 2, "ctx": 3},
    "passes": {"stage": "legalise", "ctx": 5}, "candidates": {"operation": 6, "ctx": 7}, "tools": {}, "probe": {},
}  # fmt: skip


@pytest.mark.parametrize("kind", [Plain, Heir])
def test_both_ways_answer_the_same(kind: type) -> None:
    plugin = kind()
    own, others = hooks_of(plugin, "mine", is_own=True), hooks_of(plugin, "mine", is_own=False)
    assert isinstance(own, calling._AsTheyStand)
    assert isinstance(others, pluggy.PluginManager)
    for name in hook_parameters():
        assert own.has(name) == others.has(name), name
    for name, arguments in ARGUMENTS.items():
        assert own.call(name, arguments) == others.call(name, arguments), name
    assert own.plugin is others.plugin is plugin


@pytest.mark.parametrize("handle", registry().backends, ids=lambda handle: str(handle.manifest.name))
def test_our_own_backends_have_plain_methods(handle: Any) -> None:
    if handle.origin.is_own:
        assert isinstance(handle._hooks, calling._AsTheyStand)
        others = hooks_of(handle._hooks.plugin, "again", is_own=False)
        assert [name for name in hook_parameters() if handle._hooks.has(name)] == [n for n in hook_parameters() if others.has(n)]
        assert handle._hooks.call("manifest", {}) == others.call("manifest", {})
    else:
        assert isinstance(handle._hooks, pluggy.PluginManager)


def _own_attribute() -> Any:
    made = Plain()
    made.describe = hookimpl(lambda target: "by the object")  # type: ignore[method-assign]
    return made


class Static:
    @staticmethod
    @hookimpl
    def describe(target: str) -> str:
        return target


class Wrapping:
    @hookimpl(hookwrapper=True)
    def describe(self, target: str) -> Any:
        yield target


class Renamed(Plain):
    @hookimpl(specname="describe")
    def other(self, target: str) -> str:
        return target


class WithDefault(Plain):
    @hookimpl
    def describe(self, target: str = "its own") -> str:
        return target


class Dynamic(Plain):
    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


@pytest.mark.parametrize("make", [_own_attribute, Static, Wrapping, Renamed, WithDefault, Dynamic])
def test_anything_else_is_called_by_pluggy(make: Any) -> None:
    assert isinstance(hooks_of(make(), "mine", is_own=True), pluggy.PluginManager)
