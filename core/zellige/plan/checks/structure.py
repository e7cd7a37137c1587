"""What can be seen without running anything: names, membership, placements, registers.

In: a planned launch, and the limits of the target where they are known. Out: problems.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field

from zellige.ir.expr import Buffer, Node
from zellige.ir.stmt import Alloc, AtomicTile, Copy, Dialect, Gemm, Stmt, StmtNode
from zellige.ir.traverse import walk
from zellige.plan.allocations import carried_by, misplaced
from zellige.plan.capabilities import Machine
from zellige.plan.checks.problem import Problems
from zellige.plan.facts import bytes_of, statements_in
from zellige.plan.nodes import Acquire, Get, Issue, Placement, PlannedLaunch, Put, Release, Role, Slotted, Token, Turn, Wait
from zellige.plan.place import covered_bytes
from zellige.plugin.contract import Capabilities, MatmulUnit
from zellige.records import dataclass

STRUCTURE, WAITS, PLACEMENT, SHARING, EDGES, REGISTERS = 1, 6, 7, 8, 11, 13
"""Numbers in the list of :mod:`zellige.plan.check`."""

_CHANNEL_NODES = (Acquire, Put, Get, Release)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a target has room for. ``spaces`` are the names of all that it has (empty: it names none, or nobody knows), ``capacities``
    the bytes of each for one block, where there is a limit. ``register_space``: the space that is held in
    registers, of ``register_bytes`` each; ``registers`` is how many a block's lanes have together, ``per_lane`` how many one can have,
    ``lanes`` how many lanes one copy of a role has where the role does not say. ``engines`` are the names of all that may execute an
    operation (empty: nobody knows), ``units`` what multiplies.
    """

    capacities: Mapping[str, int] = field(default_factory=dict)
    register_space: str | None = None
    register_bytes: int = 4
    registers: int | None = None
    per_lane: int | None = None
    lanes: int = 1
    spaces: frozenset[str] = frozenset()
    engines: frozenset[str] = frozenset()
    units: tuple[MatmulUnit, ...] = ()

    @staticmethod
    def of(capabilities: Capabilities) -> Limits:
        """The limits that a target states: the capacity of each of its spaces, and its register file."""
        file = capabilities.registers
        engines = {path.engine for path in capabilities.copies if path.engine}
        engines |= {unit.engine for unit in capabilities.matmul if unit.engine}
        engines |= {Machine(capabilities=capabilities).main_engine, *(engine.name for engine in capabilities.engines)}
        return Limits(
            capacities={space.name: space.bytes for space in capabilities.spaces if space.bytes is not None},
            register_space=next((space.name for space in capabilities.spaces if space.role == "register"), None),
            registers=file.per_block or None if file is not None else None,
            per_lane=file.per_lane or None if file is not None else None,
            spaces=frozenset(space.name for space in capabilities.spaces),
            engines=frozenset(engines),
            units=capabilities.matmul,
        )


