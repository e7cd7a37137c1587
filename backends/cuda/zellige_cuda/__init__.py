"""The CUDA backend: planned kernels become CUDA C++ for sm_75 to sm_121, compiled by NVRTC without a device and launched by the driver.

In: the registry's questions. Out: :data:`backend`, which says what it is and where each step of its work is done: source, machine code and
launches. The way to thread-level programs and their printing is :mod:`zellige.simt`'s; here stand the device's facts, spellings, engines,
compiler and driver. A hook that has much to do does it in a module that is loaded then, and the object stands in the package itself: a
kernel that is found on disk needs four hooks, and Python takes its time for each module and for every line of it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from zellige.plugin.contract import API, ConfigKey, Insert, Manifest
from zellige.plugin.hooks import hookimpl
from zellige.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zellige.plan.nodes import PlannedKernel
    from zellige.plugin.contract import (
        Answer,
        Asked,
        Binary,
        CacheFlush,
        Capabilities,
        CompileContext,
        Device,
        Emitted,
        Fitted,
        FittedKernel,
        Operation,
        PassChange,
        PassStage,
        Revision,
        Runtime,
        Tool,
        Unavailable,
    )
    from zellige.target import Target

WITHOUT_ENGINES: Final = ("tl.disable_tma_lower", "tl.disable_wgmma")
"""Keys that rule out programs for roles: copies of boxes and asynchronous products are made together or not at all."""

_CONFIG_KEYS: Final = (
    ConfigKey(name="CUDA_KERNELS_OUTPUT_DIR", key="cuda.kernels_output_dir"),
    ConfigKey(name="TL_DISABLE_SHUFFLE_ELECT", key="tl.disable_shuffle_elect"),
    ConfigKey(name="TL_DISABLE_TMA_LOWER", key="tl.disable_tma_lower"),
    ConfigKey(name="TL_DISABLE_WGMMA", key="tl.disable_wgmma"),
    ConfigKey(name="TL_ENABLE_LOWER_LDGSTG", key="tl.enable_lower_ldgstg"),
    ConfigKey(name="TL_ENABLE_LOWER_LDGSTG_PREDICATED", key="tl.enable_lower_ldgstg_predicated"),
    ConfigKey(name="TL_PTXAS_REGISTER_USAGE_LEVEL", key="tl.ptxas_register_usage_level"),
)


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
            acts_on=("compile_flags", "fast_math", "specialise", "synchronise_shared", *WITHOUT_ENGINES),
            inspections=("export_ptx", "export_sass", "get_ptx", "n_regs", "n_spills", "resource_usage", "show_ptx", "show_sass"),
            timers=("cudagraph", "cupti", "event", "wall"),
            summary="CUDA C++ through NVRTC and the driver",
        )

    @hookimpl
    def probe(self) -> tuple[Device, ...] | Unavailable:
        from zellige_cuda.presence import devices

        return devices()

    @hookimpl
    def tools(self) -> Sequence[Tool]:
        from zellige_cuda.tools import tools

        return tools()

    @hookimpl
    def describe(self, target: Target) -> Capabilities:
        from zellige_cuda.describe import architecture_of, capabilities

        return capabilities(architecture_of(target), str(target))

    @hookimpl
    def describe_key(self, target: Target) -> str:
        """The architecture, from which everything else follows. The table of architectures is not read: a warm start would pay for it."""
        if target.arch:
            return target.arch
        from zellige_cuda import device

        return device.first_architecture() or "none"

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
        from zellige_cuda import steps

        return steps.candidates(operation, ctx)

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
        from zellige_cuda import steps

        return steps.fit(planned, asked, ctx)

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
        from zellige_cuda import steps

        return steps.emit(planned, ctx, fitted)

    @hookimpl
    def compile(self, emitted: Emitted, ctx: CompileContext) -> Binary:
        from zellige_cuda import steps

        return steps.compiled(emitted, ctx)

    @hookimpl
    def runtime(self, ctx: CompileContext) -> Runtime:
        if ctx.target.is_simulated:
            from zellige.simt.simulate.kernel import SimulatedRuntime

            return SimulatedRuntime()
        from zellige_cuda.device import CudaRuntime

        return CudaRuntime()


backend: Final = CudaBackend()
