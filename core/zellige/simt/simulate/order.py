"""Which accesses of a block's lanes are ordered: vector clocks.

In: synchronisations of lanes. Out: :class:`Clocks`, which says whether an access of one lane happened before what another does now.

Row ``t`` of the matrix is what lane ``t`` knows: of lane ``u`` everything up to epoch ``known[t, u]``. An access of ``u`` carries the epoch
``known[u, u]`` of its time; whoever learns that epoch comes after it. One row more than lanes stands for the engines that copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


class Clocks:
    """The clocks of ``threads`` lanes."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.engine = threads
        self.known = np.zeros((threads + 1, threads + 1), np.int32)
        np.fill_diagonal(self.known, 1)

    def epochs(self, threads: Array) -> Array:
        """The epochs of lanes now."""
        return self.known[threads, threads]

    def join(self, threads: Array) -> None:
        """A barrier: each of the lanes learns what all of them know, and begins a new epoch."""
        self.learn(threads, self.known[threads].max(axis=0))
        self.advance(threads)

    def learn(self, threads: Array, row: Array) -> None:
        """The lanes learn what ``row`` knows."""
        self.known[threads] = np.maximum(self.known[threads], row)

    def advance(self, threads: Array) -> None:
        """What the lanes do from here on is not covered by what others learned of them."""
        self.known[threads, threads] += 1

    def released(self, threads: Array) -> Array:
        """What the lanes know together, for others to learn later; they begin new epochs."""
        row = self.known[threads].max(axis=0)
        self.advance(threads)
        return row

    def tick_engine(self) -> int:
        """A new event of the engines; its epoch."""
        self.known[self.engine, self.engine] += 1
        return int(self.known[self.engine, self.engine])