def check_structure(planned: PlannedLaunch, problems: Problems) -> None:
    """Names are unique, every part refers to parts that are there, each role uses its own side of a channel."""
    for what, names in (("role", [role.name for role in planned.roles]), ("channel", [channel.name for channel in planned.channels])):
        for name, count in Counter(names).items():
            if count > 1:
                problems.add(STRUCTURE, f"{count} {what}s have the name {name}")
    known = {role.name for role in planned.roles}
    holders: dict[Buffer, str] = {}
    for channel in planned.channels:
        if channel.depth < 1:
            problems.add(STRUCTURE, f"channel {channel.name} has depth {channel.depth}")
        if not channel.producers or not channel.consumers:
            problems.add(STRUCTURE, f"channel {channel.name} has no {'consumer' if channel.producers else 'producer'}")
        for name in {*channel.producers, *channel.consumers} - known:
            problems.add(STRUCTURE, f"channel {channel.name} names the role {name}, which there is not")
        if channel.is_transaction and channel.token is None:
            problems.add(STRUCTURE, f"channel {channel.name} counts transactions and has no token")
        sizes = [bytes_of(buffer) for buffer in channel.buffers]
        carried = sum(size or 0 for size in sizes)
        if channel.is_transaction and None not in sizes and channel.bytes != carried:
            problems.add(STRUCTURE, f"channel {channel.name} counts {channel.bytes} bytes a slot, and its tiles have {carried}")
        if channel.buffers and channel.orders:
            problems.add(STRUCTURE, f"channel {channel.name} both carries and orders buffers")
        for buffer in channel.buffers:
            other = holders.setdefault(buffer.root, channel.name)
            if other != channel.name:
                problems.add(STRUCTURE, f"{buffer.name} is in channels {other} and {channel.name}")
            if buffer.root.space == "global":
                problems.add(STRUCTURE, f"{buffer.name} is a tensor and cannot be in channel {channel.name}")
    tokens: dict[Token, str] = {}
    for role in planned.roles:
        _check_role(planned, role, tokens, problems)
        if role.body is not planned.launch.body:  # which the verifier has looked at
            for buffer, what in misplaced(role, carried_by(planned.channels)).items():
                problems.add(STRUCTURE, f"{buffer.name} {what}, in role {role.name}", span=buffer.span)
    _check_ends(planned, problems)


def nodes_of(role: Role) -> Iterator[Node]:
    """Every node under a role's body."""
    for statement in role.body:
        yield from walk(statement)


def _check_role(planned: PlannedLaunch, role: Role, tokens: dict[Token, str], problems: Problems) -> None:
    for node in nodes_of(role):
        match node:
            case Acquire() | Put():
                _check_side(planned, role, node, "producers", problems)
            case Get() | Release():
                _check_side(planned, role, node, "consumers", problems)
            case Issue():
                if not isinstance(node.operation, (Copy, Gemm, AtomicTile, Dialect)):
                    problems.add(
                        STRUCTURE, f"role {role.name} issues a {type(node.operation).__name__}, which is no asynchronous operation"
                    )
                _check_token(role, node.token, tokens, problems)
            case Wait():
                _check_token(role, node.token, tokens, problems)
                if node.leave_in_flight < 0:
                    problems.add(
                        STRUCTURE, f"role {role.name} waits for token {node.token.name} and leaves {node.leave_in_flight} in flight"
                    )
            case Turn():
                if role.name not in node.order:
                    problems.add(STRUCTURE, f"role {role.name} uses turn {node.name}, whose order is {', '.join(node.order)}")
            case Slotted():
                for channel, lag in node.lags:
                    if lag < 0 or lag >= channel.depth:
                        problems.add(STRUCTURE, f"role {role.name} reads channel {channel.name} of depth {channel.depth} with lag {lag}")
            case _:
                pass


def _check_ends(planned: PlannedLaunch, problems: Problems) -> None:
    """Every role that a channel names has both halves of its side: acquire and put, or get and release."""
    used = {(role.name, node.channel, type(node)) for role in planned.roles for node in nodes_of(role) if isinstance(node, _CHANNEL_NODES)}
    for channel in planned.channels:
        for roles, halves in ((channel.producers, (Acquire, Put)), (channel.consumers, (Get, Release))):
            for name in roles:
                lacking = [kind.__name__.lower() for kind in halves if (name, channel, kind) not in used]
                if lacking:
                    problems.add(STRUCTURE, f"role {name} has no {' and no '.join(lacking)} of channel {channel.name}")


def _check_side(planned: PlannedLaunch, role: Role, node: Acquire | Put | Get | Release, side: str, problems: Problems) -> None:
    channel = node.channel
    if channel not in planned.channels:
        problems.add(STRUCTURE, f"role {role.name} uses channel {channel.name}, which the launch does not list")
    elif role.name not in getattr(channel, side):
        verb = type(node).__name__.lower()
        problems.add(STRUCTURE, f"role {role.name} does {verb} on channel {channel.name} and is none of its {side}")


