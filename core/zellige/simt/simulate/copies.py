"""Copies that land later: in groups of a lane, at any time up to the wait that ends them.

In: asynchronous copies of a warp's lanes, commits and waits. Out: bytes in shared memory. Whether the values of the source are those at
the issue or those at the landing, and when before the wait a copy lands, is drawn; until the wait the target must not be touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zellige.records import dataclass
from zellige.simt.simulate.memory import FLYING, Access, Memory, check_read, check_write, note_write

if TYPE_CHECKING:
    from zellige.simt.simulate.warp import Warp

Array = Any


@dataclass(slots=True)
class _Batch:
    """One statement's copies: arrays with one entry a lane that asked."""

    lanes: Array
    groups: Array
    source: Memory
    source_bytes: Array
    target: Memory
    target_bytes: Array
    size: int
    is_valid: Array
    access: Access
    values: Array | None = None
    is_landed: bool = False
    is_over: Any = None


class Copies:
    """The copies of one warp's lanes."""

    def __init__(self, warp: Warp) -> None:
        self._warp = warp
        self._batches: list[_Batch] = []
        self._groups = np.zeros(warp.lanes, np.int64)

    @property
    def is_idle(self) -> bool:
        return not self._batches

    def issue(
        self, mask: Any, source: Memory, source_bytes: Array, target: Memory, target_bytes: Array, size: int, is_valid: Array,
        access: Access,
    ) -> None:  # fmt: skip
        """One copy of ``size`` bytes for each active lane; offsets are in bytes and have been tested."""
        warp, block = self._warp, self._warp.block
        threads = warp.chosen(mask)
        lanes = warp.numbers if mask is warp.full else warp.numbers[mask]
        batch = _Batch(lanes, np.full(len(lanes), -1), source, source_bytes, target, target_bytes, size, is_valid, access)
        self._read(batch, threads)
        cells = _cells(target, target_bytes, size)
        check_write(target, cells, np.repeat(threads, len(cells) // len(threads)), block.clocks, block.number, access, block.places)
        assert target.shadow is not None
        target.shadow.state[cells] = FLYING
        if block.chance.random() < 0.5:
            batch.values = self._values(batch)
        batch.is_over = np.zeros(len(lanes), bool)
        self._batches.append(batch)

    def commit(self, mask: Any) -> None:
        """The active lanes' copies since their last commit become a group."""
        is_active = np.broadcast_to(mask, (self._warp.lanes,))
        for batch in self._batches:
            chosen = (batch.groups < 0) & is_active[batch.lanes]
            batch.groups[chosen] = self._groups[batch.lanes[chosen]]
        self._groups[is_active] += 1

    def wait(self, mask: Any, leave: int) -> None:
        """All but the last ``leave`` groups of the active lanes are finished."""
        warp, block = self._warp, self._warp.block
        is_active = np.broadcast_to(mask, (warp.lanes,))
        order = list(self._batches)
        block.chance.shuffle(order)
        for batch in order:
            done = (batch.groups >= 0) & (batch.groups < self._groups[batch.lanes] - leave) & is_active[batch.lanes] & ~batch.is_over
            if not done.any():
                continue
            self._land(batch)
            threads = warp.threads[batch.lanes[done]]
            cells = _cells(batch.target, batch.target_bytes[done], batch.size)
            note_write(batch.target, cells, np.repeat(threads, len(cells) // len(threads)), block.clocks, block.number, batch.access.place)
            batch.is_over |= done
        self._batches = [batch for batch in self._batches if not batch.is_over.all()]

    def land_some(self) -> None:
        """A copy lands before it must."""
        waiting = [batch for batch in self._batches if not batch.is_landed]
        if waiting:
            self._land(self._warp.block.chance.choice(waiting))

    def land_all(self) -> None:
        """The warp has ended."""
        for batch in self._batches:
            self._land(batch)
        self._batches = []

    def _read(self, batch: _Batch, threads: Array) -> None:
        block = self._warp.block
        used = batch.is_valid
        if batch.source.shadow is None or not used.any():
            return
        cells = _cells(batch.source, batch.source_bytes[used], batch.size)
        who = np.repeat(threads[used], len(cells) // int(used.sum()))
        check_read(batch.source, cells, who, block.clocks, block.number, batch.access, self._warp.lanes, block.places)

    def _values(self, batch: _Batch) -> Array:
        values = np.zeros((len(batch.lanes), batch.size), np.uint8)
        used = batch.is_valid
        values[used] = batch.source.data[batch.source_bytes[used][:, None] + np.arange(batch.size)]
        return values

    def _land(self, batch: _Batch) -> None:
        if batch.is_landed:
            return
        batch.is_landed = True
        self._read(batch, self._warp.threads[batch.lanes])
        values = self._values(batch) if batch.values is None else batch.values
        batch.target.data[batch.target_bytes[:, None] + np.arange(batch.size)] = values


def _cells(memory: Memory, first: Array, size: int) -> Array:
    """The cells of ``size`` bytes from each of the offsets on."""
    count = max(1, size // memory.cell_bytes)
    cells: Array = (first[:, None] // memory.cell_bytes + np.arange(count)).ravel()
    return cells
