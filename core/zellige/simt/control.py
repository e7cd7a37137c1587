"""Statements in the order of a role's program: control flow, scalars, channels, and what goes to the modules of tile operations.

In: the body of a role (tile IR and plan statements) and the context. Out: thread-level statements in ``ctx.code``.

Where the launch has no lanes of its own, every lane runs the block's scalar statements and holds its scalars; what changes memory that
lanes share is done by one lane (:mod:`zellige.simt.scalars`) or by all together (:mod:`zellige.simt.operations`). Where the author counts
lanes, each runs the statements for itself. Inside a Map the code is the point's.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from zellige.diagnostics import catalogue, unreachable
from zellige.ir.expr import BOOL, INT32, Buffer, Compare, Const, Expr, Region, Unary, Var, constant_value
from zellige.ir.lanes import PRIVATE
from zellige.ir.stmt import (
    Alloc,
    Assert,
    Assign,
    Assume,
    Atomic,
    AtomicTile,
    Barrier,
    Bind,
    Break,
    Continue,
    Copy,
    Dialect,
    Fill,
    For,
    Gemm,
    If,
    Map,
    Print,
    Reduce,
    ReducerFinalize,
    ReducerInit,
    ReducerUpdate,
    Return,
    Scan,
    Serial,
    Shuffle,
    Stmt,
    Store,
    Transpose,
    Unrolled,
    Vote,
    While,
)
from zellige.ir.traverse import rebuilt
from zellige.passes import tile_operations
from zellige.plan.facts import leaves_early, statements_in
from zellige.plan.nodes import Acquire, Get, Issue, PlanStmt, Put, Release, Slotted, Turn, Wait
from zellige.simt import channels, elements, held_operands, kept_rows, lanes, operations, scalars, touches
from zellige.simt.code import Declared
from zellige.simt.context import Context, Following
from zellige.simt.distribution import number
from zellige.simt.homes import LaneHome, SharedHome
from zellige.simt.ir import LANE, THREAD, Opaque
from zellige.simt.written_out import is_written_out


def emit_body(ctx: Context, body: Sequence[Any], *, is_loop: bool = False) -> None:
    """The statements one after the other. What lanes leave out by a jump before it has said what it touches there. What a loop's products
    have in common is held in registers from before it to the end of ``body``, or until it changes."""
    before = ctx.held_operands
    with ExitStack() as apart:
        for at, statement in enumerate(body):
            if not ctx.code.is_quiet and ctx.dependence is not None and ctx.dependence.is_divergent(statement):
                apart.enter_context(ctx.code.quiet())  # to the end of the body
            ctx.following.append(Following(statements=body[at + 1 :], is_loop=is_loop))
            if isinstance(statement, For):
                held_operands.hold(ctx, statement)
                kept_rows.keep(ctx, statement)
            emit(ctx, statement)
            if isinstance(statement, For):
                kept_rows.leave(ctx, statement)
            held_operands.forget(ctx, statement)
            ctx.following.pop()
    ctx.held_operands = tuple(held for held in ctx.held_operands if held in before)


def emit(ctx: Context, statement: Stmt | PlanStmt) -> None:
    """One statement of the tile IR or the plan. Raises E410 for an operation of another target."""
    match statement:
        case Acquire() | Put() | Get() | Release() | Issue() | Wait() | Turn() | Slotted():
            channels.emit(ctx, statement)
        case Alloc(buffer=buffer):
            _allocate(ctx, buffer)
        case Copy() | Fill() | Transpose() | AtomicTile() | Map() | ReducerInit() | Gemm() | Reduce() | Scan():
            operations.emit_operation(ctx, statement)
        case ReducerUpdate():
            scalars.emit_update(ctx, statement)
        case ReducerFinalize():
            ctx.code.touch(reads=(statement.buffer.root,), writes=(statement.buffer.root,), span=statement.span)
        case Bind() | Assign():
            scalars.emit_scalar(ctx, statement)
        case Store():
            scalars.emit_store(ctx, statement)
        case Atomic():
            scalars.emit_atomic(ctx, statement)
        case If():
            _if(ctx, statement)
        case For():
            _for(ctx, statement)
        case While():
            _while(ctx, statement)
        case Break() | Continue() | Return():
            ctx.code.emit(statement)
        case Assume(condition=condition):
            ctx.scope.assume(condition)
        case Print():
            _print(ctx, statement)
        case Assert():
            touches.touch_loads(ctx, statement)
            condition = elements.value_of(ctx, statement.condition)
            ctx.code.emit(rebuilt(statement, condition=condition))
        case Barrier() | Shuffle() | Vote():
            touches.touch_loads(ctx, statement)
            lanes.emit(ctx, statement)
        case Dialect():
            raise catalogue.E410.error(statement.span, target=ctx.machine.capabilities.target, operation=statement.op)
        case _:
            unreachable(statement)


def _allocate(ctx: Context, buffer: Buffer) -> None:
    """Registers and a lane's own arrays are declared where they are made; shared memory was laid out before."""
    home = ctx.homes.get(buffer)
    if home is None and (ctx.point is not None or buffer.space in PRIVATE):
        extents = tuple(int(constant_value(e) or 0) for e in buffer.shape)
        if not all(isinstance(constant_value(e), int) for e in buffer.shape):
            raise catalogue.E410.error(
                buffer.span, target=ctx.machine.capabilities.target, operation="a local tile of a size that is not constant"
            )
        count = 1
        for extent in extents:
            count *= extent
        memory = Buffer(
            name=ctx.fresh(buffer.name), dtype=buffer.dtype, shape=(number(max(1, count)),), space="registers", span=buffer.span
        )
        home = LaneHome(memory=memory, extents=extents)
        ctx.homes[buffer] = home
    if isinstance(home, SharedHome):
        ctx.code.emit(Declared(memory=home.memory))
    if home is not None and home.memory.space == "registers":
        ctx.code.emit(Alloc(buffer=home.memory, span=buffer.span))


