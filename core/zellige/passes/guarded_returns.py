"""Returns at the end of a branch as structure: tile IR to tile IR.

In: a launch. Out: one with the same meaning, in which ``if c: ...; return`` followed by a rest is ``if c: ... else: rest``, wherever
the rest goes to the end of the launch. What is left of Return then stands in loops.
"""

from __future__ import annotations

from zellige.ir.stmt import If, Launch, Return, Stmt
from zellige.ir.traverse import rebuilt, walk


def with_structured_returns(launch: Launch) -> Launch:
    """The launch; itself where nothing returns early."""
    if not any(isinstance(node, Return) for node in walk(launch)):
        return launch
    return rebuilt(launch, body=_tail(launch.body))


def _tail(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A body whose end is the end of the launch, without a Return outside of loops."""
    result: list[Stmt] = []
    for place, statement in enumerate(body):
        if isinstance(statement, Return):
            return tuple(result)
        if isinstance(statement, If) and _returns(statement):
            rest = body[place + 1 :]
            then, otherwise = _tail(_followed(statement.then, rest)), _tail(_followed(statement.otherwise, rest))
            return (*result, rebuilt(statement, then=then, otherwise=otherwise))
        result.append(statement)
    return tuple(result)


def _returns(statement: If) -> bool:
    """Whether a side ends with a Return, so that the rest belongs to the other alone."""
    return any(side and isinstance(side[-1], Return) for side in (statement.then, statement.otherwise))


def _followed(side: tuple[Stmt, ...], rest: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return side if side and isinstance(side[-1], Return) else side + rest
