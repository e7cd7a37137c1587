"""The control flow of one program: a role's body, or a launch's.

In: a body of statements, and a :class:`Control` that evaluates expressions and sets loop variables. Out: the statements that do something,
one after the other, as a generator: whoever drives it performs each one before it asks for the next, and so may let another role go
first. Maps and tile operations are whole; For, While, If and Slotted are taken apart here.
"""

from __future__ import annotations

import enum
from collections.abc import Generator, Sequence
from typing import Protocol, TypeAlias

from zellige.ir.expr import Expr, Var
from zellige.ir.stmt import Break, Continue, For, If, Return, Stmt, While
from zellige.plan.nodes import Channel, PlanStmt, Slotted

Leaf: TypeAlias = "Stmt | PlanStmt"


class Leave(enum.Enum):
    """How a body was left before its end."""

    BREAK = enum.auto()
    CONTINUE = enum.auto()
    RETURN = enum.auto()


class Control(Protocol):
    """What control flow asks of the program's variables and buffers.

    ``lags`` are the channels and lags of the Slotted statements around the statement in work; ``loops`` the For loops around it, each
    with the value of its variable.
    """

    lags: dict[Channel, int]
    loops: list[tuple[For, int]]

    def integer(self, expression: Expr) -> int:
        """The value of an integer expression."""
        ...

    def condition(self, expression: Expr) -> bool:
        """The value of a bool expression."""
        ...

    def set_loop(self, var: Var, value: int) -> None:
        """Give a loop variable the value of the iteration that begins."""
        ...

    def after_loop(self, statement: For) -> None:
        """The loop has come to its end, after as many iterations as it has."""
        ...

    def goes_on(self, statement: While, iteration: int) -> bool:
        """Whether iteration number ``iteration`` of the loop runs."""
        ...


def steps(body: Sequence[Leaf], control: Control) -> Generator[Leaf, None, Leave | None]:
    """The statements of ``body`` in the order in which they run; the generator returns how the body was left."""
    for statement in body:
        left: Leave | None = None
        match statement:
            case If():
                left = yield from steps(_taken(statement, control), control)
            case For():
                left = yield from _for(statement, control)
            case While():
                left = yield from _while(statement, control)
            case Break():
                left = Leave.BREAK
            case Continue():
                left = Leave.CONTINUE
            case Return():
                left = Leave.RETURN
            case Slotted():
                left = yield from _slotted(statement, control)
            case _:
                yield statement
        if left is not None:
            return left
    return None


def _taken(statement: If, control: Control) -> Sequence[Leaf]:
    """The side that runs; a chain of elif is a loop here, so that its length does not matter."""
    while not control.condition(statement.condition):
        if len(statement.otherwise) != 1 or not isinstance(statement.otherwise[0], If):
            return statement.otherwise
        statement = statement.otherwise[0]
    return statement.then


def _slotted(statement: Slotted, control: Control) -> Generator[Leaf, None, Leave | None]:
    before = control.lags
    control.lags = {**before, **dict(statement.lags)}
    left = yield from steps((statement.operation,), control)
    control.lags = before
    return left


def _for(statement: For, control: Control) -> Generator[Leaf, None, Leave | None]:
    start, stop, step = (control.integer(bound) for bound in (statement.start, statement.stop, statement.step))
    for value in range(start, stop, step) if step else ():
        control.set_loop(statement.var, value)
        control.loops.append((statement, value))
        left = yield from steps(statement.body, control)
        control.loops.pop()
        if left is Leave.BREAK:
            break
        if left is Leave.RETURN:
            return left
    control.after_loop(statement)
    return None


def _while(statement: While, control: Control) -> Generator[Leaf, None, Leave | None]:
    iteration = 0
    while control.goes_on(statement, iteration):
        left = yield from steps(statement.body, control)
        if left is Leave.BREAK:
            break
        if left is Leave.RETURN:
            return left
        iteration += 1
    return None
