"""Whether the plan does what the launch says: the same operations, each of which sees the results it saw.

In: the traces of one block. Out: problems. An operation that reads what another wrote must read it in the plan too (read after write);
it must not see a later result in its place (write after read), and of two results the same must stay (write after write). Atomic
operations read and write, so their order on one element counts as well. What a read saw of undefined storage is open.
"""

from __future__ import annotations

from zellige.ir.expr import Buffer
from zellige.plan.checks.problem import Problems
from zellige.plan.checks.programs import Trace
from zellige.plan.checks.signatures import Signatures

EXECUTED, DEPENDENCES = 9, 10
"""Numbers in the list of :mod:`zellige.plan.check`."""


def compare(original: Trace, planned: Trace, signatures: Signatures, problems: Problems, buffers: dict[int, Buffer]) -> None:
    """Report where the plan's trace differs. ``buffers`` gives the buffer of a number. Of traces that are cut, what both hold is
    compared."""
    names = {number: buffer.name for number, buffer in buffers.items()}
    is_same = is_whole = not (original.is_cut or planned.is_cut)
    for signature in original.executed.keys() | planned.executed.keys() if is_whole else ():
        wanted, found = original.executed[signature], planned.executed[signature]
        if wanted != found:
            is_same = False
            text = signatures.text(signature)
            kind = text.split("[")[0]
            problems.add(
                EXECUTED, f"{text} runs {_times(found)} in the plan and {_times(wanted)} in the kernel", key=(kind, found > wanted)
            )
    for instance, reads in original.reads.items():
        others = planned.reads.get(instance)
        if others is None:
            continue
        for number, seen in reads.items():
            if any(seen) and seen != others.get(number, set()):
                text = signatures.text(instance[0])
                problems.add(
                    DEPENDENCES,
                    f"{text} (time {instance[1]}) does not see in {names.get(number, '?')} what it sees in the kernel",
                    key=("read", text.split("[")[0], names.get(number)),
                )
    if is_same:
        for number, last in original.final.items():
            if last != planned.final.get(number, frozenset()):
                problems.add(
                    DEPENDENCES,
                    f"another operation wrote last what lies in {names.get(number, '?')} at the end",
                    key=("final", names.get(number)),
                )


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count} times"
