"""A pass of the stage "sync": launches whose products run beside the lanes get roles of their own, where the family lowers them.

In: a plan made without roles. Out: the same plan, or launches planned anew for what the machine can do beyond (a producer that asks for
boxes, consumers that start products), each with the decision and its reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from zellige.diagnostics import CompileError, catalogue
from zellige.plan.nodes import Decision, PlannedKernel, PlannedLaunch
from zellige.plan.planner import plan
from zellige.plugin.contract import Capabilities
from zellige.simt.fitting import with_less
from zellige.simt.lower import LaunchLowering, Overfull
from zellige.simt.machine import LaneMachine
from zellige.simt.roles import why_not_lowered

ATTEMPTS = 3
"""Plans that are tried for less memory each."""

NEAR_LIMIT = 16 * 1024
"""Bytes that barriers, alignment and the memory of single operations may take beside the tiles."""

QUESTION = "do parts of the block run programs of their own?"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChooseRoles:
    """``capabilities`` with roles, and the machine to lower for. ``refused``: why the user's options rule them out (None: they do not)."""

    capabilities: Capabilities
    machine: LaneMachine
    refused: str | None = None
    name: str = "choose-roles"

    def __call__(self, planned: PlannedKernel) -> PlannedKernel:
        if self.refused is not None:
            return _with_decisions(planned, self.refused)
        richer = self._fitting(planned)
        if isinstance(richer, str):
            return _with_decisions(planned, richer)
        launches = []
        for index, (plain, rich) in enumerate(zip(planned.launches, richer.launches)):
            reason = self._why_plain(planned, rich, index)
            launches.append(_decided(plain, "no", reason) if reason is not None else _decided(rich, "yes", _PRODUCTS_BESIDE))
        return replace(planned, launches=tuple(launches))

    def _fitting(self, planned: PlannedKernel) -> PlannedKernel | str:
        """The plan with roles, made again for less memory where barriers and the storage of engines need more than it left; the reason
        why there is none where that does not help."""
        spare = 0
        for _ in range(ATTEMPTS):
            try:
                richer = plan(planned.kernel, with_less(self.capabilities, spare))
            except CompileError as error:
                return _NO_ROOM if error.code == catalogue.E301.id else f"it cannot be planned with roles: {error.diagnostics[0].message}"
            excess = max((self._excess(planned, launch, index) for index, launch in enumerate(richer.launches)), default=0)
            if not excess:
                return richer
            spare += excess
        return _NO_ROOM

    def _excess(self, planned: PlannedKernel, launch: PlannedLaunch, index: int) -> int:
        """Bytes that the program of a launch of roles needs beyond what a block has; looked at where the plan leaves little."""
        used = sum(p.bytes * p.slots for p in launch.placements if p.space == "shared")
        lowering = LaunchLowering(planned.kernel, launch, self.machine, index, synchronises=True)
        if len(launch.roles) == 1 or used + NEAR_LIMIT < self.machine.shared_bytes or why_not_lowered(launch, lowering) is not None:
            return 0
        try:
            LaunchLowering(planned.kernel, launch, self.machine, index, synchronises=True).function()
        except Overfull as found:
            return found.excess
        return 0

    def _why_plain(self, planned: PlannedKernel, rich: PlannedLaunch, index: int) -> str | None:
        """Why the launch keeps its plan of one role."""
        units = {unit.name for unit in self.capabilities.matmul if unit.is_asynchronous}
        if not any(choice.unit in units for choice in rich.choices):
            return "none of its products runs beside the lanes"
        if len(rich.roles) == 1:
            return next((d.because for d in rich.decisions if d.question == "which roles does a block have?"), "one role does it all")
        return why_not_lowered(rich, LaunchLowering(planned.kernel, rich, self.machine, index, synchronises=True))


_NO_ROOM = "its tiles, as engines store them, do not fit into shared memory"
_PRODUCTS_BESIDE = "its products and copies run beside the lanes that ask for them"


def _decided(launch: PlannedLaunch, chosen: str, because: str) -> PlannedLaunch:
    decision = Decision(question=QUESTION, chosen=chosen, because=because)
    return replace(launch, decisions=(*launch.decisions, decision))


def _with_decisions(planned: PlannedKernel, because: str) -> PlannedKernel:
    return replace(planned, launches=tuple(_decided(launch, "no", because) for launch in planned.launches))
