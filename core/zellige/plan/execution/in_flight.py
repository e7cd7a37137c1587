"""Asynchronous operations on NumPy, as late or as early as the plan allows.

In: an issued operation with the frame that it was issued in. Out: its effect, at some moment between its issue and the wait that needs it.
What the adversary chooses for each: *early*, all at the issue; *late*, all at the end, so that it reads what its sources hold
then; *torn*, reading at the issue and writing at the end. Unless it is early or reads its destination, the destination is poisoned
meanwhile, since the operation may have written any part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Literal

import numpy as np

from zellige.elements.conversion import has_nan
from zellige.interp.expressions import evaluate
from zellige.interp.frame import Frame, Place, Run
from zellige.interp.memory import PATTERN, Memory
from zellige.interp.statements import run_body
from zellige.ir.expr import Buffer
from zellige.ir.stmt import AtomicTile, Copy, Gemm, Stmt
from zellige.plan.execution.promises import undefine
from zellige.plan.nodes import Token
from zellige.records import dataclass

Timing = Literal["early", "late", "torn"]


@dataclass(slots=True, kw_only=True)
class Operation:
    """One issued operation. ``finish`` is what is still to be done, None once it is done. ``is_waited``: somebody waits for it or has."""

    statement: Stmt
    finish: Callable[[], None] | None
    is_waited: bool = False


@dataclass(slots=True)
class InFlight:
    """The operations of each token in the order of their issue; those before ``finished`` are done."""

    run: Run
    operations: dict[Token, list[Operation]] = field(default_factory=dict)
    finished: dict[Token, int] = field(default_factory=dict)

    def issue(self, token: Token, statement: Stmt, frame: Frame, timing: Timing) -> Operation:
        """Start an operation; ``frame`` is its own from now on."""
        queue = self.operations.setdefault(token, [])
        if self.finished.get(token, 0) < len(queue) and not isinstance(statement, Copy):
            timing = "late"  # products of one token take effect in their order, copies in any
        if isinstance(statement, AtomicTile) and timing == "torn":
            timing = "late"  # another role's addition must not get lost
        operation = Operation(statement=statement, finish=self._effect(statement, frame, timing))
        queue.append(operation)
        return operation

    def _effect(self, statement: Stmt, frame: Frame, timing: Timing) -> Callable[[], None] | None:
        def perform() -> None:
            run_body(self.run, frame, (statement,), True, None)

        if timing == "early":
            perform()
            return None
        if timing == "late":
            self._poison(statement, frame)
            return perform
        scratch, targets = _with_scratch(statement, frame)
        run_body(self.run, scratch, (statement,), True, None)
        self._poison(statement, frame)
        return lambda: _merge(scratch, frame, targets)

    def _poison(self, statement: Stmt, frame: Frame) -> None:
        """Let the destination hold nothing of use, where the operation does not read it."""
        if not isinstance(statement, (Copy, Gemm)):
            return
        if isinstance(statement, Gemm) and not bool(evaluate(self.run, frame, statement.clear).all()):
            return
        for region in statement.writes():
            undefine(self.run, frame, region)

    def finish(self, token: Token, count: int) -> None:
        """Finish the first ``count`` operations of a token."""
        queue = self.operations.get(token, [])
        for operation in queue[self.finished.get(token, 0) : count]:
            if operation.finish is not None:
                operation.finish()
                operation.finish = None
        self.finished[token] = max(self.finished.get(token, 0), count)

    def wait(self, token: Token, leave_in_flight: int) -> None:
        """Finish all but the last ``leave_in_flight`` operations of a token."""
        queue = self.operations.get(token, [])
        count = max(len(queue) - leave_in_flight, 0)
        self.finish(token, count)
        for operation in queue[:count]:
            operation.is_waited = True

    def issued(self, token: Token) -> int:
        """How many operations of a token were issued so far."""
        return len(self.operations.get(token, []))

    def pending(self) -> list[Token]:
        """The tokens with operations that are not finished."""
        return [token for token, queue in self.operations.items() if self.finished.get(token, 0) < len(queue)]

    def unwaited(self) -> list[tuple[Token, Operation]]:
        """Operations that nobody waits for."""
        return [(token, one) for token, queue in self.operations.items() for one in queue if not one.is_waited]


def _with_scratch(statement: Stmt, frame: Frame) -> tuple[Frame, list[Buffer]]:
    """``frame`` with copies of the storage that the statement writes; each remembers what is written to it."""
    targets = list(dict.fromkeys(region.buffer.root for region in statement.writes()))
    places = dict(frame.places)
    for root in targets:
        memory = places[root].memory
        scratch = Memory(cells=memory.cells.copy(), copies=memory.copies, copy_bytes=memory.copy_bytes)
        scratch.written = np.zeros(2 * memory.cells.size, bool)
        places[root] = Place(memory=scratch, copies=places[root].copies, layouts=places[root].layouts)
    return Frame(kind="block", count=1, values=frame.values, places=places), targets


def _merge(scratch: Frame, frame: Frame, targets: list[Buffer]) -> None:
    """Store what was written to the copies."""
    for root in targets:
        source, target = scratch.places[root].memory, frame.places[root].memory
        assert source.written is not None
        halves = source.written.reshape(-1, 2)
        mask = (halves[:, 0] * np.uint8(0x0F)) | (halves[:, 1] * np.uint8(0xF0))
        target.cells[...] = (target.cells & ~mask) | (source.cells & mask)


def poison(memory: Memory, buffer: Buffer) -> None:
    """Let storage hold nothing of use: NaN where the type has it, else a pattern."""
    memory.cells[...] = PATTERN
    dtype = buffer.dtype.scalar
    if dtype.is_float and has_nan(dtype):
        memory.view(dtype)[...] = np.nan
    elif dtype.bits == 6:
        memory.cells &= 0x3F
