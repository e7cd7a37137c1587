"""The machine: loads an assembled program and executes it.

In: the bytes of a program, and at a launch the addresses and numbers of the arguments. Out: changed memory. One processor runs the blocks
of a grid one after the other; within ``map`` a register holds a value a point, and a mask says which points take part. Beside it stands a
copy engine with queues: a copy in a queue happens when a ``wait`` asks for it, so a program that waits too late reads old elements.
A vendor replaces all of this by the device and its driver; :class:`LoadedProgram` becomes the module that the driver loaded.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np

from zellige.diagnostics import InternalError
from zellige.dtypes import dtype as as_dtype
from zellige.elements.conversion import Array
from zellige.elements.lockstep import Points
from zellige.elements.operations import constant, execute
from zellige.elements.tiles import Box, Tile, last_change
from zellige.ir.stmt import Kernel
from zellige.plugin.contract import Binary, CompiledKernel, Emitted
from zellige.runtime.failures import differing_regions, failed_assertion
from zellige.runtime.printing import print_line
from zellige_template.instructions import LOCAL_BYTES, Instruction, decode


class Machine:
    """Takes in programs: the contract's Runtime."""

    def load(self, binary: Binary, kernel: Kernel, source: Emitted) -> CompiledKernel:
        return LoadedProgram(binary.data, source)


class LoadedProgram:
    """A program that can be launched: the contract's CompiledKernel."""

    def __init__(self, code: bytes, source: Emitted) -> None:
        self._program, self._code, self._source = decode(code), code, source

    def launch(self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int]) -> None:
        """Run every launch and wait; see :class:`zellige.plugin.contract.CompiledKernel`."""
        with np.errstate(all="ignore"):
            _Processor(pointers, {"scalar": scalars, "size": sizes}, self._source).run(self._program, Frame(1))

    def source(self) -> str:
        return self._source.text

    def assembly(self) -> str:
        return self._code.decode()


@dataclass(slots=True)
class Frame(Points):
    """The points that run together, with their registers and tiles."""

    registers: dict[str, Any] = field(default_factory=dict)
    tiles: dict[str, Tile] = field(default_factory=dict)

    def __getitem__(self, operand: str) -> Any:
        found = self.registers.get(operand)
        return _constant(operand) if found is None else found

    def integers(self, operands: Sequence[str]) -> list[int]:
        return [int(self[operand]) for operand in operands]

    def within(self, count: int, names: Sequence[str], types: Sequence[str], indices: Iterable[Any]) -> Frame:
        """The frame of a body that has registers of its own for its place in a grid or a map."""
        own = {name: index.astype(as_dtype(dtype).numpy) for name, dtype, index in zip(names, types, indices)}
        return Frame(count, self.registers | own, dict(self.tiles))


@lru_cache(maxsize=4096)
def _constant(operand: str) -> Array:
    text, _, name = operand.rpartition(":")
    return constant(json.loads(text), as_dtype(name))


