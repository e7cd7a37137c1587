"""The identity of an operation that runs: the same for the original statement and for its copy in a role, with other variables.

In: a statement and the values of the variables around it. Out: a number that two statements share exactly when they are the same
operation on the same regions with the same operands. Offsets and operands count by their values, so a copy whose loop variable was replaced
by ``k + 2`` is the copy of that iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import field, fields
from typing import Any

from zellige.dtypes import DType
from zellige.elements.conversion import Array
from zellige.interp.names import names_of
from zellige.ir.expr import Buffer, Const, Expr, ExprNode, Load, Node, Region, Var
from zellige.ir.stmt import Dialect, Map, Stmt, StmtNode
from zellige.ir.traverse import children, rewrite
from zellige.passes.folding import fold
from zellige.plan.checks.values import variable
from zellige.records import dataclass

_DERIVED = frozenset(("span", "structural_hash"))


@dataclass(slots=True)
class Signatures:
    """Numbers for structures. One table serves the original and the plan, which makes their numbers comparable."""

    _numbers: dict[Hashable, int] = field(default_factory=dict)
    _texts: dict[int, str] = field(default_factory=dict)
    _maps: dict[tuple[int, tuple[object, ...]], int] = field(default_factory=dict)
    _alive: list[StmtNode] = field(default_factory=list)
    _variables: dict[int, tuple[Var, ...]] = field(default_factory=dict)
    _regions: dict[int, tuple[tuple[Region, ...], tuple[Region, ...]]] = field(default_factory=dict)

    def number(self, key: Hashable) -> int:
        """The number of a key: a new one for a new key."""
        return self._numbers.setdefault(key, len(self._numbers))

    def buffer(self, buffer: Buffer) -> int:
        """The number of a buffer."""
        return self.number(("buffer", id(buffer)))

    def regions(self, statement: StmtNode) -> tuple[tuple[Region, ...], tuple[Region, ...]]:
        """What a statement itself reads and writes, found once."""
        found = self._regions.get(id(statement))
        if found is None:
            found = self._regions[id(statement)] = (statement.reads(), statement.writes())
            self._alive.append(statement)  # its id must stay its own
        return found

    def text(self, signature: int) -> str:
        """What the operation is, for messages."""
        return self._texts[signature]

    def of(self, statement: Stmt, values: Mapping[Var, Array], evaluate: Callable[[Expr], Array]) -> int:
        """The signature of ``statement``."""
        if isinstance(statement, (Map, Dialect)):
            signature = self._of_map(statement, values)
        else:
            parts: list[Hashable] = [type(statement).__name__]
            for item in fields(statement):
                if item.name not in _DERIVED:
                    parts.append(self._part(getattr(statement, item.name), evaluate))
            signature = self.number(tuple(parts))
        if signature not in self._texts:
            self._texts[signature] = _text(statement, evaluate)
        return signature

    def _part(self, value: Any, evaluate: Callable[[Expr], Array]) -> Hashable:
        if isinstance(value, tuple):
            return tuple(self._part(item, evaluate) for item in value)
        if isinstance(value, Region):
            return self.buffer(value.buffer), self._part(value.offsets, evaluate), self._part(value.extents, evaluate)
        if isinstance(value, Buffer):
            return self.buffer(value)
        if isinstance(value, ExprNode):
            if isinstance(value, Var) and value.kind in ("value", "mutable"):
                return value.name  # the result of an atomic operation
            if isinstance(value, Const) and isinstance(value.value, int):
                return repr(value.value)
            return repr(evaluate(value).tolist())  # type: ignore[arg-type]
        return value if isinstance(value, Hashable) else repr(value)

    def _of_map(self, statement: Map | Dialect, values: Mapping[Var, Array]) -> int:
        known = self._variables.get(id(statement))
        if known is None:
            named = names_of(statement)
            known = self._variables[id(statement)] = tuple(sorted(named.reads - named.assigned, key=lambda var: (var.name, id(var))))
            self._alive.append(statement)  # its id must stay its own
        chosen = {var: value for var in known if (value := variable(values, var)).ndim == 0 and var.dtype.lanes == 1}
        key = id(statement), tuple(repr(value.tolist()) for value in chosen.values())
        found = self._maps.get(key)
        if found is None:
            found = self._maps[key] = self._structure(_with_values(statement, chosen))
        return found

    def _structure(self, root: Node) -> int:
        """The number of a tree: nodes of the same structure have the same, variables and buffers made inside count by their order."""
        done: dict[int, int] = {}
        own: dict[Node, int] = {}
        pending: list[tuple[Node, bool]] = [(root, False)]
        while pending:
            node, is_ready = pending.pop()
            if id(node) in done:
                continue
            if not is_ready:
                pending.append((node, True))
                pending.extend((child, False) for child in reversed(list(children(node))) if id(child) not in done)
                continue
            if isinstance(node, Var):
                done[id(node)] = self.number(("own", own.setdefault(node, len(own)), node.dtype.name))
                continue
            parts: list[Hashable] = [type(node).__name__]
            for item in fields(node):  # type: ignore[arg-type]
                if item.name not in _DERIVED:
                    parts.append(self._field(getattr(node, item.name), done))
            if isinstance(node, Load):
                parts.append(self.buffer(node.buffer))
            done[id(node)] = self.number(tuple(parts))
        return done[id(root)]

    def _field(self, value: Any, done: dict[int, int]) -> Hashable:
        if isinstance(value, tuple):
            return tuple(self._field(item, done) for item in value)
        if isinstance(value, Buffer):
            return self.buffer(value)
        if isinstance(value, Node):
            return done[id(value)]
        if isinstance(value, DType):
            return value.name
        if isinstance(value, (bool, int, float)):
            return type(value).__name__, repr(value)
        return value if isinstance(value, Hashable) else repr(value)


def _with_values(statement: Map | Dialect, values: Mapping[Var, Array]) -> Map | Dialect:
    """``statement`` with numbers for its outer variables and what is constant thereby folded."""

    def visit(node: Any) -> Any:
        if isinstance(node, Var):
            value = values.get(node)
            return node if value is None else Const(value=value.item(), dtype=node.dtype)
        if isinstance(node, ExprNode) and not isinstance(node, Const):
            return fold(node) or node  # type: ignore[arg-type]
        return node

    return rewrite(statement, visit)


def _text(statement: Stmt, evaluate: Callable[[Expr], Array]) -> str:
    """An operation with its regions as numbers."""
    parts = []
    for item in fields(statement):
        value = getattr(statement, item.name)
        if isinstance(value, Region):
            spans = ", ".join(f"{int(evaluate(offset))}:+{int(evaluate(extent))}" for offset, extent in zip(value.offsets, value.extents))
            parts.append(f"{value.buffer.name}[{spans}]")
        elif isinstance(value, Buffer):
            parts.append(value.name)
    if isinstance(statement, Map):
        names = names_of(statement)
        parts = sorted(buffer.name for buffer in names.changed)
        return f"parallel loop that writes {', '.join(parts)}"
    return f"{type(statement).__name__.lower()} {', '.join(parts)}".strip()
