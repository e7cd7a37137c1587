"""The program of each role: its operations with the structure and scalars that they need, and what joins the roles.

In: the facts of a launch, which role holds which statement, the bound streams, and the buffers that change hands in place. Out: a body
for each role.

Streams: the producer acquires before the first statement that makes the tile and puts after the last; a consumer gets before its first
use and releases after its last. Every role runs its statements in program order, so the program order itself is a schedule that never
blocks. Shared buffers: one role at a time has the right to touch the buffer. It is handed on where the next statement in program order
belongs to another role; around a loop or branch that several roles use the buffer in, the right is with one of them at the begin and end
of every nested body, so that puts and gets balance whatever the number of iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from zellige.ir.expr import Buffer
from zellige.ir.stmt import Stmt
from zellige.ir.traverse import rebuilt
from zellige.plan.channels import Bound
from zellige.plan.facts import LaunchFacts
from zellige.plan.nodes import Acquire, Channel, Get, PlanStmt, Put, Release
from zellige.plan.roles import Assignment, is_operation
from zellige.plan.streams import LAUNCH, Place, RoleView

Program: TypeAlias = "dict[str, list[Stmt | PlanStmt]]"


class HeaderReadsShared(Exception):
    """The bounds of a loop or the condition of a branch read a buffer that changes hands: several roles would need it at once."""

    def __init__(self, buffer: Buffer) -> None:
        super().__init__(buffer.name)
        self.buffer = buffer


class Weaver:
    """Makes the programs of all roles of a launch in one walk."""

    def __init__(
        self, facts: LaunchFacts, view: RoleView, assignment: Assignment, bound: Sequence[Bound], shared: Sequence[Buffer], mechanism: str
    ) -> None:
        self._facts = facts
        self._view = view
        self._assignment = assignment
        self._shared = tuple(shared)
        self._mechanism = mechanism
        self._handovers: dict[tuple[str, str, tuple[Buffer, ...]], Channel] = {}
        self._by_place: dict[Place, list[Bound]] = {}
        for b in bound:
            self._by_place.setdefault(b.group.place, []).append(b)

    def programs(self) -> dict[str, tuple[Stmt | PlanStmt, ...]]:
        """The body of each role. Raises HeaderReadsShared."""
        holders: dict[Buffer, str] = {}
        for root in self._shared:
            first = next(use for s in self._facts.launch.body for use in self._view.uses(s, root))
            holders[root] = first[0]
        made = self._body(self._facts.launch.body, LAUNCH, holders)
        return {role: tuple(body) for role, body in made.items()}

    def handovers(self) -> tuple[Channel, ...]:
        """The channels without buffers that the programs use."""
        return tuple(self._handovers.values())

    def _body(self, body: Sequence[Stmt], place: Place, holders: dict[Buffer, str]) -> Program:
        out: Program = {role: [] for role in self._assignment.roles}
        bound = self._by_place.get(place, [])
        for position, statement in enumerate(body):
            self._before(out, bound, position)
            if is_operation(statement):
                role = self._assignment.of[id(statement)]
                self._take(out, holders, role, [r for r in self._shared if r in self._facts.roots(statement)])
                out[role].append(statement)
            elif type(statement).BODIES:
                self._structure(out, statement, holders)
            else:
                for role in self._view.roles_of(statement):
                    self._take(out, holders, role, [r for r in self._shared if r in self._facts.roots(statement)])
                    out[role].append(statement)
            self._after(out, bound, position)
        return out

    def _before(self, out: Program, bound: Sequence[Bound], position: int) -> None:
        for b in bound:
            for phase in b.group.phases:
                if phase.made[0] == position:
                    out[b.channel.producers[0]].append(Acquire(channel=b.channel))
                for role, first, _ in phase.read:
                    if first == position:
                        out[role].append(Get(channel=b.channel))

    def _after(self, out: Program, bound: Sequence[Bound], position: int) -> None:
        for b in bound:
            for phase in b.group.phases:
                if phase.made[1] == position:
                    out[b.channel.producers[0]].append(Put(channel=b.channel))
                for role, _, last in phase.read:
                    if last == position:
                        out[role].append(Release(channel=b.channel))

    def _structure(self, out: Program, statement: Stmt, holders: dict[Buffer, str]) -> None:
        header = {region.buffer.root for region in statement.reads()}
        home: dict[Buffer, str] = {}
        for root in self._shared:
            if root not in self._facts.roots(statement):
                continue
            roles = list(dict.fromkeys(role for role, _ in self._view.uses(statement, root)))
            if not roles:
                continue  # a branch with nothing in it: no role holds it
            if root in header and len(self._view.roles_of(statement)) > 1:
                raise HeaderReadsShared(root)
            home[root] = roles[0]
        for role in dict.fromkeys(home.values()):
            self._take(out, holders, role, [root for root, keeper in home.items() if keeper == role])
        nested: dict[str, Program] = {}
        for name in type(statement).BODIES:
            inside = dict(holders)
            made = self._body(getattr(statement, name), (id(statement), name), inside)
            for role in dict.fromkeys(home.values()):
                self._take(made, inside, role, [root for root, keeper in home.items() if keeper == role])
            nested[name] = made
        for role in self._view.roles_of(statement):
            out[role].append(rebuilt(statement, **{name: tuple(made[role]) for name, made in nested.items()}))

    def _take(self, out: Program, holders: dict[Buffer, str], role: str, roots: Sequence[Buffer]) -> None:
        """Hand the right to touch ``roots`` to ``role``, where another one has it."""
        from_role: dict[str, list[Buffer]] = {}
        for root in roots:
            if holders[root] != role:
                from_role.setdefault(holders[root], []).append(root)
                holders[root] = role
        for giver, given in from_role.items():
            channel = self._handover(giver, role, tuple(given))
            out[giver] += [Acquire(channel=channel), Put(channel=channel)]
            out[role] += [Get(channel=channel), Release(channel=channel)]

    def _handover(self, giver: str, taker: str, roots: tuple[Buffer, ...]) -> Channel:
        key = (giver, taker, roots)
        if key not in self._handovers:
            self._handovers[key] = Channel(
                name=f"{'_'.join(r.name for r in roots)}_from_{giver}_to_{taker}", buffers=(), orders=roots, depth=1, producers=(giver,),
                consumers=(taker,), mechanism=self._mechanism,
            )  # fmt: skip
        return self._handovers[key]
