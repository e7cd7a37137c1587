"""Lanes: how many a launch has, what they exchange, and barriers over blocks.

In: statements of the lane extension and the frame of a block's lanes, which run in lock step: a barrier of a block has nothing to do,
since every statement is complete for all lanes before the next begins. Out: results of shuffles and votes. Blocks that wait
for each other take turns, one at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from zellige.diagnostics import InternalError, catalogue
from zellige.elements.conversion import INT64, Array, cast
from zellige.interp.expressions import evaluate
from zellige.interp.frame import Frame, Run
from zellige.interp.masks import Mask
from zellige.ir.expr import Var
from zellige.ir.stmt import Barrier, Shuffle, Vote

TARGET = "interp"


def lane_values(lane_vars: Sequence[Var], threads: Sequence[int]) -> dict[Var, Array]:
    """The lane variables' values for all lanes, the first fastest."""
    count = int(np.prod(threads))
    linear = np.arange(count)
    values: dict[Var, Array] = {}
    for axis, var in enumerate(lane_vars):
        values[var] = (linear // int(np.prod(threads[:axis])) % threads[axis]).astype(var.dtype.numpy)
    return values


def _each_lane(frame: Frame, value: Array, lanes: int = 1) -> Array:
    return np.broadcast_to(value, (frame.count, lanes) if lanes > 1 else (frame.count,))


def shuffle(run: Run, frame: Frame, statement: Shuffle, mask: Mask) -> Array:
    """The value of another lane of the group, or one's own."""
    width = statement.width
    if width > run.warp:
        raise catalogue.E446.error(statement.span, operation=f"a shuffle ({statement.mode})", width=width, target=TARGET, lanes=run.warp)
    if frame.kind != "lanes":
        raise InternalError("a shuffle outside of lane code")
    dtype = statement.value.dtype
    value = _each_lane(frame, evaluate(run, frame, statement.value, mask), dtype.lanes)
    operand = _each_lane(frame, evaluate(run, frame, statement.operand, mask)).astype(np.int64)
    lane = np.arange(frame.count)
    own = lane % width
    match statement.mode:
        case "xor":
            other = own ^ operand
        case "up":
            other = own - operand
        case "down":
            other = own + operand
        case "index":
            other = operand
    source = lane - own + other
    outside = (other < 0) | (other >= width) | (source >= frame.count)
    return value[np.where(outside, lane, source)]


def vote(run: Run, frame: Frame, statement: Vote, mask: Mask) -> Array:
    """Whether the predicate holds in any or all lanes that take part, in how many, or which."""
    if statement.scope not in ("warp", "block"):
        raise catalogue.E447.error(statement.span, operation=f"a vote ({statement.mode})", scope=statement.scope, target=TARGET)
    if frame.kind != "lanes":
        raise InternalError("a vote outside of lane code")
    group = run.warp if statement.scope == "warp" else frame.count
    takes_part = np.broadcast_to(np.asarray(mask), (frame.count,))
    holds = _each_lane(frame, evaluate(run, frame, statement.predicate, mask)) & takes_part
    fails = takes_part & ~holds
    groups = -(-frame.count // group)
    padding = (0, groups * group - frame.count)
    yes, no = np.pad(holds, padding).reshape(groups, group), np.pad(fails, padding).reshape(groups, group)
    match statement.mode:
        case "any":
            return _to_lanes(np.asarray(yes.any(axis=1)), group, frame.count)
        case "all":
            return _to_lanes(np.asarray(~no.any(axis=1)), group, frame.count)
        case "count":
            found = yes.sum(axis=1)
        case "ballot":
            found = np.array([sum(1 << int(lane) for lane in np.flatnonzero(row)) & 0xFFFF_FFFF_FFFF_FFFF for row in yes], np.uint64)
    return _to_lanes(cast(found.astype(np.int64), INT64, statement.result.dtype), group, frame.count)


def _to_lanes(values: Array, group: int, count: int) -> Array:
    return np.repeat(values, group)[:count]


def barrier(run: Run, statement: Barrier) -> None:
    """Wait for the other blocks where the scope has more than one."""
    if statement.scope in ("cluster", "grid"):
        if run.barrier is None:
            raise InternalError("a barrier over blocks that do not run together")
        run.barrier()


class Turns:
    """Runs blocks that wait for each other: one at a time, each up to its next barrier, round after round.

    A barrier of a cluster thereby waits for all blocks, which is more than it needs to.
    """

    def __init__(self, blocks: Sequence[Callable[[Callable[[], None]], None]]) -> None:
        self._workers = [_Worker(block) for block in blocks]

    def run(self) -> None:
        """Run every block to its end; the first error ends all of them."""
        waiting = list(self._workers)
        try:
            while waiting:
                for worker in waiting:
                    worker.resume()
                    if worker.error is not None:
                        raise worker.error
                waiting = [worker for worker in waiting if not worker.is_finished]
        finally:
            for worker in waiting:
                worker.abandon()


class _Abandoned(Exception):
    """Unwinds a block whose launch has failed elsewhere."""


class _Worker:
    def __init__(self, block: Callable[[Callable[[], None]], None]) -> None:
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._is_abandoned = False
        self._is_started = False
        self._block = block
        self._thread = threading.Thread(target=self._main, daemon=True)
        self.is_finished = False
        self.error: BaseException | None = None

    def resume(self) -> None:
        """Let the block run to its next barrier or its end."""
        if not self._is_started:
            self._is_started = True
            self._thread.start()
        self._go.release()
        self._stopped.acquire()

    def abandon(self) -> None:
        """End a block that waits."""
        self._is_abandoned = True
        if self._is_started and not self.is_finished:
            self._go.release()
            self._thread.join()

    def _main(self) -> None:
        self._go.acquire()
        try:
            self._block(self._wait)
        except _Abandoned:
            return
        except BaseException as error:  # noqa: BLE001 - handed to the thread that runs the launch, which raises it
            self.error = error
        self.is_finished = True
        self._stopped.release()

    def _wait(self) -> None:
        self._stopped.release()
        self._go.acquire()
        if self._is_abandoned:
            raise _Abandoned
