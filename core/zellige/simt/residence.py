"""Tiles that live elsewhere than a plan has them: in memory, where their elements are asked for by numbers that registers do not have.

In: the body of a thread-level program and its tiles, the decisions of a plan. Out: the arrays of lanes whose elements cannot be registers,
or can only where the target's compiler writes loops out, and decisions that say of each tile where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from zellige.ir.expr import Buffer, Load, Var, constant_value
from zellige.ir.stmt import Bind, For, Unrolled
from zellige.ir.traverse import rebuilt, walk
from zellige.plan.nodes import Decision, Placement, PlannedKernel
from zellige.simt.ir import REGISTERS, Function

OWN_MEMORY = "the lane's own memory"


def indexed_by_numbers(body: Iterable[Any], *, at_run_time: bool) -> frozenset[Buffer]:
    """The roots of registers that are read or written at an index that is no constant after loops of kind Unrolled are written out;
    ``at_run_time``: nor after all loops of constant bounds are."""
    fixed: set[Var] = set()
    found: set[Buffer] = set()

    def is_fixed(expr: Any) -> bool:
        return all(not isinstance(node, Load) and (not isinstance(node, Var) or node in fixed) for node in walk(expr))

    for statement in body:
        for node in walk(statement):
            match node:
                case For(var=var, start=start, stop=stop, step=step, kind=kind):
                    is_constant = all(constant_value(e) is not None for e in (start, stop, step))
                    if is_constant and (at_run_time or isinstance(kind, Unrolled)):
                        fixed.add(var)
                case Bind(var=var, value=value) if not var.is_mutable and is_fixed(value):
                    fixed.add(var)
                case _:
                    buffer, indices = getattr(node, "buffer", None), getattr(node, "indices", None)
                    if isinstance(buffer, Buffer) and indices and buffer.root.space == REGISTERS and not all(map(is_fixed, indices)):
                        found.add(buffer.root)
    return frozenset(found)


def settled(decisions: Sequence[Decision], elsewhere: Sequence[tuple[str, str, str]]) -> tuple[Decision, ...]:
    """The decisions of a plan where tiles live elsewhere than it has them: names, places and reasons."""
    found: list[Decision] = []
    moved = {name for name, _, _ in elsewhere}
    for decision in decisions:
        kept = tuple(name for name in decision.tiles if name not in moved)
        if kept == decision.tiles:
            found.append(decision)
        elif kept:
            found.append(replace(decision, tiles=kept, chosen=Decision.of_homes(kept, decision.space)))
    return (*found, *(Decision(question=f"where does {n} live?", chosen=p, because=why) for n, p, why in elsewhere))


def as_made(planned: PlannedKernel, functions: Sequence[Function]) -> PlannedKernel:
    """The plan with its tiles where the programs of its launches have them."""
    launches = []
    for launch, function in zip(planned.launches, functions):
        moved = {name for name, _, _ in function.elsewhere}
        placements = _without(launch.placements, moved)
        launches.append(rebuilt(launch, decisions=settled(launch.decisions, function.elsewhere), placements=placements))
    return rebuilt(planned, launches=tuple(launches))


def _without(placements: Sequence[Placement], moved: set[str]) -> tuple[Placement, ...]:
    """The placements without some tiles; what lies behind the bytes of one that shared them with nobody moves up."""
    kept = [p for p in placements if p.buffer.name not in moved]
    gaps = [p for p in placements if p.buffer.name in moved and not any(_meet(p, other) for other in kept)]

    def above(place: Placement) -> int:
        return sum(gap.bytes * gap.slots for gap in gaps if gap.space == place.space and gap.offset < place.offset)

    return tuple(replace(p, offset=p.offset - above(p)) for p in kept)


def _meet(a: Placement, b: Placement) -> bool:
    return a.space == b.space and a.offset < b.offset + b.bytes * b.slots and b.offset < a.offset + a.bytes * a.slots
