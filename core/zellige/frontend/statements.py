"""Simple statements and those that Python alone decides: with, try, assert, raise, return, import, def, del, match is elsewhere."""

from __future__ import annotations

import ast
import importlib
from contextlib import AbstractContextManager
from typing import Any

from zellige.diagnostics import catalogue
from zellige.frontend import arithmetic
from zellige.frontend.assignments import assign, assign_name
from zellige.frontend.control import run_while_block
from zellige.frontend.evaluator import evaluate, execute, executes
from zellige.frontend.expressions import plain, run_time, settled
from zellige.frontend.loops import WhileSpec
from zellige.frontend.scopes import Frame, RunTimeJump, Signal
from zellige.frontend.values import Tile, TileRegion, Variable
from zellige.ir.stmt import Assert, Break, Continue, Return


@executes(ast.Expr)
def _expression(frame: Frame, node: ast.Expr) -> Signal:
    if not isinstance(node.value, ast.Constant):
        value = evaluate(frame, node.value)
        if isinstance(value, AbstractContextManager):
            raise catalogue.E163.error(frame.here(node))
    return Signal.NEXT


@executes(ast.Pass, ast.Global, ast.Nonlocal)
def _nothing(frame: Frame, node: ast.stmt) -> Signal:
    return Signal.NEXT


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
                raise RunTimeJump(loop)
            raise catalogue.E112.error(span, jump=word)
    elif is_break and loop.kind == "grid":
        raise catalogue.E138.error(span)
    else:
        frame.builder.emit(Break(span=span) if is_break else Continue(span=span))
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
        frame.builder.emit(Return(span=span))
        return Signal.RETURN
    keeps_variable = frame.kind == "function" and isinstance(node.value, ast.Call)
    frame.returned_at = span
    frame.returned = value if keeps_variable and isinstance(value, Variable) else _returned(value)
    return Signal.RETURN


def _returned(value: Any) -> Any:
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_returned(v) for v in value)
    return settled(value)


@executes(ast.Assert)
def _assert(frame: Frame, node: ast.Assert) -> Signal:
    condition = evaluate(frame, node.test)
    span = frame.here(node.test)
    if isinstance(condition, (Tile, TileRegion)):
        raise catalogue.E104.error(span, given=condition.described)
    if not run_time(condition) and plain(condition):
        return Signal.NEXT
    message = "" if node.msg is None else str(evaluate(frame, node.msg))
    frame.here(node.test)
    if not run_time(condition):
        raise catalogue.E118.error(span, message=message or ast.unparse(node.test))
    statement = Assert(condition=arithmetic.truth(condition, span), message=message or ast.unparse(node.test), span=span)
    if frame.builder.is_inside_launch:
        frame.builder.emit(statement)
    else:
        frame.builder.deferred.append(statement)
    return Signal.NEXT


@executes(ast.Raise)
def _raise(frame: Frame, node: ast.Raise) -> Signal:
    span = frame.here(node)
    if any(c.kind in ("if", "while") for c in frame.trace.control):
        raise catalogue.E120.error(span)
    if node.exc is None:
        if frame.handled is None:
            raise RuntimeError("no exception to raise again")
        raise frame.handled
    error = evaluate(frame, node.exc)
    cause = None if node.cause is None else evaluate(frame, node.cause)
    frame.here(node)
    kind = error if isinstance(error, type) else type(error)
    if issubclass(kind, BaseException) and not issubclass(kind, Exception):
        raise catalogue.E149.error(span, what=kind.__name__)
    raise error from cause


@executes(ast.Try)
def _try(frame: Frame, node: ast.Try) -> Signal:
    calls = len(frame.trace.calls)
    try:
        signal = execute(frame, node.body)
        if signal is Signal.NEXT:
            signal = execute(frame, node.orelse)
    except Exception as error:
        del frame.trace.calls[calls:]
        handler = next((h for h in node.handlers if _catches(frame, h, error)), None)
        if handler is None:
            _finally(frame, node)
            raise
        before, frame.handled = frame.handled, error
        try:
            if handler.name is not None:
                frame.locals[handler.name] = error
            signal = execute(frame, handler.body)
        finally:
            frame.handled = before
            if handler.name is not None:
                frame.locals.pop(handler.name, None)
    last = _finally(frame, node)
    return signal if last is Signal.NEXT else last


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
    value = kind.__enter__(manager)
    try:
        if item.optional_vars is not None:
            frame.here(item.optional_vars)
            assign(frame, item.optional_vars, value, None)
        signal = _enter(frame, node, position + 1)
    except BaseException as error:
        if not leave(manager, type(error), error, error.__traceback__):
            raise
        return Signal.NEXT
    frame.here(item.context_expr)
    leave(manager, None, None, None)
    return signal


@executes(ast.Import)
def _import(frame: Frame, node: ast.Import) -> Signal:
    frame.here(node)
    for alias in node.names:
        module = importlib.import_module(alias.name)
        if alias.asname is None:
            assign_name(frame, alias.name.split(".")[0], importlib.import_module(alias.name.split(".")[0]), None)
        else:
            assign_name(frame, alias.asname, module, None)
    return Signal.NEXT


@executes(ast.ImportFrom)
def _import_from(frame: Frame, node: ast.ImportFrom) -> Signal:
    frame.here(node)
    package = frame.global_names.get("__package__")
    module = importlib.import_module("." * node.level + (node.module or ""), package if node.level else None)
    for alias in node.names:
        if alias.name == "*":
            raise SyntaxError("import * only allowed at module level")
        if not hasattr(module, alias.name):
            raise ImportError(f"cannot import name {alias.name!r} from {module.__name__!r}")
        assign_name(frame, alias.asname or alias.name, getattr(module, alias.name), None)
    return Signal.NEXT


