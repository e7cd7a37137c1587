"""Lines asked for ahead: what overlaps the copies of a loop with stages on a processor, where there is no engine beside it.

In: the operation that the planner asks about, a host. Out: the answers of the hook ``candidates``, and whether packings ask for lines. The
instruction is a row of the table (:mod:`zellige_intrinsics`); without it nothing is asked for, and no result changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zellige_cpu.leaf.units import family_of
from zellige_cpu.values import constant
from zellige_intrinsics.tables import copies_taken_out, copy_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zellige.plugin.contract import Answer, Operation
    from zellige_cpu.host import Host
    from zellige_cpu.text import Function
    from zellige_cpu.values import Value
    from zellige_intrinsics.rows import CopyRow

_CACHE = "cache"

LINE: Final = 64
"""Bytes of a line of a cache."""


def prefetch(host: Host) -> CopyRow | None:
    """The instruction that asks for a line; None where the machine has none, or the table of instructions does not hold it."""
    rows = (row for row in copy_rows(family_of(host)) if row.destination == _CACHE) if family_of(host) else ()
    return next((row for row in rows if host.features.issuperset(row.requires)), None)


def ask_for(fn: Function, first: Value, size: int, *, level: int = 1, is_written: bool = False) -> None:
    """Code that asks for the lines of ``size`` bytes from the address ``first`` on, which may exist or not, for the cache of that level,
    and to own them where they will be written. No code where the machine or the table has no instruction for it."""
    if prefetch(fn.module.host) is None:
        return
    hints = [constant("i32", number) for number in (int(is_written), 4 - level, 1)]
    for distance in range(0, size, LINE):
        fn.intrinsic("llvm.prefetch", fn.offset(first, distance), *hints)


def overlaps(operation: Operation, host: Host) -> Sequence[Answer]:
    """What overlaps a copy with the loop that it stands in: lines of an operand are asked for while those before them are packed."""
    from zellige.plan.candidates import with_refused
    from zellige.plugin.contract import Candidate

    row, refused = prefetch(host), []
    if row is not None and "packed" in operation.features:
        because = "no engine copies beside the processor: lines are asked for a few rows before they are packed, with any number of stages"
        return (Candidate(name=f"lines asked for ahead by {row.name}", because=because, mechanism=row.name), *operation.offered)
    if row is not None:
        refused.append((row.name, "asks for lines of what a product packs, and this is none", "a product that packs the operand"))
    for one in copies_taken_out(family_of(host)) if row is None and family_of(host) else ():
        if one.destination == _CACHE:
            back = f"putting {one.name} back into the table of instructions"
            refused.append((one.name, "it was taken out of the table of instructions", back))
    return with_refused(operation.offered, refused)
