"""A target of zellige's own backend loads that backend alone, and nobody else's, without changing which backend serves it."""

from __future__ import annotations

import pytest

from zellige.diagnostics import ZelligeError
from zellige.plugin.loading import loader
from zellige.plugin.registry import BUILTIN, Origin, Registry, registry

TEXT = dict(BUILTIN)["interp"]


def _own(name: str = "interp") -> Origin:
    return Origin(name=name, value=TEXT, load=loader(TEXT), is_own=True)


def _unwanted() -> object:
    raise RuntimeError("loaded")


def test_target_of_an_own_backend_loads_nothing_else():
    asked: list[str] = []

    def more() -> list[Origin]:
        asked.append("more")
        return [Origin(name="other", value="other: broken", load=_unwanted)]

    found = Registry([_own(), Origin(name="next", value="next", load=_unwanted, is_own=True)], more)
    target = found.resolve("interp")
    assert found.backend(target).manifest.name == "interp"
    assert not asked
    assert {entry.origin.name for entry in found.quarantined} == {"other", "next"}  # asked for all, every one is loaded
    assert asked == ["more"]
    assert found.backend(target) is found.backends[0]


def test_own_backend_is_asked_for_its_target_not_for_its_name():
    found = Registry([_own("elsewhere")])
    with pytest.raises(ZelligeError) as caught:
        found.resolve("elsewhere")
    assert caught.value.code == "E705"


def test_broken_own_backend_raises_its_own_error():
    found = Registry([Origin(name="interp", value="interp", load=_unwanted, is_own=True)])
    with pytest.raises(ZelligeError) as caught:
        found.resolve("interp")
    assert caught.value.code == "E701"


def test_own_backends_share_no_target():
    names = [name for handle in registry().backends if handle.origin.is_own for name in _claims(handle.manifest)]
    assert len(names) == len(set(names))


def _claims(manifest) -> list[str]:
    return [*manifest.targets, *(alias for alias, _ in manifest.aliases)]
