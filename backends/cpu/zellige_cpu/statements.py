"""Statements to LLVM IR, one function a kind.

In: a statement and the context. Out: code in the function under construction. With lanes, a branch on a condition that differs from
lane to lane becomes a mask; :mod:`zellige_cpu.maps` gives lanes only to bodies whose statements can be masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import zip_longest
from typing import Final

from zellige.analysis.bounds import FAR
from zellige.analysis.forms import Form, is_index_dtype
from zellige.diagnostics import InternalError, catalogue
from zellige.ir.expr import INT64, Const, Expr, Var
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
    Shuffle,
    Stmt,
    Store,
    Transpose,
    Vote,
    While,
)
from zellige.passes import tile_operations
from zellige_cpu import accesses, effects, folds, maps, parts, storage, tiles, zeroed
from zellige_cpu.accesses import Address, store_raw
from zellige_cpu.arithmetic import unary
from zellige_cpu.context import Context, LoopLabels, Slot
from zellige_cpu.expressions import evaluate
from zellige_cpu.fusion import Fold
from zellige_cpu.indexes import conjunction, i64, is_stable, to_i64, uniform
from zellige_cpu.types import register_type, vector_type
from zellige_cpu.values import TRUE, Value, constant

BLOCK_LENGTH: Final = 200
"""Instructions after which a basic block is cut: LLVM's schedulers take time that grows with the square of its length."""


def emit_body(ctx: Context, body: Sequence[Stmt]) -> None:
    """The statements in order; what follows a jump is not emitted."""
    if parts.is_long(ctx, body):
        parts.emit_in_parts(ctx, body, emit)
        return
    for statement, following in zip_longest(body, body[1:]):
        zero = None if following is None else zeroed.test(ctx, statement, following)
        if zero is None:
            emit(ctx, statement)
        else:
            _emit_unless(ctx, zero, statement, following)
        if ctx.fn.is_terminated:
            return
        if ctx.fn.block_length > BLOCK_LENGTH:
            effects.poll(ctx)


def _emit_unless(ctx: Context, zero: Value, statement: Stmt, product: Stmt) -> None:
    """The statement, but where all that it does is done by the product behind it."""
    zeroed.note(ctx, product, zero)
    if zero.name != "true":
        with ctx.nested(), ctx.fn.when(ctx.fn.binary("xor", zero, TRUE)):
            emit(ctx, statement)


def emit(ctx: Context, statement: Stmt) -> None:
    """One statement at the current place."""
    ctx.loaded = {}
    _emit(ctx, statement)
    ctx.loaded = {}  # what was read inside of it may lie in a branch, and it may have changed memory


def _emit(ctx: Context, statement: Stmt) -> None:
    match statement:
        case Alloc(buffer=buffer):
            storage.allocate(ctx, buffer)
        case Copy() | Fill() if id(statement) in ctx.products.absorbed:
            pass  # the product packs its operand from the source, or replaces its result
        case Copy() | Transpose():
            _check_extents(ctx, statement)
            maps.emit_map(ctx, tile_operations.copy_as_map(statement), emit_body)
        case Fill():
            emit_body(ctx, tile_operations.fill_as_map(statement))
        case AtomicTile():
            _check_extents(ctx, statement)
            maps.emit_map(ctx, tile_operations.atomic_as_map(statement), emit_body)
        case Gemm():
            tiles.emit_gemm(ctx, statement, emit_body)
        case Reduce():
            tiles.emit_reduce(ctx, statement, emit_body)
        case Scan():
            tiles.emit_scan(ctx, statement, emit_body)
        case Atomic():
            from zellige_cpu import atomics  # few kernels have atomics

            atomics.emit_atomic(ctx, statement)
        case Map():
            maps.emit_map(ctx, statement, emit_body)
        case For():
            if not tiles.emit_loop(ctx, statement, emit_body):
                _for(ctx, statement)
        case While():
            _while(ctx, statement)
        case If():
            _if(ctx, statement)
        case Break():
            ctx.fn.branch(ctx.loops[-1].after)
        case Continue():
            ctx.fn.branch(ctx.loops[-1].following)
        case Return():
            ctx.fn.branch(ctx.cell_end)
        case Bind(var=var, value=value):
            bind(ctx, var, value)
        case Assign(var=var, value=value):
            assign(ctx, var, evaluate(ctx, value))
        case Store(buffer=buffer, indices=indices, value=value):
            accesses.store(ctx, buffer, indices, evaluate(ctx, value))
        case Fold():
            folds.emit_fold(ctx, statement)
        case Print():
            effects.emit_print(ctx, statement)
        case Assert():
            effects.emit_assert(ctx, statement)
        case Assume(condition=condition):
            ctx.scope.assume(condition)
        case ReducerInit():
            emit_body(ctx, tile_operations.fill_as_map(tile_operations.reducer_fill(statement)))
        case ReducerUpdate():
            from zellige_cpu import atomics

            atomics.emit_update(ctx, statement)
        case ReducerFinalize():
            pass  # every update already went to the buffer itself
        case Barrier(scope="warp" | "block"):
            pass  # a block is one thread, and what it wrote it sees
        case Barrier(scope=scope):
            raise catalogue.E447.error(statement.span, operation="a barrier", scope=scope, target="cpu")
        case Shuffle() | Vote():
            raise InternalError(f"{type(statement).__name__} of a lane kernel reached the emitter unexpanded")
        case Dialect(op=op):
            raise catalogue.E410.error(statement.span, operation=op, target="cpu")
        case _:
            raise InternalError(f"{type(statement).__name__} reached the emitter of statements")