def _named_apart(ctx: Context, statement: If | For, value: Expr) -> Expr:
    """What decides where lanes part, with a name where it is read from memory: some lanes may change there what others still read."""
    if ctx.point is not None or ctx.code.is_quiet or not lanes.parts_lanes(ctx, statement) or not touches.loads_of(value):
        return value
    return ctx.value("decided", value)


def _if(ctx: Context, statement: If) -> None:
    touches.touch_loads(ctx, statement)
    condition = _named_apart(ctx, statement, scalars.agreed(ctx, statement.condition, statement.span))
    with lanes.maybe_divergent(ctx, statement):
        with ctx.inner_scope() as scope, ctx.code.nested() as then:
            scope.assume(statement.condition)
            emit_body(ctx, statement.then)
        with ctx.inner_scope() as scope, ctx.code.nested() as otherwise:
            scope.assume(statement.condition, holds=False)
            emit_body(ctx, statement.otherwise)
    ctx.code.emit(rebuilt(statement, condition=condition, then=tuple(then), otherwise=tuple(otherwise)))


def _for(ctx: Context, statement: For) -> None:
    touches.touch_loads(ctx, statement)
    bounds = (scalars.agreed(ctx, e, statement.span) for e in (statement.start, statement.stop, statement.step))
    start, stop, step = (_named_apart(ctx, statement, bound) for bound in bounds)
    with lanes.maybe_divergent(ctx, statement), ctx.inner_scope() as scope, ctx.code.nested() as body:
        increment = constant_value(statement.step)
        if increment is not None and increment > 0:
            scope.add_variable(statement.var, scope.form(statement.start), scope.form(statement.stop) - 1)
        elif increment is not None and increment < 0:
            scope.add_variable(statement.var, scope.form(statement.stop) + 1, scope.form(statement.start))
        else:
            scope.add_variable(statement.var, None, None)
        _hide_lane(ctx, statement)
        with kept_rows.within(ctx, statement):
            emit_body(ctx, channels.filled_late(ctx, statement.body), is_loop=True)
    if ctx.is_among_roles and channels.runs_once(ctx, statement) and not leaves_early(statement.body):
        # products may be in flight across its end: no branch stands there
        ctx.code.emit(Bind(var=statement.var, value=start, span=statement.span), *body)
        return
    kind = statement.kind if isinstance(statement.kind, (Unrolled, Serial)) else Serial()
    if id(statement) in ctx.kept_rows:
        kind = kept_rows.repetition(statement)
    elif is_written_out(ctx, statement):
        kind = Unrolled()
        ctx.notes.append(f"the iterations over {statement.var.name} are written out: what they load is kept in registers")
    ctx.code.emit(rebuilt(statement, start=start, stop=stop, step=step, kind=kind, body=tuple(body)))


