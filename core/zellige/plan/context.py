"""What the passes over one launch share, and the questions that several of them ask.

In: a kernel, one of its launches, a machine. Out: a :class:`Context` with the legal launch, its facts, the space of each tile and the
decisions so far; from it placements, the numbers of versions that fit (:meth:`Context.depths`), and bodies with products in flight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from zellige.analysis.bounds import Scope
from zellige.ir.expr import Buffer
from zellige.ir.stmt import Gemm, Kernel, Launch, Stmt
from zellige.passes.guarded_returns import with_structured_returns
from zellige.plan.capabilities import Machine
from zellige.plan.draft import Decisions
from zellige.plan.edges import scopes_of
from zellige.plan.facts import LaunchFacts, bytes_of
from zellige.plan.guards import without_empty_iterations
from zellige.plan.lane_points import with_lane_points
from zellige.plan.legalise import Legal, legalise
from zellige.plan.nodes import Channel, Placement, PlanStmt, Role, Token
from zellige.plan.place import Excess, Tile, place, too_large
from zellige.plan.separate import separated
from zellige.plan.spaces import block_buffers, choose_spaces
from zellige.plan.stores import DeferredStore, deferred_stores
from zellige.plan.streams import LAUNCH, Place, RoleView
from zellige.plugin.contract import Space
from zellige.records import dataclass

if TYPE_CHECKING:
    from zellige.plan.channels import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Roles, channels and placements of a launch."""

    roles: tuple[Role, ...]
    channels: tuple[Channel, ...] = ()
    placements: tuple[Placement, ...] = ()


