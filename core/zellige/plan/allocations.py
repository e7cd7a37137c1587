"""Where a role allocates the buffers that its statements use.

In: roles and channels. Out: the allocations that do not reach all that uses them (:func:`misplaced`), and the roles with these at their
start (:func:`with_allocations_first`).

The slots of a channel are there for its whole life: copies in flight fill some while others are read. So its buffers are allocated where
the role begins, once, whatever loop of the author's they were written in; a slot's elements are undefined when it is acquired, as those
of a fresh buffer are. Of other buffers an allocation counts from where it stands to the end of its body, as in the tile IR; what a software
pipeline puts in another loop than its allocation is allocated at the start as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set as AbstractSet
from dataclasses import field, replace

from zellige.ir.expr import Buffer
from zellige.ir.stmt import Alloc, For, Stmt, StmtNode, While
from zellige.ir.traverse import rebuilt, walk
from zellige.plan.nodes import Channel, PlanStmt, Role, operation_of
from zellige.records import dataclass

_Body = Sequence[Stmt | PlanStmt]


@dataclass(slots=True, kw_only=True)
class _Open:
    """A body that is being looked through, and what it has allocated so far."""

    statements: Iterator[Stmt | PlanStmt]
    is_repeated: bool
    allocated: list[Buffer] = field(default_factory=list)


def carried_by(channels: Collection[Channel]) -> frozenset[Buffer]:
    """The storage that channels have in slots."""
    return frozenset(buffer.root for channel in channels for buffer in channel.buffers)


def misplaced(role: Role, carried: AbstractSet[Buffer]) -> dict[Buffer, str]:
    """The buffers that the role allocates elsewhere than it should, each with what is wrong; ``carried`` are those of channels. What a role
    does not allocate is another's, or a tensor."""
    own = {node.buffer for statement in role.body for node in walk(statement) if isinstance(node, Alloc)}
    if not own:
        return {}
    found: dict[Buffer, str] = {}
    there: set[Buffer] = set()
    pending = [_Open(statements=iter(role.body), is_repeated=False)]
    while pending:
        top = pending[-1]
        statement = next(top.statements, None)
        if statement is None:
            there.difference_update(pending.pop().allocated)
            continue
        if isinstance(statement, Alloc):
            if top.is_repeated and statement.buffer in carried:
                found.setdefault(statement.buffer, "is allocated anew by each iteration of a loop, and a channel carries it")
            if statement.buffer not in there:
                there.add(statement.buffer)
                top.allocated.append(statement.buffer)
            continue
        for root in _used(statement):
            if root in own and root not in there:
                found.setdefault(root, "is used where it has not been allocated")
        inner = operation_of(statement)
        is_repeated = top.is_repeated or isinstance(inner, (For, While))
        pending += [_Open(statements=iter(getattr(inner, name)), is_repeated=is_repeated) for name in type(inner).BODIES]
    return found


def _used(statement: Stmt | PlanStmt) -> Iterator[Buffer]:
    """The storage that a statement reads or writes, what stands in its bodies apart."""
    for node in walk(statement, bodies=False):
        if isinstance(node, StmtNode):
            for region in (*node.reads(), *node.writes()):
                yield region.buffer.root


def with_allocations_first(roles: tuple[Role, ...], channels: Collection[Channel]) -> tuple[Role, ...]:
    """``roles`` with what each has :func:`misplaced` allocated at its start."""
    carried = carried_by(channels)
    made = []
    for role in roles:
        wrong = frozenset(misplaced(role, carried))
        first: dict[Buffer, Alloc] = {}
        body = _without(role.body, wrong, first) if wrong else role.body
        made.append(replace(role, body=(*first.values(), *body)) if wrong else role)
    return tuple(made)


def _without(body: _Body, buffers: AbstractSet[Buffer], taken: dict[Buffer, Alloc]) -> tuple[Stmt | PlanStmt, ...]:
    """``body`` without the allocations of ``buffers``; the first of each is put into ``taken``. Statements without one stay themselves."""
    made: list[Stmt | PlanStmt] = []
    for statement in body:
        if isinstance(statement, Alloc) and statement.buffer in buffers:
            taken.setdefault(statement.buffer, statement)
            continue
        changes = {}
        for name in type(statement).BODIES:
            inner = getattr(statement, name)
            new = _without(inner, buffers, taken)
            if len(new) != len(inner) or any(a is not b for a, b in zip(new, inner)):
                changes[name] = new
        made.append(rebuilt(statement, **changes) if changes else statement)
    return tuple(made)
