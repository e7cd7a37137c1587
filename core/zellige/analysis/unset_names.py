"""Names of a kernel that only run-time control assigns, and that are read where they may have no value.

In: the body of a launch and the variables that were declared because an ``if`` or a loop assigns a name that had no value. Out: for each
the first statement that reads it as 0 where Python would raise UnboundLocalError, and what assigns it.

It is silent where it is not sure: where more than one statement assigns the name, where what assigns it asks for the iteration of a loop
around (``if k == 0``), for loops whose count comes from sizes, and for reads under a condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final

from zellige.ir.expr import Const, Expr, Load, Var
from zellige.ir.stmt import Assign, Bind, Break, Continue, For, If, Map, Return, Stmt, StmtNode, While
from zellige.ir.traverse import always_evaluated, walk

_LEAVES: Final = (Break, Continue, Return)


def unset_reads(body: tuple[Stmt, ...], variables: Set[Var]) -> Iterator[tuple[Var, StmtNode, str]]:
    """Each variable with the statement that may read it without a value, and the kind of statement that assigns it: "if" or "loop"."""
    pending = [body]
    while pending:
        statements = pending.pop()
        for position, statement in enumerate(statements):
            if isinstance(statement, Bind) and statement.var in variables:
                found = _first_read(statement.var, statements[position + 1 :])
                if found is not None:
                    yield (statement.var, *found)
            pending.extend(getattr(statement, name) for name in type(statement).BODIES)


def _first_read(var: Var, statements: tuple[Stmt, ...]) -> tuple[StmtNode, str] | None:
    """The first read of ``var`` that happens whatever the one conditional statement before it did."""
    pending: list[tuple[Stmt, frozenset[Var]]] = [(s, frozenset()) for s in reversed(statements)]
    assigned_by: str | None = None
    while pending:
        statement, counted = pending.pop()
        if assigned_by is not None and any(node is var for node in always_evaluated(statement)):
            return statement, assigned_by
        is_assigning = any(isinstance(n, Assign) and n.var is var for n in walk(statement))
        if isinstance(statement, (For, Map)) and runs(statement):
            axes = statement.axes if isinstance(statement, Map) else (statement.var,)
            pending.extend((s, counted.union(axes)) for s in reversed(statement.body))
        elif is_assigning:
            kind = _kind(statement, counted)
            if kind is None or assigned_by is not None or _is_certain(statement, var):
                return None
            assigned_by = kind
    return None


def _kind(statement: Stmt, counted: frozenset[Var]) -> str | None:
    """What assigns: "if" or "loop", and nothing where an earlier iteration or the loop itself may make sure of it."""
    match statement:
        case If():
            return None if any(n in counted for n in walk(statement.condition) if isinstance(n, Var)) else "if"
        case For():
            return "loop"
        case _:
            return None


def _is_certain(statement: Stmt, var: Var) -> bool:
    """Whether ``var`` has a value wherever the statement ends."""
    certain: set[int] = set()
    for node in reversed(list(walk(statement))):
        match node:
            case Assign() if node.var is var:
                certain.add(id(node))
            case If() if all(any(id(s) in certain for s in part) for part in (node.then, node.otherwise)):
                certain.add(id(node))
            case For() | Map() if runs(node) and any(id(s) in certain for s in node.body):
                certain.add(id(node))
            case While() if isinstance(node.condition, Const):
                certain.add(id(node))
            case _ if isinstance(node, _LEAVES):
                certain.add(id(node))
            case _:
                pass
    return id(statement) in certain


def runs(loop: For | Map) -> bool:
    """Whether a loop is taken to have an iteration: its count comes from constants and from the sizes of tensors."""
    bounds = (loop.start, loop.stop, loop.step) if isinstance(loop, For) else loop.extents
    return all(_is_count(bound) for bound in bounds)


def _is_count(bound: Expr) -> bool:
    return all(not isinstance(n, Load) and (not isinstance(n, Var) or n.kind == "size") for n in walk(bound))
