"""Parts of an expression that are used more than once, under names where the expression would be long without.

In: the body of a thread-level program. Out: the body in which such a part of a long expression is bound before the statement that uses it.
A text writes a part as often as it is used: of sixty steps that each use the one before twice it would have 2^60. Only parts that are
evaluated whatever the values are get names; a choice whose sides would be long is made by an ``if``, under which their parts get theirs.
The condition of a ``while`` is evaluated again each time, and stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from zellige.diagnostics import Span
from zellige.ir.expr import Binary, Const, Expr, ExprNode, Select, Unary, Var
from zellige.ir.stmt import Assign, Bind, If, Stmt, While
from zellige.ir.traverse import always_evaluated, children, deep_nesting, operands_first, rebuilt, rewrite
from zellige.simt.elements import zero

LONGEST: Final = 4096
"""So many nodes the expressions of a statement may have where each is counted as often as it is used."""


def with_parts_named(body: Sequence[Any]) -> tuple[Any, ...]:
    """The body, in which no statement is longer for its repeated parts."""
    made: list[Any] = []
    with deep_nesting():
        for statement in body:
            made += _as_statements(rewrite(statement, _named))
    return tuple(made)


def _as_statements(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def _named(node: Any) -> Any:
    """A statement with the bindings before it that it needs; anything else as it is."""
    if not hasattr(type(node), "BODIES") or isinstance(node, While):
        return node
    nodes = operands_first(node)
    if _written_size(nodes) <= LONGEST:
        return node
    uses = Counter(id(child) for one in nodes for child in children(one, bodies=False))
    always = {id(one) for one in always_evaluated(node)}
    bound: list[Stmt] = []
    done: dict[int, Any] = {}
    for one in nodes:
        done[id(one)] = made = _with_operands(one, done)
        if id(one) in always and _is_choice(made) and _written_size(operands_first(made)) > LONGEST:
            statements, done[id(one)] = _chosen(made, node.span)
            bound += statements
            continue
        is_part = isinstance(one, ExprNode) and not isinstance(one, (Const, Var))
        if is_part and uses[id(one)] > 1 and id(one) in always:
            var = Var(name="part", dtype=made.dtype, kind="value")
            bound.append(Bind(var=var, value=made, span=node.span))
            done[id(one)] = var
    return (*bound, done[id(node)])


def _is_choice(node: Any) -> bool:
    return isinstance(node, Select) or (isinstance(node, Binary) and node.op in ("and", "or"))


def _chosen(choice: Select | Binary, span: Span | None) -> tuple[tuple[Stmt, ...], Var]:
    """Statements that evaluate the side that is chosen, and the name that has its value then."""
    var = Var(name="chosen", dtype=choice.dtype, kind="mutable")
    before: Expr
    condition: Expr
    if isinstance(choice, Select):
        before, condition, sides = zero(choice.dtype), choice.condition, [choice.then, choice.otherwise]
    else:
        before, condition, sides = choice.left, var if choice.op == "and" else Unary(op="not", value=var), [choice.right]
    then, *otherwise = (_as_statements(_named(Assign(var=var, value=side, span=span))) for side in sides)
    choosing = If(condition=condition, then=then, otherwise=otherwise[0] if otherwise else (), span=span)
    return (Bind(var=var, value=before, span=span), choosing), var


def _written_size(nodes: Sequence[Any]) -> int:
    """How many nodes the last of them has, which come behind their operands, where a shared one counts each time."""
    sizes: dict[int, int] = {}
    for one in nodes:
        sizes[id(one)] = 1 + sum(sizes[id(child)] for child in children(one, bodies=False))
    return sizes[id(nodes[-1])]


def _with_operands(node: Any, done: dict[int, Any]) -> Any:
    """The node with what has taken the place of its operands."""
    changes: dict[str, Any] = {}
    for name in type(node).CHILDREN:
        old = getattr(node, name)
        if isinstance(old, tuple):
            new: Any = tuple(done[id(child)] for child in old)
            is_other = any(a is not b for a, b in zip(new, old))
        else:
            new = None if old is None else done[id(old)]
            is_other = new is not old
        if is_other:
            changes[name] = new
    return rebuilt(node, **changes) if changes else node
