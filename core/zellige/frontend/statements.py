"""Simple statements that Python alone decides: expressions, assert, raise, import. Jumps and what they leave are in ``leaving``."""

from __future__ import annotations

import ast
import importlib
from contextlib import AbstractContextManager

from zellige.diagnostics import catalogue
from zellige.frontend import arithmetic
from zellige.frontend.assignments import assign_name
from zellige.frontend.choices import evaluate_dropped
from zellige.frontend.evaluator import evaluate, executes
from zellige.frontend.expressions import plain, run_time
from zellige.frontend.junctions import condition_of
from zellige.frontend.scopes import Frame, Signal
from zellige.frontend.values import Tile, TileRegion
from zellige.ir.stmt import Assert


@executes(ast.Expr)
def _expression(frame: Frame, node: ast.Expr) -> Signal:
    if not isinstance(node.value, ast.Constant):
        value = evaluate_dropped(frame, node.value)
        if isinstance(value, AbstractContextManager):
            raise catalogue.E163.error(frame.here(node))
    return Signal.NEXT


@executes(ast.Pass, ast.Global, ast.Nonlocal)
def _nothing(frame: Frame, node: ast.stmt) -> Signal:
    return Signal.NEXT


@executes(ast.Assert)
def _assert(frame: Frame, node: ast.Assert) -> Signal:
    condition = condition_of(evaluate(frame, node.test))
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
        raise catalogue.E120.error(span, what="raise")
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


