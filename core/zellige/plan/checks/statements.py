"""What is wrong with the programs of a plan as tile IR: with each expression and each statement by itself.

In: a plan that a pass of somebody else's made. Out: problems in words. Core's own plans hold what the verifier has seen and what their
planning makes of it, so only after such a pass is it looked at. Which statements a role has, in which order, and where names have values is
not asked here: roles repeat statements and share buffers, and the checks of :mod:`zellige.plan.check` know of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from zellige.ir.stmt import Kernel, Stmt
from zellige.ir.traverse import rebuilt, walk
from zellige.ir.verify import verify
from zellige.plan.nodes import Channel, PlannedKernel, PlanStmt, Token, operation_of

_BY_ITSELF: Final = frozenset((4, 5, 6, 7, 8, 9, 10, 11, 12, 18, 19, 20, 21, 22, 31))
"""The invariants of the tile IR that a statement keeps or breaks wherever it stands (:mod:`zellige.ir.verify`)."""

_NAMED: Final[dict[str, type]] = {"channel": Channel, "token": Token}
"""The fields of a plan's statements that name parts of the plan, and of which class those are."""


def statement_problems(planned: PlannedKernel) -> list[str]:
    """All that is wrong with the author's kernel and, of each launch, the planned one and the bodies of its roles."""
    found = [*verify(planned.kernel)]
    bodies = [(launch.launch, role.body) for launch in planned.launches for role in launch.roles]
    as_written = tuple(launch.launch for launch in planned.launches)
    as_planned = tuple(rebuilt(launch, body=_without_plan(body)) for launch, body in bodies)
    for launches in (as_written, as_planned):
        programs: Kernel = rebuilt(planned.kernel, launches=launches)
        found += [diagnostic for diagnostic in verify(programs) if diagnostic.invariant in _BY_ITSELF]
    strange = [
        f"{field} of {type(node).__name__.lower()} is a {type(getattr(node, field)).__name__}, not a {kind.__name__}"
        for _, body in bodies for statement in body for node in walk(statement) if isinstance(node, PlanStmt)
        for field, kind in _NAMED.items() if hasattr(node, field) and not isinstance(getattr(node, field), kind)
    ]  # fmt: skip
    return list(dict.fromkeys([*(diagnostic.message for diagnostic in found), *strange]))


def _without_plan(body: Sequence[Stmt | PlanStmt]) -> tuple[Stmt, ...]:
    """The statements of the tile IR in a body, without what the plan puts around and between them."""
    statements: list[Stmt] = []
    for statement in body:
        bare: Any = operation_of(statement)
        if isinstance(bare, PlanStmt):
            continue
        inner = {name: _without_plan(getattr(bare, name)) for name in getattr(bare, "BODIES", ())}
        statements.append(cast(Stmt, rebuilt(bare, **inner) if any(inner.values()) else bare))
    return tuple(statements)
