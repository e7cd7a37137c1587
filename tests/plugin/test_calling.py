"""The hooks of one backend: what counts as one, the arguments that it names, and that pluggy calls it, early or late."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pluggy
import pytest

from zellige.fit import _beyond
from zellige.plugin.calling import Hooks
from zellige.plugin.contract import Capabilities, Space
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
    def candidates(self, operation: object) -> None:
        return None

    def tools(self) -> str:
        return "unmarked"


class Heir(Plain):
    @hookimpl
    def describe(self) -> str:  # type: ignore[override]
        return "mine"

    def candidates(self, operation: object) -> None:
        """Has lost its mark."""


class Static:
    @staticmethod
    @hookimpl
    def describe(target: str) -> str:
        return f"static {target}"


class OfClass:
    @classmethod
    @hookimpl
    def describe(cls, target: str) -> str:
        return f"{cls.__name__} {target}"


class Wrapping:
    @hookimpl
    def describe(self, target: str) -> str:
        return target

    @hookimpl(wrapper=True)
    def manifest(self) -> Any:
        return (yield)


def _own_attribute() -> Any:
    made = Plain()
    made.describe = hookimpl(lambda target: f"by the object for {target}")  # type: ignore[method-assign]
    return made


ARGUMENTS: dict[str, dict[str, object]] = {
    "manifest": {}, "describe": {"target": "acme"}, "fit": {"planned": 1, "asked": 2, "ctx": 3}, "candidates": {"operation": 6, "ctx": 7},
    "tools": {}, "probe": {},
}  # fmt: skip
PLAIN = {"manifest": "manifest", "describe": "describe acme", "fit": (1, 3), "candidates": None}


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(
    "make, answers",
    [
        (Plain, PLAIN),
        (Heir, {"manifest": "manifest", "describe": "mine", "fit": (1, 3)}),
        (Static, {"describe": "static acme"}),
        (OfClass, {"describe": "OfClass acme"}),
        (Wrapping, {"describe": "acme", "manifest": None}),
        (_own_attribute, {**PLAIN, "describe": "by the object for acme"}),
    ],
)
def test_marked_methods_answer(make: Any, answers: dict[str, object], at_once: bool) -> None:
    plugin = make()
    hooks = Hooks(plugin, "acme", at_once=at_once)
    assert hooks.plugin is plugin
    assert {hook for hook in hook_parameters() if hooks.has(hook)} == answers.keys()
    for hook, arguments in ARGUMENTS.items():
        for _ in range(2):
            assert hooks.call(hook, arguments) == answers.get(hook)


class Wrong(Plain):
    @hookimpl
    def probe(self, machine: object) -> None:
        """There is no such argument."""


def test_what_pluggy_refuses_is_said_at_once_or_when_it_is_called() -> None:
    with pytest.raises(pluggy.PluginValidationError, match="(?s)acme.*machine"):
        Hooks(Wrong(), "acme", at_once=True)
    late = Hooks(Wrong(), "acme", at_once=False)
    assert late.call("manifest", {}) == "manifest"
    with pytest.raises(pluggy.PluginValidationError, match="(?s)acme.*machine"):
        late.call("probe", {})


class Unusual:
    """Hooks of a start whose calls are more than a function and the arguments that it names."""

    @hookimpl(wrapper=True)
    def manifest(self) -> Any:
        return (yield)

    @hookimpl
    def describe_key(self, target: str, more: str = "left alone") -> str:
        return f"{target} {more}"

    @staticmethod
    @hookimpl
    def cache_key(ctx: int) -> str:
        return f"static {ctx}"

    @hookimpl
    def runtime(self) -> str:
        return "runtime"


def test_what_a_start_asks_is_called_as_pluggy_calls_it() -> None:
    asked: dict[str, dict[str, object]] = {
        "manifest": {}, "describe_key": {"target": "acme"}, "cache_key": {"ctx": 4}, "runtime": {"ctx": 5},
    }  # fmt: skip
    late, early = (Hooks(Unusual(), "acme", at_once=at_once) for at_once in (False, True))
    answers = [late.call(hook, arguments) for hook, arguments in asked.items()]
    assert answers == [early.call(hook, arguments) for hook, arguments in asked.items()]
    assert answers == [None, "acme left alone", "static 4", "runtime"]
    assert all(isinstance(hooks._caller(hook), pluggy.HookCaller) for hooks in (late, early) for hook in asked)


@pytest.mark.parametrize("handle", registry().backends, ids=lambda handle: str(handle.manifest.name))
def test_every_hook_is_called_by_pluggy(handle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of zellige's own backends as everybody's, those of a start too."""
    marked = [hook for hook in hook_parameters() if handle._hooks.has(hook)]
    assert {"manifest", "probe", "describe"} <= set(marked)
    for at_once in (False, True):
        hooks = Hooks(handle._hooks.plugin, "again", at_once=at_once)
        assert all(isinstance(hooks._caller(hook), pluggy.HookCaller) for hook in marked)
        assert hooks.call("manifest", {}) == handle._call("manifest", lambda answer: answer)
        monkeypatch.setattr(hooks, "_caller", lambda hook: lambda **arguments: (hook, arguments))
        assert [hooks.call(hook, {"a": 1}) for hook in marked] == [(hook, {"a": 1}) for hook in marked]


def test_a_backend_that_was_asked_can_be_pickled() -> None:
    asked = registry().named("cpu")
    target = registry().resolve("cpu")
    asked.describe(target)
    assert pickle.loads(pickle.dumps(asked)).describe(target) == asked.describe(target)


def test_less_memory_is_no_more_than_there_is() -> None:
    stated = Capabilities(target="t", spaces=(Space(name="local", bytes=64), Space(name="global")))
    for spaces, words in (
        ((Space(name="local", bytes=32),), ""),
        ((Space(name="local", bytes=65),), "65 in place of 64 bytes of local"),
        ((Space(name="local"),), "no limit in place of 64 bytes of local"),
        ((Space(name="global", bytes=1 << 40),), ""),
    ):
        assert _beyond(replace(stated, spaces=spaces), stated) == words
