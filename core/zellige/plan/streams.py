"""Which buffers can pass from role to role as a stream of versions, and which change hands in place.

In: the facts of a launch and the role of each operation. Out: for each buffer that several roles touch a :class:`Stream` or its name
among the shared.

A buffer is a stream where one role makes its content and others only read it: all its uses stand in one body, in phases (the maker's
statements, then the readers'), and each phase begins with a statement that overwrites all of it, so that no content lives from one phase
into the next. Everything else that several roles touch has one version, and the right to touch it is handed on in program order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from zellige.ir.expr import Buffer, Var
from zellige.ir.stmt import Alloc, Assume, For, Map, Stmt
from zellige.ir.traverse import walk
from zellige.plan.facts import LaunchFacts, statements_in
from zellige.plan.roles import Assignment, is_operation, operations_of
from zellige.records import dataclass

Place: TypeAlias = tuple[int, str]
"""A body: the identity of its owner (the launch's is 0) and the field's name."""

LAUNCH: Place = (0, "body")


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Positions in a body: the maker's first and last statement, and of each reader the first and last."""

    made: tuple[int, int]
    read: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """``buffer`` goes from ``producer`` to ``consumers`` in ``place``, the body of ``loop`` where that is a loop."""

    buffer: Buffer
    place: Place
    loop: For | None
    producer: str
    consumers: tuple[str, ...]
    phases: tuple[Phase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """``streams``; ``shared`` are the other buffers of several roles; ``reasons`` say why each of those is no stream."""

    streams: tuple[Stream, ...]
    shared: tuple[Buffer, ...]
    reasons: Mapping[Buffer, str]


class RoleView:
    """Which roles run which statements: operations in their own role, structure and scalars in every role that needs them.

    ``foreign`` are the variables that a role needs and an operation of another role gives their value: such roles cannot be apart.
    """

    def __init__(self, facts: LaunchFacts, assignment: Assignment) -> None:
        self._facts = facts
        self._assignment = assignment
        self.kept: dict[str, set[int]] = {}
        self._uses: dict[int, dict[Buffer, dict[tuple[str, bool], None]]] = {}
        needed: dict[str, set[Var]] = {}
        for role in assignment.roles:
            self.kept[role], needed[role] = _kept(facts, assignment, role)
        self.foreign: dict[str, frozenset[Var]] = _foreign(facts, assignment, needed)

    def roles_of(self, statement: Stmt) -> tuple[str, ...]:
        """The roles that hold the statement, in the order of the assignment."""
        return tuple(role for role in self._assignment.roles if id(statement) in self.kept[role])

    def computed(self, role: str) -> frozenset[Var | Buffer]:
        """What a role's control depends on and the launch computes: buffers that its scalars, loops and branches read and something
        writes, with the variables that get their values."""
        changed = {a.root for s in self._facts.launch.body for a in self._facts.accesses(s) if a.changes}
        found: set[Var | Buffer] = set()
        for statement in statements_in(self._facts.launch.body):
            if id(statement) not in self.kept[role] or is_operation(statement):
                continue
            read = {r.buffer.root for r in statement.reads()} & changed
            if read:
                found |= read
                found |= set() if type(statement).BODIES else self._facts.assigned(statement)
        return frozenset(found)

    def uses(self, statement: Stmt, root: Buffer) -> list[tuple[str, bool]]:
        """(role, writes) of each use of ``root`` under the statement, in program order, once each."""
        found = self._uses.get(id(statement))
        if found is None:
            found = self._uses[id(statement)] = self._uses_of(statement)
        return list(found.get(root, ()))

    def _uses_of(self, statement: Stmt) -> dict[Buffer, dict[tuple[str, bool], None]]:
        found: dict[Buffer, dict[tuple[str, bool], None]] = {}
        pending: list[Stmt] = [statement]
        while pending:
            top = pending.pop()
            if is_operation(top):
                for access in self._facts.accesses(top):
                    found.setdefault(access.root, {}).setdefault((self._assignment.of[id(top)], access.changes))
                continue
            for region in top.reads():
                for role in self.roles_of(top):
                    found.setdefault(region.buffer.root, {}).setdefault((role, False))
            for name in reversed(type(top).BODIES):
                pending.extend(reversed(getattr(top, name)))
        return found


def _foreign(facts: LaunchFacts, assignment: Assignment, needed: Mapping[str, set[Var]]) -> dict[str, frozenset[Var]]:
    given: dict[str, set[Var]] = {role: set() for role in needed}
    for operation in operations_of(facts.launch.body):
        outer = facts.assigned(operation) & facts.outer(operation)
        given[assignment.of[id(operation)]] |= outer
    return {role: frozenset(v for other, made in given.items() if other != role for v in made & wanted) for role, wanted in needed.items()}


def _kept(facts: LaunchFacts, assignment: Assignment, role: str) -> tuple[set[int], set[Var]]:
    """The identities of the statements that a role holds (its operations, and backward from them the scalars and the structure around
    both), and the variables that they need."""
    parents: dict[int, Stmt] = {}
    every: list[Stmt] = []
    pending = list(reversed(facts.launch.body))
    while pending:
        statement = pending.pop()
        every.append(statement)
        if is_operation(statement):
            continue
        for name in reversed(type(statement).BODIES):
            for inner in reversed(getattr(statement, name)):
                parents[id(inner)] = statement
                pending.append(inner)
    kept: set[int] = set()
    needed: set[Var] = set()

    def keep(statement: Stmt) -> None:
        at: Stmt | None = statement
        while at is not None and id(at) not in kept:
            kept.add(id(at))
            if is_operation(at) or not type(at).BODIES:
                needed.update(facts.used(at))
            else:
                needed.update(header_used(at))
            at = parents.get(id(at))

    for statement in every:
        if is_operation(statement) and assignment.of[id(statement)] == role:
            keep(statement)
    while True:
        more = [s for s in every if id(s) not in kept and not is_operation(s) and not type(s).BODIES and facts.assigned(s) & needed]
        if not more:
            fixed = ("size", "grid", "scalar")
            kept.update(
                id(s)
                for s in every
                if isinstance(s, Assume) and all(v in needed or v.kind in fixed for v in facts.used(s)) and _is_open(s, parents, kept)
            )
            return kept, needed
        for statement in more:
            keep(statement)


def _is_open(statement: Stmt, parents: Mapping[int, Stmt], kept: set[int]) -> bool:
    """Whether the structure around a statement is kept anyway."""
    around = parents.get(id(statement))
    return around is None or id(around) in kept


def header_used(statement: Stmt) -> frozenset[Var]:
    """The variables in the fields of a statement that are not bodies, its own target apart."""
    own = getattr(statement, "var", None)
    return frozenset(n for n in walk(statement, bodies=False) if isinstance(n, Var) and n is not own)


def share(facts: LaunchFacts, view: RoleView, candidates: Mapping[Buffer, int]) -> Sharing:
    """Streams and shared buffers among everything that several roles touch. ``candidates`` are the on-chip buffers, which may have
    versions."""
    roots: dict[Buffer, None] = {}
    for statement in facts.launch.body:
        for access in facts.accesses(statement):
            roots.setdefault(access.root)
    streams: list[Stream] = []
    shared: list[Buffer] = []
    reasons: dict[Buffer, str] = {}
    for root in roots:
        uses = [use for _, statement in facts.users(facts.launch.body, root) for use in view.uses(statement, root)]
        if len({role for role, _ in uses}) < 2 or not any(writes for _, writes in uses):
            continue
        found = stream_of(facts, view, root) if root in candidates else f"{root.label} is no tile of the block"
        if isinstance(found, Stream):
            streams.append(found)
        else:
            shared.append(root)
            reasons[root] = found
    return Sharing(streams=tuple(streams), shared=tuple(shared), reasons=reasons)


def stream_of(facts: LaunchFacts, view: RoleView, root: Buffer) -> Stream | str:
    """``root`` as a stream, or the reason why it cannot be one."""
    place, body, loop, is_launch = home_of(facts, root)
    users = facts.users(body, root)
    writers = {role for _, s in users for role, writes in view.uses(s, root) if writes}
    if len(writers) != 1:
        return f"{root.label} is written by {' and '.join(sorted(writers)) or 'no role'}"
    (producer,) = writers
    phases: list[Phase] = []
    made: list[int] = []
    read: dict[str, list[int]] = {}
    was_emptied = False
    for position, statement in users:
        if isinstance(statement, Alloc) and statement.buffer is root:
            was_emptied = True
            continue
        roles = {role for role, _ in view.uses(statement, root)}
        if not roles:
            continue
        if producer in roles and len(roles) > 1:
            return _within_statements(root, sum(isinstance(s, For) and (producer, True) in view.uses(s, root) for _, s in users))
        if producer in roles:
            if read:
                phases.append(_phase(made, read))
                made, read, was_emptied = [], {}, False
            if not made and not (was_emptied or facts.kills(statement, root) or (is_launch and not phases)):
                return f"{root.label} keeps something of what it held before"
            made.append(position)
            continue
        if not made:
            return f"{root.label} is read before it is made: its content comes from an earlier iteration"
        for role in roles:
            read.setdefault(role, []).append(position)
    if made and not read:
        return f"{root.label} is read only by the role that makes it"
    phases.append(_phase(made, read))
    consumers = tuple(dict.fromkeys(role for phase in phases for role, _, _ in phase.read))
    if any({role for role, _, _ in phase.read} != set(consumers) for phase in phases):
        return f"{root.label} goes to different roles at different times"
    return Stream(buffer=root, place=place, loop=loop, producer=producer, consumers=consumers, phases=tuple(phases))


def _within_statements(root: Buffer, loops: int) -> str:
    """The reason where one statement of the body both makes and reads ``root``; ``loops`` of the body's make it."""
    if loops > 1:
        return f"{loops} loops fill and read {root.label}; copies can run ahead where each loop has a tile of its own"
    return f"{root.label} is made and used up within one statement, a loop or branch of several roles"


def _phase(made: list[int], read: dict[str, list[int]]) -> Phase:
    return Phase(made=(made[0], made[-1]), read=tuple((role, at[0], at[-1]) for role, at in read.items()))


def home_of(facts: LaunchFacts, root: Buffer) -> tuple[Place, tuple[Stmt, ...], For | None, bool]:
    """The innermost body that holds every use of ``root``, its loop where it is the body of one, and whether it is the launch's own."""
    place, body, loop, is_launch = LAUNCH, facts.launch.body, None, True
    while True:
        users = [s for _, s in facts.users(body, root) if not isinstance(s, Alloc)]
        if len(users) != 1 or is_operation(users[0]):
            return place, body, loop, is_launch
        (only,) = users
        if any(region.buffer.root is root for region in only.reads()):
            return place, body, loop, is_launch
        inner = [name for name in type(only).BODIES if any(not isinstance(s, Alloc) for _, s in facts.users(getattr(only, name), root))]
        if len(inner) != 1 or isinstance(only, Map):
            return place, body, loop, is_launch
        place, body, is_launch = (id(only), inner[0]), getattr(only, inner[0]), False
        loop = only if isinstance(only, For) else None
