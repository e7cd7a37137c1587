"""From a prim_func to a compiled kernel, or to everything that its compilation needs.

In: a :class:`~zellige.frontend.primfunc.PrimFunc`, options. Out: :class:`Prepared`; what published kernels get wrong is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from zellige.analysis.lint import lint
from zellige.cache.remarks import is_unremarkable, note_unremarkable
from zellige.diagnostics import CompileError, catalogue
from zellige.diagnostics.warn import warn
from zellige.frontend import arithmetic
from zellige.frontend.primfunc import PrimFunc
from zellige.frontend.results import name_outputs
from zellige.ir.stmt import Kernel
from zellige.jit_options import JITOptions
from zellige.kernel import JITKernel
from zellige.options import CompileOptions
from zellige.plugin.choices import changes_parameters
from zellige.target import Target


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A traced kernel and all that its compilation needs: everything that one configuration of a jit function comes to."""

    kernel: Kernel
    target: Target
    options: CompileOptions
    prim_func: PrimFunc
    device: str | int | None = None

    def compiled(self) -> JITKernel:
        return JITKernel(self.kernel, self.target, self.options, prim_func=self.prim_func, device=self.device)


def prepare(func: Any, options: JITOptions, device: str | int | None = None) -> Prepared:
    """What ``options`` make of a prim_func, with its mistakes reported. E156: not a prim_func."""
    if not isinstance(func, PrimFunc):
        raise catalogue.E156.error(function="zl.compile", given=arithmetic.describe(func))
    kernel = name_outputs(func.kernel, options.out_idx)
    _report(kernel)
    target = options.resolved_target()
    chosen = options.compile_options(func.settings, target)
    if callable(chosen.schedule) and changes_parameters(chosen.schedule):
        kernel, chosen = chosen.schedule(kernel), replace(chosen, schedule=None)  # before its arguments are laid out
    return Prepared(kernel=kernel, target=target, options=chosen, prim_func=func, device=device)


def _report(kernel: Kernel) -> None:
    """Shows what published kernels get wrong: warnings where the kernel may be meant so, an error where it cannot."""
    if is_unremarkable(kernel):
        return
    found = lint(kernel)
    if not found:
        note_unremarkable(kernel)
    errors = [d for d in found if d.severity == "error"]
    if errors:
        raise CompileError(*errors)
    for diagnostic in found:
        warn(diagnostic)


def in_parallel(
    jobs: Sequence[Callable[[], JITKernel]], num_workers: int | None, ignore_error: bool
) -> list[JITKernel | None]:
    """What the jobs make, in their order, some at the same time. With ``ignore_error`` a CompileError gives None and a warning."""

    def attempt(job: Callable[[], JITKernel]) -> JITKernel | None:
        try:
            return job()
        except CompileError as error:
            if not ignore_error:
                raise
            warn(replace(error.diagnostics[0], severity="warning"))
            return None

    if not jobs:
        return []
    with ThreadPoolExecutor(num_workers or min(len(jobs), 8), "zellige-compile") as pool:
        return list(pool.map(attempt, jobs))
