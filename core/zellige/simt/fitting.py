"""Plans that the family can lower: launches with roles where products run beside the lanes, and stages that fit shared memory.

In: a verified plan, what was asked for before, the machine for given capabilities. Out: the answer of a backend's hook ``fit``
(:mod:`zellige.plugin.fit`): revisions, or the :class:`~zellige.simt.ir.Module` of a plan that stands.

A launch is planned without roles first. On a machine that can do more in blocks whose warps run programs of their own, launches with
products are planned for that; where the family does not lower what comes out, they get their plan of one role back, with the reason.

Planning counts the elements of tiles; rows padded against conflicts of banks, fragments that cannot stay in registers, barriers and the
memory of single operations come on top. Where those do not fit, a launch is planned for that much less than its tiles take, so that it gets
fewer stages, in the end one version of each tile. Where that does not help, a launch of roles gets one role, and one of one role rows
without gaps. What does not fit then is E301: of the plan that was made first, since its tiles are the author's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from zellige.diagnostics import catalogue
from zellige.ir.stmt import Gemm
from zellige.ir.traverse import walk
from zellige.plan.nodes import Decision, PlannedKernel, PlannedLaunch
from zellige.plugin.contract import Capabilities, Space
from zellige.plugin.fit import Asked, Fitted, Revision, capabilities_of
from zellige.records import dataclass
from zellige.simt.engine_tiles import NotLowered
from zellige.simt.ir import Function, Module
from zellige.simt.lower import Overfull, lower_launch
from zellige.simt.machine import LaneMachine, refuse_odd_lanes

ATTEMPTS: Final = 4
"""Plans that are tried of one launch with roles, and of one without: what one gives up in stages it may take in padding."""

_NO_ROOM: Final = "its tiles, as engines store them, do not fit into shared memory"
_PRODUCTS_BESIDE: Final = "its products and copies run beside the lanes that ask for them"
_NOTHING_BESIDE: Final = "none of its products runs beside the lanes"
_UNSUITED: Final = "it is for tensors whose addresses do not suit the engine that copies boxes"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFit:
    """Answers the hook ``fit`` for one compilation.

    ``capabilities`` are the target's, ``machine`` gives the machine for those and for others that plans are made for. ``richer`` are the
    capabilities of blocks whose warps run programs of their own (None: the target has no such blocks, or its own capabilities say so
    already), ``refused`` why the user's options rule them out (None: they do not). ``has_boxes_refused``: tensors may come at addresses
    that a launch of roles cannot serve, so a second plan without roles is wanted. ``synchronises`` False: the author places every barrier
    of lane code.
    """

    capabilities: Capabilities
    machine: Callable[[Capabilities], LaneMachine]
    richer: Capabilities | None = None
    refused: str | None = None
    has_boxes_refused: bool = False
    synchronises: bool = True

    def __call__(self, planned: PlannedKernel, asked: Sequence[Asked]) -> tuple[Revision, ...] | Fitted:
        """What is to be planned again, else the module. Raises E301, E703 for lanes
        that the family has no program for, and Unsupported (E410) for what it does not lower."""
        refuse_odd_lanes(self.machine(self.capabilities))
        launches = [_Launch(self, planned, index, tuple(asked)) for index in range(len(planned.launches))]
        wanted = tuple(revision for launch in launches if (revision := launch.of_roles()) is not None)
        if wanted:
            return wanted
        made = [launch.lowered() for launch in launches]
        wanted = tuple(found for found in made if isinstance(found, Revision))
        if wanted:
            return wanted
        module = Module(name=planned.kernel.name, functions=tuple(found for found in made if isinstance(found, Function)))
        if not self.has_boxes_refused or all(len(launch.roles) == 1 for launch in planned.launches):
            return Fitted(program=module)
        otherwise = (Revision(launch=i, decisions=(_about_roles("no", _UNSUITED),)) for i in range(len(launches)))
        return Fitted(program=module, otherwise=tuple(otherwise))


@dataclass(frozen=True, slots=True)
class _Launch:
    """One launch in one round."""

    fit: LaneFit
    kernel: PlannedKernel
    index: int
    asked: tuple[Asked, ...]

    @property
    def planned(self) -> PlannedLaunch:
        return self.kernel.launches[self.index]

    @property
    def given(self) -> Capabilities:
        """What it is planned for now."""
        return capabilities_of(self.index, self.asked, self.fit.capabilities)

    @property
    def mine(self) -> tuple[Asked, ...]:
        return tuple(a for a in self.asked if a.revision.launch == self.index)

    # ---- roles ----

    def of_roles(self) -> Revision | None:
        """The next step of the decision whether the launch has roles; None where there is none, as far as lowering is not needed for it."""
        richer = self.fit.richer
        if richer is None:
            return None
        if not self.mine:
            return self._first_of_roles(richer)
        last = self.mine[-1]
        if last.error is not None and self._decided_on(last.revision) == "yes":
            if len(self.mine) > 1 or last.error.code == catalogue.E301.id:
                return self._one_role(_NO_ROOM)
            return self._one_role(f"it cannot be planned with roles: {last.error.diagnostics[0].message}")
        if not self._is_tried:
            return None
        units = {unit.name for unit in richer.matmul if unit.is_asynchronous}
        if not any(choice.unit in units for choice in self.planned.choices):
            return self._one_role(_NOTHING_BESIDE)
        if len(self.planned.roles) == 1:
            return self._one_role(_reason(self.planned) or "one role does it all")
        return None

    def _first_of_roles(self, richer: Capabilities) -> Revision:
        """What the plan without roles says: whether it is worth another."""
        if self.fit.refused is not None:
            return self._one_role(self.fit.refused)
        if not any(isinstance(node, Gemm) for node in walk(self.planned.launch)):
            return self._one_role(_NOTHING_BESIDE)
        return Revision(launch=self.index, decisions=(_about_roles("yes", _PRODUCTS_BESIDE),), capabilities=richer)

    @property
    def _is_tried(self) -> bool:
        """Whether the launch is planned for roles now."""
        return self.fit.richer is not None and self.given.can_specialise_roles

    def _one_role(self, because: str) -> Revision:
        """One role for the launch, planned anew where it has a plan for roles."""
        capabilities = self.fit.capabilities if self._is_tried else None
        return Revision(launch=self.index, decisions=(_about_roles("no", because),), capabilities=capabilities)

    @staticmethod
    def _decided_on(revision: Revision) -> str:
        return next((d.chosen for d in revision.decisions if d.topic == "programs"), "")

    # ---- lowering ----

    def lowered(self) -> Function | Revision:
        """The launch's function, or what is to be planned instead."""
        try:
            return self._function(self.planned)
        except NotLowered as reason:
            return self._one_role(str(reason))
        except Overfull as found:
            again = self._for_less(found.excess)
            if again is not None:
                return again
            if self._is_tried:
                return self._one_role(_NO_ROOM)
            with suppress(Overfull):
                return self._function(self.planned, has_gaps=False)
            first = next((a.planned for a in self.mine if _is_about_memory(a.revision)), self.planned)
            if first is not self.planned:
                self._function(first)
            raise

    def _function(self, planned: PlannedLaunch, *, has_gaps: bool = True) -> Function:
        machine = self.fit.machine(self.given)
        synchronises = self.fit.synchronises
        return lower_launch(self.kernel.kernel, planned, machine, self.index, synchronises=synchronises, has_gaps=has_gaps)

    def _for_less(self, excess: int) -> Revision | None:
        """The launch planned for so many bytes less than its plan takes; None where that has been tried enough, or found not to fit.

        What is left is counted from the plan's own tiles, not from what they could have had: where the memory beside them is large, a plan
        has room to spare and would stay as it is. While tiles have versions to give up, it is never less than one of each takes; the last
        attempt leaves just that.
        """
        tried = [a for a in self.mine if _is_about_memory(a.revision) and self._decided_on(a.revision) == self._of_now]
        if len(tried) >= ATTEMPTS - 1 or (tried and tried[-1].error is not None):
            return None
        given = _shared_bytes(self.given)
        if given is None:
            return None
        taken, least = _planned_bytes(self.planned, self.given)
        left = min(given, taken) - excess
        if least < taken:
            left = least if len(tried) == ATTEMPTS - 2 else max(left, least)
        if left <= 0:
            return None
        beside = "padded rows, fragments that are not kept in registers and the memory of operations"
        because = f"with {beside}, a plan of {taken} bytes of tiles takes {excess} bytes too many"
        kept = self.mine[-1].revision.decisions if self.mine else ()
        memory = Decision(question="how much shared memory do tiles get?", chosen=f"{left} bytes", because=because, topic="memory")
        decisions = (*(d for d in kept if d.topic != "memory"), memory)
        return Revision(launch=self.index, decisions=decisions, capabilities=with_less(self.given, given - left))

    @property
    def _of_now(self) -> str:
        return self._decided_on(self.mine[-1].revision) if self.mine else ""


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


def _shared_bytes(capabilities: Capabilities) -> int | None:
    return next((space.bytes for space in capabilities.spaces if is_shared(space)), None)


def _planned_bytes(planned: PlannedLaunch, capabilities: Capabilities) -> tuple[int, int]:
    """The bytes of shared memory that the tiles of a plan take, and what they would take with one version of each."""
    shared = {space.name for space in capabilities.spaces if is_shared(space)}
    tiles = [placement for placement in planned.placements if placement.space in shared]
    taken = max((tile.offset + tile.bytes * tile.slots for tile in tiles), default=0)
    return taken, taken - sum(tile.bytes * (tile.slots - 1) for tile in tiles)


def _is_about_memory(revision: Revision) -> bool:
    return any(decision.topic == "memory" for decision in revision.decisions)


def _reason(planned: PlannedLaunch) -> str | None:
    """Why the planner gave the launch one role."""
    return next((d.because for d in planned.decisions if d.topic == "roles"), None)


def _about_roles(chosen: str, because: str) -> Decision:
    return Decision(question="do parts of the block run programs of their own?", chosen=chosen, because=because, topic="programs")
