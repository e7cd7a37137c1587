"""What the points of a Map change of the code around it.

In: a Map. Out: :class:`OuterChanges`. Every point works on a copy of the variables and private buffers from outside, with what they held
before the Map, and what exactly one point changed is there after it; so whoever runs points one after the other, or several at once, must
know which those are. Atomic operations and updates of reducers go to the one outside.
"""

from __future__ import annotations

from collections.abc import Callable

from zellige.ir.expr import Buffer, Load, Var
from zellige.ir.lanes import PRIVATE
from zellige.ir.stmt import Alloc, Assign, Atomic, AtomicTile, Bind, Dialect, For, Map, ReducerUpdate, Shuffle, StmtNode, Vote
from zellige.ir.traverse import walk
from zellige.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterChanges:
    """``variables`` and private ``buffers`` (those that own the storage) in the order of their first change; ``read`` are all buffers of
    which the points read elements."""

    variables: tuple[Var, ...]
    buffers: tuple[Buffer, ...]
    read: frozenset[Buffer]


def outer_changes(statement: Map, is_own_result: Callable[[Var], bool] = lambda _: False) -> OuterChanges:
    """What the points change that was made outside of the Map. ``is_own_result`` says of a mutable variable that takes the result of an
    operation whether it has no value before the Map."""
    own: set[Var | Buffer] = set(statement.axes)
    assigned: dict[Var, None] = {}
    written: dict[Buffer, None] = {}
    read: set[Buffer] = set()
    for node in walk(statement):
        match node:
            case Alloc(buffer=buffer):
                own.add(buffer)
                continue
            case Bind(var=var) | For(var=var):
                own.add(var)
            case Assign(var=var):
                assigned.setdefault(var)
            case Load(buffer=buffer):
                read.add(buffer.root)
            case Atomic(result=result) | Shuffle(result=result) | Vote(result=result) | Dialect(result=result) if result is not None:
                if result.is_mutable and not is_own_result(result):
                    assigned.setdefault(result)
                else:
                    own.add(result)
            case _:
                pass
        if isinstance(node, StmtNode):
            read.update(region.buffer.root for region in node.reads())
            if not isinstance(node, (Atomic, AtomicTile, ReducerUpdate)):
                written.update((region.buffer.root, None) for region in node.writes() if region.buffer.root.space in PRIVATE)
    return OuterChanges(
        variables=tuple(v for v in assigned if v not in own), buffers=tuple(b for b in written if b not in own), read=frozenset(read)
    )
