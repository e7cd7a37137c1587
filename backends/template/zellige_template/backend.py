"""The backend's object: what it says about itself, what its device can do, and the steps of a compilation.

In: the hooks' questions. Out: the answers of :mod:`zellige.plugin.contract`. A vendor replaces every answer: the names, the capabilities by
those of the vendor's devices, the steps by the vendor's tools. Nothing here may import a vendor's library while it is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import zellige.plugin.contract as contract
from zellige.dtypes import all_dtypes
from zellige.plugin.hooks import hookimpl
from zellige_template.expressions import has_storage
from zellige_template.instructions import LOCAL_BYTES, PRODUCT, PRODUCT_TYPES, assemble

if TYPE_CHECKING:
    from zellige.plan.nodes import PlannedKernel
    from zellige.target import Target

NAME: Final = "template"
"""The target's name."""


class TemplateBackend:
    """What the registry sees."""

    API = contract.API

    @hookimpl
    def manifest(self) -> contract.Manifest:
        return contract.Manifest(
            name=NAME,
            vendor="zellige",
            version="0.1",
            kind="reference",  # `auto` takes an accelerator that works, and never a reference
            targets=(NAME,),
            options=(),  # nothing but the name
            framework_devices=("cpu",),  # whose arrays it takes
            dlpack_devices=(1,),
            loads_from_signature=True,  # its program says all that the machine needs to know
            summary="a small machine played by NumPy, to grow a backend from",
        )

    @hookimpl
    def probe(self) -> tuple[contract.Device, ...]:
        return (contract.Device(name="the machine of the template", index=0, target=NAME),)

    @hookimpl
    def describe(self, target: Target) -> contract.Capabilities:
        m, n, k = PRODUCT
        stored = tuple(t.name for t in all_dtypes() if has_storage(t))
        return contract.Capabilities(
            target=str(target),
            threads=1,
            vector_bytes=64,
            spaces=(
                contract.Space(name="global", role="global", alignment=8),
                contract.Space(name="local", role="local", bytes=LOCAL_BYTES, alignment=64),
            ),
            dtypes=stored,
            compute_dtypes=stored,
            matmul=tuple(
                contract.MatmulUnit(name=f"product.{a}.{c}", engine="vector", a=a, b=a, c=c, m=m, n=n, k=k) for a, c in PRODUCT_TYPES
            ),
            engines=(contract.Engine(name="vector", kind="vector"), contract.Engine(name="dma", kind="copy", is_asynchronous=True)),
            copies=(
                contract.CopyPath(
                    source="global", destination="local", mechanism="dma", engine="dma", is_asynchronous=True,
                    fills_out_of_bounds=True, casts=False,
                ),
                contract.CopyPath(source="*", destination="*", mechanism="vector moves", engine="vector", fills_out_of_bounds=True),
            ),
            synchronisation=(contract.Synchronisation(mechanism="counted wait", scope="token"),),
            registers=contract.RegisterFile(vectors=32, vector_bytes=64),
        )  # fmt: skip

    @hookimpl
    def passes(self, stage: contract.PassStage, ctx: contract.CompileContext) -> tuple[contract.PassChange, ...]:
        from zellige.passes.expand_vectors import ExpandVectors

        return (contract.Insert(step=ExpandVectors()),) if stage == "legalise" else ()  # the machine has no vector types

    @hookimpl
    def emit(self, planned: PlannedKernel, ctx: contract.CompileContext) -> contract.Emitted:
        from zellige_template.lower import lower

        text, spans = lower(planned, ctx.capabilities)
        return contract.Emitted(text=text, format=f"{NAME} instructions", spans=spans)

    @hookimpl
    def compile(self, emitted: contract.Emitted, ctx: contract.CompileContext) -> contract.Binary:
        return contract.Binary(data=assemble(emitted.text), format=f"{NAME} program")

    @hookimpl
    def runtime(self, ctx: contract.CompileContext) -> contract.Runtime:
        from zellige_template.machine import Machine

        return Machine()


backend: Final = TemplateBackend()