def _check_token(role: Role, token: Token, tokens: dict[Token, str], problems: Problems) -> None:
    owner = tokens.setdefault(token, role.name)
    if owner != role.name:
        problems.add(STRUCTURE, f"token {token.name} is used by roles {owner} and {role.name}")


def check_sharing(planned: PlannedLaunch, problems: Problems) -> None:
    """On-chip buffers that two roles touch are carried or ordered by channels of each of them."""
    users: dict[Buffer, dict[str, None]] = {}
    for role in planned.roles:
        for root in dict.fromkeys(buffer.root for buffer in touched_by(role)):
            if root.space != "global":
                users.setdefault(root, {})[role.name] = None
    for root, roles in users.items():
        carriers = [channel for channel in planned.channels if root in {buffer.root for buffer in (*channel.buffers, *channel.orders)}]
        members = {name for channel in carriers for name in (*channel.producers, *channel.consumers)}
        outside = [name for name in roles if name not in members]
        if outside and (len(roles) > 1 or carriers):
            named = ", ".join(roles)
            problems.add(SHARING, f"{root.name} is touched by {named}, and no channel that carries or orders it is one of {outside[0]}")


def touched_by(role: Role) -> Iterator[Buffer]:
    """The buffers that statements of the role read or write."""
    for node in nodes_of(role):
        if isinstance(node, StmtNode) and not isinstance(node, Alloc):
            for region in (*node.reads(), *node.writes()):
                yield region.buffer


def check_placements(planned: PlannedLaunch, limits: Limits, problems: Problems) -> None:
    """Every placement is aligned and large enough, a channel's buffers have a slot a version, and what is used fits the space."""
    depths = {buffer.root: channel.depth for channel in planned.channels for buffer in channel.buffers}
    ends: dict[str, int] = {}
    for placement in planned.placements:
        buffer = placement.buffer
        where = f"{buffer.name} in {placement.space}"
        if limits.spaces and placement.space not in limits.spaces:
            problems.add(PLACEMENT, f"{where}: the target has no such space (it has {', '.join(sorted(limits.spaces))})")
        if placement.offset < 0 or placement.alignment < 1 or placement.slots < 1:
            problems.add(PLACEMENT, f"{where}: offset {placement.offset}, alignment {placement.alignment}, {placement.slots} slots")
            continue
        if placement.offset % placement.alignment:
            problems.add(PLACEMENT, f"{where} begins at {placement.offset}, which is no multiple of {placement.alignment}")
        if placement.slots > 1 and placement.bytes % placement.alignment:
            problems.add(PLACEMENT, f"{where}: its slots of {placement.bytes} bytes do not stay aligned to {placement.alignment}")
        wanted = depths.get(buffer.root, 1)
        if placement.slots != wanted:
            problems.add(PLACEMENT, f"{where} has {placement.slots} slots and needs {wanted}")
        needed = bytes_of(buffer)
        if needed is not None and placement.bytes < needed:
            problems.add(PLACEMENT, f"{where} has {placement.bytes} bytes a slot and needs {needed}")
        ends[placement.space] = max(ends.get(placement.space, 0), placement.offset + placement.bytes * placement.slots)
    for space, end in ends.items():
        capacity = limits.capacities.get(space)
        if capacity is not None and end > capacity:
            problems.add(PLACEMENT, f"{end} bytes of {space} are used and there are {capacity}")
    _check_overlaps(planned, problems)
    _check_all_placed(planned, problems)


def _check_all_placed(planned: PlannedLaunch, problems: Problems) -> None:
    """A plan that places tiles places each of constant size that a role touches outside of a Map."""
    if not planned.placements:
        return
    placed = {placement.buffer.root for placement in planned.placements}
    allocated = {s.buffer.root for s in statements_in(planned.launch.body, into_maps=False) if isinstance(s, Alloc)}
    for role in planned.roles:
        for root in dict.fromkeys(buffer.root for buffer in touched_by(role)):
            if root in allocated and root not in placed and bytes_of(root) is not None:
                problems.add(PLACEMENT, f"{root.name} has no place in the memory of the block", key=root)


