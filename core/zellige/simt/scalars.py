"""Scalars and single elements: where lanes share them, one lane reads or changes them for all.

In: Bind, Assign, Store, Atomic and ReducerUpdate of the tile IR and the context. Out: thread-level statements in ``ctx.code``. Inside a
point, and where the author counts lanes, each lane acts for itself.
"""

from __future__ import annotations

from typing import Any, Final

from zellige.analysis.forms import is_index_dtype
from zellige.diagnostics import catalogue
from zellige.ir.expr import Buffer, Compare, Expr, Load, Var
from zellige.ir.stmt import Assign, Atomic, Bind, ReducerUpdate, Store
from zellige.ir.traverse import rebuilt
from zellige.passes import tile_operations
from zellige.simt import elements, touches
from zellige.simt.context import Context
from zellige.simt.distribution import number
from zellige.simt.homes import GlobalHome, SharedHome
from zellige.simt.ir import THREAD

SHAREABLE: Final = (GlobalHome, SharedHome)
"""Homes of memory that several lanes reach."""


def emit_scalar(ctx: Context, statement: Bind | Assign) -> None:
    """A variable of the block or the point, and what is known of its value."""
    touches.touch_loads(ctx, statement)
    value = agreed(ctx, statement.value, statement.span)
    if isinstance(statement, Bind) and not statement.var.is_mutable and is_index_dtype(statement.var.dtype):
        if not ctx.scope.define(statement.var, statement.value):
            ctx.scope.add_data_variable(statement.var)
    ctx.code.emit(rebuilt(statement, value=value))


def agreed(ctx: Context, expr: Expr, span: Any) -> Expr:
    """The value of a scalar of the block. Where it depends on a tensor that other blocks may be changing, one lane reads and all get what
    it read: lanes that read different values would part."""
    value = elements.value_of(ctx, expr)
    acts_alone = ctx.has_lanes or ctx.is_one_lane or ctx.point is not None
    if acts_alone or not any(_may_change(ctx, load.buffer.root) for load in touches.loads_of(expr)):
        return value
    memory = ctx.scratch_memory(value.dtype, 1)
    reads = {load.buffer.root for load in touches.loads_of(expr)}  # the one lane reads behind the barrier that the scratch may need
    ctx.code.touch(reads=[root for root in reads if ctx.is_shared_by_lanes(root)], writes=(ctx.scratch,), span=span)
    with ctx.when(one_lane(ctx), span):
        ctx.code.emit(Store(buffer=memory, indices=(number(0),), value=value, span=span))
    ctx.code.touch(reads=(ctx.scratch,), span=span)
    return ctx.value("agreed", Load(buffer=memory, indices=(number(0),)))


def _may_change(ctx: Context, root: Buffer) -> bool:
    return isinstance(ctx.homes.get(root), GlobalHome) and root in ctx.written_tensors


def emit_store(ctx: Context, statement: Store) -> None:
    """One element: where lanes share it, by one of them."""
    root = statement.buffer.root
    if ctx.point is None:
        is_shared = ctx.is_shared_by_lanes(root) or isinstance(ctx.homes.get(root), SHAREABLE)
        # at once, since it is one statement that reads and writes: a barrier between the two would come after neither
        touches.touch_roots(ctx, touches.loaded(statement), {root} if is_shared else set(), set(), statement.span)
        if is_shared:
            with ctx.when(_storing_lane(ctx, statement), statement.span):
                elements.store(ctx, statement)
            return
    elements.store(ctx, statement)


def _storing_lane(ctx: Context, statement: Store) -> Expr | None:
    """Whether this lane stores for the block: also in code written for lanes where all would store the same, and would meet each other
    between reading what is there and storing. Not where no barrier can stand behind it."""
    dependence = ctx.dependence
    if dependence is None or not dependence.is_repeated(statement) or ctx.code.is_quiet or not ctx.synchronises:
        return one_lane(ctx)
    return Compare(op="eq", left=THREAD, right=number(0))


def one_lane(ctx: Context) -> Expr | None:
    """Whether this lane acts for the block; None where each acts for itself."""
    return None if ctx.has_lanes or ctx.point is not None else Compare(op="eq", left=THREAD, right=number(0))


def emit_atomic(ctx: Context, statement: Atomic) -> None:
    """One element changed once for the block, and what it held before given to all lanes; by each lane that acts for itself."""
    if ctx.point is not None or ctx.has_lanes or not isinstance(ctx.homes.get(statement.buffer.root), SHAREABLE):
        if ctx.point is None:
            touches.touch_roots(ctx, touches.loaded(statement), set(), {statement.buffer.root}, statement.span)
        elements.atomic(ctx, statement)
        return
    result = statement.result
    if result is None:
        touches.touch_roots(ctx, touches.loaded(statement), set(), {statement.buffer.root}, statement.span)
        with ctx.when(one_lane(ctx), statement.span):
            elements.atomic(ctx, statement)
        return
    memory = ctx.scratch_memory(result.dtype, 1)
    reads, changed = (list(filter(ctx.is_shared_by_lanes, roots)) for roots in (touches.loaded(statement), {statement.buffer.root}))
    ctx.code.touch(reads=reads, writes=(ctx.scratch,), atomics=changed, span=statement.span)
    inner = Var(name=ctx.fresh(result.name), dtype=result.dtype, kind="value")
    with ctx.when(one_lane(ctx), statement.span):
        elements.atomic(ctx, rebuilt(statement, result=inner))
        ctx.code.emit(Store(buffer=memory, indices=(number(0),), value=inner))
    ctx.code.touch(reads=(ctx.scratch,), span=statement.span)
    ctx.code.emit(Bind(var=result, value=Load(buffer=memory, indices=(number(0),)), span=statement.span))


_ATOMIC_OF = {"sum": "add", "abssum": "add", "prod": "mul", "max": "max", "absmax": "max", "min": "min", "bitand": "and", "bitor": "or",
              "bitxor": "xor", "any": "or", "all": "and"}  # fmt: skip


def emit_update(ctx: Context, statement: ReducerUpdate) -> None:
    """An update of a reducer as an atomic operation. Raises E410 for a reduction that no atomic operation does."""
    op = _ATOMIC_OF.get(statement.op)
    if op is None:
        raise catalogue.E410.error(statement.span, target=ctx.machine.capabilities.target, operation=f"a reducer of {statement.op}")
    value = tile_operations.contribution(statement.op, statement.value)
    value = tile_operations.converted(value, statement.buffer.dtype)
    emit_atomic(ctx, Atomic(op=op, buffer=statement.buffer, indices=statement.indices, value=value, span=statement.span))  # type: ignore[arg-type]