def _check_extents(ctx: Context, statement: Copy | Transpose | AtomicTile) -> None:
    pairs = tile_operations.agreeing_extents(statement)
    if pairs:
        effects.check_extents(ctx, statement.src.extents, statement.dst.extents, pairs, statement.span)


# -- variables -----------------------------------------------------------------------------------------------------------


def bind(ctx: Context, var: Var, value: Expr) -> None:
    """The first value of a variable."""
    if var.is_mutable:
        bind_value(ctx, var, evaluate(ctx, value))
    elif not ctx.scope.define(var, value):
        bind_value(ctx, var, evaluate(ctx, value))


def bind_value(ctx: Context, var: Var, value: Value) -> None:
    """A variable whose value is a register of its dtype."""
    if not var.is_mutable:
        ctx.values[var] = value
        ctx.var_levels[var] = ctx.level
        ctx.scope.add_data_variable(var)
        return
    lanes = 1 if ctx.lanes is None else ctx.lanes.count
    element = register_type(var.dtype)
    slot = Slot(ctx.fn.alloca(vector_type(element, lanes)), element, lanes)
    ctx.slots[var] = slot
    ctx.fn.store(ctx.fn.splat(value, lanes), slot.pointer, align=64)


def assign(ctx: Context, var: Var, value: Value) -> None:
    """Another value of a mutable variable, in the lanes of the mask."""
    slot = ctx.slots.get(var)
    if slot is None:
        raise InternalError(f"variable {var.name} is assigned before it is bound")
    fn = ctx.fn
    if ctx.lanes is not None and slot.lanes == 1:
        _assign_outer(ctx, slot, value)
        return
    wide = fn.splat(value, slot.lanes)
    if ctx.mask is not None:
        before = fn.load(slot.pointer, slot.element, slot.lanes, align=64)
        wide = fn.select(ctx.mask, wide, before)
    fn.store(wide, slot.pointer, align=64)


def _assign_outer(ctx: Context, slot: Slot, value: Value) -> None:
    """A variable made outside the Map: the last point that assigns it counts."""
    store_raw(ctx, Address(slot.pointer, 0, None), 64, ctx.mask, value)


def give(ctx: Context, var: Var, value: Value) -> None:
    """The result of a statement: a first value, or another one of a mutable variable."""
    if var in ctx.slots:
        assign(ctx, var, value)
    else:
        bind_value(ctx, var, value)


def frozen(ctx: Context, expr: Expr) -> Form:
    """An integer that is evaluated here once, as a form that keeps its meaning while memory changes."""
    if is_index_dtype(expr.dtype):
        form = ctx.scope.form(expr)
        if all(is_stable(atom) for atom in form.atoms()):
            return form
    var = Var(name="bound", dtype=INT64, kind="value")
    ctx.scope.add_variable(var, None, None)
    ctx.set_index(var, to_i64(ctx, evaluate(ctx, expr), expr))
    return Form.of(var)


def frozen_offset(ctx: Context, expr: Expr) -> Form:
    """The same of where a region begins: the index of an element, so far from the ends of 64 bits that extents can be added."""
    if is_index_dtype(expr.dtype):
        form = ctx.scope.place(expr)
        if all(is_stable(atom) for atom in form.atoms()):
            return form
    var = Var(name="begin", dtype=INT64, kind="value")
    ctx.scope.add_named(var, Form.of(-FAR), Form.of(FAR))
    begin = to_i64(ctx, evaluate(ctx, expr), expr)
    begin = ctx.fn.intrinsic("llvm.smin", ctx.fn.intrinsic("llvm.smax", begin, i64(-FAR)), i64(FAR))
    ctx.set_index(var, begin)
    return Form.of(var)


# -- control -------------------------------------------------------------------------------------------------------------


