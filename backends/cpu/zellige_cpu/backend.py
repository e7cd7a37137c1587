"""The CPU backend's object: what it says about itself and how it compiles.

In: the hooks' questions. Out: the answers of :mod:`zellige.plugin.contract`. llvmlite is loaded when a device is asked for or a kernel
compiled.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from zellige.dtypes import all_dtypes
from zellige.plugin.contract import (
    API,
    Binary,
    Capabilities,
    CompileContext,
    CopyPath,
    Device,
    Emitted,
    Engine,
    Manifest,
    MatmulUnit,
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


def product_units(host: Host) -> tuple[MatmulUnit, ...]:
    """The products that this machine's vector instructions execute: multiply-add, and dot products of pairs and quads where it has them."""
    units = [MatmulUnit(name="multiply-add", engine="vector", a=t, b=t, c=t) for t in ("float32", "float64", "int32")]
    if "avx512bf16" in host.features:
        units.append(MatmulUnit(name="pair dot", engine="vector", a="bfloat16", b="bfloat16", c="float32", k=2, interleave=2))
    if "avx512vnni" in host.features:
        units += [MatmulUnit(name="quad dot", engine="vector", a=a, b="int8", c="int32", k=4, interleave=4) for a in ("uint8", "int8")]
    return tuple(units)


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
            framework_devices=("cpu",),
            dlpack_devices=(1,),
            requirements=("llvmlite",),
            summary="this machine's cores, by LLVM",
        )

    @hookimpl
    def probe(self) -> tuple[Device, ...] | Unavailable:
        if importlib.util.find_spec("llvmlite") is None:
            return Unavailable(code="missing-package", reason="llvmlite is not installed")
        from zellige_cpu.host import running_host

        host = running_host()
        return (Device(name=f"{host.cpu}, {host.cores} cores", index=0, target="cpu"),)

    @hookimpl
    def describe(self, target: Target) -> Capabilities:
        from zellige_cpu.host import LANES, running_host

        host = running_host()
        names = tuple(t.name for t in all_dtypes())
        return Capabilities(
            target=str(target),
            lanes=LANES,
            are_lanes_emulated=True,
            threads=host.cores,
            vector_bytes=host.vector_bytes,
            cache_line_bytes=64,
            spaces=tuple(Space(name=name, alignment=64) for name in ("global", "shared", "fragment", "local", "var")),
            dtypes=names,
            compute_dtypes=tuple(t.name for t in all_dtypes() if t.is_bool or t.is_integer or t.name in ("float32", "float64")),
            matmul=product_units(host),
            features=tuple(sorted(host.features)),
            engines=(Engine(name="vector", kind="vector"),),
            copies=(CopyPath(source="*", destination="*", mechanism="vector moves", engine="vector", fills_out_of_bounds=True),),
            registers=RegisterFile(vectors=host.vector_registers, vector_bytes=host.vector_bytes),
        )

    @hookimpl
    def emit(self, planned: PlannedKernel, ctx: CompileContext) -> Emitted:
        from zellige_cpu.host import running_host
        from zellige_cpu.launch import lower
        from zellige_cpu.program import emitted

        return emitted(lower(planned.kernel, running_host(), ctx.options))

    @hookimpl
    def compile(self, emitted: Emitted) -> Binary:
        from zellige_cpu import jit
        from zellige_cpu.host import running_host

        return Binary(data=jit.compile_object(emitted.text, running_host()), format="object")

    @hookimpl
    def runtime(self) -> Runtime:
        from zellige_cpu.kernel import CpuRuntime

        return CpuRuntime()
