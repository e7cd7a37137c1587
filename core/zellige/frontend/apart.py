"""Parts of an expression that the kernel evaluates only sometimes: the arms of ``x if c else y``, what follows ``and`` and ``or``, the
later comparisons of ``a < b < c``, the elements that ``any`` and ``all`` come to.

In: functions that evaluate them. Out: their values and the statements that each emitted, for the caller to put under a condition. As in the
branches of an ``if``, Python's own objects stay as they are (E119), and a name that such a part gives (``:=``) is a variable of the kernel,
which keeps its value where the part is passed over.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from zellige.frontend.flow import defining_parts
from zellige.frontend.joins import held, joined, make_variable, put, restore
from zellige.frontend.scopes import Frame
from zellige.ir.stmt import Stmt


def names_given(*nodes: ast.AST) -> list[str]:
    """The names that assignment expressions under the nodes bind in the scope around them."""
    return list(dict.fromkeys(name for node in nodes for name in _given(node)))


def _given(node: ast.AST) -> tuple[str, ...]:
    """As :func:`names_given`, of one node. Noted on it and all below it: the parts of a nested choice are asked for at each level."""
    known: tuple[str, ...] | None = getattr(node, "zellige_given", None)
    if known is not None:
        return known
    parts = [node]
    for part in parts:  # parents before what is below them
        parts.extend(_below(part))
    for part in reversed(parts):
        own = (part.target.id,) if isinstance(part, ast.NamedExpr) else ()
        names = [name for below in _below(part) for name in below.zellige_given]  # type: ignore[attr-defined]
        part.zellige_given = tuple(dict.fromkeys((*own, *names))) if own or names else ()  # type: ignore[attr-defined]
    return node.zellige_given  # type: ignore[attr-defined, no-any-return]


def _below(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.expr_context):
        return []
    return list(defining_parts(node) if isinstance(node, ast.Lambda) else ast.iter_child_nodes(node))


def aside(frame: Frame, make: Callable[[], Any]) -> tuple[Any, list[Stmt]]:
    """The value of ``make()`` and the statements it emitted, kept apart."""
    if not frame.builder.is_inside_launch:
        return make(), []
    with frame.builder.body() as statements:
        value = make()
    return value, statements


def splice(frame: Frame, statements: list[Stmt]) -> None:
    """Emits statements that were kept apart."""
    for statement in statements:
        frame.builder.emit(statement)


def alternatives(frame: Frame, names: Sequence[str], *parts: Callable[[], Any]) -> list[tuple[Any, list[Stmt]]]:
    """The value and the statements of each of some parts, of which the kernel evaluates one. ``names`` are those that they bind."""
    scope = frame.scope()
    if names:
        frame.builder.require_body("an assignment under a condition")
    for name in names:
        make_variable(scope, name)
    before = held(scope, names)
    found, paths = [], []
    with frame.trace.inside("if"):
        for part in parts:
            found.append(aside(frame, part))
            paths.append(held(scope, names))
            restore(scope, before)
    for name in names:
        put(scope, name, joined(before[name], [path[name] for path in paths]))
    return found


def nothing() -> None:
    """The part that stands where none is evaluated."""
