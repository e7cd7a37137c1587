"""Values that were taken in case something changes what they are read from, and that nothing changed.

A value that leaves the expression in which it is read is bound at that time (:func:`zellige.frontend.values.taken`). Most such values are
used before any statement that could change them: then the program says the same without the name, and is shorter.

In: a finished launch and the variables of such values. Out: the launch in which only those have a name that need one: a value is written
where it is used when all its uses are expressions that are evaluated once, in statements of the body that binds it, and only statements
that change nothing stand between; a value that nothing uses is gone. The others get their final names, in the order of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from zellige.ir.expr import Expr, ExprNode, Node, Var
from zellige.ir.stmt import Alloc, Assert, Assume, Bind, Launch, Print, Stmt, While
from zellige.ir.traverse import rebuilt, rewrite, substitute, walk

_CHANGING_NOTHING: Final = (Bind, Alloc, Assert, Assume, Print)


def without_needless_readings(launch: Launch, readings: set[Var], unique: Callable[[str], str]) -> Launch:
    """``launch`` in which only those of ``readings`` are bound that must be. ``unique`` makes a name that no other variable has."""
    bound, needed = _examined(launch, readings)
    replaced: dict[Var, ExprNode] = {}
    inlined: set[Var] = set()
    for statement in bound:
        var = statement.var
        if var in needed:
            replaced[var] = rebuilt(var, name=unique(var.name))
        else:
            value: Expr = substitute(statement.value, replaced)
            replaced[var] = value
            inlined.add(var)
    shorter = rewrite(launch, lambda node: () if isinstance(node, Bind) and node.var in inlined else node)
    return substitute(shorter, replaced)


def _examined(launch: Launch, readings: set[Var]) -> tuple[list[Bind], set[Var]]:
    """The statements that bind readings, each behind those that it uses, and the readings that must stay bound."""
    bound: list[Bind] = []
    needed = set(_used(launch, readings))
    pending: list[tuple[Stmt, ...]] = [launch.body]
    while pending:
        fresh: set[Var] = set()  # bound in this body, and nothing has changed anything since
        inner: list[tuple[Stmt, ...]] = []
        for statement in pending.pop():
            if isinstance(statement, Bind) and statement.var in readings:
                needed.update(var for var in _used(statement.value, readings) if var not in fresh)
                bound.append(statement)
                fresh.add(statement.var)
                continue
            usable = set() if isinstance(statement, While) else fresh  # a while loop evaluates its condition again
            needed.update(var for var in _used(statement, readings) if var not in usable)
            inner.extend(getattr(statement, name) for name in getattr(statement, "BODIES", ()))
            if not isinstance(statement, _CHANGING_NOTHING):
                fresh = set()
        pending.extend(reversed(inner))
    return bound, needed


def _used(node: Node, readings: set[Var]) -> Iterator[Any]:
    return (found for found in walk(node, bodies=False) if isinstance(found, Var) and found in readings)
