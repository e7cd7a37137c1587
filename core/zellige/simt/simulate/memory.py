"""Memory that lanes share, and what is known about each cell of it.

In: bytes, and accesses of lanes by element. Out: values, and faults where an access is outside, misaligned, unordered to another's, or
touches what nobody wrote or what an asynchronous copy has not brought yet.

A *cell* is the smallest scalar that the program accesses in a memory. Of the last write, of three reads (the highest and the lowest lane of
the warp that read last, and a lane of another warp before) and of the last atomic change the lane and its epoch are kept: a later access
that must be ordered after them is tested against these.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from zellige.diagnostics import Span
from zellige.dtypes import DType
from zellige.simt.simulate import faults
from zellige.simt.simulate.order import Clocks

Array = Any

UNDEFINED: Final = 0
DEFINED: Final = 1
FLYING: Final = 2

NOBODY: Final = -1


class _Slot:
    """The last access of one kind to each cell: lane of the launch, epoch, statement."""

    def __init__(self, cells: int) -> None:
        self.thread = np.full(cells, NOBODY, np.int64)
        self.epoch = np.zeros(cells, np.int32)
        self.place = np.zeros(cells, np.int32)
        self._used = np.zeros(1, bool)

    @property
    def is_used(self) -> bool:
        return bool(self._used[0])

    def part(self, first: int, cells: int) -> _Slot:
        """The same cells from ``first`` on."""
        made = _Slot(0)
        span = slice(first, first + cells)
        made.thread, made.epoch, made.place = self.thread[span], self.epoch[span], self.place[span]
        made._used = self._used
        return made

    def put(self, cells: Array, threads: Array, epochs: Array, place: int) -> None:
        self._used[0] = True
        self.thread[cells] = threads
        self.epoch[cells] = epochs
        self.place[cells] = place


class Shadow:
    """What is known about the cells of one memory. ``stride`` lanes a block, counted with the engines' row, tell blocks apart."""

    def __init__(self, cells: int, stride: int, *, is_defined: bool, are_blocks_ordered: bool) -> None:
        self.state = np.full(cells, DEFINED if is_defined else UNDEFINED, np.uint8)
        self.write = _Slot(cells)
        self.reads = (_Slot(cells), _Slot(cells), _Slot(cells))
        self.atomic = _Slot(cells)
        self._stride = stride
        self._are_blocks_ordered = are_blocks_ordered

    def part(self, first: int, cells: int) -> Shadow:
        """What is known about the same cells from ``first`` on, for another memory in the same bytes."""
        made = Shadow(0, self._stride, is_defined=False, are_blocks_ordered=self._are_blocks_ordered)
        made.state = self.state[first : first + cells]
        made.write, made.atomic = self.write.part(first, cells), self.atomic.part(first, cells)
        made.reads = (self.reads[0].part(first, cells), self.reads[1].part(first, cells), self.reads[2].part(first, cells))
        return made

    def offender(self, slot: _Slot, cells: Array, threads: Array, clocks: Clocks, block: int) -> int | None:
        """The first of these accesses that is not ordered after what the slot holds."""
        if not slot.is_used:
            return None
        before = slot.thread[cells]
        numbers = threads + block * self._stride
        suspect = (before != NOBODY) & (before != numbers)
        if not suspect.any():
            return None
        local = before - block * self._stride
        is_here = (local >= 0) & (local < self._stride)
        known = clocks.known[threads, np.where(is_here, local, 0)]
        unordered = suspect & is_here & (known < slot.epoch[cells])
        apart = np.flatnonzero(suspect & ~is_here)
        if apart.size and not self._are_blocks_ordered:
            number = before[apart]
            is_known = clocks.know_apart(threads[apart], number // self._stride, number % self._stride, slot.epoch[cells[apart]])
            unordered[apart] = ~is_known
        if not unordered.any():
            return None
        return int(np.argmax(unordered))

    def lane_of(self, number: int) -> int:
        """The lane of a number in a slot; -1 for an engine."""
        local = number % self._stride
        return -1 if local == self._stride - 1 else local

    def block_of(self, number: int) -> int:
        """The block of a number in a slot."""
        return number // self._stride

    def note_read(self, cells: Array, threads: Array, clocks: Clocks, block: int, place: int, lanes: int) -> None:
        numbers = threads + block * self._stride
        epochs = clocks.epochs(threads)
        last, first, other = self.reads
        before = last.thread[cells]
        moved = (before != NOBODY) & (before // lanes != numbers // lanes)
        if moved.any():
            there = cells[moved]
            other.put(there, last.thread[there], last.epoch[there], place)
            other.place[there] = last.place[there]
        last.put(cells, numbers, epochs, place)
        first.put(cells[::-1], numbers[::-1], epochs[::-1], place)


class Memory:
    """``data`` bytes that stand at ``address``. ``shadow`` None: nobody writes it while the launch runs."""

    def __init__(self, name: str, data: Array, *, address: int, cell_bytes: int, shadow: Shadow | None, is_shared: bool) -> None:
        self.name = name
        self.data = data
        self.address = address
        self.cell_bytes = cell_bytes
        self.shadow = shadow
        self.is_shared = is_shared
        self._views: dict[DType, Array] = {}

    def view(self, dtype: DType) -> Array:
        """The elements of a dtype: one axis, and one of a vector's lanes."""
        found = self._views.get(dtype)
        if found is None:
            scalar = np.dtype(dtype.scalar.numpy)
            size = scalar.itemsize * dtype.lanes
            whole = self.data[: len(self.data) // size * size].view(scalar)
            found = self._views[dtype] = whole.reshape(-1, dtype.lanes) if dtype.lanes > 1 else whole
        return found


class Access:
    """One way in which a program touches memories: a dtype, a statement's place, the clocks and names of lanes come at run time.

    ``may_meet``: lanes that write one value to one element do what one of them does.
    """

    def __init__(self, dtype: DType, span: Span | None, place: int, *, may_meet: bool = False) -> None:
        self.dtype = dtype
        self.span = span
        self.place = place
        self.may_meet = may_meet
        self.bytes = np.dtype(dtype.scalar.numpy).itemsize * dtype.lanes

    def check_place(self, memory: Memory, index: Array, threads: Array) -> None:
        """That the elements exist and are aligned to their size."""
        extent = len(memory.data) // self.bytes
        wrong = (index < 0) | (index >= extent)
        if wrong.any():
            raise faults.outside(self.span, memory.name, index[wrong], extent, threads[wrong])
        if memory.address % self.bytes and self.bytes & (self.bytes - 1) == 0:
            first = memory.address + int(index[0]) * self.bytes
            raise faults.misaligned(self.span, memory.name, self.bytes, first, threads)

    def cells(self, memory: Memory, index: Array) -> tuple[Array, int]:
        """The cells of elements, flat, and how many each has."""
        count = max(1, self.bytes // memory.cell_bytes)
        first = index.astype(np.int64) * self.bytes // memory.cell_bytes
        if count == 1:
            return first, 1
        return (first[:, None] + np.arange(count)).ravel(), count


def without_repeats(memory: Memory, access: Access, index: Array, values: Array) -> Array:
    """The lanes that write something new: not those that write what a lane before them writes to the same element, or wrote there."""
    view, shadow = memory.view(access.dtype), memory.shadow
    given = np.ascontiguousarray(np.broadcast_to(values, (len(index), *view.shape[1:])).astype(view.dtype))
    new, old = (part.view(np.uint8).reshape(len(index), -1) for part in (given, np.ascontiguousarray(view[index])))
    assert shadow is not None
    flat, count = access.cells(memory, index)
    cells = flat.reshape(-1, count)
    is_known = (shadow.write.thread[cells] != NOBODY) & (shadow.write.place[cells] == access.place) & (shadow.state[cells] == DEFINED)
    where = np.ascontiguousarray(index, np.int64).view(np.uint8).reshape(len(index), -1)
    _, first = np.unique(np.concatenate([where, new], axis=1), axis=0, return_index=True)
    chosen = np.zeros(len(index), bool)
    chosen[first] = True
    return chosen & ~((new == old).all(axis=1) & is_known.all(axis=1))


def check_read(memory: Memory, cells: Array, threads: Array, clocks: Clocks, block: int, access: Access, lanes: int, places: Any) -> None:
    """The lanes (one a cell) read the cells."""
    shadow = memory.shadow
    if shadow is None:
        return
    _check_state(memory, shadow, cells, threads, access, places, is_read=True)
    for slot, word in ((shadow.write, "reads what"), (shadow.atomic, "reads what")):
        found = shadow.offender(slot, cells, threads, clocks, block)
        if found is not None:
            raise _race(memory, shadow, slot, cells, threads, found, access, places, f"{word} was written by", block)
    shadow.note_read(cells, threads, clocks, block, access.place, lanes)


def check_write(memory: Memory, cells: Array, threads: Array, clocks: Clocks, block: int, access: Access, places: Any) -> None:
    """The lanes (one a cell) write the cells."""
    shadow = memory.shadow
    if shadow is None:
        return
    _check_state(memory, shadow, cells, threads, access, places, is_read=False)
    _check_alone(memory, cells, threads, access)
    for slot, word in ((shadow.write, "written by"), *((r, "read by") for r in shadow.reads), (shadow.atomic, "changed by")):
        found = shadow.offender(slot, cells, threads, clocks, block)
        if found is not None:
            raise _race(memory, shadow, slot, cells, threads, found, access, places, f"writes what was {word}", block)
    note_write(memory, cells, threads, clocks, block, access.place)


def note_write(memory: Memory, cells: Array, threads: Array, clocks: Clocks, block: int, place: int) -> None:
    """The cells hold a value written by the lanes in their present epochs."""
    shadow = memory.shadow
    if shadow is not None:
        shadow.write.put(cells, threads + block * shadow._stride, clocks.epochs(threads), place)
        shadow.state[cells] = DEFINED


def check_atomic(
    memory: Memory, cells: Array, threads: Array, clocks: Clocks, block: int, access: Access, places: Any, *, reads: bool
) -> None:
    """The lanes change the cells indivisibly."""
    shadow = memory.shadow
    if shadow is None:
        return
    _check_state(memory, shadow, cells, threads, access, places, is_read=reads)
    for slot, word in ((shadow.write, "written by"), *((r, "read by") for r in shadow.reads)):
        found = shadow.offender(slot, cells, threads, clocks, block)
        if found is not None:
            raise _race(memory, shadow, slot, cells, threads, found, access, places, f"changes atomically what was {word}", block)
    shadow.atomic.put(cells, threads + block * shadow._stride, clocks.epochs(threads), access.place)
    shadow.state[cells] = DEFINED


def _check_state(memory: Memory, shadow: Shadow, cells: Array, threads: Array, access: Access, places: Any, *, is_read: bool) -> None:
    state = shadow.state[cells]
    flying = state == FLYING
    if flying.any():
        first = int(np.argmax(flying))
        at = int(cells[first])
        raise faults.in_flight(access.span, memory.name, at * memory.cell_bytes, threads[flying], places[int(shadow.write.place[at])])
    if is_read and memory.is_shared and (state == UNDEFINED).any():
        missing = state == UNDEFINED
        raise faults.undefined(access.span, memory.name, int(cells[np.argmax(missing)]) * memory.cell_bytes, threads[missing])


def _check_alone(memory: Memory, cells: Array, threads: Array, access: Access) -> None:
    """That no two lanes write one cell in one statement."""
    ordered = np.sort(cells)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if twice.size:
        who = threads[cells == twice[0]]
        raise faults.race(
            access.span, memory.name, int(twice[0]) * memory.cell_bytes, "writes what was written in the same statement by", who[1:],
            int(who[0]), access.span,
        )  # fmt: skip


def _race(
    memory: Memory, shadow: Shadow, slot: _Slot, cells: Array, threads: Array, at: int, access: Access, places: Any, what: str, block: int
) -> Any:
    cell = int(cells[at])
    number = int(slot.thread[cell])
    blocks = None if shadow.block_of(number) == block else (block, shadow.block_of(number))
    place = places[int(slot.place[cell])]
    return faults.race(access.span, memory.name, cell * memory.cell_bytes, what, [threads[at]], shadow.lane_of(number), place, blocks)