def _while(ctx: Context, statement: While) -> None:
    with lanes.maybe_divergent(ctx, statement), ctx.inner_scope(), ctx.code.nested() as body:
        touches.touch_loads(ctx, statement)
        condition = scalars.agreed(ctx, statement.condition, statement.span)
        stop = Unary(op="not", value=condition)
        ctx.code.emit(If(condition=stop, then=(Break(),), span=statement.span))
        _hide_lane(ctx, statement)
        emit_body(ctx, statement.body, is_loop=True)
    ctx.code.emit(While(condition=Const(value=True, dtype=BOOL), body=tuple(body), span=statement.span))


def _hide_lane(ctx: Context, loop: For | While) -> None:
    """In a loop around loops the places of a lane's elements are computed anew in each iteration: kept, those of a tile in registers would
    take as many registers as the tile."""
    inside = statements_in(loop.body, into_maps=False)
    is_around = any(isinstance(s, While) or (isinstance(s, For) and not isinstance(s.kind, Unrolled)) for s in inside)
    if ctx.machine.hoists and is_around and ctx.point is None and not ctx.has_lanes and not ctx.is_one_lane:
        ctx.code.emit(Opaque(of=(LANE,), span=loop.span))


def _print(ctx: Context, statement: Print) -> None:
    """Values by each point or lane at hand; a region's elements by one lane, in order."""
    if isinstance(statement.value, Region):
        root = statement.value.buffer.root
        touches.touch_roots(ctx, {root}, set(), set(), statement.span)
        with ctx.when(_printing_lane(ctx, statement, statement.value), statement.span):
            _print_region(ctx, statement, statement.value)
        return
    touches.touch_loads(ctx, statement)
    value = None if statement.value is None else elements.value_of(ctx, statement.value)
    with ctx.when(scalars.one_lane(ctx), statement.span):
        ctx.code.emit(rebuilt(statement, value=value))


def _printing_lane(ctx: Context, statement: Print, region: Region) -> Expr | None:
    """Whether this lane prints the region: also in code written for lanes, where all reach it, one of them what belongs to the block."""
    dependence = ctx.dependence
    if dependence is None or ctx.point is not None or dependence.is_divergent(statement):
        return scalars.one_lane(ctx)
    if region.buffer.root.space in PRIVATE or dependence.differs(*region.offsets, *region.extents):
        return scalars.one_lane(ctx)
    return Compare(op="eq", left=THREAD, right=number(0))


def _print_region(ctx: Context, statement: Print, region: Region) -> None:
    axes = tuple(Var(name=f"p{d}", dtype=INT32, kind="loop") for d in range(len(region.extents)))
    body: tuple[Stmt, ...] = (Print(value=tile_operations.load_at(region, axes), message=statement.message, span=statement.span),)
    written = Map(axes=axes, extents=region.extents, body=body, span=statement.span)
    operations.emit_loops(ctx, written)