class _Processor:
    """The state of one call: arguments, local memory, the copy engine's queues. One method ``op_`` an instruction."""

    def __init__(self, pointers: Sequence[int], numbers: dict[str, Sequence[int | float]], source: Emitted) -> None:
        self._pointers, self._numbers, self._source = pointers, numbers, source
        self._memory: dict[str, Array] = defaultdict(lambda: np.full(LOCAL_BYTES, 0xA5, np.uint8))  # of each space
        self._queues: dict[str, list[Callable[[], None]]] = defaultdict(list)

    def run(self, body: Sequence[Instruction], frame: Frame) -> None:
        """Execute instructions while a point is active."""
        for instruction in body:
            if not frame.is_active:
                return
            getattr(self, f"op_{instruction.opcode}")(frame, instruction, *instruction.operands)

    # -- arguments, memory ------------------------------------------------------------------------------------------------

    def op_input(self, frame: Frame, it: Instruction, name: str, dtype: str, kind: str, index: str) -> None:
        frame.registers[name] = _constant(f"{json.dumps(self._numbers[kind][int(index)])}:{dtype}")

    def op_tensor(self, frame: Frame, it: Instruction, name: str, dtype: str, index: str, rank: str, *sizes: str) -> None:
        numbers, count = frame.integers(sizes), int(rank)
        frame.tiles[name] = Tile.of_memory(self._pointers[int(index)], as_dtype(dtype), numbers[:count], numbers[count:])

    def op_alloc(self, frame: Frame, it: Instruction, name: str, dtype: str, space: str, *where: str) -> None:
        """Tile, type, space with offset, bytes of a slot and slots (or "own": one a point), then the shape."""
        (offset, size, slots), shape = map(int, where[:3]), frame.integers(where[3:])
        cells = self._memory[space][offset : offset + size * slots].reshape(slots, size)
        is_own = space == "own"
        tile = Tile.of_points(frame.count, as_dtype(dtype), shape) if is_own else Tile.of_rows(cells, 0, as_dtype(dtype), shape)
        frame.tiles[name] = tile

    def op_view(self, frame: Frame, it: Instruction, name: str, root: str, dtype: str, slot: str, *extents: str) -> None:
        """The storage of ``root`` in another shape or type, or one of its slots."""
        under = frame.tiles[root]
        row = under.row if slot == "-" else int(frame[slot])
        frame.tiles[name] = Tile.of_rows(under.cells, row, as_dtype(dtype), frame.integers(extents))

    def op_load(self, frame: Frame, it: Instruction, result: str, name: str, outside: str, *indices: str) -> None:
        frame.registers[result] = frame.tiles[name].read([frame[index] for index in indices], frame[outside])

    def op_change(self, frame: Frame, it: Instruction, result: str, value: str, name: str, *indices: str) -> None:
        """Each point changes an element in its turn; what was there before goes to ``result`` ("-": nobody asks)."""
        given = np.zeros(()) if value == "-" else frame[value]
        places = [frame[index] for index in indices]
        before = frame.tiles[name].change(it.suffixes[0], places, given, frame.mask, is_asked=result != "-")
        if result != "-":
            frame.registers[result] = before

    # -- the copy engine, products ----------------------------------------------------------------------------------------

    def _boxes(self, frame: Frame, operands: Sequence[str]) -> Iterator[Box]:
        """The boxes among the operands: tiles, each with what lies outside, offsets and extents behind it."""
        first = [place for place, operand in enumerate(operands) if operand.startswith("@")]
        for begin, end in zip(first, (*first[1:], len(operands))):
            numbers = frame.integers(operands[begin + 2 : end])
            rank = len(numbers) // 2
            yield frame.tiles[operands[begin]].box(numbers[:rank], numbers[rank:], frame[operands[begin + 1]])

    def op_dma(self, frame: Frame, it: Instruction, queue: str, site: str, *operands: str) -> None:
        """Boxes of source and target. Addresses are taken now, elements when the copy is waited for."""
        source, target = self._boxes(frame, operands)
        self._agree(site, *([extent for extent in box.extents if extent != 1] for box in (source, target)))
        self._queues[queue].append(lambda: target.write(source.read()))

    def op_wait(self, frame: Frame, it: Instruction, name: str, left: str) -> None:
        """Returns when at most ``left`` copies of the queue have not happened."""
        while len(self._queues[name]) > int(left):
            self._queues[name].pop(0)()

    def op_product(self, frame: Frame, it: Instruction, shape: str, *operands: str) -> None:
        """Boxes of a, b and c, no larger than the shape. The suffixes say the types of a, b and c, and what is transposed."""
        (*_, total, flags), boxes = it.suffixes, list(self._boxes(frame, operands))
        held = np.dtype(np.int64) if as_dtype(total).is_integer else as_dtype(total).numpy
        a, b, c = (box.read().reshape(box.extents[-2:]).astype(held) for box in boxes)
        a, b = a.T if flags[0] == "t" else a, b.T if flags[1] == "t" else b
        if any(given > most for given, most in zip((*c.shape, len(b)), map(int, shape.split("x")))):
            raise InternalError(f"a product of {c.shape} in {len(b)} steps is more than the instruction takes")
        boxes[2].write((c + a @ b).astype(as_dtype(total).numpy))

    def op_set(self, frame: Frame, it: Instruction, name: str, value: str) -> None:
        frame.registers[name] = frame.merged(frame[value], frame.registers.get(name))

    def op_op(self, frame: Frame, it: Instruction, name: str, *operands: str) -> None:
        frame.registers[name] = execute(it.suffixes, [frame[operand] for operand in operands])

    def op_launch(self, frame: Frame, it: Instruction, *grid: str) -> None:
        """Register, type and extent of each axis of the grid, the first the fastest."""
        for cell in itertools.product(*(range(extent) for extent in reversed(frame.integers(grid[2::3])))):
            self.run(it.body, frame.within(1, grid[::3], grid[1::3], np.array(cell[::-1])))
            if any(self._queues.values()):
                raise InternalError("a block ended before its copies")

    def op_if(self, frame: Frame, it: Instruction, operand: str) -> None:
        frame.branch(frame[operand], partial(self.run, it.body, frame), partial(self.run, it.otherwise, frame))

    def op_loop(self, frame: Frame, it: Instruction, name: str = "", dtype: str = "", *bounds: str) -> None:
        """Register, type, start, stop and step; without operands until a break."""

        def turn(value: Array) -> None:
            if name:
                frame.registers[name] = value.astype(as_dtype(dtype).numpy)
            self.run(it.body, frame)

        frame.repeat(tuple(frame[bound] for bound in bounds), turn)

    def op_leave(self, frame: Frame, it: Instruction) -> None:
        frame.leave(it.suffixes[0])  # type: ignore[arg-type]

    def op_map(self, frame: Frame, it: Instruction, rank: str, *operands: str) -> None:
        """Rank, register, type and extent of each axis, then the registers and tiles of which each point has its own. What one point
        changed of those is brought back; of what several changed one stays: nothing may rely on it."""
        axes, private = operands[: 3 * int(rank)], operands[3 * int(rank) :]
        extents = [max(0, extent) for extent in frame.integers(axes[2::3])]
        count = math.prod(extents)
        inner = frame.within(count, axes[::3], axes[1::3], np.indices(extents).reshape(len(extents), count))
        inner.tiles |= {name: frame.tiles[name].copies(count) for name in private if name.startswith("@")}
        before = {name: inner.tiles[name].cells.copy() for name in private if name.startswith("@")}
        self.run(it.body, inner)
        for name in private if count else ():
            if name in before:
                frame.tiles[name].take_changes(inner.tiles[name], before[name])
            else:
                frame.registers[name] = last_change(inner.each(inner[name]), frame[name])

    def op_check(self, frame: Frame, it: Instruction, condition: str, site: str, message: str) -> None:
        if not all(frame.chosen(frame[condition])):
            raise failed_assertion(self._source.spans[int(site)], json.loads(message))

    def op_same(self, frame: Frame, it: Instruction, left: str, right: str, site: str) -> None:
        for pair in zip(frame.chosen(frame[left]), frame.chosen(frame[right])):
            self._agree(site, *([extent] for extent in pair))

    def _agree(self, site: str, left: list[int], right: list[int]) -> None:
        """E640 where the extents of both sides of a copy differ."""
        if left != right:
            raise differing_regions(self._source.spans[int(site)], left, right)

    def op_print(self, frame: Frame, it: Instruction, message: str, *rest: str) -> None:
        """A message, then nothing, a value, or a tile with offsets and extents."""
        show = partial(print_line, json.loads(message))
        if rest and rest[0].startswith("@"):
            (box,) = self._boxes(frame, rest)
            show(box.read())
            return
        for point in np.flatnonzero(frame.mask):
            show(frame.each(frame[rest[0]])[point] if rest else None)
