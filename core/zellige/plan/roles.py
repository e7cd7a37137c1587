"""Which role runs each operation of a launch.

In: the facts of a legal launch, its products, the spaces of buffers and a machine. Out: :class:`Assignment`: the role of each operation,
by identity. Structure (For, If, While) and scalars (Bind, Assign) have no role: every role keeps the part that its operations need.

On a machine of lanes the copies that may run ahead go to a producer, everything else to the consumers; on a machine of queues each engine
is a role. What is not understood stays in one role, with the reason.
"""

from __future__ import annotations

from typing import Final

from zellige.ir.expr import Buffer
from zellige.ir.stmt import (
    Alloc,
    Assume,
    Atomic,
    AtomicTile,
    Copy,
    Dialect,
    Fill,
    For,
    Gemm,
    Pipelined,
    Return,
    Stmt,
    While,
)
from zellige.plan.ahead import Overlap, overlap_of
from zellige.plan.capabilities import Machine
from zellige.plan.facts import SCALARS, STRUCTURE, LaunchFacts, leaves_early, statements_in
from zellige.plan.products import Product
from zellige.plan.spaces import choose_path
from zellige.plugin.contract import Space
from zellige.records import dataclass

PRODUCER: Final = "producer"
CONSUMER: Final = "consumer"
BLOCK: Final = "block"
"""The role of a launch that has only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """``of`` maps the identity of operations to roles; ``engines`` the roles, in a fixed order, to engines."""

    of: dict[int, str]
    engines: dict[str, str]

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(self.engines)


def is_operation(statement: Stmt) -> bool:
    """Whether a statement belongs to one role: everything but structure, scalars, allocations and assumptions.

    A loop that is left or cut short from within (by break or continue) belongs to one role as a whole.
    """
    if isinstance(statement, (While, For)) and leaves_early(statement.body):
        return True
    return not isinstance(statement, (*STRUCTURE, *SCALARS, Alloc, Assume))


def operations_of(body: tuple[Stmt, ...]) -> list[Stmt]:
    """The operations under ``body`` in order. What an operation nests (the statements of a Map) belongs to it."""
    found: list[Stmt] = []
    pending = list(reversed(body))
    while pending:
        statement = pending.pop()
        if is_operation(statement):
            found.append(statement)
        else:
            for name in reversed(type(statement).BODIES):
                pending.extend(reversed(getattr(statement, name)))
    return found


def why_one_role(facts: LaunchFacts) -> str | None:
    """What keeps a launch in one role on any machine; None where nothing does."""
    body = facts.launch.body
    if facts.is_lane_code:
        return "its author programs the lanes: synchronisation is by hand and is left as it is"
    for statement in statements_in(body):
        match statement:
            case Return():
                return "a return out of a loop ends the block, which roles cannot know of each other"
            case Dialect():
                return f"it uses {statement.op}, whose synchronisation is the author's"
            case Atomic() | AtomicTile() if statement.order != "relaxed":
                return "atomics with a memory order synchronise blocks, and nothing may move across them"
            case _:
                pass
    return None


def by_engine(facts: LaunchFacts, products: dict[int, Product], spaces: dict[Buffer, Space], machine: Machine) -> Assignment:
    """A role an engine: products to the unit's, copies to their path's, a fill of results to the unit that adds to them, the rest to the
    vector engine."""
    results = {op.c.buffer.root: unit.engine for op in operations_of(facts.launch.body)
               if isinstance(op, Gemm) and (unit := products[id(op)].unit) is not None}  # fmt: skip
    of: dict[int, str] = {}
    for operation in operations_of(facts.launch.body):
        engine = machine.main_engine
        match operation:
            case Gemm():
                unit = products[id(operation)].unit
                engine = unit.engine if unit is not None and unit.engine else engine
            case Fill() if operation.dst.buffer.root in results:
                home = spaces.get(operation.dst.buffer.root)
                if home is not None and machine.role_of(home) == "accumulator":
                    engine = results[operation.dst.buffer.root]
            case Copy():
                path, _ = choose_path(operation, facts, spaces, machine)
                engine = path.engine or engine
            case _:
                pass
        of[id(operation)] = engine
    order = [e.name for e in machine.capabilities.engines]
    used = sorted(set(of.values()) or {machine.main_engine}, key=lambda name: order.index(name) if name in order else len(order))
    return Assignment(of=of, engines={name: name for name in used})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """A copy that may run ahead of the loop around it, and how."""

    copy: Copy
    loop: For
    overlap: Overlap


def copies_ahead(
    facts: LaunchFacts, spaces: dict[Buffer, Space], machine: Machine
) -> tuple[tuple[Ahead, ...], tuple[tuple[Copy, str | Overlap], ...]]:
    """The copies from global memory in pipelined loops that an asynchronous path can start early, and for the others why not: what holds
    them back, or what was taken instead.

    Whether their tiles can have several versions is a question of :mod:`zellige.plan.streams`.
    """
    found: list[Ahead] = []
    refused: list[tuple[Copy, str | Overlap]] = []
    changed = changed_in(facts)
    for loop in pipelined_loops(facts.launch.body):
        for statement in operations_of(loop.body):
            if not isinstance(statement, Copy) or statement.src.buffer.root.space != "global" or statement.dst.buffer.root not in spaces:
                continue
            reason = held_back(statement, facts, changed)
            if reason is not None:
                refused.append((statement, reason))
                continue
            overlap = overlap_of(statement, loop, facts, spaces, machine)
            if overlap.wait is None:
                refused.append((statement, overlap))
            else:
                found.append(Ahead(copy=statement, loop=loop, overlap=overlap))
    return tuple(found), tuple(refused)


def changed_in(facts: LaunchFacts) -> set[Buffer]:
    """The buffers that a launch writes."""
    return {a.root for s in facts.launch.body for a in facts.accesses(s) if a.changes}


def held_back(copy: Copy, facts: LaunchFacts, changed: set[Buffer]) -> str | None:
    """Why a copy cannot be made before its turn in a launch that changes ``changed``; None where it can."""
    source = copy.src.buffer.root
    if source in changed:
        return f"{source.name} is also written in this launch"
    for access in facts.accesses(copy):
        if access.kind == "read" and access.root is not source and access.root in changed:
            return f"its address depends on {access.root.name}, which the launch computes"
    return None


def pipelined_loops(body: tuple[Stmt, ...]) -> list[For]:
    """The loops with stages, outermost first; a pipelined loop inside another one is its own. Loops that belong to one role are left
    out."""
    found: list[For] = []
    pending = list(reversed(body))
    while pending:
        statement = pending.pop()
        if is_operation(statement):
            continue
        if isinstance(statement, For) and isinstance(statement.kind, Pipelined):
            found.append(statement)
        for name in reversed(type(statement).BODIES):
            pending.extend(reversed(getattr(statement, name)))
    return found
