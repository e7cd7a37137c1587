"""The hooks of the contract as pluggy sees them: their names, arguments and answers.

In: nothing. Out: :data:`hookimpl`, which marks a backend's methods, and :class:`BackendHooks`, the specification they are checked with.
A backend may leave out trailing arguments that it does not use, so that a later version can add some.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pluggy

from zellige.plugin.contract import (
    Answer,
    Asked,
    Binary,
    CacheFlush,
    Capabilities,
    Compatibility,
    CompileContext,
    CompiledKernel,
    Conformance,
    Device,
    Diagnosis,
    Emitted,
    Fitted,
    FittedKernel,
    Manifest,
    Operation,
    PassChange,
    PassStage,
    Revision,
    Runtime,
    StagePass,
    Tool,
    Unavailable,
)

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
    def tools(self) -> Sequence[Tool]:  # type: ignore[empty-body]
        """The vendor's driver, compilers and programs as this machine has them, for ``doctor``. Optional."""

    @_hookspec(firstresult=True)
    def describe(self, target: Target) -> Capabilities:  # type: ignore[empty-body]
        """What ``target`` can do, also for an architecture that is not in this machine. Required."""

    @_hookspec(firstresult=True)
    def describe_key(self, target: Target) -> str:  # type: ignore[empty-body]
        """What the answer of ``describe`` depends on beside the target, ``cache_key``, and the versions and source of packages: a kernel
        found in the cache is found by it, and the capabilities are not put together. Optional: the capabilities themselves."""

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
    def cache_flush(self, size_bytes: int) -> CacheFlush:  # type: ignore[empty-body]
        """What empties the caches of the current device, by going through ``size_bytes`` of memory (0: as much as that takes). Optional:
        for devices whose caches are not the host's."""

    @_hookspec(firstresult=True)
    def begin(self, ctx: CompileContext) -> None:
        """A kernel will be planned, emitted and compiled next: what takes long to start, such as a compiler in a process of its own, may
        start meanwhile. Answers at once. It is not called for what a cache holds, nor where only text is asked for. Optional."""

    @_hookspec(firstresult=True)
    def fit(  # type: ignore[empty-body]
        self, planned: PlannedKernel, asked: Sequence[Asked], ctx: CompileContext
    ) -> Sequence[Revision] | Fitted:
        """Whether a verified plan can be lowered as it is (:mod:`zellige.plugin.fit`): that it stands, with what was made of it meanwhile,
        or launches to be planned again for other capabilities. ``asked`` are the revisions of this compilation so far. Optional: every
        plan stands."""

    @_hookspec(firstresult=True)
    def compile_kernel(  # type: ignore[empty-body]
        self, planned: PlannedKernel, ctx: CompileContext, fitted: FittedKernel
    ) -> CompiledKernel:
        """The whole way from a planned kernel to one that can be launched; ``fitted`` is the plan with what the hook ``fit`` made of it.
        Optional when the next three are there."""

    @_hookspec(firstresult=True)
    def emit(self, planned: PlannedKernel, ctx: CompileContext, fitted: FittedKernel) -> Emitted:  # type: ignore[empty-body]
        """The lowered program as text; needs no device. ``fitted`` is the plan with what the hook ``fit`` made of it. Optional."""

    @_hookspec(firstresult=True)
    def compile(self, emitted: Emitted, ctx: CompileContext) -> Binary:  # type: ignore[empty-body]
        """Machine code from the text; needs the vendor's compiler and no device. Optional."""

    @_hookspec(firstresult=True)
    def runtime(self, ctx: CompileContext) -> Runtime:  # type: ignore[empty-body]
        """What loads a binary onto the device. Optional."""

    @_hookspec(firstresult=True)
    def candidates(self, operation: Operation, ctx: CompileContext) -> Sequence[Answer] | None:
        """What can execute ``operation``, or of the kind "pipeline" issue a copy ahead and wait for it: candidates with priority and cost,
        and rejections with reasons. None: as the capabilities say.
        Only rejections: the operation is refused with the table of them (E420). Optional."""

    @_hookspec(firstresult=True)
    def passes(self, stage: PassStage, ctx: CompileContext) -> Sequence[PassChange]:  # type: ignore[empty-body]
        """Passes to insert, replace or leave out at a stage (:mod:`zellige.plugin.choices` says what a pass of each takes). Optional."""

    @_hookspec(firstresult=True)
    def schedules(self) -> Mapping[str, StagePass]:  # type: ignore[empty-body]
        """Scheduling strategies by name: passes of the stage "pipeline" that a user chooses with ``jit(schedule=name)``. Optional."""

    @_hookspec(firstresult=True)
    def cache_key(self, ctx: CompileContext) -> str:  # type: ignore[empty-body]
        """What compiled code depends on beside program, options, capabilities, and the versions and source of packages: of a driver, a
        compiler outside of Python. Optional."""

    @_hookspec(firstresult=True)
    def compat(self, binary: Binary, device: Device) -> Compatibility:  # type: ignore[empty-body]
        """Whether machine code found in a cache or a bundle runs on ``device``. Optional: it does."""

    @_hookspec(firstresult=True)
    def conformance(self) -> Conformance:  # type: ignore[empty-body]
        """What the backend claims of the conformance suite. Optional."""

    @_hookspec(firstresult=True)
    def diagnose(self, error: Exception) -> Diagnosis | None:
        """A vendor's exception that escaped from a hook or a launch, in the user's words; None where it is not known. Optional."""
