"""Invariants 3, 18, 22, 24, 26, 27, 30 and 31: what holds of each statement by itself (tile operations: the module of that name).

In: a statement and the :class:`Context` of the place where it stands. Out: diagnostics in the context, and the names that
the statement declares in the scope. Nested bodies are walked by :mod:`zellige.ir.verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, get_args

from zellige.ir.expr import Buffer, Expr, ExprNode, Region, Var, constant_value
from zellige.ir.lanes import PRIVATE, is_collective, tile_regions
from zellige.ir.stmt import (
    Alloc,
    Assert,
    Assign,
    Assume,
    Atomic,
    Barrier,
    Bind,
    Break,
    Continue,
    Dialect,
    For,
    If,
    Map,
    Persistent,
    Pipelined,
    Print,
    ReducerFinalize,
    ReducerInit,
    ReducerUpdate,
    Return,
    Scope,
    Serial,
    Shuffle,
    Stmt,
    Store,
    Unrolled,
    Vectorised,
    Vote,
    While,
)
from zellige.ir.traverse import loads_in
from zellige.ir.verifier import tile_operations
from zellige.ir.verifier.context import Context, Frame, word
from zellige.ir.verifier.expressions import (
    check,
    check_buffer,
    check_condition,
    check_declaration,
    check_indices,
    check_region,
    place,
    same,
)
from zellige.ir.verifier.values import REDUCE_OPS, check_kind, check_operator, check_result, check_value, check_word

_SCOPES: Final = frozenset(get_args(Scope))
_SHUFFLES: Final = frozenset(("xor", "up", "down", "index"))
_VOTES: Final = frozenset(("any", "all", "count", "ballot"))
_LOOP_KINDS: Final = (Serial, Unrolled, Vectorised, Pipelined, Persistent)


def _named_once(context: Context, s: Stmt, pairs: Sequence[tuple[str, object]], what: str) -> None:
    """Invariant 31: ``pairs`` are names, each once, with values that a text has."""
    names = [name for name, _ in pairs]
    for name in sorted({name for name in names if names.count(name) > 1}):
        context.report(31, s.span, f"{what} {name} of {word(s)} is given twice")
    for name, value in pairs:
        if type(value) not in (bool, int, float, str):
            context.report(31, s.span, f"{what} {name} of {word(s)} is {value!r}, not a bool, number or string")


def check_statement(context: Context, statement: Stmt) -> None:
    """Checks one statement, apart from the statements nested in it, and declares what it declares."""
    rule = _RULES.get(type(statement))
    if rule is None:
        context.report(31, None, f"{type(statement).__name__} is not a statement")
        return
    if context.frame.in_map and not isinstance(statement, Map) and is_collective(statement):
        context.report(26, statement.span, f"{word(statement)} stands inside T.Parallel")
    if context.reducers:
        _untouched_reducers(context, statement)
    pairs = getattr(statement.kind if isinstance(statement, For) else statement, "hints", ())
    if pairs:
        _named_once(context, statement, pairs, "the hint")
    rule(context, statement)


# ---- storage and names ---------------------------------------------------------------------------------------------------------------


def _alloc(context: Context, s: Alloc) -> None:
    buffer = s.buffer
    check_declaration(context, buffer, is_parameter=False)
    if buffer.alias is not None:
        context.report(12, s.span, f"{buffer.label} is a view and has no storage of its own to allocate")
    if context.frame.in_map and buffer.space not in PRIVATE:
        context.report(26, s.span, f"{buffer.label} is allocated inside T.Parallel, where only private buffers can be, not {buffer.space}")
    context.declare(buffer, "buffer")


def _bind(context: Context, s: Bind) -> None:
    check_value(context, s.value, s.var.dtype, f"variable {s.var.label}")
    check_kind(context, s.var, ("value", "mutable"), "bound name")
    context.declare(s.var, "variable")


def _assign(context: Context, s: Assign) -> None:
    check(context, s.var)
    if not s.var.is_mutable:
        context.report(3, s.span, f"{s.var.label} is a {s.var.kind} variable and cannot be assigned to")
    check_value(context, s.value, s.var.dtype, f"variable {s.var.label}")


def _store(context: Context, s: Store) -> None:
    check(context, *s.indices)
    check_indices(context, s.buffer, s.indices, s)
    check_value(context, s.value, s.buffer.dtype, f"buffer {s.buffer.label}")


# ---- control flow --------------------------------------------------------------------------------------------------------------------


def _map(context: Context, s: Map) -> None:
    check(context, *s.extents)
    if not s.axes or len(s.axes) != len(s.extents):
        context.report(22, s.span, f"T.Parallel with {len(s.axes)} variables over {len(s.extents)} extents")
    for axis, extent in zip(s.axes, s.extents):
        _loop_variable(context, axis, (extent,))
        value = constant_value(extent)
        if value is not None and value < 0:
            context.report(22, place(extent), f"T.Parallel over an extent of {value}")
    if s.vector_width is not None and s.vector_width < 1:
        context.report(22, s.span, f"vector width {s.vector_width}")


def _loop_variable(context: Context, var: Var, bounds: Sequence[Expr]) -> None:
    check_kind(context, var, ("loop",), "loop variable")
    if not var.dtype.is_integer or var.dtype.lanes != 1:
        context.report(18, var.span, f"loop variable {var.label} is {var.dtype}, not an integer")
        return
    wrong = next((b for b in bounds if isinstance(b, ExprNode) and not same(b.dtype, var.dtype)), None)
    if wrong is not None:
        context.report(18, place(wrong), f"loop variable {var.label} is {var.dtype} but a bound is {wrong.dtype}")


def _for(context: Context, s: For) -> None:
    check(context, s.start, s.stop, s.step)
    _loop_variable(context, s.var, (s.start, s.stop, s.step))
    if constant_value(s.step) == 0:
        context.report(22, s.span, f"the step of loop {s.var.label} is 0")
    kind = s.kind
    if not isinstance(kind, _LOOP_KINDS):
        context.report(31, s.span, f"{kind!r} is not a kind of loop")
    elif isinstance(kind, Unrolled) and kind.factor is not None and kind.factor < 1:
        context.report(22, s.span, f"loop {s.var.label} is unrolled by {kind.factor}")
    elif isinstance(kind, Pipelined):
        if kind.stages < 0:
            context.report(22, s.span, f"loop {s.var.label} has {kind.stages} stages")
        if kind.order and kind.stage and len(kind.order) != len(kind.stage):
            context.report(22, s.span, f"loop {s.var.label} has {len(kind.order)} entries of order but {len(kind.stage)} of stage")
        for name, entries in (("order", kind.order), ("stage", kind.stage)):
            if min(entries, default=0) < -1:
                context.report(22, s.span, f"loop {s.var.label} has {min(entries)} in {name}: its numbers are from 0, or -1 for a producer")
        places = [place for place in kind.order if place >= 0]
        if len(set(places)) < len(places):
            context.report(22, s.span, f"loop {s.var.label} gives two statements one place in its order {kind.order}")


def _while(context: Context, s: While) -> None:
    check_condition(context, s.condition, "the condition of while")


def _if(context: Context, s: If) -> None:
    check_condition(context, s.condition, "the condition of if")


def _jump(context: Context, s: Break | Continue) -> None:
    if not context.frame.in_loop:
        context.report(24, s.span, f"{word(s)} has no loop to act on in this body")


def _return(context: Context, s: Return) -> None:
    if context.frame.in_map:
        context.report(26, s.span, "return stands inside T.Parallel")


def _print(context: Context, s: Print) -> None:
    if isinstance(s.value, Region):
        check_region(context, s.value)
    elif s.value is not None:
        check(context, s.value)


def _assert(context: Context, s: Assert) -> None:
    check_condition(context, s.condition, "the condition of assert")


def _assume(context: Context, s: Assume) -> None:
    check_condition(context, s.condition, "the condition of assume")


# ---- reducers ------------------------------------------------------------------------------------------------------------------------


def _untouched_reducers(context: Context, s: Stmt) -> None:
    """Between its initialisation and its end a reducer is touched by updates alone."""
    touched: list[tuple[Buffer, Any]] = [(load.buffer, load.span) for load in loads_in(s)]
    touched.extend((region.buffer, region.span) for region in tile_regions(s))
    match s:
        case Store() | Atomic():
            touched.append((s.buffer, s.span))
        case Print() if isinstance(s.value, Region):
            touched.append((s.value.buffer, s.span))
        case Dialect():
            touched.extend((region.buffer, region.span) for region in (*s.inputs, *s.outputs))
        case _:
            pass
    for buffer, span in touched:
        if id(buffer.root) in context.reducers:
            context.report(30, span or s.span, f"illegal read of reducer {buffer.label}, or write to it, before it is finalised")


def _reducer_init(context: Context, s: ReducerInit) -> None:
    check_buffer(context, s.buffer, s.span)
    check_operator(context, s, s.op, REDUCE_OPS, "a reduction", s.buffer.dtype)
    context.reducers[id(s.buffer.root)] = (s.op, context.frame)
    context.frame.reducers.append((s.buffer, s.span))


def _reducer_update(context: Context, s: ReducerUpdate) -> None:
    check(context, *s.indices)
    check_indices(context, s.buffer, s.indices, s)
    check_value(context, s.value, s.buffer.dtype, f"reducer {s.buffer.label}")
    held = context.reducers.get(id(s.buffer.root))
    if held is None:
        context.report(30, s.span, f"reducer {s.buffer.label} is updated without having been initialised")
    elif held[0] != s.op:
        context.report(30, s.span, f"reducer {s.buffer.label} is initialised for {held[0]} and updated by {s.op}")


def _reducer_finalize(context: Context, s: ReducerFinalize) -> None:
    check_buffer(context, s.buffer, s.span)
    held = context.reducers.pop(id(s.buffer.root), None)
    if held is None:
        context.report(30, s.span, f"reducer {s.buffer.label} is finalised without having been initialised")
    elif not _is_in(context.frame, held[1]):
        context.report(30, s.span, f"reducer {s.buffer.label} is finalised in another body than the one that initialises it")


def _is_in(frame: Frame | None, body: Frame) -> bool:
    """Whether ``frame`` is ``body`` or, through branches alone, a part of it."""
    while frame is not None and frame is not body:
        frame = frame.branches_from
    return frame is body


# ---- lanes and dialects --------------------------------------------------------------------------------------------------------------


def _outside_map(context: Context, s: Stmt) -> None:
    if context.frame.in_map and not is_collective(s):  # the collective ones are reported for all statements alike
        context.report(26, s.span, f"{word(s)} stands inside T.Parallel")


def _needs_lanes(context: Context, s: Stmt) -> None:
    if context.launch is not None and not context.launch.lane_vars:
        context.report(27, s.span, f"{word(s)} in a launch without lanes")


def _barrier(context: Context, s: Barrier) -> None:
    _outside_map(context, s)
    check_word(context, s, s.scope, _SCOPES, "a scope")


def _shuffle(context: Context, s: Shuffle) -> None:
    _outside_map(context, s)
    _needs_lanes(context, s)
    check(context, s.value, s.operand)
    check_word(context, s, s.mode, _SHUFFLES, "a mode of shuffle")
    if s.width < 0 or s.width & (s.width - 1):
        context.report(22, s.span, f"the width of a shuffle is {s.width}, not a power of two (or 0, the warp)")
    if isinstance(s.operand, ExprNode) and not s.operand.dtype.is_integer:
        context.report(18, s.span, f"the operand of a shuffle is {s.operand.dtype}, not an integer")
    check_result(context, s.result, s.value.dtype, "result")


def _vote(context: Context, s: Vote) -> None:
    _outside_map(context, s)
    _needs_lanes(context, s)
    check_condition(context, s.predicate, "the predicate of a vote")
    check_word(context, s, s.mode, _VOTES, "a mode of vote")
    check_word(context, s, s.scope, _SCOPES, "a scope")
    if s.mode == "ballot" and s.scope != "warp":
        context.report(31, s.span, f"a ballot of the {s.scope}: only a warp has one")
    wanted = s.predicate.dtype if s.mode in ("any", "all") else None
    if wanted is None and not s.result.dtype.is_integer:
        context.report(18, s.span, f"the result of a {s.mode} is {s.result.dtype}, not an integer")
    check_result(context, s.result, wanted, "result")


def _dialect(context: Context, s: Dialect) -> None:
    for region in (*s.inputs, *s.outputs):
        check_region(context, region)
    check(context, *s.operands)
    if "." not in s.op.strip("."):
        context.report(31, s.span, f"{s.op!r} does not name a plugin and an operation")
    names = [name for name, _ in s.attributes]
    for name in sorted({name for name in names if names.count(name) > 1}):
        context.report(31, s.span, f"attribute {name} of {s.op} is given twice")
    if s.result is not None:
        check_result(context, s.result, None, "result")


_RULES: Final[dict[type, Callable[[Context, Any], None]]] = {
    **tile_operations.RULES,
    Alloc: _alloc,
    Map: _map,
    For: _for,
    While: _while,
    If: _if,
    Break: _jump,
    Continue: _jump,
    Return: _return,
    Bind: _bind,
    Assign: _assign,
    Store: _store,
    Print: _print,
    Assert: _assert,
    Assume: _assume,
    ReducerInit: _reducer_init,
    ReducerUpdate: _reducer_update,
    ReducerFinalize: _reducer_finalize,
    Barrier: _barrier,
    Shuffle: _shuffle,
    Vote: _vote,
    Dialect: _dialect,
}
