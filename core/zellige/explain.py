"""What the compiler decides for a kernel on a target, and why.

In: a kernel in any form that a user holds it in (a ``prim_func``, a compiled kernel, a jit function without arguments, tile IR) and a
target. Out: an :class:`Explanation`: the plan, its decisions, and their text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from zellige import driver
from zellige.diagnostics import catalogue
from zellige.frontend.arithmetic import describe
from zellige.ir.stmt import Kernel
from zellige.ir.verify import check
from zellige.layouts.pictures import TilePicture
from zellige.plan.nodes import Decision, PlannedKernel
from zellige.plan.planner import plan
from zellige.plan.report import as_dictionary, report
from zellige.plugin.contract import Capabilities, FittedKernel
from zellige.plugin.registry import registry
from zellige.target import AUTO, Target, parse_target

TEST_PREFIX: Final = "test"
"""``test:NAME`` are the capability sets that plans are tested with: machines that no backend serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The plan of a kernel for a target. Its text (``str``) names each decision, its reason and what was rejected."""

    fitted: FittedKernel

    @property
    def planned(self) -> PlannedKernel:
        """The plan as it is compiled, with what the program of lanes that was made of it says of where tiles live."""
        functions = getattr(self.fitted.program, "functions", ())
        if not any(getattr(function, "elsewhere", ()) for function in functions):
            return self.fitted.planned
        from zellige.simt.residence import as_made

        return as_made(self.fitted.planned, functions)

    def __str__(self) -> str:
        return report(self.planned)

    def __repr__(self) -> str:
        return str(self)

    def as_dictionary(self) -> dict[str, Any]:
        """The same for programs: what ``zellige explain --json`` prints."""
        return as_dictionary(self.planned)

    def program(self) -> str:
        """The planned kernel itself: the program of each role, with what joins the roles."""
        from zellige.plan.printer import print_plan

        return print_plan(self.planned)

    def layouts(self) -> tuple[TilePicture, ...]:
        """Where the elements of each tile live: in which register of which lane, at which offset and in which bank of shared memory, or in
        which packed panel. ``str`` of one prints it, ``svg()`` draws it. E440 for a target that says nothing of it."""
        from zellige.explain_layouts import pictures_of

        return pictures_of(self.fitted)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All decisions, launch by launch."""
        return tuple(decision for launch in self.planned.launches for decision in launch.decisions)

    def about(self, word: str) -> Iterator[Decision]:
        """The decisions whose question or answer holds ``word``."""
        return (d for d in self.decisions if word in d.question or word in d.chosen)


def explain(kernel: Any, target: str | Target | None = None) -> Explanation:
    """What is decided for ``kernel`` on ``target`` (by default its own, else the one that works here).

    ``test:scalar_vector_cpu``, ``test:lanes_async``, ``test:lanes_copies``, ``test:queues_cube`` and ``test:local_only`` are machines to
    compare with. Raises CompileError for a kernel that cannot be planned there, E156 for what is no kernel.
    """
    program = _kernel_of(kernel)
    if target is None:
        target = getattr(kernel, "target", None) or AUTO
    resolved, capabilities = capabilities_of(target)
    if resolved.name != TEST_PREFIX:
        return Explanation(fitted=driver.fit_kernel(program, resolved, getattr(kernel, "options", None)))
    with driver.internal_errors(program, resolved):
        check(program)
    legal = driver.legalise(program, resolved, capabilities)
    with driver.internal_errors(program, resolved):
        return Explanation(fitted=FittedKernel(planned=plan(legal, capabilities)))


def capabilities_of(target: str | Target) -> tuple[Target, Capabilities]:
    """The capabilities of a target, or of a test set ``test:NAME``. Raises as :meth:`zellige.plugin.registry.Registry.resolve`."""
    written = parse_target(target)
    if written.name == TEST_PREFIX:
        from zellige.plan.invented_machines import TEST_TARGETS

        if written.arch in TEST_TARGETS:
            return written, TEST_TARGETS[written.arch]
    resolved = registry().resolve(target)
    return resolved, registry().backend(resolved).describe(resolved)


def _kernel_of(value: Any) -> Kernel:
    if isinstance(value, Kernel):
        return value
    inner = getattr(value, "kernel", None)
    if isinstance(inner, Kernel):
        return inner
    traced = getattr(value, "get_tir", None)
    if callable(traced):
        return _kernel_of(traced())
    hint = "pass a prim_func, a compiled kernel or a jit function without arguments"
    raise catalogue.E156.error(function="zl.explain", given=describe(value), hint=hint)