def _check_overlaps(planned: PlannedLaunch, problems: Problems) -> None:
    """Buffers that share bytes are of one role, which uses them in turns: roles do not run in program order, and a slot of a channel may
    be on its way at any time."""
    of_channel = {buffer.root: channel for channel in planned.channels for buffer in channel.buffers}
    if len(planned.roles) < 2 and not of_channel:
        return  # nobody could find fault with any of what may be very many pairs
    users: dict[Buffer, set[str]] = {}
    for role in planned.roles:
        for buffer in touched_by(role):
            users.setdefault(buffer.root, set()).add(role.name)
    for root, others in neighbours_of(planned.placements).items():
        for other in (placement.buffer.root for placement in others):
            names = " and ".join(sorted((root.name, other.name)))
            one, two = of_channel.get(root), of_channel.get(other)
            if one is not None and one is two:
                problems.add(PLACEMENT, f"{names} of channel {one.name} overlap")
            elif len(users.get(root, set()) | users.get(other, set())) > 1:
                problems.add(PLACEMENT, f"{names} overlap, and several roles touch them")


def neighbours_of(placements: tuple[Placement, ...]) -> dict[Buffer, tuple[Placement, ...]]:
    """For each buffer the placements whose bytes it shares."""
    found: dict[Buffer, tuple[Placement, ...]] = {}
    for one in placements:
        sharing = tuple(
            other
            for other in placements
            if other.buffer.root is not one.buffer.root
            and other.space == one.space
            and other.offset < one.offset + one.bytes * one.slots
            and one.offset < other.offset + other.bytes * other.slots
        )
        if sharing:
            found[one.buffer.root] = sharing
    return found


def check_registers(planned: PlannedLaunch, limits: Limits, problems: Problems) -> None:
    """The register budgets of all roles together fit, and each role's buffers in registers fit its own budget."""
    total = sum((role.registers or 0) * (role.lanes or limits.lanes) * role.count for role in planned.roles)
    if limits.registers is not None and total > limits.registers:
        problems.add(REGISTERS, f"the roles are given {total} registers together and there are {limits.registers}")
    if limits.register_space is None:
        return
    placed: dict[Buffer, Placement] = {p.buffer.root: p for p in planned.placements if p.space == limits.register_space}
    for role in planned.roles:
        if role.registers is None:
            continue
        if limits.per_lane is not None and role.registers > limits.per_lane:
            problems.add(REGISTERS, f"role {role.name} is given {role.registers} registers a lane and one can have {limits.per_lane}")
        used = covered_bytes([placed[root] for root in {buffer.root for buffer in touched_by(role)} & placed.keys()])
        available = role.registers * (role.lanes or limits.lanes) * role.count * limits.register_bytes
        if used > available:
            problems.add(REGISTERS, f"role {role.name} keeps {used} bytes in registers and its budget is {available}")


def check_edges(planned: PlannedLaunch, problems: Problems) -> None:
    """Every choice is about an operation that a role runs or the launch holds."""
    present = {id(node) for role in planned.roles for node in nodes_of(role)} | {id(node) for node in walk(planned.launch)}
    for choice in planned.choices:
        if id(choice.operation) not in present:
            problems.add(EDGES, f"a choice is about a {type(choice.operation).__name__} that no role runs", key=id(choice.operation))


def is_untouched(planned: PlannedLaunch) -> bool:
    """Whether the only role has the launch's own body."""
    if len(planned.roles) != 1 or planned.channels:
        return False
    body: tuple[Stmt, ...] = planned.launch.body
    return len(planned.roles[0].body) == len(body) and all(one is other for one, other in zip(planned.roles[0].body, body))
