"""The backend's object: what it says about itself, and how a planned kernel becomes a program of lanes.

In: the hooks' questions. Out: the answers of :mod:`zellige.plugin.contract`. A vendor replaces the names, ``probe`` by a look for devices,
and ``compile_kernel`` by the hooks ``compile`` (the vendor's compiler) and ``runtime`` (the vendor's driver); the simulator then stays
behind the flag ``simulate`` of the target. Nothing here may import a vendor's library while it is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zellige.plugin.contract import (
    API,
    Asked,
    Capabilities,
    CompileContext,
    Device,
    Emitted,
    Fitted,
    FittedKernel,
    Insert,
    Manifest,
    PassChange,
    PassStage,
    Revision,
)
from zellige.plugin.hooks import hookimpl

if TYPE_CHECKING:
    from zellige.plan.nodes import PlannedKernel
    from zellige.plugin.contract import CompiledKernel
    from zellige.simt.simulate.kernel import SimulatedProgram
    from zellige.target import Target

NAME: Final = "template"
"""The target's name."""


class TemplateBackend:
    """What the registry sees."""

    API = API

    @hookimpl
    def manifest(self) -> Manifest:
        return Manifest(
            name=NAME,
            vendor="zellige",
            version="0.1",
            kind="reference",  # `auto` takes an accelerator that works, and never a reference
            targets=(NAME,),
            framework_devices=("cpu",),
            dlpack_devices=(1,),
            acts_on=("fast_math", "synchronise_shared"),
            summary="a machine with lanes, simulated, to grow a backend from",
        )

    @hookimpl
    def probe(self) -> tuple[Device, ...]:
        return (Device(name="the machine of the template", index=0, target=NAME),)

    @hookimpl
    def describe(self, target: Target) -> Capabilities:
        from zellige_template_simt.machine import capabilities

        return capabilities(str(target))

    @hookimpl
    def passes(self, stage: PassStage, ctx: CompileContext) -> tuple[PassChange, ...]:
        from zellige.passes.expand_vectors import ExpandVectors

        return (Insert(step=ExpandVectors()),) if stage == "legalise" else ()  # the language has no vector types

    @hookimpl
    def fit(self, planned: PlannedKernel, asked: Sequence[Asked], ctx: CompileContext) -> Sequence[Revision] | Fitted:
        """The program of lanes, or a plan that needs less shared memory."""
        from zellige.simt.fitting import LaneFit
        from zellige_template_simt.machine import lane_machine

        fit = LaneFit(capabilities=ctx.capabilities, machine=lane_machine, synchronises=ctx.options.synchronise_shared)
        return fit(planned, asked)

    @hookimpl
    def emit(self, planned: PlannedKernel, ctx: CompileContext, fitted: FittedKernel) -> Emitted:
        return self._program(planned, ctx, fitted)

    @hookimpl
    def compile_kernel(self, planned: PlannedKernel, ctx: CompileContext, fitted: FittedKernel) -> CompiledKernel:
        from zellige.simt.simulate.kernel import SimulatedKernel

        return SimulatedKernel(self._program(planned, ctx, fitted))

    def _program(self, planned: PlannedKernel, ctx: CompileContext, fitted: FittedKernel) -> SimulatedProgram:
        """The kernel as text of the vendor's language, together with the program of lanes that the text spells."""
        from zellige.simt.ir import Module
        from zellige.simt.printer import print_module
        from zellige.simt.simulate.kernel import simulated
        from zellige_template_simt.spelling import TemplateSpelling

        module = fitted.program
        assert isinstance(module, Module), "the hook fit makes it"
        spelling = TemplateSpelling(NAME, is_fast=ctx.options.fast_math)
        text = print_module(module, spelling)
        emitted = Emitted(text=text, format=f"C++ of {NAME}", spans=tuple(spelling.sites))
        return simulated(emitted, module, planned.kernel)


backend: Final = TemplateBackend()
