"""Blocks that share what they copy: neighbours along an axis of the grid form clusters, and one copy writes the slots of all of them.

In: a context and the programs of its roles. Out: the programs with channels of scope "cluster" and the shape of a cluster, or as they were.
A machine says how many blocks a copy can write to at once (``CopyPath.spreads``). Roles and their statements stay as they are: which part
each block copies follows from the channel (:mod:`zellige.plan.clusters`), so no bit changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from zellige.ir.expr import Buffer, Load, Node, Var, constant_value
from zellige.ir.stmt import Assign, Atomic, AtomicTile, Bind, Copy, Dialect, For, If, RasterHint, Stmt, While, is_whole
from zellige.ir.traverse import rebuilt, walk
from zellige.plan.clusters import shares_of
from zellige.plan.context import Context, Programs
from zellige.plan.facts import bytes_of, statements_in
from zellige.plan.nodes import Acquire, Channel, Get, Issue, PlanStmt, Put, Release, Role, Slotted
from zellige.plan.spaces import choose_path
from zellige.records import dataclass

QUESTION: Final = "do blocks share what they copy?"

PEERS: Final = 2
"""Blocks of a cluster: two halve what comes to the memories of blocks from outside; with more each slot would wait for more consumers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sharing:
    """What the blocks of a cluster along an axis have in common: the buffers of each channel, and their bytes in a step."""

    axis: int
    peers: int
    spread: dict[Channel, tuple[Buffer, ...]]
    bytes: int


def with_clusters(context: Context, programs: Programs) -> tuple[Programs, tuple[int, ...] | None]:
    """``programs`` with channels between the blocks of clusters, and the extents of a cluster; None where blocks are on their own."""
    launch, machine = context.facts.launch, context.machine
    most = machine.most_peers
    counted = [c for c in programs.channels if c.is_transaction and c.scope == "block" and c.buffers]
    if most < 2 or not counted:
        return programs, None
    reason = _why_alone(context)
    found = [] if reason is not None else _sharings(context, programs, counted, most)
    if not found:
        reason = reason or "no two neighbours copy the same in step with each other, and in rows that they could divide"
        context.decisions.take(QUESTION, "no", reason, rejected=((f"clusters of {PEERS} blocks", reason),))
        return programs, None
    best = max(found, key=lambda one: (one.bytes, -one.axis))
    cluster = tuple(best.peers if axis == best.axis else 1 for axis in range(len(launch.grid)))
    names = ", ".join(b.name for buffers in best.spread.values() for b in buffers)
    others = [
        (f"clusters along {launch.grid_vars[o.axis].name}", f"their blocks have {o.bytes} bytes of a step in common, these {best.bytes}")
        for o in found
        if o is not best
    ]
    context.decisions.take(
        QUESTION, f"{names}, {best.peers} neighbours along {launch.grid_vars[best.axis].name}",
        "it is the same for all of them: each copies its share of the rows into the memories of all, "
        f"{best.bytes // best.peers} bytes a step instead of {best.bytes}",
        rejected=(("each block for itself", "all of it would come from outside for each of them"), *others),
    )  # fmt: skip
    return _joined(programs, best.spread), cluster


def _why_alone(context: Context) -> str | None:
    launch = context.facts.launch
    if any(isinstance(hint, RasterHint) for hint in launch.hints):
        return "the kernel asks for an order of the blocks (T.use_swizzle), in which neighbours are not those of the grid"
    if launch.safe_values and any(isinstance(n, Var) and n in launch.grid_vars for safe in launch.safe_values for n in walk(safe)):
        return "what elements outside a tensor read as depends on the block"
    if any(isinstance(s, (Atomic, AtomicTile, Dialect)) for s in statements_in(launch.body)):
        return "its blocks meet at atomic operations or those of one target, and blocks of a cluster run at the same time"
    return None


def _sharings(context: Context, programs: Programs, channels: Sequence[Channel], most: int) -> list[_Sharing]:
    launch = context.facts.launch
    wanted = [(axis, size) for axis, size in enumerate(launch.cluster or ()) if size > 1]
    if launch.cluster is not None and (len(wanted) != 1 or wanted[0][1] > most):
        return []
    known = [constant_value(extent) for extent in launch.grid]
    found = []
    for axis, extent in enumerate(known):
        peers = PEERS if not wanted else wanted[0][1]
        if (wanted and wanted[0][0] != axis) or extent is None or int(extent) < peers or int(extent) % peers:
            continue
        varying = _varying(launch.grid_vars[axis], programs.roles)
        if any(_is_out_of_step(role, channels, varying) for role in programs.roles):
            continue
        spread = {channel: _same_for_all(context, channel, programs.roles, varying, peers) for channel in channels}
        spread = {channel: buffers for channel, buffers in spread.items() if buffers}
        size = sum(bytes_of(buffer) or 0 for buffers in spread.values() for buffer in buffers)
        if spread:
            found.append(_Sharing(axis=axis, peers=peers, spread=spread, bytes=size))
    return found


