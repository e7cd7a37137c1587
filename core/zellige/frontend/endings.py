"""The ``else`` of a loop, written out: the one construct of Python whose meaning no single statement of the tile IR has.

In: the syntax tree of a function. Out: the same tree, changed in place, in which no loop has an ``else``::

    for i in loop:                  left = False
        ... break ...        ->     for i in loop:
    else:                               ... left = True; break ...
        rest                        if not left:
                                        rest

Where the loop has no ``break`` of its own the rest simply follows it. Doing it on the tree means that what
:mod:`zellige.frontend.flow` says about names holds for the rest too. A tree that was changed already stays as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

_LOOPS: Final = (ast.For, ast.While)
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def write_out_endings(function: ast.AST) -> None:
    """Replaces every loop with an ``else`` in ``function`` and in the functions inside it."""
    taken: set[str] | None = None
    pending = [function]
    while pending:
        node = pending.pop()
        for statements in _lists_of(node):
            position = 0
            while position < len(statements):
                statement = statements[position]
                if isinstance(statement, _LOOPS) and statement.orelse:
                    if taken is None:
                        taken = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
                    written = _written_out(statement, taken)
                    statements[position : position + 1] = written
                    continue  # the loop itself now stands at this position or one further, without an else
                pending.append(statement)
                position += 1
        pending.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, (ast.stmt, ast.expr)))


def _lists_of(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(node, name, None)
        if isinstance(statements, list):
            yield statements


def _written_out(loop: ast.For | ast.While, taken: set[str]) -> list[ast.stmt]:
    rest, loop.orelse = loop.orelse, []
    places = list(_breaks(loop))
    if not places:
        return [loop, *rest]
    name = "left"
    while name in taken:
        name += "_"
    taken.add(name)
    for statements, position in reversed(places):
        statements.insert(position, _assignment(name, True, statements[position]))
    test = ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name, ctx=ast.Load()))
    branch = ast.If(test=test, body=rest, orelse=[])
    for node in (branch, test, test.operand):
        ast.copy_location(node, loop)
    return [_assignment(name, False, loop), loop, branch]


def _breaks(loop: ast.For | ast.While) -> Iterator[tuple[list[ast.stmt], int]]:
    """Where the ``break`` statements of this loop stand, in order within each list."""
    pending: list[ast.AST] = [loop]
    while pending:
        node = pending.pop()
        for statements in _lists_of(node):
            if node is not loop and isinstance(node, _LOOPS) and statements is node.body:
                continue  # what breaks there leaves the inner loop; its else belongs to this one
            for position, statement in enumerate(statements):
                if isinstance(statement, ast.Break):
                    yield statements, position
                elif not isinstance(statement, _SCOPES):
                    pending.append(statement)
        pending.extend(c for c in ast.iter_child_nodes(node) if isinstance(c, (ast.ExceptHandler, ast.match_case)))


def _assignment(name: str, value: bool, place: ast.stmt) -> ast.stmt:
    target, constant = ast.Name(id=name, ctx=ast.Store()), ast.Constant(value=value)
    statement = ast.Assign(targets=[target], value=constant)
    for node in (statement, target, constant):
        ast.copy_location(node, place)
    return statement
