"""Jumps, ``try`` and ``with``: how a stretch of statements is left, and what runs when it is.

A jump that is known while compiling unwinds as in Python: the statements of a ``finally`` and the ``__exit__`` of a manager follow where
the ``try`` or ``with`` stands. A jump of the kernel (a ``continue``, ``break`` or ``return`` under run-time control, or in a run-time
loop) leaves when the kernel runs, so the statements of each ``finally`` that it passes are traced once more right before it. What a
manager's ``__exit__`` adds to the kernel cannot be had twice (a generator ends once): E167. An exception is raised while compiling,
whatever the kernel's conditions are: one that leaves a run-time construct and is caught outside of it is E120.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from zellige.diagnostics import Span, ZelligeError, catalogue
from zellige.frontend import arithmetic
from zellige.frontend.assignments import assign
from zellige.frontend.control import run_while_block
from zellige.frontend.evaluator import evaluate, execute, executes
from zellige.frontend.expressions import settled
from zellige.frontend.joins import held, restore
from zellige.frontend.loops import WhileSpec
from zellige.frontend.scopes import Cleanup, Frame, RunTimeJump, Signal, Trace
from zellige.frontend.vectors import is_variable
from zellige.ir.stmt import Break, Continue, Return

# ---- jumps


@executes(ast.Break, ast.Continue)
def _jump(frame: Frame, node: ast.Break | ast.Continue) -> Signal:
    span = frame.here(node)
    is_break = isinstance(node, ast.Break)
    word = "break" if is_break else "continue"
    loop = frame.loops[-1]
    if loop.kind == "map":
        raise catalogue.E114.error(span, jump=word)
    if loop.kind == "unrolled":
        if frame.trace.depth > loop.depth:
            if loop.may_restart:
                raise RunTimeJump(loop, word, span)
            raise catalogue.E112.error(span, jump=word)
        frame.is_jump_emitted = False
    elif is_break and loop.kind == "grid":
        raise catalogue.E138.error(span)
    else:
        inside = [cleanup for cleanup in frame.cleanups if cleanup.loops >= len(frame.loops)]
        signal = _clean_up(frame, len(frame.cleanups) - len(inside), span)
        if signal is not Signal.NEXT:
            return signal
        loop.jumps.append(held(frame, loop.names))
        frame.builder.emit(Break(span=span) if is_break else Continue(span=span))
        frame.is_jump_emitted = True
    return Signal.BREAK if is_break else Signal.CONTINUE


@executes(ast.Return)
def _return(frame: Frame, node: ast.Return) -> Signal:
    value = None if node.value is None else evaluate(frame, node.value)
    span = frame.here(node)
    if frame.trace.depth > frame.base_depth:
        inside = frame.trace.control[frame.base_depth :]
        if any(c.kind == "map" for c in inside):
            raise catalogue.E114.error(span, jump="return")
        if frame.kind != "kernel" or value is not None:
            reason = "a kernel returns its outputs at its end" if frame.kind == "kernel" else f"{frame.name} has one exit, at its end"
            raise catalogue.E113.error(span, reason=reason)
        signal = _clean_up(frame, 0, span)
        if signal is not Signal.NEXT:
            return signal
        frame.builder.emit(Return(span=span))
        frame.is_jump_emitted = True
        return Signal.RETURN
    keeps_variable = frame.kind == "function" and isinstance(node.value, ast.Call)
    frame.returned_at = span
    frame.returned = value if keeps_variable and is_variable(value) else _returned(value)
    frame.is_jump_emitted = False
    return Signal.RETURN


def _returned(value: Any) -> Any:
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_returned(v) for v in value)
    return settled(value)


def _clean_up(frame: Frame, first: int, span: Span) -> Signal:
    """Runs, for a jump of the kernel at ``span``, the cleanups of the frame from number ``first`` on, the innermost first. The signal is
    that of a ``finally`` which jumps itself and so takes the place of the jump."""
    cleanups, loops = frame.cleanups, frame.loops
    signal = Signal.NEXT
    try:
        for position in range(len(cleanups) - 1, first - 1, -1):
            cleanup = cleanups[position]
            cleanup.left_at = cleanup.left_at or span
            if not cleanup.statements or signal is not Signal.NEXT:
                continue
            nodes = (node for statement in cleanup.statements for node in ast.walk(statement))
            if cleanup.loops < len(loops) and any(isinstance(node, (ast.Break, ast.Continue)) for node in nodes):
                raise catalogue.E167.error(span, what="a finally with a jump of its own, outside of the loop that is left,")
            frame.cleanups, frame.loops = cleanups[:position], loops[: cleanup.loops]
            names = sorted(set().union(*(frame.flow.assigned(statement) for statement in cleanup.statements)) - frame.flow.outer_names)
            before = held(frame, names)
            try:
                signal = execute(frame, cleanup.statements)
            except Exception as error:
                cleanup.failure = error
                raise
            restore(frame, before)
    finally:
        frame.cleanups, frame.loops = cleanups, loops
        frame.builder.span = span
    return signal


def leave_innermost_loop(trace: Trace, span: Span | None) -> None:
    """A break of the innermost run-time loop from wherever the trace is, in a function that the loop calls, too. E138: T.grid; E167: a
    finally on the way."""
    frame, loop = next(item for item in reversed(trace.loops) if item[1].kind != "unrolled")
    if loop.kind == "grid":
        raise catalogue.E138.error(span)
    for cleanup in trace.cleanups[loop.cleanups :]:
        if cleanup.statements:
            raise catalogue.E167.error(span, what="a finally")
        cleanup.left_at = cleanup.left_at or span
    loop.jumps.append(held(frame, loop.names))
    trace.builder.emit(Break(span=span))


@contextmanager
def _protected(frame: Frame, cleanup: Cleanup) -> Iterator[None]:
    frame.cleanups.append(cleanup)
    frame.trace.cleanups.append(cleanup)
    try:
        yield
    finally:
        frame.trace.cleanups.pop()
        frame.cleanups.pop()


# ---- try


@executes(ast.Try)
def _try(frame: Frame, node: ast.Try) -> Signal:
    calls = len(frame.trace.calls)
    cleanup = Cleanup(len(frame.loops), node.finalbody)
    try:
        with _protected(frame, cleanup):
            signal = _body_and_handlers(frame, node, cleanup)
    except Exception as error:
        del frame.trace.calls[calls:]
        if cleanup.failure is error:
            raise  # out of the finally itself, before a jump
        last = _finally(frame, node)
        if last is Signal.NEXT:
            raise
        refuse_passed(frame, error)
        return last  # a jump of the finally ends the exception
    if signal is not Signal.NEXT and frame.is_jump_emitted:
        return signal  # the jump ran the finally
    last = _finally(frame, node)
    return signal if last is Signal.NEXT else last


def _body_and_handlers(frame: Frame, node: ast.Try, cleanup: Cleanup) -> Signal:
    """A ``try`` without its ``finally``. What its handlers and its ``else`` raise, no handler of the same ``try`` catches."""
    calls = len(frame.trace.calls)
    try:
        signal = execute(frame, node.body)
    except Exception as error:
        del frame.trace.calls[calls:]
        if cleanup.failure is error:
            raise
        handler = next((h for h in node.handlers if _catches(frame, h, error)), None)
        if handler is None:
            raise
        refuse_passed(frame, error)
        before, frame.handled = frame.handled, error
        try:
            if handler.name is not None:
                frame.locals[handler.name] = error
            return execute(frame, handler.body)
        finally:
            frame.handled = before
            if handler.name is not None:
                frame.locals.pop(handler.name, None)
    return execute(frame, node.orelse) if signal is Signal.NEXT else signal


def refuse_passed(frame: Frame, error: BaseException) -> None:
    """E120 where an exception that is caught now has left a run-time construct."""
    passed = frame.trace.passed
    if passed is None or passed[0] is not error:
        return
    raise passed_error(frame, passed) from error


def passed_error(frame: Frame, passed: tuple[Exception, Span | None, str]) -> ZelligeError:
    """E120 for an exception that left a run-time construct."""
    error, span, kind = passed
    if isinstance(error, ZelligeError) and error.code == catalogue.E120.id:
        return error
    word = "loop" if kind in ("for", "while", "map") else kind
    what = f"the {type(error).__name__} raised here under a run-time {word}, and caught outside of it,"
    hint = f"catch it inside of the {word}; a check of run-time values is T.device_assert(condition, message)"
    found = catalogue.E120.error(span, what=what, hint=hint)
    frame.trace.passed = (found, span, kind)  # nor may anything further out catch this
    return found


def _catches(frame: Frame, handler: ast.ExceptHandler, error: Exception) -> bool:
    if handler.type is None:
        return True
    span = frame.builder.span
    kinds = evaluate(frame, handler.type)
    frame.builder.span = span
    return isinstance(error, kinds)


def _finally(frame: Frame, node: ast.Try) -> Signal:
    span = frame.builder.span
    signal = execute(frame, node.finalbody)
    if node.finalbody:
        frame.builder.span = span
    return signal


# ---- with


def _names_of(target: ast.expr | None) -> tuple[str, ...]:
    """The names of a target that is made of names alone."""
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [] if target is None else [target]
    names = tuple(part.id for part in parts if isinstance(part, ast.Name))
    return names if len(names) == len(parts) else ()


@executes(ast.With)
def _with(frame: Frame, node: ast.With) -> Signal:
    return _enter(frame, node, 0)


def _enter(frame: Frame, node: ast.With, position: int) -> Signal:
    if position == len(node.items):
        return execute(frame, node.body)
    item = node.items[position]
    manager = evaluate(frame, item.context_expr)
    frame.here(item.context_expr)
    if isinstance(manager, WhileSpec) and len(node.items) == 1:
        return run_while_block(frame, node, manager)
    kind = type(manager)
    if not hasattr(kind, "__enter__") or not hasattr(kind, "__exit__"):
        raise TypeError(f"{arithmetic.describe(manager)} cannot be used with `with`")
    leave = kind.__exit__
    outer = frame.builder.mark()
    frame.builder.targets = _names_of(item.optional_vars)
    value = kind.__enter__(manager)
    frame.builder.targets = ()
    cleanup = Cleanup(len(frame.loops))
    try:
        if item.optional_vars is not None:
            frame.here(item.optional_vars)
            assign(frame, item.optional_vars, value, None)
        with _protected(frame, cleanup):
            signal = _enter(frame, node, position + 1)
    except BaseException as error:
        if not leave(manager, type(error), error, error.__traceback__) or isinstance(error, RunTimeJump):
            raise
        refuse_passed(frame, error)
        return Signal.NEXT
    frame.here(item.context_expr)
    inner = frame.builder.mark()
    before = [len(mark[0]) if mark is not None else 0 for mark in (outer, inner)]
    leave(manager, None, None, None)
    after = [len(mark[0]) if mark is not None else 0 for mark in (outer, inner)]
    if cleanup.left_at is not None and before != after:
        raise catalogue.E167.error(cleanup.left_at, what=f"the __exit__ of {arithmetic.describe(manager)}")
    return signal
