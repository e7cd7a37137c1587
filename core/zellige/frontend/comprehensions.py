"""Comprehensions: loops over Python values that are run while compiling."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from zellige.diagnostics import catalogue
from zellige.frontend.assignments import assign
from zellige.frontend.changes import refuse_iterator
from zellige.frontend.evaluator import evaluate, evaluates
from zellige.frontend.expressions import plain, run_time
from zellige.frontend.loops import LoopSpec
from zellige.frontend.scopes import Frame
from zellige.frontend.values import Scalar, Tile, TileRegion


def _inner(frame: Frame) -> Frame:
    return Frame(
        name=frame.name,
        trace=frame.trace,
        text=frame.text,
        flow=frame.flow,
        global_names=frame.global_names,
        enclosing=frame,
        kind="comprehension",
        base_depth=frame.base_depth,
    )


def _run(frame: Frame, generators: list[ast.comprehension], add: Callable[[Frame], None]) -> None:
    """Calls ``add`` for each combination; everything here is decided while compiling."""
    scope = _inner(frame)

    def level(position: int) -> None:
        if position == len(generators):
            add(scope)
            return
        generator = generators[position]
        if generator.is_async:
            raise catalogue.E111.error(frame.here(generator.iter), what="async for", instead="loop with range(...)")
        source = evaluate(frame if position == 0 else scope, generator.iter)
        span = frame.here(generator.iter)
        if isinstance(source, (Scalar, Tile, TileRegion)):
            raise catalogue.E106.error(span, given=source.described)
        if isinstance(source, LoopSpec):
            raise catalogue.E132.error(span, given="a run-time loop in a comprehension")
        refuse_iterator(frame.trace, source, span)
        for value in source:
            assign(scope, generator.target, value, None)
            if all(_holds(scope, condition) for condition in generator.ifs):
                level(position + 1)

    level(0)


def _holds(frame: Frame, node: ast.expr) -> bool:
    value = evaluate(frame, node)
    span = frame.here(node)
    if run_time(value):
        raise catalogue.E104.error(span, given=value.described)
    return bool(plain(value))


@evaluates(ast.ListComp)
def _list(frame: Frame, node: ast.ListComp) -> Any:
    result: list[Any] = []
    _run(frame, node.generators, lambda scope: result.append(evaluate(scope, node.elt)))
    return frame.trace.remember(result)


@evaluates(ast.GeneratorExp)
def _generator(frame: Frame, node: ast.GeneratorExp) -> Any:
    result: list[Any] = []
    _run(frame, node.generators, lambda scope: result.append(evaluate(scope, node.elt)))
    return frame.trace.remember(iter(result))


@evaluates(ast.SetComp)
def _set(frame: Frame, node: ast.SetComp) -> Any:
    result: set[Any] = set()
    _run(frame, node.generators, lambda scope: result.add(plain(evaluate(scope, node.elt))))
    return frame.trace.remember(result)


@evaluates(ast.DictComp)
def _dict(frame: Frame, node: ast.DictComp) -> Any:
    result: dict[Any, Any] = {}

    def add(scope: Frame) -> None:
        key = plain(evaluate(scope, node.key))
        result[key] = evaluate(scope, node.value)

    _run(frame, node.generators, add)
    return frame.trace.remember(result)
