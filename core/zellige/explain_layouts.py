"""Where the elements of a planned kernel's tiles live on its target.

In: a fitted kernel. Out: pictures of its tiles. Backends of the family of machines with lanes have made a thread-level program of the plan,
and that program knows; of machines that work in order the plan itself knows how operands are packed.
"""

from __future__ import annotations

from zellige.diagnostics import catalogue
from zellige.layouts import Banks
from zellige.layouts.pictures import TilePicture
from zellige.plan.pictures import packed_operands
from zellige.plugin.contract import FittedKernel


def pictures_of(fitted: FittedKernel) -> tuple[TilePicture, ...]:
    """One picture a tile or packed operand, launch by launch; none of a kernel for lanes that has no tiles. E440 where the target says
    nothing of them."""
    planned = fitted.planned
    of_lanes = _of_lanes(fitted)
    found = (*(of_lanes or ()), *(p for launch in planned.launches for p in packed_operands(launch)))
    if not found and of_lanes is None:
        known = "backends of the family of machines with lanes draw tiles, of machines that work in order packed operands are drawn"
        raise catalogue.E440.error(
            planned.kernel.span, target=planned.target, what=f"where the tiles of {planned.kernel.name} live", known=known
        )
    return found


def _of_lanes(fitted: FittedKernel) -> tuple[TilePicture, ...] | None:
    """The tiles of a thread-level program; None where there is no such program."""
    if fitted.program is None:
        return None
    from zellige.simt.ir import Module
    from zellige.simt.tiles import pictures

    if not isinstance(fitted.program, Module):
        return None
    return tuple(p for function in fitted.program.functions for p in pictures(function, Banks()))
