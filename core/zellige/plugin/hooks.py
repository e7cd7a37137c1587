"""The hooks of the contract as pluggy sees them: their names, arguments and answers.

In: nothing. Out: :data:`hookimpl`, which marks a backend's methods, and :class:`BackendHooks`, the specification they are checked with.
A backend may leave out trailing arguments that it does not use, so that a later version can add some.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import pluggy

from zellige.plugin.contract import Binary, Capabilities, CompileContext, CompiledKernel, Device, Emitted, Manifest, Runtime, Unavailable

if TYPE_CHECKING:
    from zellige.plan.nodes import PlannedKernel
    from zellige.target import Target

PROJECT: Final = "zellige"

hookimpl: Final = pluggy.HookimplMarker(PROJECT)
"""Marks a method of a backend as the answer to the hook of its name."""

_hookspec: Final = pluggy.HookspecMarker(PROJECT)


class BackendHooks:
    """What a backend is asked. The bodies are empty: pluggy reads the signatures only."""

    @_hookspec(firstresult=True)
    def manifest(self) -> Manifest:  # type: ignore[empty-body]
        """Name, targets, aliases, state. Cheap: imports no vendor library. Required."""

    @_hookspec(firstresult=True)
    def probe(self) -> tuple[Device, ...] | Unavailable:  # type: ignore[empty-body]
        """The devices that work here, or why there is none. Never raises for a missing library. Required."""

    @_hookspec(firstresult=True)
    def describe(self, target: Target) -> Capabilities:  # type: ignore[empty-body]
        """What ``target`` can do, also for an architecture that is not in this machine. Required."""

    @_hookspec(firstresult=True)
    def dialect(self) -> Mapping[str, object]:  # type: ignore[empty-body]
        """The objects behind the manifest's dialect names, as the kernel language finds them under ``T.<name>``. Optional."""

    @_hookspec(firstresult=True)
    def inspections(self) -> Mapping[str, Callable[..., object]]:  # type: ignore[empty-body]
        """The functions behind the manifest's inspection names; each takes the CompiledKernel and then the user's arguments. Optional."""

    @_hookspec(firstresult=True)
    def timers(self) -> Mapping[str, Callable[..., list[float]]]:  # type: ignore[empty-body]
        """The functions behind the manifest's timer names: ``(run, repeats, before)`` to milliseconds a run, where ``before`` is called
        ahead of each run and not timed. Optional."""

    @_hookspec(firstresult=True)
    def compile_kernel(self, planned: PlannedKernel, ctx: CompileContext) -> CompiledKernel:  # type: ignore[empty-body]
        """The whole way from a planned kernel to one that can be launched. Optional when the next three are there."""

    @_hookspec(firstresult=True)
    def emit(self, planned: PlannedKernel, ctx: CompileContext) -> Emitted:  # type: ignore[empty-body]
        """The lowered program as text; needs no device. Optional."""

    @_hookspec(firstresult=True)
    def compile(self, emitted: Emitted, ctx: CompileContext) -> Binary:  # type: ignore[empty-body]
        """Machine code from the text; needs the vendor's compiler and no device. Optional."""

    @_hookspec(firstresult=True)
    def runtime(self, ctx: CompileContext) -> Runtime:  # type: ignore[empty-body]
        """What loads a binary onto the device. Optional."""
