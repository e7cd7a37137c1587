"""Blocks of a cluster as one block: what a channel of scope "cluster" means, said in the plan's other words.

In: a planned launch with such a channel. Out: :func:`unfolded`, a planned launch of which one block does what the blocks of a cluster do
together, with a copy of every role, tile and variable for each of them (its *peers*). The static checks and the plan interpreter run that,
so all that they know of roles, counts, waiting and storage holds between blocks as well; :func:`shares_of` says which rows a peer copies.

Peers are neighbours along one axis of the grid. Each has slots of its own of every channel. What a producer copies into a buffer of
``Channel.spread`` is the same in all peers, so each copies its share of the rows, into the slots of all of them. So a producer acquires a
slot when the consumers of all peers have released it, and a consumer gets it when the producers of all peers have put their shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from zellige.ir.expr import Binary, Buffer, Const, Expr, Region, Var, constant_value
from zellige.ir.stmt import Copy, Launch, Stmt
from zellige.ir.traverse import buffers_in, own_tiles, rebuilt, substitute
from zellige.plan.nodes import (
    Acquire,
    Channel,
    Choice,
    Get,
    Issue,
    LaunchPlan,
    Placement,
    PlannedLaunch,
    PlanStmt,
    Put,
    Release,
    Resolved,
    Role,
    Slotted,
    Turn,
)
from zellige.plan.roles import is_operation
from zellige.records import dataclass

_APART: Final = 4096
"""The memory of a peer begins at a multiple of so many bytes, so that what a placement asks of an address holds for each of them."""


def cluster_axis(order: LaunchPlan) -> tuple[int, int] | None:
    """The axis of the grid along which the blocks of a cluster lie, and how many they are; None where there is no such axis or several."""
    wide = [(axis, size) for axis, size in enumerate(order.cluster or ()) if size > 1]
    return wide[0] if len(wide) == 1 else None


def has_clusters(planned: PlannedLaunch) -> bool:
    """Whether a channel joins roles of several blocks."""
    return any(channel.scope == "cluster" for channel in planned.channels)


def row_dimensions(copy: Copy) -> tuple[int, int] | None:
    """The dimensions of the source and of the destination that the rows of a copy lie along, the first that are longer than one; None where
    the two do not agree."""
    wide = [
        [(d, constant_value(extent)) for d, extent in enumerate(region.extents) if constant_value(extent) != 1]
        for region in (copy.src, copy.dst)
    ]
    if not all(wide) or [extent for _, extent in wide[0]] != [extent for _, extent in wide[1]] or wide[0][0][1] is None:
        return None
    return wide[0][0][0], wide[1][0][0]


def shares_of(copy: Copy, peers: int) -> list[Copy]:
    """A copy in as many parts of its rows as there are peers; raises ValueError where its rows cannot be divided by them."""
    dimensions = row_dimensions(copy)
    if dimensions is None:
        raise ValueError("the rows of its two sides are not the same")
    rows = int(constant_value(copy.dst.extents[dimensions[1]]) or 0)
    if rows % peers:
        raise ValueError(f"its {rows} rows are not divided by {peers}")
    sides = zip(dimensions, (copy.src, copy.dst))
    parts = [[_part(region, dimension, rows // peers, number) for number in range(peers)] for dimension, region in sides]
    return [rebuilt(copy, src=src, dst=dst) for src, dst in zip(*parts)]


def _part(region: Region, dimension: int, rows: int, number: int) -> Region:
    offsets, extents = list(region.offsets), list(region.extents)
    offsets[dimension] = _plus(offsets[dimension], number * rows)
    extents[dimension] = Const(value=rows, dtype=extents[dimension].dtype)
    return rebuilt(region, offsets=tuple(offsets), extents=tuple(extents))


def _plus(value: Expr, number: int) -> Expr:
    if isinstance(value, Const):
        return Const(value=int(value.value) + number, dtype=value.dtype)
    return Binary(op="add", left=value, right=Const(value=number, dtype=value.dtype)) if number else value


def unfolded(planned: PlannedLaunch) -> PlannedLaunch:
    """The launch with one block for each cluster; itself where no channel joins blocks. Raises ValueError where what is shared cannot be
    divided, which check 18 reports."""
    found = cluster_axis(planned.order)
    if not has_clusters(planned) or found is None:
        return planned
    axis, count = found
    return _Unfolding(planned=planned, axis=axis, peers=[_Peer.of(planned, axis, count, number) for number in range(count)]).made()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Peer:
    """One block of a cluster: its number, what stands for the grid's variable, its own tiles; ``made`` keeps the operations that were
    rewritten for it, by the identity of the ones they are made from."""

    number: int
    values: Mapping[Var, Expr]
    buffers: Mapping[Buffer, Buffer]
    channels: dict[Channel, Channel] = field(default_factory=dict)
    made: dict[int, Any] = field(default_factory=dict)

    @staticmethod
    def of(planned: PlannedLaunch, axis: int, count: int, number: int) -> _Peer:
        var = planned.launch.grid_vars[axis]
        place = Binary(op="mul", left=var, right=Const(value=count, dtype=var.dtype))
        return _Peer(number=number, values={var: _plus(place, number)}, buffers=_own_tiles(planned, number))

    def name(self, name: str) -> str:
        return f"{name}@{self.number}"

    def of_statement(self, statement: Stmt) -> Any:
        """The statement as this peer runs it: one object, wherever it is asked for."""
        found = self.made.get(id(statement))
        if found is None:
            found = self.made[id(statement)] = substitute(statement, self.values, self.buffers)
        return found


def _own_tiles(planned: PlannedLaunch, number: int) -> dict[Buffer, Buffer]:
    named = (buffer for node in (planned.launch, *planned.roles) for buffer in buffers_in(node))
    of_channels = (buffer for channel in planned.channels for buffer in (*channel.buffers, *channel.orders))
    return own_tiles((*named, *of_channels), f"@{number}")


@dataclass(slots=True, kw_only=True)
class _Unfolding:
    """The making of a launch in which one block does the work of all peers."""

    planned: PlannedLaunch
    axis: int
    peers: Sequence[_Peer]
    choices: list[Choice] = field(default_factory=list)
    copies: dict[int, list[Copy]] = field(default_factory=dict)
    loops: dict[int, list[Any]] = field(default_factory=dict)
    spread: frozenset[Buffer] = frozenset()

    def made(self) -> PlannedLaunch:
        planned = self.planned
        self.spread = frozenset(b.root for channel in planned.channels for b in channel.spread)
        channels = self._channels()
        body = tuple(s for peer in self.peers for s in self._written(planned.launch.body, peer))
        roles = tuple(
            Role(name=peer.name(role.name), engine=role.engine, body=tuple(self._body(role.body, peer)), count=role.count, lanes=role.lanes)
            for peer in self.peers
            for role in planned.roles
        )
        resolved = tuple(
            Resolved(
                operation=peer.of_statement(one.operation), stands_for=peer.of_statement(one.stands_for),
                holds=tuple((substitute(compare, peer.values, peer.buffers), answer) for compare, answer in one.holds),
            )
            for peer in self.peers
            for one in planned.resolved
        )  # fmt: skip
        full = tuple(loop for one in planned.full_loops for loop in self.loops.get(id(one), ()))
        return PlannedLaunch(
            launch=self._launch(planned.launch, body), roles=roles, full_loops=full, channels=channels, placements=self._placements(),
            choices=self._choices(), resolved=resolved, order=LaunchPlan(),
        )  # fmt: skip

    def _launch(self, launch: Launch, body: tuple[Stmt, ...]) -> Launch:
        grid = list(launch.grid)
        count = len(self.peers)
        known = constant_value(grid[self.axis])
        dtype = grid[self.axis].dtype
        grid[self.axis] = (
            Const(value=int(known) // count, dtype=dtype) if known is not None
            else Binary(op="floordiv", left=grid[self.axis], right=Const(value=count, dtype=dtype))
        )  # fmt: skip
        return rebuilt(launch, grid=tuple(grid), body=body, cluster=None, hints=())

    def _channels(self) -> tuple[Channel, ...]:
        """A channel for each peer, but one for all of them where it joins blocks."""
        made: list[Channel] = []
        for channel in self.planned.channels:
            groups = [self.peers] if channel.scope == "cluster" else [[peer] for peer in self.peers]
            for group in groups:
                one = replace(
                    channel, name=channel.name if len(group) > 1 else group[0].name(channel.name),
                    buffers=tuple(peer.buffers[b] for peer in group for b in channel.buffers),
                    orders=tuple(peer.buffers.get(b, b) for peer in group for b in channel.orders),
                    producers=tuple(peer.name(n) for peer in group for n in channel.producers),
                    consumers=tuple(peer.name(n) for peer in group for n in channel.consumers),
                    scope="block" if channel.scope == "cluster" else channel.scope, spread=(),
                )  # fmt: skip
                made.append(one)
                for peer in group:
                    peer.channels[channel] = one
        return tuple(made)

    def _placements(self) -> tuple[Placement, ...]:
        """Each peer's memory behind that of the one before."""
        ends: dict[str, int] = {}
        for placement in self.planned.placements:
            end = placement.offset + placement.bytes * placement.slots
            ends[placement.space] = max(ends.get(placement.space, 0), -(-end // _APART) * _APART)
        return tuple(
            replace(p, buffer=peer.buffers[p.buffer], offset=p.offset + peer.number * ends[p.space])
            for peer in self.peers
            for p in self.planned.placements
        )

    def _choices(self) -> tuple[Choice, ...]:
        made: list[Choice] = []
        for choice in self.planned.choices:
            for peer in self.peers:
                layouts = tuple(replace(at, buffer=peer.buffers.get(at.buffer, at.buffer)) for at in choice.layouts)
                fill, out = (None if s is None else peer.of_statement(s) for s in (choice.fill, choice.out))
                factor = None if choice.factor is None else peer.buffers.get(choice.factor, choice.factor)
                of_peer = replace(choice, layouts=layouts, fill=fill, out=out, factor=factor)
                if self._is_spread(choice.operation):
                    # as many parts as there are peers, each in the role that copies it and in the block as it is written
                    made += [replace(of_peer, operation=part) for part in self.copies.get(id(choice.operation), ())]
                    break
                made.append(replace(of_peer, operation=peer.of_statement(choice.operation)))
        return tuple(made)

    # ---- bodies

    def _is_spread(self, statement: Any) -> bool:
        return isinstance(statement, Copy) and statement.dst.buffer.root in self.spread

    def _parts(self, copy: Copy, source: _Peer, destination: _Peer) -> list[Copy]:
        """The parts of a copy whose source is that of one peer and whose destination that of another."""
        left, right = source.of_statement(copy), destination.of_statement(copy)
        parts = shares_of(rebuilt(left, dst=right.dst), len(self.peers))
        self.copies.setdefault(id(copy), []).extend(parts)
        return parts

    def _written(self, body: Sequence[Stmt], peer: _Peer) -> list[Stmt]:
        """A body of the launch as a peer runs it, with what is shared copied in parts."""
        made: list[Stmt] = []
        for statement in body:
            if self._is_spread(statement):
                made += self._parts(statement, peer, peer)  # type: ignore[arg-type]
            else:
                made.append(self._nested(statement, peer, self._written))
        return made

    def _body(self, body: Sequence[Stmt | PlanStmt], peer: _Peer) -> list[Stmt | PlanStmt]:
        """A body of a role of a peer: it copies its own part of what is shared, for every peer."""
        made: list[Stmt | PlanStmt] = []
        for statement in body:
            operation = statement.operation if isinstance(statement, Issue) else statement
            if self._is_spread(operation):
                parts = [self._parts(operation, peer, other)[peer.number] for other in self.peers]  # type: ignore[arg-type]
                made += [rebuilt(statement, operation=part) if isinstance(statement, Issue) else part for part in parts]
                continue
            match statement:
                case Acquire() | Put() | Get() | Release():
                    made.append(rebuilt(statement, channel=peer.channels[statement.channel]))
                case Issue():
                    made.append(rebuilt(statement, operation=peer.of_statement(statement.operation)))
                case Slotted():
                    (inner,) = self._body((statement.operation,), peer)
                    lags = tuple((peer.channels[channel], lag) for channel, lag in statement.lags)
                    made.append(rebuilt(statement, operation=inner, lags=lags))
                case Turn():
                    order = tuple(peer.name(role) for role in statement.order)
                    made.append(rebuilt(statement, name=peer.name(statement.name), order=order))
                case _:
                    made.append(self._nested(statement, peer, self._body))
        return made

    def _nested(self, statement: Any, peer: _Peer, bodies: Any) -> Any:
        """A statement with its bodies, each by ``bodies``; a whole operation as it is."""
        if is_operation(statement) or not type(statement).BODIES:
            return peer.of_statement(statement)
        headers = {name: getattr(statement, name) for name in type(statement).BODIES}
        bare = rebuilt(statement, **dict.fromkeys(headers, ()))
        header = substitute(bare, peer.values, peer.buffers)
        made = rebuilt(header, **{name: tuple(bodies(inner, peer)) for name, inner in headers.items()})
        self.loops.setdefault(id(statement), []).append(made)
        return made
