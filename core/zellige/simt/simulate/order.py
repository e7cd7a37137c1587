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


class _Hearsay:
    """What each of a block's lanes knows of another block: one of a few rows, which many lanes share and which never change."""

    __slots__ = ("_limit", "_row_of", "_rows")

    def __init__(self, lanes: int) -> None:
        self._rows: list[Array] = [np.zeros(lanes, np.int32)]
        self._row_of = np.zeros(lanes, np.int32)
        self._limit = 8

    def row(self, lane: int) -> Array:
        """What one lane knows; not to be changed."""
        return self._rows[self._row_of[lane]]

    def union(self, lanes: Array | slice) -> Array:
        """What the lanes know together; not to be changed."""
        rows = [self._rows[which] for which in np.unique(self._row_of[lanes])]
        return rows[0] if len(rows) == 1 else np.maximum.reduce(rows)

    def give(self, lanes: Array | int, row: Array) -> None:
        """From here on the lanes know just ``row``, which nobody changes any more."""
        if self._rows[-1] is not row:
            if len(self._rows) == self._limit:  # rows that no lane has any more go
                kept, places = np.unique(self._row_of, return_inverse=True)
                self._rows, self._row_of = [self._rows[which] for which in kept], places.reshape(-1).astype(np.int32)
                self._limit = 2 * len(self._rows) + 8
            self._rows.append(row)
        self._row_of[lanes] = len(self._rows) - 1

    def epochs(self, lanes: Array, others: Array) -> Array:
        """Up to which epoch each of the lanes knows one of the other block's."""
        which = self._row_of[lanes]
        found = np.zeros(len(lanes), np.int32)
        for number in np.unique(which).tolist():
            these = which == number
            found[these] = self._rows[number][others[these]]
        return found


class Clocks:
    """The clocks of ``threads`` lanes of block ``number``. ``floors`` is what all blocks know of each other by barriers of all of them."""

    def __init__(self, threads: int, number: int = 0, floors: Known | None = None) -> None:
        self.threads = threads
        self.number = number
        self._floors: Known = {} if floors is None else floors
        self._foreign: dict[int, _Hearsay] = {}
        """Of each block of which a lane here learned something; memory is for what was learned, not for every pair of lanes."""
        self.engine = threads
        self.known = np.zeros((threads + 1, threads + 1), np.int32)
        np.fill_diagonal(self.known, 1)

    def epochs(self, threads: Array) -> Array:
        """The epochs of lanes now."""
        return self.known[threads, threads]

    def join(self, threads: Array) -> None:
        """A barrier: each of the lanes learns what all of them know, and begins a new epoch."""
        self.known[threads] = self.known[threads].max(axis=0)
        for heard in self._foreign.values():
            heard.give(threads, heard.union(threads))
        self.advance(threads)

    def learn(self, threads: Array, row: Array) -> None:
        """The lanes learn what ``row`` knows of the block, and of other blocks what any lane of theirs does."""
        self.known[threads] = np.maximum(self.known[threads], row)
        for heard in self._foreign.values():
            heard.give(threads, heard.union(slice(None)))

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
        """What a lane knows of all blocks; it begins a new epoch. The rows are shared: nobody changes them."""
        found = {self.number: self.known[thread].copy(), **{number: heard.row(thread) for number, heard in self._foreign.items()}}
        self.known[thread, thread] += 1
        return found

    def take(self, thread: int, known: Known) -> None:
        """A lane learns what a snapshot knows."""
        for number, row in known.items():
            if number == self.number:
                np.maximum(self.known[thread], row, out=self.known[thread])
                continue
            heard = self._foreign.get(number)
            if heard is None:
                heard = self._foreign[number] = _Hearsay(self.threads + 1)
            mine = heard.row(thread)
            if (row > mine).any():
                heard.give(thread, row if (row >= mine).all() else np.maximum(mine, row))

    def know_apart(self, threads: Array, blocks: Array, lanes: Array, epochs: Array) -> Array:
        """Whether each of the lanes knows what a lane of another block did in an epoch."""
        answer = np.zeros(len(threads), bool)
        for number in np.unique(blocks).tolist():
            these = blocks == number
            known = np.zeros(int(these.sum()), np.int32)
            if number in self._foreign:
                known = self._foreign[number].epochs(threads[these], lanes[these])
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
    """What either knows."""
    if left is None:
        return right
    return {number: np.maximum(left.get(number, 0), right.get(number, 0)) for number in {**left, **right}}