def _for(ctx: Context, statement: For) -> None:
    fn = ctx.fn
    start, stop = frozen(ctx, statement.start), frozen(ctx, statement.stop)
    step = int(statement.step.value) if isinstance(statement.step, Const) else None
    if step is not None and step > 0 and _counter_fits(statement, stop, step):
        with ctx.nested(), fn.loop(uniform(ctx, start), uniform(ctx, stop), step) as loop:
            ctx.scope.add_variable(statement.var, start, stop - 1)
            _loop_body(ctx, statement, loop.index, LoopLabels(loop.next, loop.after))
        return
    # counted from 0: the test at the head differs with the sign of the step, and the variable may come near the end of its type
    stride = frozen(ctx, statement.step)
    count = _trip_count(ctx, uniform(ctx, start), uniform(ctx, stop), uniform(ctx, stride))
    with ctx.nested(), fn.loop(constant("i64", 0), count) as loop:
        low = start if step is not None and step > 0 else stop + 1 if step is not None and step < 0 else None
        high = stop - 1 if step is not None and step > 0 else start if step is not None and step < 0 else None
        ctx.scope.add_variable(statement.var, low, high)
        index = fn.binary("add", uniform(ctx, start), fn.binary("mul", loop.index, uniform(ctx, stride)))
        _loop_body(ctx, statement, index, LoopLabels(loop.next, loop.after))


def _counter_fits(statement: For, stop: Form, step: int) -> bool:
    """Whether the counter cannot pass the end of 64 bits on its way beyond ``stop``."""
    bound = stop.constant
    return step == 1 or statement.var.dtype.bits < 64 or (bound is not None and bound + step < 1 << 63)


def _loop_body(ctx: Context, statement: For, index: Value, labels: LoopLabels) -> None:
    ctx.set_index(statement.var, index)
    ctx.loops.append(labels)
    if ctx.lanes is None and effects.is_worth_watching(statement.body):
        effects.watch(ctx)
    emit_body(ctx, statement.body)
    ctx.loops.pop()


def _trip_count(ctx: Context, start: Value, stop: Value, step: Value) -> Value:
    """The number of values of ``range(start, stop, step)``; 0 for a step of 0. Distances are unsigned, so any two bounds will do."""
    fn = ctx.fn
    zero, one = constant("i64", 0), constant("i64", 1)
    is_up, is_down = fn.compare("sgt", step, zero), fn.compare("slt", step, zero)
    goes_up = fn.binary("and", is_up, fn.compare("slt", start, stop))
    goes_down = fn.binary("and", is_down, fn.compare("sgt", start, stop))
    distance = fn.select(is_up, fn.binary("sub", stop, start), fn.binary("sub", start, stop))
    size = fn.select(is_up, step, fn.binary("sub", zero, step))
    safe = fn.select(fn.compare("eq", size, zero), one, size)
    count = fn.binary("add", fn.binary("udiv", fn.binary("sub", distance, one), safe), one)
    return fn.select(fn.binary("or", goes_up, goes_down), count, zero)


def _while(ctx: Context, statement: While) -> None:
    fn = ctx.fn
    head, body, after = fn.fresh_label("while"), fn.fresh_label("body"), fn.fresh_label("done")
    with ctx.nested():
        fn.label(head)
        fn.branch_if(evaluate(ctx, statement.condition), body, after)
        fn.label(body)
        ctx.loops.append(LoopLabels(head, after))
        if ctx.lanes is None:
            effects.watch(ctx)
        emit_body(ctx, statement.body)
        ctx.loops.pop()
        if not fn.is_terminated:
            fn.branch(head)
    fn.label(after)


def _if(ctx: Context, statement: If) -> None:
    """A chain of elif is a loop here, so that its length does not matter."""
    fn = ctx.fn
    end = fn.fresh_label("fi")
    body: tuple[Stmt, ...] = (statement,)
    with ExitStack() as enclosing:
        while (link := _only_if(body)) is not None:
            test = evaluate(ctx, link.condition)
            body = link.otherwise
            if test.lanes > 1:
                with ctx.masked(conjunction(ctx, ctx.mask, test), link.condition):
                    emit_body(ctx, link.then)
                inverse = unary(fn, "not", test, link.condition.dtype)
                enclosing.enter_context(ctx.masked(conjunction(ctx, ctx.mask, inverse), link.condition, holds=False))
            elif test.name == "true":
                body = link.then
                break
            elif test.name != "false":
                then, rest = fn.fresh_label("then"), fn.fresh_label("else")
                inner, outer = fn.reserve(), fn.reserve()
                fn.branch_if(test, then, rest)
                fn.label(then)
                with ctx.nested(inner):
                    ctx.scope.assume(link.condition)
                    emit_body(ctx, link.then)
                if not fn.is_terminated:
                    fn.branch(end)
                fn.label(rest)
                enclosing.enter_context(ctx.nested(outer))
                ctx.scope.assume(link.condition, holds=False)
        emit_body(ctx, body)
    fn.label(end)


def _only_if(body: tuple[Stmt, ...]) -> If | None:
    only = body[0] if len(body) == 1 else None
    return only if isinstance(only, If) else None
