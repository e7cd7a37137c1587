"""``x if c else y``, and expressions whose value is dropped: ``c and f()`` as a statement of its own.

In: an expression. Out: its value; where the condition is known only when the kernel runs, both arms are evaluated
(:mod:`zellige.frontend.apart`), and a choice of their numbers is made: in the expression where the arms only compute, else by an If that
holds what they do. Vectors are chosen lane by lane, tuples of one length element by element. Where the value is dropped the arms may give
anything, as in Python.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from zellige.diagnostics import Span, catalogue
from zellige.frontend import arithmetic
from zellige.frontend.apart import alternatives, names_given, nothing, splice
from zellige.frontend.evaluator import evaluate, evaluates
from zellige.frontend.expressions import joined_values, plain, run_time
from zellige.frontend.junctions import condition_of
from zellige.frontend.scopes import Frame
from zellige.frontend.values import Scalar, Variable, declare, is_number
from zellige.frontend.vectors import Vector, can_vary, lanes_of
from zellige.ir.stmt import Bind, If

_COUNTED: Final = "tuples of one length are chosen element by element: write if / else with what uses the tuple in both branches"


@evaluates(ast.IfExp)
def _conditional(frame: Frame, node: ast.IfExp) -> Any:
    return _choice(frame, node, evaluate)


def evaluate_dropped(frame: Frame, node: ast.expr) -> Any:
    """Evaluates an expression whose value nobody takes: what stands under a condition may then be anything. Gives the value of another one
    than a choice or ``and`` and ``or``."""
    if isinstance(node, ast.IfExp):
        return _choice(frame, node, _dropped)
    if isinstance(node, ast.BoolOp):
        is_and = isinstance(node.op, ast.And)
        value = condition_of(joined_values(frame, node, node.values[:-1]))
        last = partial(_dropped, frame, node.values[-1])
        return _decided(frame, node, value, (last, nothing) if is_and else (nothing, last), names_given(node.values[-1]))
    return evaluate(frame, node)


def _dropped(frame: Frame, node: ast.expr) -> None:
    evaluate_dropped(frame, node)


def _choice(frame: Frame, node: ast.IfExp, arm: Callable[[Frame, ast.expr], Any]) -> Any:
    condition = condition_of(evaluate(frame, node.test))
    arms = [partial(arm, frame, node.body), partial(arm, frame, node.orelse)]
    return _decided(frame, node, condition, arms, names_given(node.body, node.orelse))


def _decided(frame: Frame, node: ast.expr, condition: Any, arms: Sequence[Callable[[], Any]], names: Sequence[str]) -> Any:
    """The value of one of two arms, which give ``names``. E134 for two different things that are no numbers."""
    span = frame.here(node)
    if not run_time(condition):
        return arms[0 if plain(condition) else 1]()
    (then, then_statements), (otherwise, else_statements) = alternatives(frame, names, *arms)
    frame.here(node)
    if all(isinstance(s, Bind) for s in (*then_statements, *else_statements)):
        splice(frame, then_statements)
        splice(frame, else_statements)
        return _merged(then, otherwise, span, lambda a, b: Scalar(arithmetic.select(condition, a, b, span)))
    variables: list[tuple[Variable, tuple[Scalar, Scalar]]] = []

    def variable(a: Any, b: Any) -> Variable:
        left, right = arithmetic.meet(a, b, span)
        made = declare("choice", left.dtype, 0)
        variables.append((made, (Scalar(left), Scalar(right))))
        return made

    value = _merged(then, otherwise, span, variable)
    bodies = []
    for arm, statements in enumerate((then_statements, else_statements)):
        with frame.builder.body() as body:
            body.extend(statements)
            for made, numbers in variables:
                made.assign(numbers[arm])
        bodies.append(tuple(body))
    frame.builder.emit(If(condition=arithmetic.truth(condition, span), then=bodies[0], otherwise=bodies[1], span=span))
    return _read(value, [made for made, _ in variables])


def _merged(then: Any, otherwise: Any, span: Span, merge: Callable[[Any, Any], Scalar]) -> Any:
    """``merge`` of two numbers, of each two in tuples of one length; what both arms give where that is one thing."""
    if is_number(then) and is_number(otherwise):
        return merge(then, otherwise)
    if (isinstance(then, Vector) and can_vary(otherwise)) or (isinstance(otherwise, Vector) and can_vary(then)):
        count = max(len(arm) for arm in (then, otherwise) if isinstance(arm, Vector))
        return Vector([merge(a, b) for a, b in zip(lanes_of(then, count), lanes_of(otherwise, count))])
    if then is otherwise or (type(then) is type(otherwise) and isinstance(then, (str, type(None))) and then == otherwise):
        return then
    if isinstance(then, tuple) and isinstance(otherwise, tuple):
        if len(then) == len(otherwise):
            return tuple(_merged(a, b, span, merge) for a, b in zip(then, otherwise))
        raise catalogue.E134.error(span, left=f"a tuple of {len(then)}", right=f"one of {len(otherwise)}", hint=_COUNTED)
    raise catalogue.E134.error(span, left=arithmetic.describe(then), right=arithmetic.describe(otherwise))


def _read(value: Any, variables: list[Variable]) -> Any:
    """What the variables in ``value`` hold now."""
    if isinstance(value, tuple):
        return tuple(_read(part, variables) for part in value)
    if isinstance(value, Vector):
        return Vector([_read(part, variables) for part in value])
    return value.value() if any(value is made for made in variables) else value
