"""The statements of a role's program.

In: a body as the plan has it. Out: its statements in program order, those that it starts or that mean an older slot as themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zellige.ir.stmt import Map, StmtNode
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
