"""Comprehensions: loops over Python values that are run while compiling."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from zellige.diagnostics import catalogue
from zellige.frontend.assignments import assign
from zellige.frontend.changes import refuse_iterator
from zellige.frontend.evaluator import evaluate, evaluates
from zellige.frontend.expressions import escaping, plain, run_time
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


def _scopes(frame: Frame, generators: list[ast.comprehension]) -> Iterator[Frame]:
    """The scope of each element, when the one who asks wants it; everything here is decided while compiling. The first iterable is
    evaluated at once, as in Python."""
    scope = _inner(frame)
    first = iter(_iterable(frame, generators[0]))

    def level(position: int, values: Iterator[Any]) -> Iterator[Frame]:
        generator = generators[position]
        for value in values:
            assign(scope, generator.target, value, None)
            if not all(_holds(scope, condition) for condition in generator.ifs):
                continue
            if position + 1 == len(generators):
                yield scope
            else:
                yield from level(position + 1, iter(_iterable(scope, generators[position + 1])))

    return level(0, first)


def _iterable(frame: Frame, generator: ast.comprehension) -> Any:
    """What ``generator`` takes its values from. E106, E132: values of the kernel; E111: async."""
    if generator.is_async:
        raise catalogue.E111.error(frame.here(generator.iter), what="async for", instead="loop with range(...)")
    source = evaluate(frame, generator.iter)
    span = frame.here(generator.iter)
    if isinstance(source, (Scalar, Tile, TileRegion)):
        raise catalogue.E106.error(span, given=source.described)
    if isinstance(source, LoopSpec):
        raise catalogue.E132.error(span, given="a run-time loop in a comprehension")
    refuse_iterator(frame.trace, source, span)
    return source


def _element(frame: Frame, node: ast.expr) -> Any:
    """An element as it is now."""
    value = evaluate(frame, node)
    frame.here(node)
    return escaping(value, node)


def _holds(frame: Frame, node: ast.expr) -> bool:
    value = evaluate(frame, node)
    span = frame.here(node)
    if run_time(value):
        raise catalogue.E104.error(span, given=value.described)
    return bool(plain(value))


@evaluates(ast.ListComp)
def _list(frame: Frame, node: ast.ListComp) -> Any:
    return frame.trace.remember([_element(scope, node.elt) for scope in _scopes(frame, node.generators)])


@evaluates(ast.GeneratorExp)
def _generator(frame: Frame, node: ast.GeneratorExp) -> Any:
    scopes = _scopes(frame, node.generators)
    return frame.trace.remember(_element(scope, node.elt) for scope in scopes)


@evaluates(ast.SetComp)
def _set(frame: Frame, node: ast.SetComp) -> Any:
    return frame.trace.remember({plain(_element(scope, node.elt)) for scope in _scopes(frame, node.generators)})


@evaluates(ast.DictComp)
def _dict(frame: Frame, node: ast.DictComp) -> Any:
    result: dict[Any, Any] = {}
    for scope in _scopes(frame, node.generators):
        key = plain(evaluate(scope, node.key))
        result[key] = _element(scope, node.value)
    return frame.trace.remember(result)
