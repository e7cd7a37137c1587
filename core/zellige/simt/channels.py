"""Plan statements: the slots of channels, operations in flight, and where other lanes may see what landed.

In: Acquire, Put, Get, Release, Issue, Wait and Slotted of one role, and the context. Out: thread-level statements. The order between lanes
that a channel stands for becomes a touch of a name of its own: what has landed needs a barrier before it is read, what has been read
needs one before its slot is filled again, and one barrier may serve several of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from zellige.diagnostics import InternalError, unreachable
from zellige.ir.expr import INT32, Binary, Buffer, Compare, Expr, Select, Var
from zellige.ir.stmt import Assign, Bind, Copy, For, Gemm, Stmt
from zellige.ir.traverse import rebuilt
from zellige.plan.facts import may_jump
from zellige.plan.nodes import Acquire, Channel, Get, Issue, Put, Release, Slotted, Token, Turn, Wait
from zellige.simt import async_products, copies, role_channels, tensor_copies, turns
from zellige.simt.context import ChannelState, Context
from zellige.simt.distribution import number
from zellige.simt.engine_tiles import NotLowered
from zellige.simt.homes import RegisterHome
from zellige.simt.ir import CommitCopies, MoveRegisters, WaitCopies

DEEP = 3
"""So many slots a channel has where what fills one has two steps of time at least."""

MANY_WARPS = 8
"""So many warps have some at work while others ask for copies. Measured (benchmarks/gpu.py, tiles of 128 x 128 x 32): products of 8 warps
gained 2 to 7 percent from copies behind the work, products of 4 warps lost 4 to 8."""

VERSIONS = 2
"""Of a tile in registers: one that is made, one that is used."""


def emit(ctx: Context, statement: Acquire | Put | Get | Release | Issue | Wait | Turn | Slotted) -> None:
    """One plan statement. Raises NotLowered for what the family does not lower."""
    match statement:
        case Acquire() | Put() | Get() | Release() if statement.channel.scope != "role":
            role_channels.emit(ctx, statement)
        case Acquire(channel=channel):
            state = _state(ctx, channel)
            if state.held:
                return  # each lane has its own versions
            ctx.code.wait(("free", channel), span=statement.span)
            _advance(ctx, state.acquired_slot, channel)
            _use_slot(ctx, channel, state.acquired_slot)
        case Put(channel=channel):
            _move(ctx, channel)  # nothing where slots are in shared memory
        case Get(channel=channel):
            state = _state(ctx, channel)
            if state.held:
                return
            ctx.code.wait(("landed", channel), span=statement.span)
            _advance(ctx, state.got_slot, channel)
        case Release(channel=channel):
            if not _state(ctx, channel).held:
                ctx.code.mark(("free", channel))
        case Issue(operation=operation):
            _issue(ctx, operation)
        case Wait(token=token, leave_in_flight=leave) if token in ctx.product_tokens:
            async_products.wait(ctx, leave, statement.span)
        case Wait(leave_in_flight=leave):
            ctx.code.emit(WaitCopies(leave=leave, span=statement.span))
            ctx.code.mark(*(("landed", channel) for channel in ctx.channels))
        case Slotted(operation=operation, lags=lags):
            _slotted(ctx, operation, lags)
        case Turn():
            turns.emit(ctx, statement)
        case _:
            unreachable(statement)


def filled_late(ctx: Context, body: Sequence[Any]) -> tuple[Any, ...]:
    """A step of a software pipeline with the copies for a later iteration after the waits of this one: the barrier that shows what has
    landed then also frees the slots to fill, and is the only one of the step. As many fewer operations are left in flight as are issued
    later.

    A step is two loops of one iteration each, the first of copies, the second with waits. What the second waits for was issued a step ago
    at least, so that waiting for all of it at the begin costs nothing that one barrier for each channel would not cost more of.

    Where a step is issued two steps ahead or more, and the block has many warps, its copies come behind the work of this one: the work then
    begins at once, and the copies still have a step's time. Their slots were freed by the step before, and are acquired where they were.
    """
    match body:
        case (For() as filling, For() as working) if runs_once(ctx, filling) and runs_once(ctx, working):
            pass
        case _:
            return tuple(body)
    issued = [s for s in filling.body if isinstance(s, Issue)]
    if not issued or not all(isinstance(s, (Acquire, Issue, Put)) for s in filling.body):
        return tuple(body)
    arrivals = _arrivals(working.body, {s.token for s in issued})
    waits = [s for s in arrivals if isinstance(s, Wait)]
    least = min((w.leave_in_flight for w in waits), default=0)
    if not waits or least < len(issued):
        return tuple(body)
    moved = {id(s) for s in arrivals}
    wait = rebuilt(waits[0], leave_in_flight=least - len(issued))
    passed = [s for s in arrivals if not isinstance(s, Wait)]
    worked = rebuilt(working, body=tuple(s for s in working.body if id(s) not in moved))
    acquires = [s for s in filling.body if isinstance(s, Acquire)]
    are_behind = ctx.warps >= MANY_WARPS and all(s.channel.depth >= DEEP for s in acquires)
    if not are_behind or any(may_jump(s) for s in worked.body):
        return (wait, *passed, filling, worked)
    return (wait, *passed, *acquires, worked, rebuilt(filling, body=tuple(s for s in filling.body if not isinstance(s, Acquire))))


def _arrivals(body: Sequence[Any], tokens: set[Token]) -> list[Any]:
    """The waits for ``tokens`` at the top of a step, and the puts and gets of what they wait for; nothing where one may not stand at the
    begin of the step: a statement before it uses an older slot of its channel, may leave the step, or issues."""
    found: list[Any] = []
    used: set[Channel] = set()
    for statement in body:
        match statement:
            case Wait(token=token) if token in tokens:
                found.append(statement)
            case Put(channel=channel) | Get(channel=channel) if channel not in used:
                found.append(statement)
            case Slotted(lags=lags):
                used |= {channel for channel, _ in lags}
            case Release(channel=channel):
                used.add(channel)
            case Acquire() | Issue() | Put() | Get() | Wait() | Turn():
                return []
            case _ if may_jump(statement):
                return []
            case _:
                pass
    return found


def runs_once(ctx: Context, loop: For) -> bool:
    """Whether a loop is proven to have one iteration."""
    return (ctx.scope.form(loop.stop) - ctx.scope.form(loop.start)).constant == 1


def declare(ctx: Context, channels: tuple[Channel, ...]) -> None:
    """Counters of the slots of every channel, before the first statement of the role."""
    for channel in channels:
        if channel.scope != "role":
            continue
        acquired = Var(name=ctx.fresh("filling"), dtype=INT32, kind="mutable")
        got = Var(name=ctx.fresh("holding"), dtype=INT32, kind="mutable")
        for var in (acquired, got):
            ctx.code.emit(Bind(var=var, value=number(channel.depth - 1)))
        ctx.channels[channel] = ChannelState(acquired_slot=acquired, got_slot=got, held=_held(ctx, channel))
        _use_slot(ctx, channel, acquired)


def _held(ctx: Context, channel: Channel) -> dict[Buffer, RegisterHome]:
    """Registers for the version that is used while the next one is made."""
    found: dict[Buffer, RegisterHome] = {}
    for buffer in channel.buffers:
        home = ctx.homes.get(buffer.root)
        if isinstance(home, RegisterHome) and channel.depth > 1:
            if channel.depth != VERSIONS:
                raise InternalError(f"{buffer.name} has {channel.depth} versions in registers")
            memory = ctx.registers(f"{buffer.name}_held", home.memory.dtype, home.distribution.registers)
            found[buffer.root] = replace(home, memory=memory)
    return found


def _move(ctx: Context, channel: Channel) -> None:
    """What was made becomes what is used: its last version has been released."""
    for root, held in _state(ctx, channel).held.items():
        made = ctx.homes[root]
        ctx.code.emit(MoveRegisters(into=held.memory, source=made.memory))


def _state(ctx: Context, channel: Channel) -> ChannelState:
    state = ctx.channels.get(channel)
    if state is None:
        raise InternalError(f"the channel {channel.name} was not declared")
    return state


def _advance(ctx: Context, slot: Var, channel: Channel) -> None:
    following = Binary(op="add", left=slot, right=number(1))
    last = Compare(op="eq", left=slot, right=number(channel.depth - 1))
    ctx.code.emit(Assign(var=slot, value=Select(condition=last, then=number(0), otherwise=following)))


def _use_slot(ctx: Context, channel: Channel, slot: Expr) -> None:
    for buffer in channel.buffers:
        ctx.slots[buffer.root] = slot


def _issue(ctx: Context, operation: Stmt) -> None:
    """An asynchronous product or copy, a group of its own; a copy that cannot land later is done at once and leaves an empty group."""
    if isinstance(operation, Gemm):
        async_products.start(ctx, operation, ctx.tilings[id(operation)])
        return
    if not isinstance(operation, Copy):
        raise NotLowered(f"{type(operation).__name__} beside the lanes is not lowered")
    if id(operation) in ctx.boxes:
        tensor_copies.emit(ctx, operation, ctx.boxes[id(operation)])
        return
    with ctx.code.quiet():
        if not copies.emit_copy(ctx, operation):
            ctx.notes.append(f"the copy to {operation.dst.buffer.name} is done through registers")
            ctx.emit_body(ctx, (operation,))
    ctx.code.emit(CommitCopies(span=operation.span))


def _slotted(ctx: Context, operation: Any, lags: tuple[tuple[Channel, int], ...]) -> None:
    """The operation on slots that were got earlier."""
    before, homes = dict(ctx.slots), dict(ctx.homes)
    for channel, lag in lags:
        state = _state(ctx, channel)
        if state.held:
            if lag:
                raise InternalError(f"{channel.name} is used {lag} versions later in registers")
            ctx.homes.update(state.held)
        slot: Expr = state.got_slot
        if lag:
            moved = Binary(op="add", left=slot, right=number(channel.depth - lag))
            slot = ctx.value("slot", Binary(op="truncmod", left=moved, right=number(channel.depth)))
        _use_slot(ctx, channel, slot)
    ctx.emit_body(ctx, (operation,))
    ctx.slots.clear()
    ctx.slots.update(before)
    for channel, _ in lags:
        ctx.homes.update({root: homes[root] for root in _state(ctx, channel).held})
