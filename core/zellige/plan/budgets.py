"""How many lanes and registers each role has.

In: roles of a block on a machine of lanes, their placements. Out: the roles with lanes and budgets, and the decisions.

A role's copy has the lanes that the main engine has of a kind in one block (what one product occupies). The producer computes addresses
only and gets few registers; the consumers share what is left, in steps of the file, up to what a lane can have. A budget is given only
where the tiles that a role keeps in registers fit it with room to work; else the target divides the file as it does without budgets, and a
decision says which tiles are too large.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from zellige.ir.expr import Buffer, constant_value
from zellige.plan.context import Context
from zellige.plan.nodes import Placement, Role
from zellige.plan.place import covered_bytes
from zellige.plugin.contract import RegisterFile

_PRODUCER = (24, 56)
"""Registers of a role that only starts copies: at least for its addresses, at most what it could use."""

_WORK = 28
"""Registers that a lane needs beside its tiles: addresses, counters, operands on their way."""

_WORD = 4


def group_lanes(context: Context) -> int:
    """The lanes of one copy of a role."""
    engine = context.machine.engine(context.machine.main_engine)
    return context.machine.capabilities.lanes * (engine.count if engine is not None else 1)


def most_copies(context: Context, wanted: int) -> int:
    """As many consumers of ``wanted`` as a block has room for beside a producer."""
    limit = context.machine.capabilities.block_lanes
    return wanted if not limit else max(1, min(wanted, limit // group_lanes(context) - 1))


def register_tiles(context: Context) -> frozenset[Buffer]:
    """The tiles that lie in a space of registers."""
    return frozenset(b for b, space in context.spaces.items() if context.machine.role_of(space) == "register")


def needed_registers(context: Context, placements: Iterable[Placement], copies: int) -> int:
    """Registers a lane for the tiles in registers, when ``copies`` of the role share them."""
    tiles = register_tiles(context)
    used = covered_bytes([p for p in placements if p.buffer.root in tiles])
    return -(-used // (group_lanes(context) * copies * _WORD))


def largest_budget(context: Context, copies: int) -> int | None:
    """The most registers that each lane of ``copies`` consumers can have beside a producer; None where the file is not known."""
    file = context.machine.capabilities.registers
    if file is None or not file.per_block or not file.per_lane:
        return None
    lanes = group_lanes(context)
    left = _given_out(file, lanes * (copies + 1)) - _up(_PRODUCER[0], file.step) * lanes
    return _down(min(file.per_lane, left // (lanes * copies)), file.step)


def _given_out(file: RegisterFile, lanes: int) -> int:
    """The registers that a block of so many lanes is given at its launch, the same for each lane: budgets only pass them on, so a block
    whose budgets need more would wait for ever."""
    return min(_down(file.per_block // lanes, file.step), _up(file.per_lane, file.step)) * lanes


def fits(context: Context, placements: Iterable[Placement], copies: int) -> bool:
    """Whether the tiles leave a lane room to work."""
    most = largest_budget(context, copies)
    return most is None or needed_registers(context, placements, copies) + _WORK <= most


def with_budgets(context: Context, producer: Role, consumer: Role, placements: Sequence[Placement]) -> tuple[Role, Role]:
    """Both roles with their lanes and budgets."""
    lanes = group_lanes(context)
    producer, consumer = replace(producer, lanes=lanes), replace(consumer, lanes=lanes)
    _tell_lanes(context, lanes, consumer.count)
    file, most = context.machine.capabilities.registers, largest_budget(context, consumer.count)
    if file is None or most is None:
        return producer, consumer
    needed = needed_registers(context, placements, consumer.count)
    question = "how many registers does a lane of each role have?"
    if needed + _WORK > most:
        context.decisions.take(
            question, "as many as the target gives",
            f"the tiles in registers need {needed} a lane and {_WORK} are needed beside them, and a consumer can have {most}: "
            "a smaller tile would stay in registers",
        )  # fmt: skip
        return producer, consumer
    given = _given_out(file, lanes * (consumer.count + 1))
    few = _down(min(given // lanes - most * consumer.count, _PRODUCER[1]), file.step)
    equal = given // (lanes * (consumer.count + 1))
    context.decisions.take(
        question, f"{few} in the producer, {most} in each consumer",
        f"the producer computes addresses only; the consumers' tiles need {needed} a lane, and the block is given {given}",
        rejected=((f"{equal} in all", "the producer would not use its share"),),
    )  # fmt: skip
    return replace(producer, registers=few), replace(consumer, registers=most)


def _tell_lanes(context: Context, lanes: int, copies: int) -> None:
    asked = 1
    for extent in context.facts.launch.threads or ():
        value = constant_value(extent)
        asked *= int(value) if value is not None else 0
    total = lanes * (1 + copies)
    rejected: tuple[tuple[str, str], ...] = ()
    if context.facts.launch.threads and asked != total:
        rejected = ((f"{asked}, as the kernel names", "it names how many compute; the result does not depend on it"),)
    context.decisions.take(
        "how many lanes does a block have?", f"{total}: {lanes} copy, {copies} x {lanes} compute",
        f"a product occupies {lanes} lanes, and the producer has a group of its own", rejected=rejected,
    )  # fmt: skip


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _down(value: int, step: int) -> int:
    return value // step * step