def _varying(var: Var, roles: Sequence[Role]) -> frozenset[Var]:
    """The variables whose values may differ between blocks that differ in ``var``: what it or data are part of."""
    found = {var}
    statements = [node for role in roles for statement in role.body for node in walk(statement)]
    while True:
        more = {s.var for s in statements if isinstance(s, (Bind, Assign)) and s.var not in found and _varies(s.value, found)}
        more |= {
            s.var for s in statements
            if isinstance(s, For) and s.var not in found and any(_varies(bound, found) for bound in (s.start, s.stop, s.step))
        }  # fmt: skip
        more |= {result for s in statements if isinstance(result := getattr(s, "result", None), Var) and result not in found}
        if not more:
            return frozenset(found)
        found |= more


def _varies(node: Node, varying: set[Var] | frozenset[Var]) -> bool:
    return any(isinstance(n, Load) or (isinstance(n, Var) and n in varying) for n in walk(node))


def _is_out_of_step(role: Role, channels: Sequence[Channel], varying: frozenset[Var]) -> bool:
    """Whether the blocks might take slots of a channel a different number of times."""
    pending: list[Any] = list(role.body)
    while pending:
        statement = pending.pop()
        if isinstance(statement, (For, If, While)) and _takes_slots(statement, channels):
            headers = {For: ("start", "stop", "step"), If: ("condition",), While: ("condition",)}[type(statement)]
            if isinstance(statement, While) or any(_varies(getattr(statement, name), varying) for name in headers):
                return True
        pending.extend(inner for name in type(statement).BODIES for inner in getattr(statement, name))
    return False


def _takes_slots(statement: Stmt, channels: Sequence[Channel]) -> bool:
    return any(isinstance(n, (Acquire, Put, Get, Release)) and n.channel in channels for n in walk(statement))


def _same_for_all(context: Context, channel: Channel, roles: Sequence[Role], varying: frozenset[Var], peers: int) -> tuple[Buffer, ...]:
    """The buffers of a channel that hold the same in blocks which differ in nothing but the variables of ``varying``."""
    found = []
    for buffer in channel.buffers:
        writers = [
            (node, isinstance(node, Issue) and node.token is channel.token)
            for role in roles
            if role.name in channel.producers
            for node in _written(role.body, buffer)
        ]
        if writers and all(is_counted and _is_shared(context, node.operation, varying, peers) for node, is_counted in writers):
            found.append(buffer)
    return tuple(found)


def _written(body: Sequence[Any], buffer: Buffer) -> list[Any]:
    """The statements of a role, Issue and Slotted whole, that write a buffer."""
    found: list[Any] = []
    pending = list(body)
    while pending:
        statement = pending.pop()
        inner = [s for name in type(statement).BODIES for s in getattr(statement, name)]
        if inner:
            pending.extend(inner)
        elif any(region.buffer.root is buffer.root for region in getattr(statement, "operation", statement).writes()):
            found.append(statement)
    return found


def _is_shared(context: Context, copy: Any, varying: frozenset[Var], peers: int) -> bool:
    if not isinstance(copy, Copy) or copy.src.buffer.root.space != "global" or not is_whole(copy.dst) or _varies(copy.src, varying):
        return False
    path, _ = choose_path(copy, context.facts, context.spaces, context.machine)
    if path.spreads < peers:
        return False
    try:
        shares_of(copy, peers)
    except ValueError:
        return False
    return True


def _joined(programs: Programs, spread: dict[Channel, tuple[Buffer, ...]]) -> Programs:
    """The programs in which the channels of ``spread`` join the blocks of a cluster."""
    swapped = {old: replace(old, scope="cluster", spread=buffers) for old, buffers in spread.items()}

    def body(statements: Sequence[Stmt | PlanStmt]) -> tuple[Any, ...]:
        made: list[Any] = []
        for statement in statements:
            match statement:
                case Acquire() | Put() | Get() | Release() if statement.channel in swapped:
                    made.append(rebuilt(statement, channel=swapped[statement.channel]))
                case Slotted():
                    (inner,) = body((statement.operation,))
                    lags = tuple((swapped.get(channel, channel), lag) for channel, lag in statement.lags)
                    made.append(rebuilt(statement, operation=inner, lags=lags))
                case _ if type(statement).BODIES and _takes_slots_or_lags(statement):
                    made.append(rebuilt(statement, **{name: body(getattr(statement, name)) for name in type(statement).BODIES}))
                case _:
                    made.append(statement)
        return tuple(made)

    return replace(
        programs, roles=tuple(rebuilt(role, body=body(role.body)) for role in programs.roles),
        channels=tuple(swapped.get(channel, channel) for channel in programs.channels),
    )  # fmt: skip


def _takes_slots_or_lags(statement: Any) -> bool:
    return any(isinstance(n, (Acquire, Put, Get, Release, Slotted)) for n in walk(statement))
