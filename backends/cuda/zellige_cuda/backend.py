"""The backend's object: what it says about itself, and how a planned kernel becomes CUDA C++, a cubin and a launch.

In: the registry's questions. Out: :data:`backend`. cuda-python is loaded when a device is asked for or a text compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from zellige.plugin.contract import (
    API,
    Answer,
    Asked,
    Binary,
    CacheFlush,
    Capabilities,
    CompileContext,
    ConfigKey,
    Device,
    Emitted,
    Fitted,
    FittedKernel,
    Insert,
    Manifest,
    Operation,
    PassChange,
    PassStage,
    Revision,
    Runtime,
    Tool,
    Unavailable,
)
from zellige.plugin.hooks import hookimpl
from zellige.target import Target
from zellige.version import __version__

if TYPE_CHECKING:
    from zellige.options import CompileOptions
    from zellige.plan.nodes import PlannedKernel
    from zellige.simt.ir import Module

_CONFIG_KEYS: Final = (
    ConfigKey(name="CUDA_KERNELS_OUTPUT_DIR", key="cuda.kernels_output_dir"),
    ConfigKey(name="TL_DISABLE_SHUFFLE_ELECT", key="tl.disable_shuffle_elect"),
    ConfigKey(name="TL_DISABLE_TMA_LOWER", key="tl.disable_tma_lower"),
    ConfigKey(name="TL_DISABLE_WGMMA", key="tl.disable_wgmma"),
    ConfigKey(name="TL_ENABLE_LOWER_LDGSTG", key="tl.enable_lower_ldgstg"),
    ConfigKey(name="TL_ENABLE_LOWER_LDGSTG_PREDICATED", key="tl.enable_lower_ldgstg_predicated"),
    ConfigKey(name="TL_PTXAS_REGISTER_USAGE_LEVEL", key="tl.ptxas_register_usage_level"),
)


_WITHOUT_ENGINES: Final = ("tl.disable_tma_lower", "tl.disable_wgmma")
"""Keys that rule out programs for roles: copies of boxes and asynchronous products are made together or not at all."""


class CudaBackend:
    """What the registry sees."""

    API = API

    @hookimpl
    def manifest(self) -> Manifest:
        return Manifest(
            name="cuda",
            vendor="Zellige",
            version=__version__,
            kind="accelerator",
            targets=("cuda",),
            options=("simulate",),
            arch_options=("arch",),
            framework_devices=("cuda",),
            dlpack_devices=(2, 3, 13),  # kDLCUDA, kDLCUDAHost, kDLCUDAManaged
            requirements=("cuda-python",),
            code_packages=("zellige_intrinsics",),
            compiles_in_process=True,
            loads_from_signature=True,
            dialect_table="dialect.txt",
            config_keys=_CONFIG_KEYS,
            hints=("blockscale_format", "cluster_mask", "disable_tma", "disable_ws", "use_2cta", "use_tma"),
            acts_on=("compile_flags", "fast_math", "specialise", "synchronise_shared", *_WITHOUT_ENGINES),
            inspections=("export_ptx", "export_sass", "get_ptx", "n_regs", "n_spills", "resource_usage", "show_ptx", "show_sass"),
            timers=("cudagraph", "cupti", "event", "wall"),
            summary="CUDA C++ through NVRTC and the driver",
        )

    @hookimpl
    def probe(self) -> tuple[Device, ...] | Unavailable:
        from zellige_cuda import device

        return device.devices()

    @hookimpl
    def tools(self) -> Sequence[Tool]:
        from zellige_cuda.tools import tools

        return tools()

    @hookimpl
    def describe(self, target: Target) -> Capabilities:
        from zellige_cuda.architectures import architecture
        from zellige_cuda.describe import capabilities

        return capabilities(architecture(self._with_arch(target)), str(target))

    @hookimpl
    def describe_key(self, target: Target) -> str:
        """The architecture, from which everything else follows. The table of architectures is not read: a warm start would pay for it."""
        if target.arch:
            return target.arch
        from zellige_cuda import device

        return device.first_architecture() or "none"

    @staticmethod
    def _with_arch(target: Target) -> Target:
        """The target, with the architecture of the first device where it names none and there is one."""
        if target.arch:
            return target
        from zellige_cuda import device

        found = device.first_architecture()
        return replace(target, arch=found) if found else target

    @hookimpl
    def dialect(self) -> Mapping[str, object]:
        from zellige_cuda import wishes

        return {name: getattr(wishes, name) for name in wishes.__all__}

    @hookimpl
    def inspections(self) -> Mapping[str, Callable[..., object]]:
        from zellige_cuda import inspect

        return {name: getattr(inspect, name) for name in self.manifest().inspections}

    @hookimpl
    def candidates(self, operation: Operation, ctx: CompileContext) -> Sequence[Answer] | None:
        """For products what the capabilities offer, and which other products of the table would take the operands; for copies of loops with
        stages the same of what copies beside the lanes and what waits for it."""
        if operation.kind not in ("gemm", "pipeline"):
            return None
        from zellige.ir.stmt import Gemm
        from zellige.plan.candidates import with_refused
        from zellige.plan.products import offers
        from zellige_cuda.architectures import architecture
        from zellige_cuda.forms import overlap_refusals, refusals

        if operation.kind == "pipeline":
            return with_refused(operation.offered, overlap_refusals(architecture(self._with_arch(ctx.target))))
        gemm = operation.statement
        assert isinstance(gemm, Gemm), "an operation of the kind gemm is a product"
        arch = architecture(self._with_arch(ctx.target))
        return offers(gemm, ctx.capabilities, refusals(arch, gemm.a.buffer.dtype, gemm.b.buffer.dtype))

    @hookimpl
    def cache_key(self, ctx: CompileContext) -> str:
        """How the table of instructions differs from that of the package."""
        tables = sys.modules.get("zellige_intrinsics")  # whoever changed them has loaded them
        return "" if tables is None else str(tables.stamp("nvidia"))

    @hookimpl
    def passes(self, stage: PassStage, ctx: CompileContext) -> tuple[PassChange, ...]:
        """Vectors expanded, since its vector types are no registers of their own."""
        from zellige.passes.expand_vectors import ExpandVectors

        return (Insert(step=ExpandVectors()),) if stage == "legalise" else ()

    @hookimpl
    def fit(self, planned: PlannedKernel, asked: Sequence[Asked], ctx: CompileContext) -> Sequence[Revision] | Fitted:
        """Roles for launches that engines serve, stages that fit; a second plan for tensors whose addresses do not suit boxes."""
        from zellige.simt.fitting import LaneFit
        from zellige_cuda.architectures import architecture
        from zellige_cuda.describe import lane_machine, role_capabilities

        arch = architecture(self._with_arch(ctx.target))
        fit = LaneFit(
            capabilities=ctx.capabilities, machine=partial(lane_machine, arch), richer=role_capabilities(arch, ctx.capabilities),
            refused=_without_roles(ctx.options), has_boxes_refused=not ctx.target.is_simulated,
            synchronises=ctx.options.synchronise_shared,
        )  # fmt: skip
        return fit(planned, asked)

    @hookimpl
    def timers(self) -> Mapping[str, Callable[..., list[float]]]:
        from zellige_cuda import timers

        return {name: getattr(timers, name) for name in self.manifest().timers}

    @hookimpl
    def cache_flush(self, size_bytes: int) -> CacheFlush:
        from zellige_cuda.timers import Flush

        return Flush(size_bytes)

    @hookimpl
    def emit(self, planned: PlannedKernel, ctx: CompileContext, fitted: FittedKernel) -> Emitted:
        from zellige.simt.ir import Module
        from zellige.simt.printer import print_module
        from zellige_cuda.architectures import architecture
        from zellige_cuda.facts import either, facts_of
        from zellige_cuda.spelling import CudaSpelling

        arch = architecture(self._with_arch(ctx.target))
        spelling = CudaSpelling(arch.number, is_fast=ctx.options.fast_math)

        def printed(of: FittedKernel) -> tuple[Module, str]:
            module = of.program
            assert isinstance(module, Module), "the hook fit makes it"
            return module, print_module(module, spelling)

        def facts(made: Module, otherwise: str = "") -> str:
            return facts_of(made, planned.kernel, spelling.sites, arch.name, ctx.options.compile_flags, otherwise)

        module, text = printed(fitted)
        otherwise = ""
        if fitted.otherwise is not None:
            ordinary, other = printed(fitted.otherwise)
            text, otherwise = either(text, other), facts(ordinary)
        spans = tuple(site.span for site in spelling.sites)
        emitted = Emitted(text=text, format="CUDA C++", facts=facts(module, otherwise), spans=spans)
        if not ctx.target.is_simulated:
            return emitted
        from zellige.simt.simulate.kernel import simulated

        return simulated(emitted, module, planned.kernel)

    @hookimpl
    def compile(self, emitted: Emitted, ctx: CompileContext) -> Binary:
        if ctx.target.is_simulated:
            from zellige.simt.simulate.kernel import simulated_binary

            return simulated_binary(emitted)
        from zellige_cuda.architectures import architecture
        from zellige_cuda.compiler import compile_cubin, compile_for_occupancy
        from zellige_cuda.kernel import functions_of

        arch = architecture(self._with_arch(ctx.target))
        functions, flags = functions_of(emitted), ctx.options.compile_flags
        if len(functions) == 1:
            first = functions[0]
            cubin, log = compile_for_occupancy(emitted.text, "kernel", arch, first["threads"], first["shared"], flags)
        else:
            cubin, log = compile_cubin(emitted.text, "kernel", arch.name, flags)
        _report_spills(log)
        return Binary(data=cubin, format="cubin", log=log)

    @hookimpl
    def runtime(self, ctx: CompileContext) -> Runtime:
        if ctx.target.is_simulated:
            from zellige.simt.simulate.kernel import SimulatedRuntime

            return SimulatedRuntime()
        from zellige_cuda.kernel import CudaRuntime

        return CudaRuntime()


def _report_spills(log: str) -> None:
    """Warn of registers that the compiler keeps in memory."""
    from zellige.diagnostics import catalogue
    from zellige.diagnostics.warn import warn
    from zellige_cuda.compiler import usage_of

    for name, used in usage_of(log).items():
        if used.spilled_bytes:
            warn(catalogue.E503.diagnose(kernel=name, bytes=used.spilled_bytes, registers=used.registers, severity="warning"))


def _without_roles(options: CompileOptions) -> str | None:
    """Which option of the user's rules out programs for roles, as a reason; None where none does."""
    from zellige.pass_configs import PassConfigKey, switch

    found = [key for key, value in options.backend_configs if key in _WITHOUT_ENGINES and switch(key, value)]
    if not options.specialise:
        found.append(str(PassConfigKey.TL_DISABLE_WARP_SPECIALIZED))
    return f"{' and '.join(found)} rules them out" if found else None


backend: Final = CudaBackend()
