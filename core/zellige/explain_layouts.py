"""Where the elements of a planned kernel's tiles live on its target.

In: a planned kernel and its options. Out: pictures of its tiles. Backends of the family of machines with lanes hand over their
thread-level program when they are asked for a simulated target, and that program knows; of machines that work in order the plan itself
knows how operands are packed.
"""

from __future__ import annotations

from dataclasses import replace

from zellige import driver
from zellige.diagnostics import catalogue
from zellige.layouts import Banks
from zellige.layouts.pictures import TilePicture
from zellige.options import CompileOptions
from zellige.plan.nodes import PlannedKernel
from zellige.plan.pictures import packed_operands
from zellige.plugin.registry import registry
from zellige.target import SIMULATE, Target, parse_target


def pictures_of(planned: PlannedKernel, options: CompileOptions | None = None) -> tuple[TilePicture, ...]:
    """One picture a tile or packed operand, launch by launch. E440 where the target says nothing of its tiles."""
    found = (*_of_lanes(planned, options), *(p for launch in planned.launches for p in packed_operands(launch)))
    if not found:
        known = "backends of the family of machines with lanes draw tiles, of machines that work in order packed operands are drawn"
        raise catalogue.E440.error(
            planned.kernel.span, target=planned.target, what=f"where the tiles of {planned.kernel.name} live", known=known
        )
    return found


def _of_lanes(planned: PlannedKernel, options: CompileOptions | None) -> tuple[TilePicture, ...]:
    target = _simulated(parse_target(planned.target))
    if target is None:
        return ()
    from zellige.simt.simulate.kernel import SimulatedProgram
    from zellige.simt.tiles import pictures

    handle = registry().backend(target)
    with driver.internal_errors(planned.kernel, target):
        emitted = handle.emit_step(planned, handle.context(target, options or CompileOptions()))
        if not isinstance(emitted, SimulatedProgram):
            return ()
        return tuple(p for function in emitted.module.functions for p in pictures(function, Banks()))


def _simulated(target: Target) -> Target | None:
    """The target with its simulator; None where no backend of lanes serves it."""
    if target.name not in registry().target_names():
        return None
    handle = registry().backend(target)
    if not handle.can_emit or handle.describe(target).lanes < 2:
        return None
    return target if target.is_simulated else replace(target, options=(*target.options, (SIMULATE, None)))
