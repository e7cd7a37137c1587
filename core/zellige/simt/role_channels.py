"""Channels between roles: two barriers a slot, one that says full, one that says empty.

In: Acquire, Put, Get and Release on channels of the block, and the context of a role. Out: thread-level statements.

Use number u of a channel has slot u % depth; its barriers are in phase u / depth then. Each role counts slot and parity for itself, from
the start of the block to its end, loops and branches included, and flips the parity where the slot wraps. Who fills waits for the parity
before the one who reads waits for: a fresh barrier has ended the phase before its first, so the first pass round the slots waits for
nothing.

A channel between the blocks of a cluster has these barriers in each block. What a block spreads comes to the slots of all, and each counts
all of its own; the warps that read free the slot of every block, a lane for each.

A slot is full when its boxes have landed (one arrival says how many bytes they are) and, where lanes copy or write, when each of their
lanes has arrived. It is empty when every warp of each reader has arrived, one lane for all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zellige.diagnostics import InternalError
from zellige.dtypes import dtype as as_dtype
from zellige.ir.expr import INT32, Binary, Buffer, Compare, Expr, Select, Var
from zellige.ir.stmt import Assign, Barrier, Bind
from zellige.plan.clusters import cluster_axis
from zellige.plan.nodes import Acquire, Channel, Get, PlannedLaunch, Put, Release, Role
from zellige.simt.context import ChannelBarriers, ChannelState, Context
from zellige.simt.distribution import number
from zellige.simt.ir import LANE, SHARED, Arrive, BarrierInit, ExpectBytes, Fence, Memory, WaitBarrier

UINT64 = as_dtype("uint64")
BARRIER_BYTES = 8


def make_barriers(planned: PlannedLaunch, lanes: int) -> dict[Channel, ChannelBarriers]:
    """The barriers of each channel between roles. A producer that only asks for boxes arrives once a slot."""
    warps = {role.name: role.lanes * role.count // lanes for role in planned.roles}
    axis = cluster_axis(planned.order)
    made: dict[Channel, ChannelBarriers] = {}
    for channel in planned.channels:
        if channel.scope == "role":
            continue
        full, empty = (
            Buffer(name=f"{channel.name}_{state}", dtype=UINT64, shape=(number(channel.depth),), space=SHARED)
            for state in ("full", "empty")
        )
        arrivals = sum(1 if channel.is_transaction else warps[name] for name in channel.producers)
        peers = axis[1] if channel.scope == "cluster" and axis is not None else 1
        releases = peers * sum(warps[name] for name in channel.consumers)
        made[channel] = ChannelBarriers(full=full, empty=empty, arrivals=arrivals, releases=releases, peers=peers)
    return made


def memories_of(barriers: dict[Channel, ChannelBarriers], offset: int) -> tuple[tuple[Memory, ...], int]:
    """The barriers from ``offset`` of shared memory on, and the bytes used then."""
    found: list[Memory] = []
    for channel, pair in barriers.items():
        for buffer in (pair.full, pair.empty):
            found.append(Memory(buffer=buffer, offset=offset))
            offset += BARRIER_BYTES * channel.depth
    return tuple(found), offset


def inits(barriers: dict[Channel, ChannelBarriers]) -> list[BarrierInit]:
    """What one lane does before any role begins."""
    found: list[BarrierInit] = []
    for channel, pair in barriers.items():
        for slot in range(channel.depth):
            found.append(BarrierInit(barriers=pair.full, index=number(slot), arrivals=pair.arrivals))
            found.append(BarrierInit(barriers=pair.empty, index=number(slot), arrivals=pair.releases))
    return found


def declare(ctx: Context, role: Role, channels: Sequence[Channel], barriers: dict[Channel, ChannelBarriers]) -> None:
    """Slot and parity of each end of a channel that the role holds."""
    for channel in channels:
        if role.name not in (*channel.producers, *channel.consumers):
            continue
        names = ("filling", "filling_parity", "put", "holding", "holding_parity", "freed")
        acquired, acquired_parity, put, got, got_parity, freed = (
            Var(name=ctx.fresh(name), dtype=INT32, kind="mutable") for name in names
        )
        starts: list[tuple[Var, int]] = []
        if role.name in channel.producers:
            starts += [(acquired, channel.depth - 1), (acquired_parity, 0)]
            if not channel.is_transaction:
                starts.append((put, channel.depth - 1))
        if role.name in channel.consumers:
            starts += [(got, channel.depth - 1), (got_parity, 1), (freed, channel.depth - 1)]
        for var, value in starts:
            ctx.code.emit(Bind(var=var, value=number(value)))
        ctx.channels[channel] = ChannelState(
            acquired_slot=acquired, got_slot=got, barriers=barriers[channel], acquired_parity=acquired_parity, got_parity=got_parity,
            put_slot=put, freed_slot=freed,
        )  # fmt: skip
        for buffer in channel.buffers:
            ctx.slots[buffer.root] = acquired if role.name in channel.producers else got


def emit(ctx: Context, statement: Acquire | Put | Get | Release) -> None:
    """One statement on a channel of the block."""
    state = ctx.channels[statement.channel]
    pair, depth = state.barriers, statement.channel.depth
    if pair is None:
        raise InternalError(f"the channel {statement.channel.name} has no barriers")
    match statement:
        case Acquire(channel=channel):
            _turn(ctx, state.acquired_slot, state.acquired_parity, depth)
            ctx.code.emit(_wait(pair.empty, state.acquired_slot, state.acquired_parity, statement))
            if channel.is_transaction:
                size = number(ctx.bytes_a_slot[channel])
                with ctx.when(ctx.asking_lane, statement.span):
                    ctx.code.emit(ExpectBytes(barriers=pair.full, index=state.acquired_slot, bytes=size, span=statement.span))
        case Put(channel=channel) if channel.is_transaction:
            return
        case Put():
            _advance(ctx, state.put_slot, depth)
            _arrive(ctx, pair.full, state.put_slot, statement, joins=True)
        case Get(channel=channel):
            _turn(ctx, state.got_slot, state.got_parity, depth)
            ctx.code.emit(_wait(pair.full, state.got_slot, state.got_parity, statement))
            if not channel.is_transaction and channel in ctx.read_by_engines:
                ctx.code.emit(Fence(to="engines", span=statement.span))
        case Release(channel=channel):
            _advance(ctx, state.freed_slot, depth)
            _arrive(ctx, pair.empty, state.freed_slot, statement, joins=channel not in ctx.read_by_engines, peers=pair.peers)


def _arrive(ctx: Context, barriers: Buffer, slot: Expr | None, statement: Any, *, joins: bool, peers: int = 1) -> None:
    """One lane for its warp, after all of them are done where they did anything themselves; of a cluster, one for each block."""
    assert slot is not None
    if joins or peers > 1:
        ctx.code.emit(Barrier(scope="warp", span=statement.span))
    if peers > 1:
        with ctx.when(Compare(op="lt", left=LANE, right=number(peers)), statement.span):
            ctx.code.emit(Arrive(barriers=barriers, index=slot, peer=LANE, span=statement.span))
        return
    with ctx.when(Compare(op="eq", left=LANE, right=number(0)), statement.span):
        ctx.code.emit(Arrive(barriers=barriers, index=slot, span=statement.span))


def _wait(barriers: Buffer, slot: Expr, parity: Expr | None, statement: Any) -> WaitBarrier:
    assert parity is not None
    return WaitBarrier(barriers=barriers, index=slot, parity=parity, span=statement.span)


def _advance(ctx: Context, slot: Var | None, depth: int) -> None:
    assert slot is not None
    if depth > 1:
        following = Binary(op="add", left=slot, right=number(1))
        last = Compare(op="eq", left=slot, right=number(depth - 1))
        ctx.code.emit(Assign(var=slot, value=Select(condition=last, then=number(0), otherwise=following)))


def _turn(ctx: Context, slot: Var, parity: Var | None, depth: int) -> None:
    """The next slot; with the first one, the next phase."""
    assert parity is not None
    _advance(ctx, slot, depth)
    flipped = Binary(op="bitxor", left=parity, right=number(1))
    if depth > 1:
        is_first = Compare(op="eq", left=slot, right=number(0))
        ctx.code.emit(Assign(var=parity, value=Select(condition=is_first, then=flipped, otherwise=parity)))
    else:
        ctx.code.emit(Assign(var=parity, value=flipped))
