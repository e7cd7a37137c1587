"""What planning asks of a target's capabilities, in the words of planning.

In: :class:`zellige.plugin.contract.Capabilities`. Out: a :class:`Machine`, which answers which engine, space, copy path or product unit
serves. A capability set that says nothing of engines and copies is a machine whose one role does everything in order.
"""

from __future__ import annotations

from typing import Final, Literal

from zellige.plugin.choices import Ask as Ask
from zellige.plugin.contract import Capabilities, CopyPath, Engine, MatmulUnit, Space, SpaceRole, Synchronisation
from zellige.records import dataclass

Style = Literal["ordered", "software", "specialised", "queues"]
"""How work overlaps: not at all between roles and copies (the executor may interleave), by copies in flight within one role, by roles of
lanes that run programs of their own, or by one instruction stream an engine."""

_ROLE_OF_NAME: Final[dict[str, SpaceRole]] = {
    "global": "global",
    "shared": "shared",
    "fragment": "register",
    "local": "local",
    "var": "local",
}

_SUBSTITUTES: Final[dict[SpaceRole, tuple[SpaceRole, ...]]] = {
    "shared": ("shared", "local", "register"),
    "register": ("register", "local", "shared"),
    "local": ("local", "register", "shared"),
    "accumulator": ("accumulator", "register", "local", "shared"),
    "global": ("global",),
    "": ("local", "shared", "register"),
}

_ANY: Final = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The capabilities of one target with the questions of planning."""

    capabilities: Capabilities
    ask: Ask | None = None
    """Asks the target's backend what fits an operation, before its capabilities are looked at."""

    @property
    def name(self) -> str:
        return self.capabilities.target

    @property
    def has_true_lanes(self) -> bool:
        return self.capabilities.lanes > 0 and not self.capabilities.are_lanes_emulated

    @property
    def style(self) -> Style:
        """How this machine overlaps copies with computing."""
        if self.capabilities.can_specialise_roles:
            return "specialised" if self.has_true_lanes else "queues"
        waits = any(path.is_asynchronous for path in self.capabilities.copies) and self.token_mechanism is not None
        if waits or self.has_true_lanes:  # a role of lanes runs its loops as they stand, though no copy of them may run ahead
            return "software"
        return "ordered"

    @property
    def main_engine(self) -> str:
        """The engine of a role that does everything: the first vector engine."""
        return next((e.name for e in self.capabilities.engines if e.kind == "vector"), "block")

    def engine(self, name: str) -> Engine | None:
        return next((e for e in self.capabilities.engines if e.name == name), None)

    @property
    def token_mechanism(self) -> str | None:
        return next((s.mechanism for s in self.capabilities.synchronisation if s.scope == "token"), None)

    @property
    def waits(self) -> tuple[Synchronisation, ...]:
        """What waits for copies that were issued ahead: joins of roles where those run programs of their own, else counted waits."""
        if self.style in ("specialised", "queues"):
            return () if self.channel is None else (self.channel,)
        return tuple(s for s in self.capabilities.synchronisation if s.scope == "token")

    @property
    def channel(self) -> Synchronisation | None:
        """What joins roles of a block, one that counts bytes first."""
        found = [s for s in self.capabilities.synchronisation if s.scope == "block"]
        return min(found, key=lambda s: not s.counts_bytes) if found else None

    @property
    def most_peers(self) -> int:
        """How many blocks of a cluster one copy can write to; 1 where nothing joins blocks."""
        is_joined = any(s.scope == "cluster" for s in self.capabilities.synchronisation)
        return max((path.spreads for path in self.capabilities.copies), default=1) if is_joined else 1

    def takes_turns(self, copies: int) -> bool:
        """Whether so many copies of a role can pass on whose turn it is: each has one of what the target passes turns on with."""
        return copies > 1 and any(s.scope == "turn" and (s.count is None or s.count >= copies) for s in self.capabilities.synchronisation)

    # ---- spaces ----

    @staticmethod
    def role_of(space: Space) -> SpaceRole:
        return space.role or _ROLE_OF_NAME.get(space.name, "local")

    def space(self, name: str) -> Space | None:
        return next((s for s in self.capabilities.spaces if s.name == name), None)

    @property
    def tensor_space(self) -> str:
        """What the target calls the memory that tensors lie in: "global", where it has no space of that role under another name."""
        spaces = self.capabilities.spaces
        others = (s.name for s in spaces if self.role_of(s) == "global")
        return "global" if self.space("global") is not None else next(others, "global")

    def has_written_space(self, name: str) -> bool:
        """Whether buffers that an author puts into the space ``name`` can live somewhere: a space of the language always can, a target's
        own only on targets that have it."""
        spaces = self.capabilities.spaces
        return name in _ROLE_OF_NAME or not spaces or any(s.name in (name, _ANY) for s in spaces)

    def is_of_written_role(self, space: str, written: str) -> bool:
        """Whether the target's space of this name plays the role that the language's space ``written`` has."""
        found = self.space(space)
        return found is not None and (found.name == written or self.role_of(found) == _ROLE_OF_NAME.get(written, ""))

    def space_for(self, wanted: str, engines: frozenset[str] = frozenset()) -> Space | None:
        """The space for a buffer of the language's space ``wanted`` that ``engines`` must reach: of that name where the target has it,
        else of the same role, else of a role that can stand for it. None where no space is reached by all of the engines."""
        role = _ROLE_OF_NAME.get(wanted, "")
        return self._first(wanted, role, engines)

    def _first(self, name: str, role: SpaceRole, engines: frozenset[str]) -> Space | None:
        spaces = self.capabilities.spaces
        if not spaces:
            return Space(name=name or role, role=role)
        reached = [s for s in spaces if not s.engines or engines <= set(s.engines)]
        named = next((s for s in reached if s.name == name), None)
        if named is not None:
            return named
        order = _SUBSTITUTES[role]
        fitting = [s for s in reached if self.role_of(s) in order]
        return min(fitting, key=lambda s: order.index(self.role_of(s)), default=None)

    # ---- copies and products ----

    def path(self, source: str, destination: str, *, casts: bool) -> CopyPath | None:
        """The first path between the spaces of these names that converts elements where ``casts`` asks for it."""
        for path in self.capabilities.copies:
            if path.source in (source, _ANY) and path.destination in (destination, _ANY) and (path.casts or not casts):
                return path
        return None

    def paths(self, source: str, destination: str) -> tuple[CopyPath, ...]:
        return tuple(p for p in self.capabilities.copies if p.source in (source, _ANY) and p.destination in (destination, _ANY))

    def units(self) -> tuple[MatmulUnit, ...]:
        return self.capabilities.matmul

    def is_asynchronous(self, unit: MatmulUnit) -> bool:
        return unit.is_asynchronous and self.token_mechanism is not None
