"""A warp and its block while they run.

In: the compiled program of a function and the memories of a launch. Out: :class:`Warp`, the lanes' variables and registers and their way to
memory, and :class:`Block`, what warps share: memories, clocks, barriers.

Masks are bool arrays of one entry a lane; ``warp.full`` itself stands for all lanes, so that the common case is an identity test.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final

import numpy as np

from zellige.diagnostics import Span
from zellige.ir.expr import Buffer, Var
from zellige.records import dataclass
from zellige.simt.simulate import faults
from zellige.simt.simulate.copies import Copies
from zellige.simt.simulate.engines import Engines
from zellige.simt.simulate.memory import Access, Memory, check_atomic, check_read, check_write, without_repeats
from zellige.simt.simulate.order import Clocks, Known
from zellige.simt.simulate.readiness import Readiness
from zellige.simt.simulate.report import Report
from zellige.simt.simulate.transactions import Transactions

Array = Any
Wait = Callable[[], bool]

GARBAGE: Final = 0xFF
"""What registers hold before they are written: a NaN of the floats, -1 of signed integers."""


@dataclass(slots=True)
class LoopFrame:
    """Lanes that skipped the rest of an iteration."""

    continued: Any = None


class Warp:
    """``lanes`` lanes from lane ``index * lanes`` of the block on; those beyond the block's do not exist."""

    def __init__(self, block: Block, index: int, lanes: int, slots: int) -> None:
        self.block = block
        self.index = index
        self.lanes = lanes
        self.numbers = np.arange(lanes)
        self.threads = index * lanes + self.numbers
        self.full = np.ones(lanes, bool)
        exists = self.threads < block.threads
        self.alive: Any = self.full if exists.all() else exists
        self.values: list[Any] = [None] * slots
        self.registers: dict[Buffer, Array] = {}
        self.written: dict[Buffer, Array] = {}
        self.readiness = Readiness(self.registers)
        self.frames: list[LoopFrame] = []
        self.copies = Copies(self)
        self.has_returned = not exists.all()
        self.budget: int | None = None
        self.wait: Wait | None = None
        self.doing = ""
        self.span: Span | None = None
        self._views: dict[Buffer, Array] = {}
        self._marks: dict[Buffer, Array] = {}

    # ---- lanes ----

    def chosen(self, mask: Any) -> Array:
        """The block's numbers of active lanes."""
        return self.threads if mask is self.full else self.threads[mask]

    def active(self, mask: Any, values: Array) -> Array:
        """The values of active lanes; ``values`` has one or one a lane."""
        spread = np.broadcast_to(values, (self.lanes,)) if values.ndim == 0 else values
        return spread if mask is self.full else spread[mask]

    def active_vectors(self, mask: Any, values: Array, width: int) -> Array:
        """As :meth:`active` for vectors of ``width`` lanes of their own."""
        if width == 1:
            return self.active(mask, values)
        spread = np.broadcast_to(values, (self.lanes, width))
        return spread if mask is self.full else spread[mask]

    def require_together(self, mask: Any, span: Span | None, what: str) -> None:
        """That every lane that has not returned is here."""
        if mask is not self.full and mask is not self.alive and not np.array_equal(mask, self.alive):
            raise faults.parted(span, what, self.threads[self.alive & ~mask])

    def united(self, left: Any, right: Any) -> Any:
        """The lanes of both masks (None: no lane)."""
        if left is None:
            return right
        if right is None:
            return left
        both = left | right
        return self.full if both.all() else both

    def still(self, mask: Any) -> Any:
        """The lanes of a mask that have not returned."""
        if not self.has_returned:
            return mask
        left = mask & self.alive
        return left if left.any() else None

    # ---- variables and registers ----

    def assign(self, slot: int, value: Any, mask: Any) -> None:
        """Give the active lanes a value; the others keep theirs."""
        before = self.values[slot]
        if mask is self.full or before is None:
            self.values[slot] = value
            return
        condition = mask[:, None] if max(np.ndim(before), np.ndim(value)) == 2 or _is_vector(before, value, self.lanes) else mask
        self.values[slot] = np.where(condition, value, before)

    def allocate(self, buffer: Buffer, size: int, mask: Any) -> None:
        """Fresh registers of ``size`` bytes a lane, with garbage."""
        data = self.registers.get(buffer)
        if data is None:
            self.registers[buffer] = np.full((self.lanes, -(-size // 16) * 16), GARBAGE, np.uint8)
            self.written[buffer] = np.zeros((self.lanes, -(-size // 16) * 16), bool)
            return
        lanes = slice(None) if mask is self.full else mask
        data[lanes] = GARBAGE
        self.written[buffer][lanes] = False

    def view(self, buffer: Buffer) -> Array:
        """The registers of a buffer as its elements: axes lane, element and that of a vector's lanes."""
        found = self._views.get(buffer)
        if found is None:
            dtype = buffer.dtype
            scalar = np.dtype(dtype.scalar.numpy)
            data = self.registers[buffer.root].view(scalar)
            found = self._views[buffer] = data.reshape(self.lanes, -1, dtype.lanes) if dtype.lanes > 1 else data
        return found

    def marks(self, buffer: Buffer) -> Array:
        """Which registers of a buffer somebody wrote: axes lane, element and byte."""
        found = self._marks.get(buffer)
        if found is None:
            size = np.dtype(buffer.dtype.scalar.numpy).itemsize * buffer.dtype.lanes
            written = self.written[buffer.root]
            found = self._marks[buffer] = written[:, : written.shape[1] // size * size].reshape(self.lanes, -1, size)
        return found

    # ---- memory ----

    def read(self, memory: Memory, access: Access, mask: Any, index: Array) -> Array:
        """An element a lane; zeros for lanes that are not active."""
        where, threads = self.active(mask, index), self.chosen(mask)
        access.check_place(memory, where, threads)
        if memory.shadow is not None:
            cells, count = access.cells(memory, where)
            who = threads if count == 1 else np.repeat(threads, count)
            block = self.block
            check_read(memory, cells, who, block.clocks, block.number, access, self.lanes, block.places)
        if memory.is_shared and self.block.report is not None:
            self.block.report.access(access, memory, where, self.numbers if mask is self.full else self.numbers[mask])
        found = memory.view(access.dtype)[where]
        if mask is self.full:
            return found
        spread = np.zeros((self.lanes, *found.shape[1:]), found.dtype)
        spread[mask] = found
        return spread

    def write(self, memory: Memory, access: Access, mask: Any, index: Array, value: Array) -> None:
        """Write an element a lane."""
        where, threads = self.active(mask, index), self.chosen(mask)
        access.check_place(memory, where, threads)
        values = self.active_vectors(mask, value, access.dtype.lanes)
        if memory.is_shared and self.block.report is not None:
            self.block.report.access(access, memory, where, self.numbers if mask is self.full else self.numbers[mask])
        if memory.shadow is not None:
            if access.may_meet:
                kept = without_repeats(memory, access, where, values)
                values = values if np.ndim(values) == 0 else values[kept]
                where, threads = where[kept], threads[kept]
            cells, count = access.cells(memory, where)
            who = threads if count == 1 else np.repeat(threads, count)
            block = self.block
            check_write(memory, cells, who, block.clocks, block.number, access, block.places)
        memory.view(access.dtype)[where] = values

    def reach_atomic(self, memory: Memory, access: Access, mask: Any, index: Array, *, reads: bool) -> Array:
        """Test the places of an atomic change; the active lanes' indices."""
        where, threads = self.active(mask, index), self.chosen(mask)
        access.check_place(memory, where, threads)
        cells, count = access.cells(memory, where)
        who = threads if count == 1 else np.repeat(threads, count)
        block = self.block
        check_atomic(memory, cells, who, block.clocks, block.number, access, block.places, reads=reads)
        return where


def _is_vector(before: Any, value: Any, lanes: int) -> bool:
    """Whether either is a vector's value (its last axis is not the lanes')."""
    return any(np.ndim(v) == 1 and np.shape(v)[0] != lanes for v in (before, value))


@dataclass(slots=True)
class _Gathering:
    """Lanes that wait at one barrier."""

    arrived: list[Array] = field(default_factory=list)
    count: int = 0
    generation: int = 0
    is_waited_for: bool = False


class Grid:
    """What blocks share that run together: the launch's integers, a barrier of all their warps, what was released at elements.
    ``has_fences``: the program orders relaxed changes by fences of the grid."""

    def __init__(self, numbers: Mapping[Var, int], *, has_fences: bool = False) -> None:
        self.numbers = numbers
        self.has_fences = has_fences
        self.blocks: list[Block] = []
        self.floors: Known = {}
        self.released: dict[tuple[Memory, int], Known] = {}
        self._arrived = 0
        self._generation = 0

    def join(self) -> Wait:
        """A warp arrives at the barrier of all warps that have lanes left."""
        self._arrived += 1
        generation = self._generation
        self.settle()
        return lambda: self._generation > generation

    def settle(self) -> None:
        """Open the barrier where every warp that is left is at it."""
        if self._arrived and self._arrived == sum(bool(w.alive.any()) for b in self.blocks for w in b.warps):
            self._arrived = 0
            self._generation += 1
            for block in self.blocks:
                block.clocks.settle()


class Block:
    """One block. ``places`` are the spans that memories' records name by number. ``fenced`` is what a lane knew at its last fence of the
    grid, ``seen`` what it read since from others' changes: fences make of the relaxed changes behind and before them an order."""

    def __init__(
        self, number: int, threads: int, memories: dict[Buffer, Memory], places: list[Span | None], chance: random.Random,
        grid: Grid, report: Report | None,
    ) -> None:  # fmt: skip
        self.number = number
        self.threads = threads
        self.memories = memories
        self.places = places
        self.chance = chance
        self.report = report
        self.clocks = Clocks(threads, number, grid.floors)
        self.warps: list[Warp] = []
        self.transactions = Transactions(self)
        self.engines = Engines(self)
        self.grid = grid
        self.ballot: list[tuple[Array, Array]] = []
        self._barrier = _Gathering()
        self._named: dict[int, _Gathering] = {}
        self.fenced: dict[int, Known] = {}
        self.seen: dict[int, Known] = {}
        self.peers: list[Block] = [self]
        self._spare_registers = 0
        self._of_peers: dict[int, Clocks] = {}

    def known_of(self, peer: Block) -> Clocks:
        """What the lanes of this block know of those of another block of its cluster."""
        if peer is self:
            return self.clocks
        found = self._of_peers.get(peer.number)
        if found is None:
            found = self._of_peers[peer.number] = Clocks(self.threads)
            found.known[:] = 0
        return found

    @property
    def is_over(self) -> bool:
        """Whether every lane has returned."""
        return not any(warp.alive.any() for warp in self.warps)

    def pass_on(self, registers: int) -> Wait:
        """A warp gives so many registers back to the block; it takes them where they are fewer than none, when there are as many."""

        def is_done() -> bool:
            if self._spare_registers + registers < 0:
                return False
            self._spare_registers += registers
            return True

        return is_done

    def join(self, warp: Warp, mask: Any) -> Wait:
        """The active lanes of a warp arrive at the block's barrier."""
        self._barrier.arrived.append(warp.chosen(mask))
        generation = self._barrier.generation
        self.settle()
        return lambda: self._barrier.generation > generation

    def settle(self) -> None:
        """Open the block's barrier where all lanes that have not returned are at it."""
        gathering = self._barrier
        waiting = sum(len(threads) for threads in gathering.arrived)
        if waiting and waiting == sum(int(warp.alive.sum()) for warp in self.warps):
            self.clocks.join(np.concatenate(gathering.arrived))
            gathering.arrived = []
            gathering.generation += 1

    def join_named(self, warp: Warp, mask: Any, number: int, lanes: int, span: Span | None, *, stays: bool) -> Wait:
        """Lanes arrive at the barrier of a number; they wait where ``stays``."""
        gathering = self._named.setdefault(number, _Gathering())
        if gathering.count not in (0, lanes):
            raise faults.misused(span, f"barrier {number} joins {gathering.count} lanes for some and {lanes} for others")
        gathering.count = lanes
        threads = warp.chosen(mask)
        gathering.arrived.append(threads)
        generation = gathering.generation
        waiting = sum(len(t) for t in gathering.arrived)
        if waiting > lanes:
            raise faults.misused(span, f"{waiting} lanes arrive at barrier {number} of {lanes} lanes")
        gathering.is_waited_for |= stays
        if waiting == lanes:
            if not gathering.is_waited_for:
                raise faults.misused(span, f"barrier {number} of {lanes} lanes opens by arrivals alone, and nobody waits at it")
            self.clocks.join(np.concatenate(gathering.arrived))
            gathering.arrived, gathering.count, gathering.is_waited_for = [], 0, False
            gathering.generation += 1
        return (lambda: gathering.generation > generation) if stays else (lambda: True)
