"""The statements of a role's program.

In: a body as the plan has it. Out: its statements in program order, those that it starts or that mean an older slot as themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zellige.ir.stmt import For, Map, StmtNode, While
from zellige.plan.nodes import Issue, Slotted


def statements_of(body: Iterable[object], *, into_maps: bool = False) -> Iterator[StmtNode]:
    """Every statement of a body, nested ones included; those of a Map belong to it unless asked for."""
    pending: list[object] = list(reversed(list(body)))
    while pending:
        top = pending.pop()
        if isinstance(top, (Issue, Slotted)):
            pending.append(top.operation)
            continue
        assert isinstance(top, StmtNode)
        yield top
        if isinstance(top, Map) and not into_maps:
            continue
        for name in reversed(type(top).BODIES):
            pending.extend(reversed(getattr(top, name)))


def loops_around(body: Iterable[object], statement: StmtNode) -> Iterator[tuple[For | While, ...]]:
    """The loops around each place of a body where ``statement`` stands, outermost first."""
    pending: list[tuple[object, tuple[For | While, ...]]] = [(top, ()) for top in body]
    while pending:
        top, loops = pending.pop()
        if isinstance(top, (Issue, Slotted)):
            top = top.operation
        if top is statement:
            yield loops
            continue
        around = (*loops, top) if isinstance(top, (For, While)) else loops
        for name in getattr(type(top), "BODIES", ()):
            pending.extend((inner, around) for inner in getattr(top, name))
