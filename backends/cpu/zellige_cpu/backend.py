"""The CPU backend's object: what it says about itself and how it compiles.

In: the hooks' questions. Out: the answers of :mod:`zellige.plugin.contract`. llvmlite is loaded when a device is asked for or a kernel
compiled.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from zellige.dtypes import all_dtypes
from zellige.plugin.contract import (
    API,
    Answer,
    Binary,
    Capabilities,
    CompileContext,
    CopyPath,
    Device,
    Emitted,
    Engine,
    Manifest,
    MathAccuracy,
    MatmulUnit,
    Operation,
    RegisterFile,
    Runtime,
    Space,
    Unavailable,
)
from zellige.plugin.hooks import hookimpl
from zellige.version import __version__

if TYPE_CHECKING:
    from zellige.plan.nodes import PlannedKernel
    from zellige.target import Target
    from zellige_cpu.host import Host
    from zellige_cpu.leaf.units import Unit


def capabilities_of(host: Host, target: str = "cpu") -> Capabilities:
    """What a machine can do, in the words of planning."""
    from zellige_cpu.host import BLOCK_LANES, LANES
    from zellige_cpu.leaf.accuracy import LARGEST_ERRORS, OF_TWO
    from zellige_cpu.leaf.units import units

    names = tuple(t.name for t in all_dtypes())
    return Capabilities(
        target=target,
        lanes=LANES,
        are_lanes_emulated=True,
        block_lanes=BLOCK_LANES,
        threads=host.cores,
        vector_bytes=host.vector_bytes,
        cache_line_bytes=64,
        spaces=tuple(Space(name=name, alignment=64) for name in ("global", "shared", "fragment", "local", "var")),
        dtypes=names,
        compute_dtypes=tuple(t.name for t in all_dtypes() if t.is_bool or t.is_integer or t.name in ("float32", "float64")),
        matmul=tuple(_matmul_unit(u, host) for u in units(host)),
        features=tuple(sorted(host.features)),
        engines=(Engine(name="vector", kind="vector"),),
        copies=(CopyPath(source="*", destination="*", mechanism="vector moves", engine="vector", fills_out_of_bounds=True),),
        registers=RegisterFile(vectors=host.vector_registers, vector_bytes=host.vector_bytes),
        math=tuple(
            MathAccuracy(function=name, dtype="float32", strict_ulp=error, fast_ulp=error)
            for name, error in LARGEST_ERRORS.items()
            if name not in OF_TWO
        ),
    )


def _matmul_unit(unit: Unit, host: Host) -> MatmulUnit:
    """A unit in the words of planning: one that takes a word of a row is of any size, a matrix unit of whole blocks of its tiles."""
    from zellige_cpu.leaf.matrices import COLUMN_TILES, ROW_TILES

    width = unit.lanes(host)
    found = MatmulUnit(
        name=unit.name, engine="vector", a=unit.a.name, b=unit.b.name, c=unit.accumulator.name, k=unit.group, interleave=unit.group,
        vector_bytes=width * unit.word_bytes, step_registers=unit.step_registers, keeps_subnormals=unit.keeps_subnormals,
    )  # fmt: skip
    if not unit.is_matrix:
        return found
    order = "exact" if unit.accumulator.is_integer else "odd and even places apart, then both, then the sum before"
    largest = (ROW_TILES * unit.rows, COLUMN_TILES * width, unit.depth)
    return replace(found, m=unit.rows, n=width, k=unit.depth, shape="multiple", largest=largest, order=order)


class CpuBackend:
    """Compiles for the machine this process runs on."""

    API = API

    @hookimpl
    def manifest(self) -> Manifest:
        return Manifest(
            name="cpu",
            vendor="zellige",
            version=__version__,
            kind="host",
            targets=("cpu",),
            aliases=(("c", "cpu"), ("llvm", "cpu")),
            options=(),
            framework_devices=("cpu",),
            dlpack_devices=(1,),
            requirements=("llvmlite",),
            code_packages=("zellige_intrinsics",),
            compiles_in_process=True,
            loads_from_signature=True,
            acts_on=("fast_math",),
            summary="this machine's cores, by LLVM",
        )

    @hookimpl
    def probe(self) -> tuple[Device, ...] | Unavailable:
        if importlib.util.find_spec("llvmlite") is None:
            return Unavailable(code="missing-package", reason="llvmlite is not installed: pip install llvmlite")
        from zellige_cpu.host import running_host

        host = running_host()
        withheld = f"; no {', '.join(sorted(host.withheld))}: {host.withheld_because}" if host.withheld else ""
        return (Device(name=f"{host.cpu}, {host.cores} cores{withheld}", index=0, target="cpu"),)

    @hookimpl
    def describe(self, target: Target) -> Capabilities:
        from zellige_cpu.host import running_host

        return capabilities_of(running_host(), str(target))

    @hookimpl
    def begin(self, ctx: CompileContext) -> None:
        """LLVM is loaded in a process of its own while the plan is made."""
        from zellige_cpu import compiler

        compiler.begin()

    @hookimpl
    def describe_key(self, target: Target) -> str:
        from zellige_cpu.host import running_host

        host = running_host()
        return repr((host.triple, host.cpu, sorted(host.features), sorted(host.disabled), host.cores, host.memory_bytes))

    @hookimpl
    def candidates(self, operation: Operation, ctx: CompileContext) -> Sequence[Answer] | None:
        """For products what the capabilities offer, and why the other instructions of this family do not serve; for copies of loops with
        stages lines that are asked for ahead."""
        if operation.kind == "pipeline":
            from zellige_cpu.host import running_host
            from zellige_cpu.prefetch import overlaps

            return overlaps(operation, running_host())
        if operation.kind != "gemm":
            return None
        from zellige.ir.stmt import Gemm
        from zellige.plan.products import accumulator_of, offers
        from zellige_cpu.host import running_host
        from zellige_cpu.leaf.units import refusals

        gemm = operation.statement
        assert isinstance(gemm, Gemm), "an operation of the kind gemm is a product"
        types = gemm.a.buffer.dtype, gemm.b.buffer.dtype, accumulator_of(gemm)
        return offers(gemm, ctx.capabilities, refusals(running_host(), *types))

    @hookimpl
    def cache_key(self, ctx: CompileContext) -> str:
        """How the tables of instructions differ from those of the package."""
        tables = sys.modules.get("zellige_intrinsics")  # whoever changed them has loaded them
        return "" if tables is None else str(tables.stamp("cpu_x86", "cpu_arm"))

    @hookimpl
    def emit(self, planned: PlannedKernel, ctx: CompileContext) -> Emitted:
        from zellige_cpu.host import running_host
        from zellige_cpu.launch import lower
        from zellige_cpu.program import emitted

        return emitted(lower(planned, running_host(), ctx.options))

    @hookimpl
    def compile(self, emitted: Emitted) -> Binary:
        from zellige_cpu.host import running_host
        from zellige_cpu.kernel import packed_code
        from zellige_cpu.program import program_of

        return Binary(data=packed_code(program_of(emitted), running_host()), format="objects")

    @hookimpl
    def runtime(self) -> Runtime:
        from zellige_cpu.kernel import CpuRuntime

        return CpuRuntime()
