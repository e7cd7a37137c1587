"""How long an operand stays packed that a merged product packs straight from its tensor, and who packs it.

In: the loop of the product, the copy that the packing replaces, what is known at it. Out: a :class:`Keeping`: the cells of the launch share
one place for each step (``launch``), a worker keeps what it packed for its own later cells (``worker``), or one cell alone uses it and the
place is filled anew at each step (``cell``).

All cells can share where what is packed is a function of coordinates of the grid and of the step, all of constant extent: then there is a
place for each of their values, and whoever needs one first packs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final, Literal

from zellige.analysis.bounds import Scope
from zellige.ir.expr import Load, Var
from zellige.ir.sizes import size_vars
from zellige.ir.stmt import Copy, For, ScalarParam
from zellige.ir.traverse import walk
from zellige.plan.facts import LaunchFacts
from zellige.records import dataclass

SHARED_BYTES: Final = 256 << 20
"""The most that the packed form of one operand of a launch may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """``places`` are the variables of the grid that what is packed depends on, where cells share it or one uses it."""

    kind: Literal["cell", "worker", "launch"]
    because: str
    places: tuple[Var, ...] = ()


def keeping(facts: LaunchFacts, loop: For, copy: Copy, step_bytes: int, scopes: Mapping[int, Scope]) -> Keeping:
    """How the operand that ``copy`` brings is kept; ``step_bytes`` is what one iteration of the loop packs."""
    used = _used(facts, loop, copy, scopes[id(copy)])
    if isinstance(used, str):
        return Keeping(kind="worker", because=used)
    extents = _extents(facts)
    if all(extent == 1 for var, extent in extents.items() if var not in used):
        return Keeping(kind="cell", because="one cell alone uses it", places=used)
    scope = scopes[id(copy)]
    count = (scope.form(loop.stop) - scope.form(loop.start)).constant
    if count is None:
        return Keeping(kind="worker", because="how many steps the loop has is known only when it runs")
    size = step_bytes * max(1, count) * prod(extents[var] or 0 for var in used)
    if size > SHARED_BYTES:
        reason = f"its packed form is {size >> 20} MiB, more than the {SHARED_BYTES >> 20} that all cells may share"
        return Keeping(kind="worker", because=reason)
    return Keeping(kind="launch", because=f"all cells along the other axes of the grid use the same {max(1, size >> 10)} KiB", places=used)


def reading_the_same(facts: LaunchFacts, loop: For, copy: Copy, scopes: Mapping[int, Scope]) -> tuple[Var, ...]:
    """The variables of the grid along which cells read the same in each iteration of the loop, and something else in the next one; none
    where all iterations read the same."""
    scope = scopes[id(copy)]

    def moves_with(var: Var) -> bool:
        return any(scope.mentions(offset, frozenset((var,))) for offset in copy.src.offsets)

    if not moves_with(loop.var):
        return ()
    return tuple(var for var, extent in _extents(facts).items() if extent != 1 and not moves_with(var))


def _extents(facts: LaunchFacts) -> dict[Var, int | None]:
    """Cells along each variable of the grid, None where that is not constant."""
    return {var: facts.scope.form(extent).constant for var, extent in zip(facts.launch.grid_vars, facts.launch.grid)}


def _used(facts: LaunchFacts, loop: For, copy: Copy, scope: Scope) -> tuple[Var, ...] | str:
    """The variables of the grid that what is packed depends on; a reason where it depends on more, or on one of unknown extent."""
    extents = _extents(facts)
    arguments = {param.var for param in facts.kernel.params if isinstance(param, ScalarParam)} | set(size_vars(facts.kernel))
    name = copy.src.buffer.name
    found: dict[Var, None] = {}
    for form in (*map(scope.form, copy.src.offsets), scope.form(loop.start), scope.form(loop.stop)):
        for node in (node for atom in form.atoms() for node in walk(atom)):
            if isinstance(node, Load):
                return f"where {name} is read depends on {node.buffer.name}"
            if not isinstance(node, Var) or node is loop.var or node in arguments:
                continue
            if node not in extents:
                return f"where {name} is read depends on {node.name}, which changes within a cell"
            if extents[node] is None:
                return f"how many cells there are along {node.name} is known only when it runs"
            found[node] = None
    return tuple(var for var in facts.launch.grid_vars if var in found)