@dataclass(slots=True, kw_only=True)
class Context:
    """One launch being planned. ``owners`` names the role of each tile that only one role touches; "" stands for none."""

    machine: Machine
    decisions: Decisions
    legal: Legal
    facts: LaunchFacts
    buffers: tuple[Buffer, ...]
    spaces: dict[Buffer, Space]
    scopes: dict[int, Scope]
    stores: tuple[DeferredStore, ...] = ()
    owners: dict[Buffer, str] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: Kernel, launch: Launch, machine: Machine) -> Context:
        """The launch with legal products and its tiles in spaces."""
        decisions = Decisions()
        busy = without_empty_iterations(kernel, with_structured_returns(launch), decisions)
        apart = separated(kernel, busy, machine, decisions)
        legal = legalise(kernel, with_lane_points(apart, decisions), machine, decisions)
        facts = LaunchFacts(kernel, legal.launch)
        buffers = block_buffers(facts)
        spaces = choose_spaces(facts, buffers, legal.products, machine, decisions)
        return cls(
            machine=machine, decisions=decisions, legal=legal, facts=facts, buffers=buffers, spaces=spaces, scopes=scopes_of(facts),
            stores=deferred_stores(facts, spaces, machine, decisions),
        )  # fmt: skip

    # ---- products in flight

    def is_asynchronous(self, gemm: Gemm) -> bool:
        """Whether the product's unit runs beside the role that starts it."""
        product = self.legal.products.get(id(gemm))
        return product is not None and product.unit is not None and self.machine.is_asynchronous(product.unit)

    def product_engine(self) -> str:
        """The engine of the first product that a unit executes."""
        return next((p.unit.engine for p in self.legal.products.values() if p.unit is not None), self.machine.main_engine)

    def in_flight(self, body: Sequence[Stmt | PlanStmt], token: Token) -> tuple[Stmt | PlanStmt, ...]:
        """``body`` with its asynchronous products started on ``token`` and waited for."""
        from zellige.plan.inflight import ProductsInFlight  # of machines whose products run beside a role

        writer = ProductsInFlight(self.facts, token, self.is_asynchronous)
        made = writer.body(body)
        if writer.loops_in_flight:
            self.decisions.take(
                "how many products are in flight?", "one across iterations",
                "the slot of an iteration is released when the product of the next has been started",
                rejected=(("none", "the unit would stand still between iterations"),),
            )  # fmt: skip
        return made if writer.started else tuple(body)

    # ---- versions and placement

    def give_up_stores(self, space: Space) -> bool:
        """Wait for stores at once, so that their tiles can share bytes; whether there were any."""
        for store in self.stores:
            self.decisions.take(
                f"when is the store of {store.tile.name} waited for?", "at once",
                f"{space.name} is too small for its tile to have bytes of its own", where=store.copy.span,
            )  # fmt: skip
        had, self.stores = bool(self.stores), ()
        return had

    def depths(
        self, groups: Sequence[Group], alone: frozenset[Buffer], extra: dict[Buffer, int], *, in_order: bool = False
    ) -> tuple[dict[Group, int], tuple[Placement, ...], dict[Buffer, int]]:
        """Versions for each group that fit, reduced one by one from what was asked for; E301 where single versions do not fit.
        ``in_order``: one role does it all, so that tiles of one version each may share bytes, where they fit only so."""
        depths = {g: g.wanted for g in groups}
        extra = dict(extra)
        while True:
            slots = {b: depths[g] for g in groups for b in g.buffers}
            placed = self.placed({**extra, **slots}, alone | frozenset(slots))
            if not isinstance(placed, Excess):
                break
            if self.give_up_stores(placed.space):
                continue
            inside = {t.buffer for t in placed.tiles}
            fewer = [b for b in extra if b in inside]
            if fewer:
                for buffer in fewer:
                    del extra[buffer]
                self.decisions.take(
                    "does a product run ahead of what uses it?",
                    "no",
                    f"two versions of {', '.join(b.name for b in fewer)} do not fit into {placed.space.name}",
                )
                continue
            if not _reduce(depths, placed, inside):
                shared = self.placed({**extra, **slots}, alone) if in_order else placed
                if isinstance(shared, Excess):
                    raise too_large(shared, self.facts, self.machine.name)
                placed = shared
                break
        for group, depth in depths.items():
            if depth < group.wanted:
                names = " and ".join(b.name for b in group.buffers)
                space = self.spaces[group.buffers[0]]
                self.decisions.take(
                    f"how many versions of {names} are there?", f"{depth} instead of {group.wanted}",
                    f"{space.name} holds {space.bytes} bytes a block, and {group.wanted} versions do not fit beside the other tiles",
                    rejected=((str(group.wanted), "too many bytes"),), where=group.loop.span if group.loop is not None else None,
                )  # fmt: skip
        return depths, placed, extra

    def placed(self, slots: Mapping[Buffer, int], alone: frozenset[Buffer]) -> tuple[Placement, ...] | Excess:
        """Placements with ``slots`` versions of each tile (by default one); tiles of ``alone`` share no bytes."""
        beside = self.touched_beside()
        tiles = [
            Tile(buffer=b, space=self.spaces[b], slots=slots.get(b, 1), is_alone=b in alone or b in beside, owner=self.owners.get(b, ""))
            for b in self.buffers
        ]
        return place(self.facts, tiles)

    def touched_beside(self) -> frozenset[Buffer]:
        """The tiles of products and stores that run beside their role: they are in use until a wait, wherever that stands."""
        gemms = [p.gemm for p in self.legal.products.values() if p.unit is not None and self.machine.is_asynchronous(p.unit)]
        return frozenset(root for gemm in gemms for root in self.facts.roots(gemm)) | {store.tile for store in self.stores}

    def own(self, view: RoleView) -> None:
        """Remember the role of each tile that only one touches."""
        for buffer in self.buffers:
            roles = {role for _, s in self.facts.users(self.facts.launch.body, buffer) for role, _ in view.uses(s, buffer)}
            self.owners[buffer] = roles.pop() if len(roles) == 1 else ""

    # ---- names and places

    def mechanism(self) -> str:
        """What joins the roles of a block, in the target's words."""
        return self.machine.channel.mechanism if self.machine.channel is not None else "order"

    def bodies(self) -> dict[Place, Sequence[Stmt]]:
        """Every body of the launch by its place."""
        found: dict[Place, Sequence[Stmt]] = {LAUNCH: self.facts.launch.body}
        pending: list[Stmt] = list(self.facts.launch.body)
        while pending:
            statement = pending.pop()
            for name in type(statement).BODIES:
                found[(id(statement), name)] = getattr(statement, name)
                pending.extend(getattr(statement, name))
        return found


def _reduce(depths: dict[Group, int], excess: Excess, inside: set[Buffer]) -> bool:
    """Take versions away, one at a time from the first of the deepest groups, until the tiles fit or each has one; whether any could go.

    Tiles with versions share no bytes, so each version less is as many bytes less as it has.
    """
    alignment = max(1, excess.space.alignment)
    there = {g: [b for b in g.buffers if b in inside] for g in depths}
    sizes = {g: sum(-(-(bytes_of(b) or 0) // alignment) * alignment for b in tiles) for g, tiles in there.items() if tiles}
    left = excess.needed - (excess.space.bytes or 0)
    had = False
    while left > 0 and (depth := max((depths[g] for g in sizes), default=1)) > 1:
        tied = [g for g in sizes if depths[g] == depth]
        below = max((depths[g] for g in sizes if depths[g] < depth), default=1)
        rounds = min((left - 1) // max(1, sum(sizes[g] for g in tied)), depth - below - 1)
        for group in tied if rounds > 0 else ():
            depths[group] -= rounds
        left -= max(0, rounds) * sum(sizes[g] for g in tied)
        for group in tied:
            if left > 0:
                depths[group] -= 1
                left -= sizes[group]
        had = True
    return had
