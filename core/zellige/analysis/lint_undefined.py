"""Storage that is used before anything gives it a value: outputs (E286) and tiles on the chip (E289).

In: a verified kernel whose outputs are known. Out: warnings, once a buffer, silent where it is not sure. Two shapes are told:

* nothing sets it: every statement that writes it combines with what it holds, or writes under a condition on what it holds;
* a read that certainly happens stands before every write.

A read is certain outside of run-time conditions, loops that may have no iteration and the sides of a choice, and where no offset can
put it outside of the buffer, which would give the safe value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from zellige.analysis.unset_names import runs
from zellige.diagnostics import Diagnostic, catalogue
from zellige.ir.expr import Binary, Buffer, Const, Load, Region
from zellige.ir.stmt import (
    Atomic,
    AtomicTile,
    Dialect,
    For,
    Gemm,
    If,
    Kernel,
    Launch,
    Map,
    Reduce,
    Stmt,
    StmtNode,
    Store,
    TensorParam,
    While,
)
from zellige.ir.traverse import always_evaluated, loads_in, walk
from zellige.records import dataclass


def accumulated_outputs(kernel: Kernel) -> Iterator[Diagnostic]:
    """E286, once an output, at the statement that reads or changes what it holds."""
    outputs = [kernel.params[index] for index in kernel.results]
    uses = _Uses.of(kernel.launches)
    for param in outputs:
        if not isinstance(param, TensorParam):
            continue
        buffer = param.buffer
        if buffer in uses.changed and buffer not in uses.defined:
            how = "that atomic operations change" if buffer in uses.atomic else "that is changed by what it holds"
            what = f"{how} and that nothing sets"
            yield catalogue.E286.diagnose(uses.changed[buffer].span, name=buffer.label, what=what, severity="warning")
        elif buffer in uses.early and buffer in uses.defined:
            what = "that is read before anything sets it"
            yield catalogue.E286.diagnose(uses.early[buffer].span, name=buffer.label, what=what, severity="warning")


def undefined_tiles(kernel: Kernel) -> Iterator[Diagnostic]:
    """E289, once a tile, at the first statement that reads it. Any statement that may set an element of it counts as setting it."""
    for launch in kernel.launches:
        uses = _Uses.of((launch,))
        for root, statement in uses.read.items():
            if root.space == "global":
                continue
            if root not in uses.defined:
                use = "only added to" if root in uses.combined else "read"
                yield catalogue.E289.diagnose(statement.span, name=root.label, use=use, what="gives it a first value", severity="warning")
            elif root in uses.early:
                what = "before that gives it a value"
                yield catalogue.E289.diagnose(uses.early[root].span, name=root.label, use="read", what=what, severity="warning")


@dataclass(frozen=True, slots=True)
class _Uses:
    """Of each buffer the first statement that reads it, the first that changes what it holds, and the first certain read before any write.

    ``defined`` are those that a statement may set whatever they hold; ``combined`` those that one adds to; ``atomic`` those that
    nothing but atomic operations changes.
    """

    read: dict[Buffer, StmtNode] = field(default_factory=dict)
    changed: dict[Buffer, StmtNode] = field(default_factory=dict)
    early: dict[Buffer, StmtNode] = field(default_factory=dict)
    written: set[Buffer] = field(default_factory=set)
    defined: set[Buffer] = field(default_factory=set)
    combined: set[Buffer] = field(default_factory=set)
    atomic: set[Buffer] = field(default_factory=set)

    @classmethod
    def of(cls, launches: tuple[Launch, ...]) -> _Uses:
        uses = cls()
        for launch in launches:
            pending: list[tuple[Stmt, bool, frozenset[Buffer]]] = [(s, True, frozenset()) for s in reversed(launch.body)]
            while pending:
                statement, is_certain, asked = pending.pop()
                uses._note(statement, is_certain, asked)
                bodies = [s for name in type(statement).BODIES for s in getattr(statement, name)]
                if bodies:
                    inner = asked | _certain_reads(statement) if isinstance(statement, (If, While)) else asked
                    always = is_certain and isinstance(statement, (For, Map)) and runs(statement)
                    pending.extend((s, always, inner) for s in reversed(bodies))
        return uses

    def _note(self, statement: StmtNode, is_certain: bool, asked: frozenset[Buffer]) -> None:
        certain = _certain_reads(statement)
        for root in certain if is_certain else ():
            if root not in self.written:
                self.early.setdefault(root, statement)
        is_atomic = isinstance(statement, (Atomic, AtomicTile)) and statement.op != "store"
        for region in statement.reads():
            self.read.setdefault(region.buffer.root, statement)
        for region in statement.writes():
            root = region.buffer.root
            combines = is_atomic or (root in certain and isinstance(statement, (Gemm, Reduce, Store)))
            if combines:
                self.combined.add(root)
            if not combines and root not in asked:
                self.defined.add(root)
            else:
                if is_atomic and root not in self.changed:
                    self.atomic.add(root)
                elif not is_atomic:
                    self.atomic.discard(root)
                self.changed.setdefault(root, statement)
            self.written.add(root)


def _certain_reads(statement: StmtNode) -> frozenset[Buffer]:
    """Buffers of which the statement, where it runs, certainly reads an element that lies inside."""
    if isinstance(statement, (Atomic, AtomicTile, Dialect)):
        return frozenset()
    loads = loads_in(statement)
    chosen = {load.buffer.root for load in loads} - {load.buffer.root for load in always_evaluated(statement) if isinstance(load, Load)}
    found = {region.buffer.root for region in statement.reads() if not _may_be_outside(region)} - chosen
    if isinstance(statement, Gemm) and not isinstance(statement.clear, Const):
        found.discard(statement.c.buffer.root)
    return frozenset(found)


def _may_be_outside(region: Region) -> bool:
    """Whether an offset takes something away or adds a constant: neighbours, whose first or last lies outside."""
    for node in (n for offset in region.offsets for n in walk(offset)):
        if isinstance(node, Binary) and (node.op == "sub" or (node.op == "add" and isinstance(node.right, Const))):
            return True
        if isinstance(node, Binary) and node.op == "add" and isinstance(node.left, Const):
            return True
    return False
