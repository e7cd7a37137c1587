"""Which variables and buffers a statement mentions, nested statements included.

In: a statement. Out: :class:`Names`. Buffers stand for the storage they lie in (``Buffer.root``); the variables of their
shapes count as read.
"""

from __future__ import annotations

from zellige.ir.expr import Buffer, Expr, Load, Node, Region, Var
from zellige.ir.stmt import Alloc, Assign, Atomic, AtomicTile, Bind, For, Map, ReducerUpdate, Stmt, StmtNode
from zellige.ir.traverse import walk
from zellige.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What comes from outside of a statement.

    ``reads``: variables. ``assigned``: variables given another value. ``buffers``: storage that is mentioned, ``loaded``: whose
    elements are read, ``stored``: written otherwise than by atomics and reducers, ``changed``: changed in any way.
    """

    reads: frozenset[Var]
    assigned: frozenset[Var]
    buffers: frozenset[Buffer]
    loaded: frozenset[Buffer]
    stored: frozenset[Buffer]
    changed: frozenset[Buffer]


def names_of(statement: Stmt) -> Names:
    """The names of ``statement`` that come from outside of it."""
    read: set[Var] = set()
    assigned: set[Var] = set()
    own: set[Var | Buffer] = set()
    loaded: set[Buffer] = set()
    stored: set[Buffer] = set()
    changed: set[Buffer] = set()
    mentioned: set[Buffer] = set()
    for node in walk(statement):
        _note_variables(node, read, assigned, own)
        if isinstance(node, Load):
            loaded.add(node.buffer.root)
        if isinstance(node, (Load, Region)) or (isinstance(node, StmtNode) and hasattr(node, "buffer")):
            mentioned.add(node.buffer)
        if isinstance(node, StmtNode) and not isinstance(node, Alloc):
            loaded.update(region.buffer.root for region in node.reads())
            roots = {region.buffer.root for region in node.writes()}
            changed |= roots
            if not isinstance(node, (Atomic, AtomicTile, ReducerUpdate)):
                stored |= roots
    for buffer in mentioned:
        read |= shape_variables(buffer)
    return Names(
        reads=frozenset(read - own),
        assigned=frozenset(assigned - own),
        buffers=frozenset({buffer.root for buffer in mentioned} - own),
        loaded=frozenset(loaded - own),
        stored=frozenset(stored - own),
        changed=frozenset(changed - own),
    )


def _note_variables(node: Node, read: set[Var], assigned: set[Var], own: set[Var | Buffer]) -> None:
    match node:
        case Var():
            read.add(node)
        case Alloc():
            if node.buffer.alias is None:
                own.add(node.buffer)
        case Bind():
            own.add(node.var)
        case For():
            own.add(node.var)
        case Map():
            own.update(node.axes)
        case Assign():
            assigned.add(node.var)
        case _:
            result = getattr(node, "result", None)
            if isinstance(result, Var):
                own.add(result)


def shape_variables(buffer: Buffer) -> set[Var]:
    """The variables in the shapes and strides of a buffer and of what it is an alias of."""
    found: set[Var] = set()
    at: Buffer | None = buffer
    while at is not None:
        expressions: tuple[Expr, ...] = at.shape + (at.strides or ())
        for expression in expressions:
            found.update(node for node in walk(expression) if isinstance(node, Var))
        at = at.alias
    return found
