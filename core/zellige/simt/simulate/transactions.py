"""Transaction barriers: arrivals and bytes, phases by parity.

In: what lanes and copy engines do to the barriers of a block. Out: whether a phase has ended, and what who waits for it learns; a fault
where others than the lane that made a barrier use it and do not come after a fence for barriers behind its making.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zellige.diagnostics import Span
from zellige.records import dataclass
from zellige.simt.simulate import faults

Array = Any

if TYPE_CHECKING:
    from zellige.simt.simulate.memory import Memory
    from zellige.simt.simulate.warp import Block, Wait, Warp


@dataclass(slots=True)
class _Barrier:
    arrivals: int
    missing: int
    bytes: int
    phase: int
    known: Any
    open_known: Any
    of_peers: dict[Any, Any]
    open_of_peers: dict[Any, Any]
    maker: int
    shown: int | None = None


class Transactions:
    """The barriers of one block by memory and index."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._barriers: dict[tuple[Memory, int], _Barrier] = {}

    def init(self, warp: Warp, mask: Any, memory: Memory, index: int, arrivals: int, span: Span | None) -> None:
        """A fresh barrier in phase 0, made by one lane."""
        makers = warp.chosen(mask)
        if (memory, index) in self._barriers or len(makers) != 1:
            raise faults.misused(span, f"barrier {index} of {memory.name} is made twice")
        known, open_known = (np.zeros(self._block.clocks.threads + 1, np.int32) for _ in range(2))
        self._barriers[memory, index] = _Barrier(arrivals, arrivals, 0, 0, known, open_known, {}, {}, int(makers[0]))

    def fence(self, threads: Array) -> None:
        """The barriers that the lanes have made are there for whoever comes after this."""
        for barrier in self._barriers.values():
            if barrier.shown is None and barrier.maker in threads:
                barrier.shown = int(self._block.clocks.known[barrier.maker, barrier.maker])

    def check_shown_to_engines(self, memory: Memory, index: int, block: Block, lane: int, span: Span | None) -> None:
        """That a lane of ``block`` may ask an engine for what completes on the barrier."""
        barrier = self._of(memory, index, span)
        if barrier.shown is None or not self._is_known(barrier, block, np.array([lane])):
            raise self._not_shown(memory, index, barrier, span)

    def arrive(self, warp: Warp, mask: Any, memory: Memory, index: int, span: Span | None, expected: int = 0) -> None:
        """Each active lane, of this block or of another of its cluster, arrives once, and expects so many bytes."""
        threads = warp.chosen(mask)
        barrier = self._reached(memory, index, warp.block, threads, span)
        barrier.bytes += expected * len(threads)
        of = warp.block
        released = of.clocks.released(threads)
        if of is self._block:
            barrier.known = np.maximum(barrier.known, released)
        else:
            barrier.of_peers[of] = np.maximum(barrier.of_peers.get(of, 0), released)
        if len(threads) > barrier.missing:
            raise faults.misused(span, f"{barrier.arrivals - barrier.missing + len(threads)} arrivals at a barrier of {barrier.arrivals}")
        barrier.missing -= len(threads)
        self._turn(barrier)

    def landed(self, memory: Memory, index: int, size: int, epoch: int, span: Span | None) -> None:
        """A copy engine brought ``size`` bytes in its ``epoch``."""
        barrier = self._of(memory, index, span)
        barrier.bytes -= size
        engine = self._block.clocks.engine
        barrier.known[engine] = max(int(barrier.known[engine]), epoch)
        self._turn(barrier)

    def wait(self, warp: Warp, mask: Any, memory: Memory, index: int, parity: int, span: Span | None) -> Wait:
        """Ready when the phase of this parity has ended; the lanes then know what those who arrived did."""
        threads = warp.chosen(mask)
        barrier = self._reached(memory, index, warp.block, threads, span)

        def is_over() -> bool:
            if barrier.phase % 2 == parity:
                return False
            self._block.clocks.learn(threads, barrier.open_known)
            for peer, row in barrier.open_of_peers.items():
                self._block.known_of(peer).learn(threads, row)
            return True

        return is_over

    def _reached(self, memory: Memory, index: int, block: Block, threads: Array, span: Span | None) -> _Barrier:
        """The barrier, which lanes of ``block`` use."""
        if self._block.is_over:
            raise faults.misused(span, f"barrier {index} of {memory.name} is used after its block has ended")
        barrier = self._of(memory, index, span)
        if not self._is_known(barrier, block, threads):
            raise self._not_shown(memory, index, barrier, span)
        return barrier

    def _is_known(self, barrier: _Barrier, block: Block, threads: Array) -> bool:
        """Whether each of the lanes made the barrier or comes after the fence behind its making."""
        if block is self._block:
            others = threads[threads != barrier.maker]
            known = block.clocks.known[others, barrier.maker]
            return not len(others) or (barrier.shown is not None and bool((known >= barrier.shown).all()))
        if barrier.shown is None:
            return False
        by_transactions = block.known_of(self._block).known[threads, barrier.maker] >= barrier.shown
        spread = [np.full(len(threads), n) for n in (self._block.number, barrier.maker, barrier.shown)]
        return bool((by_transactions | block.clocks.know_apart(threads, *spread)).all())

    def _not_shown(self, memory: Memory, index: int, barrier: _Barrier, span: Span | None) -> Exception:
        what = f"barrier {index} of {memory.name} is used by who does not come after a fence of lane {barrier.maker}, which made it"
        return faults.misused(span, what)

    def _of(self, memory: Memory, index: int, span: Span | None) -> _Barrier:
        found = self._barriers.get((memory, index))
        if found is None:
            raise faults.misused(span, f"barrier {index} of {memory.name} is used before it is made")
        return found

    def _turn(self, barrier: _Barrier) -> None:
        if barrier.missing == 0 and barrier.bytes == 0:
            barrier.open_known = np.maximum(barrier.open_known, barrier.known)
            barrier.open_of_peers = {**barrier.open_of_peers, **barrier.of_peers}
            barrier.phase += 1
            barrier.missing = barrier.arrivals
