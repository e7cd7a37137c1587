"""Which tiles hold values that are read later: the question behind every store that can be left out.

In: the body of a launch. Out: for each statement the tiles that it may read before it has written all of them (*needs*) and those that it
writes wholly whatever happens (*replaces*), and from these what is alive after each statement of a body.

Tiles are counted by the buffer that owns the storage. All of it errs on the side of alive: a jump out of a loop replaces nothing, and a
tile of which somebody has a view is never replaced.
"""

from __future__ import annotations

from collections.abc import Sequence

from zellige.ir.expr import Buffer, Const, Region, Var, constant_value
from zellige.ir.stmt import (
    Alloc,
    Break,
    Continue,
    Copy,
    Fill,
    For,
    Gemm,
    If,
    Map,
    Reduce,
    Stmt,
    StmtNode,
    Store,
    Transpose,
    While,
    is_whole,
)
from zellige.ir.traverse import walk
from zellige.records import dataclass

_NOTHING: frozenset[Buffer] = frozenset()


@dataclass(frozen=True, slots=True)
class Use:
    """What a stretch of code needs of the tiles before it, and which it replaces."""

    needs: frozenset[Buffer] = _NOTHING
    replaces: frozenset[Buffer] = _NOTHING

    def then(self, following: Use) -> Use:
        """Both stretches, one after the other."""
        return Use(self.needs | (following.needs - self.replaces), self.replaces | following.replaces)

    def before(self, alive: frozenset[Buffer]) -> frozenset[Buffer]:
        """What is alive before the stretch, given what is after it."""
        return self.needs | (alive - self.replaces)


class Liveness:
    """The uses of every statement under a body, found once, innermost first."""

    def __init__(self, body: Sequence[Stmt]) -> None:
        self._alive: list[Stmt] = list(body)  # the statements' ids stay theirs
        self._uses: dict[int, Use] = {}
        named = (getattr(node, "buffer", None) for statement in body for node in walk(statement))
        self._viewed = {buffer.root for buffer in named if isinstance(buffer, Buffer) and buffer.alias is not None}
        for statement in body:
            order = [n for n in walk(statement) if isinstance(n, StmtNode)]
            for node in reversed(order):
                self._uses[id(node)] = self._use(node)

    def use(self, statement: Stmt) -> Use:
        """The use of a statement; one made later is looked at when it is first asked for."""
        found = self._uses.get(id(statement))
        if found is None:
            self._alive.append(statement)
            found = self._uses[id(statement)] = self._use(statement)
        return found

    def body(self, body: Sequence[Stmt]) -> Use:
        total = Use()
        for statement in body:
            total = total.then(self.use(statement))
        return total

    def _use(self, statement: StmtNode) -> Use:
        match statement:
            case Map():
                return self._map(statement)
            case For(body=body) | While(body=body):
                own = self._direct(statement)
                inner = self.body(body)
                leaves = any(isinstance(n, (Break, Continue)) for s in body for n in walk(s))
                needs = frozenset(b for s in body for n in walk(s) if isinstance(n, StmtNode) for b in _read(n)) if leaves else inner.needs
                return Use(own.needs | needs)
            case If(then=then, otherwise=otherwise):
                taken, other = self.body(then), self.body(otherwise)
                needs = self._direct(statement).needs | taken.needs | other.needs
                return Use(needs, taken.replaces & other.replaces)
            case _:
                bodies = [getattr(statement, name) for name in statement.BODIES]
                needs = frozenset(b for body in bodies for s in body for n in walk(s) if isinstance(n, StmtNode) for b in _read(n))
                direct = self._direct(statement)
                return Use(direct.needs | needs, direct.replaces)

    def _direct(self, statement: StmtNode) -> Use:
        return Use(frozenset(_read(statement)), frozenset(b for b in _replaced(statement) if b not in self._viewed))

    def _map(self, statement: Map) -> Use:
        nodes = [n for n in walk(statement) if isinstance(n, StmtNode)]
        needs = frozenset(b for n in nodes for b in _read(n))
        covered = {s.buffer for s in statement.body if isinstance(s, Store) and _covers(statement, s)}
        return Use(needs, frozenset(b for b in covered if b not in self._viewed))


def _read(statement: StmtNode) -> list[Buffer]:
    """The roots of what the statement itself reads; what is changed in place counts as read."""
    return [region.buffer.root for region in statement.reads()]


def _replaced(statement: StmtNode) -> list[Buffer]:
    match statement:
        case Alloc(buffer=buffer):
            return [buffer.root]
        case Copy(dst=dst) | Fill(dst=dst) | Transpose(dst=dst):
            return [dst.buffer] if _is_whole(dst) else []
        case Reduce(dst=dst, clear=True):
            return [dst.buffer] if _is_whole(dst) else []
        case Gemm(c=c, clear=clear) if constant_value(clear) is True:
            return [c.buffer] if _is_whole(c) else []
        case _:
            return []


def _is_whole(region: Region) -> bool:
    """Whether the region is all of a buffer that owns its storage."""
    return region.buffer.alias is None and is_whole(region)


def _covers(statement: Map, store: Store) -> bool:
    """Whether the store, over all points, writes every element: each index an axis of its own that runs over the whole dimension."""
    if store.buffer.alias is not None:
        return False
    extents = dict(zip(statement.axes, statement.extents))
    used: set[Var] = set()
    for index, size in zip(store.indices, store.buffer.shape):
        full = constant_value(size)
        if full is None:
            return False
        if isinstance(index, Var) and index in extents and index not in used and constant_value(extents[index]) == full:
            used.add(index)
        elif not (isinstance(index, Const) and index.value == 0 and full == 1):
            return False
    return all(axis in used or constant_value(extent) not in (None, 0) for axis, extent in extents.items())
