"""The steps of a compilation: which implementations fit, programs for roles, the text, the cubin.

In: what the hooks of the same names are asked (:data:`zellige_cuda.backend`). Out: their answers. Loaded when a kernel is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from zellige.diagnostics import catalogue
from zellige.diagnostics.warn import warn
from zellige.ir.stmt import Gemm
from zellige.pass_configs import PassConfigKey, switch
from zellige.plan.candidates import with_refused
from zellige.plan.products import offers
from zellige.plugin.contract import Answer, Asked, Binary, CompileContext, Emitted, Fitted, FittedKernel, Operation, Revision
from zellige.simt.fitting import LaneFit
from zellige.simt.ir import Module
from zellige.simt.printer import print_module
from zellige_cuda import WITHOUT_ENGINES
from zellige_cuda.compiler import compile_cubin, compile_for_occupancy, usage_of
from zellige_cuda.describe import architecture_of, lane_machine, role_capabilities
from zellige_cuda.facts import either, facts_of, functions_of
from zellige_cuda.forms import overlap_refusals, refusals
from zellige_cuda.spelling import CudaSpelling

if TYPE_CHECKING:
    from zellige.options import CompileOptions
    from zellige.plan.nodes import PlannedKernel


def candidates(operation: Operation, ctx: CompileContext) -> Sequence[Answer]:
    """For products what the capabilities offer, and which other products of the table would take the operands; for copies of loops with
    stages the same of what copies beside the lanes and what waits for it."""
    if operation.kind == "pipeline":
        return with_refused(operation.offered, overlap_refusals(architecture_of(ctx.target)))
    gemm = operation.statement
    assert isinstance(gemm, Gemm), "an operation of the kind gemm is a product"
    arch = architecture_of(ctx.target)
    return offers(gemm, ctx.capabilities, refusals(arch, gemm.a.buffer.dtype, gemm.b.buffer.dtype))


def fit(planned: PlannedKernel, asked: Sequence[Asked], ctx: CompileContext) -> Sequence[Revision] | Fitted:
    """Roles for launches that engines serve, stages that fit; a second plan for tensors whose addresses do not suit boxes."""
    arch = architecture_of(ctx.target)
    lanes = LaneFit(
        capabilities=ctx.capabilities, machine=partial(lane_machine, arch), richer=role_capabilities(arch, ctx.capabilities),
        refused=_without_roles(ctx.options), has_boxes_refused=not ctx.target.is_simulated,
        synchronises=ctx.options.synchronise_shared,
    )  # fmt: skip
    return lanes(planned, asked)


def emit(planned: PlannedKernel, ctx: CompileContext, fitted: FittedKernel) -> Emitted:
    """CUDA C++ and what a launch must know beside the code; the same programs for the simulator where the target asks for it."""
    arch = architecture_of(ctx.target)
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


def compiled(emitted: Emitted, ctx: CompileContext) -> Binary:
    """The cubin; registers that the compiler keeps in memory are told of."""
    if ctx.target.is_simulated:
        from zellige.simt.simulate.kernel import simulated_binary

        return simulated_binary(emitted)
    arch = architecture_of(ctx.target)
    functions, flags = functions_of(emitted), ctx.options.compile_flags
    if len(functions) == 1:
        first = functions[0]
        cubin, log = compile_for_occupancy(emitted.text, "kernel", arch, first["threads"], first["shared"], flags)
    else:
        cubin, log = compile_cubin(emitted.text, "kernel", arch.name, flags)
    _report_memory(log, {f["name"]: f["arrays"] for f in functions})
    return Binary(data=cubin, format="cubin", log=log)


def _report_memory(log: str, arrays: Mapping[str, Sequence[tuple[str, int]]]) -> None:
    """Warn of registers that the compiler keeps in memory, and of the lanes' own arrays that it does: ``arrays`` of each kernel, by name
    and size, are those that it may."""
    for name, used in usage_of(log).items():
        if used.spilled_bytes:
            warn(catalogue.E503.diagnose(kernel=name, bytes=used.spilled_bytes, registers=used.registers, severity="warning"))
        kept = arrays.get(name, ())
        if kept and used.array_bytes >= min(size for _, size in kept):
            names = ", ".join(array for array, _ in kept)
            warn(catalogue.E505.diagnose(kernel=name, bytes=used.array_bytes, arrays=names, severity="warning"))


def _without_roles(options: CompileOptions) -> str | None:
    """Which option of the user's rules out programs for roles, as a reason; None where none does."""
    found = [key for key, value in options.backend_configs if key in WITHOUT_ENGINES and switch(key, value)]
    if not options.specialise:
        found.append(str(PassConfigKey.TL_DISABLE_WARP_SPECIALIZED))
    return f"{' and '.join(found)} rules them out" if found else None
