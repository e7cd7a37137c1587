"""Plans made again where the program needs more shared memory than the plan counted.

In: a planned kernel, the machine and the capabilities that it was planned for. Out: its module. Planning counts the elements of tiles; rows
that are padded against conflicts of banks and the memory of single operations come on top. Where those do not fit, the kernel is planned
for that much less, so that it gets fewer stages, and the plan says so. Raises E301 where that does not help.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zellige.diagnostics import CompileError, catalogue
from zellige.plan.nodes import Decision, PlannedKernel
from zellige.plan.planner import plan
from zellige.plugin.contract import Capabilities, Space
from zellige.simt.ir import Module
from zellige.simt.lower import Overfull, lower
from zellige.simt.machine import LaneMachine

ATTEMPTS: Final = 4
"""Plans that are tried: what one gives up in stages it may take in padding."""

QUESTION: Final = "how much shared memory do tiles get?"


def lower_to_fit(planned: PlannedKernel, machine: LaneMachine, capabilities: Capabilities, *, synchronises: bool = True) -> Module:
    """The module of the plan, or of one for less memory. Launches of several roles are lowered as they are planned."""
    spare, current = 0, planned
    first: Overfull | None = None
    for _ in range(ATTEMPTS):
        try:
            return lower(current, machine, synchronises=synchronises)
        except Overfull as found:
            first = first or found
            spare += found.excess
        again = None if any(len(launch.roles) > 1 for launch in planned.launches) else _planned_for_less(planned, capabilities, spare)
        if again is None:
            break
        current = again
    assert first is not None
    raise first


def with_less(capabilities: Capabilities, spare: int) -> Capabilities:
    """The capabilities with ``spare`` bytes less of shared memory."""
    spaces = (
        replace(space, bytes=space.bytes - spare) if is_shared(space) and space.bytes is not None else space
        for space in capabilities.spaces
    )
    return replace(capabilities, spaces=tuple(spaces))


def is_shared(space: Space) -> bool:
    """Whether a space is the shared memory of a block; one that gives no role has that of its name."""
    return (space.role or space.name) == "shared"


def _planned_for_less(planned: PlannedKernel, capabilities: Capabilities, spare: int) -> PlannedKernel | None:
    """The kernel planned for ``spare`` bytes less; None where it does not fit them."""
    less = with_less(capabilities, spare)
    left = next((space.bytes for space in less.spaces if is_shared(space)), None)
    if left is None or left <= 0:
        return None
    try:
        again = plan(planned.kernel, less)
    except CompileError as error:
        if error.code != catalogue.E301.id:
            raise
        return None
    because = f"padded rows and the memory of operations need {spare} bytes more than the plan for all of it left"
    decision = Decision(question=QUESTION, chosen=f"{left} bytes", because=because)
    launches = tuple(replace(launch, decisions=(*launch.decisions, decision)) for launch in again.launches)
    return replace(again, launches=launches)
