"""Transaction barriers: arrivals and bytes, phases by parity.

In: what lanes and copy engines do to the barriers of a block. Out: whether a phase has ended, and what who waits for it learns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zellige.diagnostics import Span
from zellige.records import dataclass
from zellige.simt.simulate import faults

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


class Transactions:
    """The barriers of one block by memory and index."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._barriers: dict[tuple[Memory, int], _Barrier] = {}

    def init(self, memory: Memory, index: int, arrivals: int) -> None:
        """A fresh barrier in phase 0."""
        size = self._block.clocks.threads + 1
        self._barriers[memory, index] = _Barrier(arrivals, arrivals, 0, 0, np.zeros(size, np.int32), np.zeros(size, np.int32), {}, {})

    def arrive(self, warp: Warp, mask: Any, memory: Memory, index: int, span: Span | None, expected: int = 0) -> None:
        """Each active lane, of this block or of another of its cluster, arrives once, and expects so many bytes."""
        barrier = self._of(memory, index, span)
        threads = warp.chosen(mask)
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
        barrier = self._of(memory, index, span)
        threads = warp.chosen(mask)

        def is_over() -> bool:
            if barrier.phase % 2 == parity:
                return False
            self._block.clocks.learn(threads, barrier.open_known)
            for peer, row in barrier.open_of_peers.items():
                self._block.known_of(peer).learn(threads, row)
            return True

        return is_over

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
