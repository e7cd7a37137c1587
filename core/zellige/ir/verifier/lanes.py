"""Invariants 28 and 29: what may not stand in lane-dependent code.

In: a launch with lane variables and the :class:`Context`. Out: diagnostics in the context.
"""

from __future__ import annotations

from zellige.ir.lanes import lane_dependence
from zellige.ir.stmt import Barrier, Launch, Map, ReducerFinalize, ReducerInit, Stmt, Vote
from zellige.ir.verifier.context import Context, word


def check_lanes(context: Context, launch: Launch) -> None:
    """Reports collective statements that some lanes do not reach and uses of fragments that differ between lanes."""
    found = lane_dependence(launch)
    for statement in found.partial:
        context.report(28, statement.span, f"{_name(statement)} is reached by some lanes only")
    for use in found.fragments:
        if use.statement is None:
            context.report(29, use.span, f"fragment {use.buffer.label} is indexed by a value that differs between lanes")
        elif isinstance(use.statement, Map):
            context.report(29, use.span, f"fragment {use.buffer.label} is used in a T.Parallel that each lane runs for itself")
        else:
            operation = word(use.statement)
            context.report(29, use.span, f"fragment {use.buffer.label} is an operand of {operation}, which each lane does for itself")


def _name(statement: Stmt) -> str:
    match statement:
        case Map():
            return "T.Parallel"
        case Barrier() | Vote():
            return f"{word(statement)} of the {statement.scope}"
        case ReducerInit():
            return f"initialisation of reducer {statement.buffer.label}"
        case ReducerFinalize():
            return f"finalisation of reducer {statement.buffer.label}"
        case _:
            return f"{word(statement)}, a tile operation,"
