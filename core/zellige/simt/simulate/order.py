"""Which accesses of lanes are ordered: vector clocks.

In: synchronisations of lanes. Out: :class:`Clocks`, which says whether an access of one lane happened before what another does now.
Lanes of other blocks are known through what they released and a lane of this block acquired, and through barriers of all blocks.

Row ``t`` of the matrix is what lane ``t`` knows: of lane ``u`` everything up to epoch ``known[t, u]``. An access of ``u`` carries the epoch
``known[u, u]`` of its time; whoever learns that epoch comes after it. One row more than lanes stands for the engines that copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
Known = dict[int, Array]
"""Of each block, by its number, the epochs of its lanes up to which something is known."""


class Clocks:
    """The clocks of ``threads`` lanes of block ``number``. ``floors`` is what all blocks know of each other by barriers of all of them."""

    def __init__(self, threads: int, number: int = 0, floors: Known | None = None) -> None:
        self.threads = threads
        self.number = number
        self._floors: Known = {} if floors is None else floors
        self._foreign: dict[int, Array] = {}
        self.engine = threads
        self.known = np.zeros((threads + 1, threads + 1), np.int32)
        np.fill_diagonal(self.known, 1)

    def epochs(self, threads: Array) -> Array:
        """The epochs of lanes now."""
        return self.known[threads, threads]

    def join(self, threads: Array) -> None:
        """A barrier: each of the lanes learns what all of them know, and begins a new epoch."""
        self.known[threads] = self.known[threads].max(axis=0)
        for known in self._foreign.values():
            known[threads] = known[threads].max(axis=0)
        self.advance(threads)

    def learn(self, threads: Array, row: Array) -> None:
        """The lanes learn what ``row`` knows of the block, and of other blocks what any lane of theirs does."""
        self.known[threads] = np.maximum(self.known[threads], row)
        for known in self._foreign.values():
            known[threads] = known.max(axis=0)

    def advance(self, threads: Array) -> None:
        """What the lanes do from here on is not covered by what others learned of them."""
        self.known[threads, threads] += 1

    def released(self, threads: Array) -> Array:
        """What the lanes know together, for others to learn later; they begin new epochs."""
        row = self.known[threads].max(axis=0)
        self.advance(threads)
        return row

    # ---- between blocks ----

    def snapshot(self, thread: int) -> Known:
        """What a lane knows of all blocks; it begins a new epoch."""
        found = {self.number: self.known[thread].copy(), **{number: known[thread].copy() for number, known in self._foreign.items()}}
        self.known[thread, thread] += 1
        return found

    def take(self, thread: int, known: Known) -> None:
        """A lane learns what a snapshot knows."""
        for number, row in known.items():
            mine = self.known if number == self.number else self._foreign.setdefault(number, np.zeros_like(self.known))
            np.maximum(mine[thread], row, out=mine[thread])

    def know_apart(self, threads: Array, blocks: Array, lanes: Array, epochs: Array) -> Array:
        """Whether each of the lanes knows what a lane of another block did in an epoch."""
        answer = np.zeros(len(threads), bool)
        for number in np.unique(blocks).tolist():
            these = blocks == number
            known = np.zeros(int(these.sum()), np.int32)
            if number in self._foreign:
                known = self._foreign[number][threads[these], lanes[these]]
            if number in self._floors:
                known = np.maximum(known, self._floors[number][lanes[these]])
            answer[these] = known >= epochs[these]
        return answer

    def settle(self) -> None:
        """All blocks are at a barrier: what was done before it is known to all of them."""
        self._floors[self.number] = self.known.diagonal().copy()
        self.advance(np.arange(self.threads))

    def tick_engine(self) -> int:
        """A new event of the engines; its epoch."""
        self.known[self.engine, self.engine] += 1
        return int(self.known[self.engine, self.engine])


def merged(left: Known | None, right: Known) -> Known:
    """What both know."""
    if left is None:
        return right
    return {number: np.maximum(left.get(number, 0), right.get(number, 0)) for number in {**left, **right}}
