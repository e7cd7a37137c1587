"""The machine: loads an assembled program and executes it.

In: the bytes of a program, and at a launch the addresses and numbers of the arguments. Out: changed memory. One processor runs the blocks
of a grid one after the other; within ``map`` a register holds a value a point, and a mask says which points take part. Beside it stands a
copy engine with queues: a copy in a queue happens when a ``wait`` asks for it, so a program that waits too late reads old elements.
A vendor replaces all of this by the device; :class:`LoadedProgram` becomes the module that the driver loaded.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from zellige.diagnostics import InternalError, catalogue
from zellige.dtypes import DType, dtype as as_dtype
from zellige.elements.conversion import Array, cast, reinterpret, stored
from zellige.elements.operations import change_in_turn, constant, operate
from zellige.plugin.contract import Emitted
from zellige.runtime.arrays import bytes_at, row_major
from zellige.runtime.printing import print_line
from zellige_template.instructions import LOCAL_BYTES, PRODUCT, Instruction, decode


class LoadedProgram:
    """A program that can be launched: the contract's CompiledKernel."""

    def __init__(self, code: bytes, source: Emitted) -> None:
        self._program, self._code, self._source = decode(code), code, source

    def launch(self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int]) -> None:
        """Run every launch and wait; see :class:`zellige.plugin.contract.CompiledKernel`."""
        with np.errstate(all="ignore"):
            processor = _Processor(pointers, {"scalar": scalars, "size": sizes}, self._source)
            processor.run(self._program, Frame(1, {}, {}, np.ones(1, bool)))

    def source(self) -> str:
        return self._source.text

    def assembly(self) -> str:
        return self._code.decode()


@dataclass(frozen=True, slots=True)
class Tile:
    """Elements in rows of bytes: a row a slot or a point of a map, ``row`` the one in use (an array: one a point)."""

    cells: Array
    row: int | Array
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def view(self) -> Array:
        """The elements: rows by places."""
        size = self.cells.shape[1] // self.dtype.itemsize * self.dtype.itemsize
        return self.cells[:, :size].view(np.uint8 if self.dtype.is_bool else self.dtype.numpy)

    def address(self, indices: Sequence[Array]) -> tuple[Array, Array]:
        """Where elements lie in a row, and whether they are inside."""
        inside, place = np.asarray(True), np.asarray(np.int64(0))
        for index, extent, stride in zip(indices, self.shape, self.strides):
            wide = index.astype(np.int64)
            inside, place = inside & (wide >= 0) & (wide < extent), place + wide * stride
        return np.where(inside, place, 0), inside

    def read(self, indices: Sequence[Array], outside: Array) -> Array:
        place, inside = self.address(indices)
        if not inside.any():
            return np.broadcast_to(outside, np.broadcast_shapes(place.shape, np.shape(self.row)))
        values = stored(self.view()[self.row, place], self.dtype)
        return values if inside.all() else np.where(inside, values, outside)

    def write(self, indices: Sequence[Array], values: Array) -> None:
        place, inside = (np.broadcast_to(part, values.shape) for part in self.address(indices))
        self.view()[self.row, place[inside]] = values[inside]


@dataclass(slots=True)
class Frame:
    """The points that run together: their registers, tiles and mask. ``broken`` and ``continued`` left the iteration at hand."""

    count: int
    registers: dict[str, Any]
    tiles: dict[str, Tile]
    mask: Array
    broken: Array | bool = False
    continued: Array | bool = False

    def __getitem__(self, operand: str) -> Any:
        found = self.registers.get(operand)
        return _constant(operand) if found is None else found

    def each(self, operand: str) -> Array:
        """One value a point."""
        return np.broadcast_to(self[operand], self.count)

    def integers(self, operands: Sequence[str]) -> list[int]:
        return [int(self[operand]) for operand in operands]


@lru_cache(maxsize=4096)
def _constant(operand: str) -> Array:
    text, _, name = operand.rpartition(":")
    return constant(json.loads(text), as_dtype(name))


class _Processor:
    """The state of one call: arguments, local memory, channels, the copy engine's queues. One method ``op_`` an instruction."""

    def __init__(self, pointers: Sequence[int], numbers: dict[str, Sequence[int | float]], source: Emitted) -> None:
        self._pointers, self._numbers, self._source = pointers, numbers, source
        self._local = np.full(LOCAL_BYTES, 0xA5, np.uint8)
        self._safe: dict[str, Array] = {}
        self._queues: dict[str, list[Callable[[], None]]] = {}

    def run(self, body: Sequence[Instruction], frame: Frame) -> None:
        """Execute instructions while a point is active."""
        for instruction in body:
            if not frame.mask.any():
                return
            getattr(self, f"op_{instruction.opcode}")(frame, instruction, *instruction.operands)

    def _tile(self, frame: Frame, name: str) -> tuple[Tile, Array]:
        """A tile, and what lies outside of it."""
        return frame.tiles[name], self._safe.get(name, np.zeros((), frame.tiles[name].dtype.numpy))

    # -- arguments, memory ------------------------------------------------------------------------------------------------

    def op_input(self, frame: Frame, it: Instruction, name: str, dtype: str, kind: str, index: str) -> None:
        frame.registers[name] = _constant(f"{json.dumps(self._numbers[kind][int(index)])}:{dtype}")

    def op_tensor(self, frame: Frame, it: Instruction, name: str, dtype: str, index: str, rank: str, *sizes: str) -> None:
        numbers, held = tuple(frame.integers(sizes)), as_dtype(dtype)
        shape, strides = numbers[: int(rank)], numbers[int(rank) :] or row_major(numbers)
        span = 0 if 0 in shape else 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides))
        cells = bytes_at(self._pointers[int(index)], span * held.itemsize)
        frame.tiles[name] = Tile(cells.reshape(1, -1), 0, held, shape, strides)

    def op_alloc(self, frame: Frame, it: Instruction, name: str, dtype: str, space: str, *where: str) -> None:
        """Tile, type, space with offset, bytes of a slot and slots (or "own": a row a point), then the shape."""
        offset, size, slots = map(int, where[:3])
        shape = tuple(frame.integers(where[3:]))
        row: int | Array = 0
        if space != "own":
            cells = self._local[offset : offset + size * slots].reshape(slots, size)
        else:
            cells = np.full((frame.count, -(-math.prod(shape) * as_dtype(dtype).itemsize // 8) * 8), 0xA5, np.uint8)
            row = np.arange(frame.count) if frame.count > 1 else 0
        frame.tiles[name] = Tile(cells, row, as_dtype(dtype), shape, row_major(shape))

    def op_view(self, frame: Frame, it: Instruction, name: str, root: str, dtype: str, slot: str, *extents: str) -> None:
        """The storage of ``root`` in another shape or type, or one of its slots."""
        under, shape = frame.tiles[root], tuple(frame.integers(extents))
        row = under.row if slot == "-" else int(frame[slot])
        frame.tiles[name] = Tile(under.cells, row, as_dtype(dtype), shape, row_major(shape))

    def op_safe(self, frame: Frame, it: Instruction, name: str, value: str) -> None:
        self._safe[name] = frame[value]

    def op_load(self, frame: Frame, it: Instruction, result: str, operand: str, *indices: str) -> None:
        tile, outside = self._tile(frame, operand)
        frame.registers[result] = tile.read([frame[index] for index in indices], outside)

    def op_store(self, frame: Frame, it: Instruction, value: str, operand: str, *indices: str) -> None:
        self.op_atomic(frame, Instruction("atomic", ("store",), ()), "", value, operand, *indices)

    def op_atomic(self, frame: Frame, it: Instruction, result: str, value: str, operand: str, *indices: str) -> None:
        """The element before it goes to ``result`` ("-": nobody asks). A store is one of which no order is asked."""
        tile, _ = self._tile(frame, operand)
        place, inside = tile.address([frame[index] for index in indices])
        chosen = np.flatnonzero(np.broadcast_to(inside, frame.count) & frame.mask)
        places = (np.broadcast_to(tile.row, frame.count)[chosen], np.broadcast_to(place, frame.count)[chosen])
        values = np.zeros(len(chosen), tile.dtype.numpy) if value == "-" else frame.each(value)[chosen]
        if not result:
            tile.view()[places] = values
            return
        found = change_in_turn(it.suffixes[0], tile.view(), places, values, tile.dtype)
        if result != "-":
            before = np.zeros(frame.count, tile.dtype.numpy)
            before[chosen] = found
            frame.registers[result] = before if frame.count > 1 else before[0]

    # -- the copy engine, channels, products ------------------------------------------------------------------------------

    def _boxes(self, frame: Frame, operands: Sequence[str]) -> Iterator[tuple[Tile, Array, Sequence[Array], list[int]]]:
        """Each tile among the operands, with offsets and extents behind it: what lies outside of it, the box's indices, its extents."""
        first = [place for place, operand in enumerate(operands) if operand.startswith("@")]
        for begin, end in zip(first, (*first[1:], len(operands))):
            numbers = frame.integers(operands[begin + 1 : end])
            offsets, extents = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
            indices = np.ix_(*(offset + np.arange(extent) for offset, extent in zip(offsets, extents)))
            yield *self._tile(frame, operands[begin]), indices, extents

    def op_dma(self, frame: Frame, it: Instruction, queue: str, site: str, *operands: str) -> None:
        """Boxes of source and target. Addresses are taken now, elements when the copy is waited for."""
        (source, outside, taken, given), (target, _, placed, wanted) = self._boxes(frame, operands)
        self._agree(site, *([extent for extent in side if extent != 1] for side in (given, wanted)))
        self._queues.setdefault(queue, []).append(lambda: target.write(placed, source.read(taken, outside).reshape(wanted)))

    def op_wait(self, frame: Frame, it: Instruction, name: str, left: str) -> None:
        """Returns when at most ``left`` copies of the queue have not happened."""
        while len(self._queues.get(name, ())) > int(left):
            self._queues[name].pop(0)()

    def op_product(self, frame: Frame, it: Instruction, *operands: str) -> None:
        """Boxes of a, b and c, no larger than PRODUCT. The suffixes say what is added up in, and which of a and b are transposed."""
        (_, total, flags), boxes = it.suffixes, list(self._boxes(frame, operands))
        held = np.dtype(np.int64) if as_dtype(total).is_integer else as_dtype(total).numpy
        a, b, c = (tile.read(indices, outside).reshape(extents[-2:]).astype(held) for tile, outside, indices, extents in boxes)
        a, b = a.T if flags[0] == "t" else a, b.T if flags[1] == "t" else b
        if any(given > most for given, most in zip((*c.shape, len(b)), PRODUCT)):
            raise InternalError(f"a product of {c.shape} in {len(b)} steps is more than the instruction takes")
        target, _, places, extents = boxes[2]
        target.write(places, (c + a @ b).astype(as_dtype(total).numpy).reshape(extents))

    # -- values -----------------------------------------------------------------------------------------------------------

    def op_mov(self, frame: Frame, it: Instruction, name: str, value: str) -> None:
        frame.registers[name] = frame[value]

    def op_set(self, frame: Frame, it: Instruction, name: str, value: str) -> None:
        frame.registers[name] = frame[value] if frame.mask.all() else np.where(frame.mask, frame[value], frame[name])

    def op_op(self, frame: Frame, it: Instruction, name: str, *operands: str) -> None:
        frame.registers[name] = operate(it.suffixes[0], [frame[operand] for operand in operands], as_dtype(it.suffixes[1]))

    def op_select(self, frame: Frame, it: Instruction, name: str, *operands: str) -> None:
        frame.registers[name] = np.where(*(frame[operand] for operand in operands))

    def op_cvt(self, frame: Frame, it: Instruction, name: str, value: str) -> None:
        source, target = (as_dtype(suffix) for suffix in it.suffixes[:2])
        rounding: Any = it.suffixes[2]
        frame.registers[name] = cast(frame[value], source, target, rounding, saturate=it.suffixes[-1] == "saturate")

    def op_bits(self, frame: Frame, it: Instruction, name: str, value: str) -> None:
        frame.registers[name] = reinterpret(frame[value], *(as_dtype(suffix) for suffix in it.suffixes))

    # -- control ----------------------------------------------------------------------------------------------------------

    def op_launch(self, frame: Frame, it: Instruction, *grid: str) -> None:
        """Register, type and extent of each axis of the grid, the first the fastest."""
        extents = frame.integers(grid[2::3])
        for cell in itertools.product(*(range(extent) for extent in reversed(extents))):
            self._safe = {}
            inner = Frame(1, dict(frame.registers), dict(frame.tiles), np.ones(1, bool))
            for name, dtype, index in zip(grid[::3], grid[1::3], reversed(cell)):
                inner.registers[name] = np.array(index, as_dtype(dtype).numpy)
            self.run(it.body, inner)
            if any(self._queues.values()):
                raise InternalError("a block ended before its copies")

    def op_if(self, frame: Frame, it: Instruction, operand: str) -> None:
        condition, before = frame.each(operand), frame.mask
        frame.mask = before & condition
        self.run(it.body, frame)
        ended, frame.mask = frame.mask, before & ~condition
        self.run(it.otherwise, frame)
        frame.mask = frame.mask | ended

    def op_loop(self, frame: Frame, it: Instruction, name: str = "", dtype: str = "", *bounds: str) -> None:
        """Register, type, start, stop and step; without operands until a break. Points leave one by one."""
        outer, frame.broken, left = (frame.broken, frame.continued), False, np.zeros(frame.count, bool)
        start, stop, step = [_wide(frame[bound]) for bound in bounds] or (0, math.inf, 1)
        for turn in itertools.count():
            value = start + turn * step
            is_inside = np.where(np.equal(step, 0), False, np.where(np.less(step, 0), value > stop, value < stop))
            left, frame.mask = left | (frame.mask & ~is_inside), frame.mask & is_inside
            if not frame.mask.any():
                break
            if name:
                frame.registers[name] = np.asarray(value).astype(as_dtype(dtype).numpy)
            frame.continued = False
            self.run(it.body, frame)
            frame.mask = frame.mask | frame.continued
        frame.mask = left | frame.broken
        frame.broken, frame.continued = outer

    def op_break(self, frame: Frame, it: Instruction) -> None:
        frame.broken, frame.mask = frame.broken | frame.mask, np.zeros(frame.count, bool)

    def op_continue(self, frame: Frame, it: Instruction) -> None:
        frame.continued, frame.mask = frame.continued | frame.mask, np.zeros(frame.count, bool)

    def op_return(self, frame: Frame, it: Instruction) -> None:
        frame.mask = np.zeros(frame.count, bool)

    def op_map(self, frame: Frame, it: Instruction, rank: str, *operands: str) -> None:
        """Rank, register, type and extent of each axis, then the registers and tiles of which each point has its own. What one point
        changed of those is brought back; of what several changed one stays: nothing may rely on it."""
        axes, private = operands[: 3 * int(rank)], operands[3 * int(rank) :]
        extents = [max(0, extent) for extent in frame.integers(axes[2::3])]
        count = math.prod(extents)
        inner = Frame(count, dict(frame.registers), dict(frame.tiles), np.ones(count, bool))
        for name, dtype, index in zip(axes[::3], axes[1::3], np.indices(extents).reshape(len(extents), count)):
            inner.registers[name] = index.astype(as_dtype(dtype).numpy)
        before = {}
        for operand in private if count else ():
            if operand.startswith("%"):
                before[operand] = inner.registers[operand] = frame.each(operand).repeat(count)
                continue
            tile = frame.tiles[operand]
            copy = replace(tile, cells=tile.cells[np.broadcast_to(tile.row, count)], row=np.arange(count))
            inner.tiles[operand], before[operand] = copy, copy.cells.copy()
        self.run(it.body, inner)
        for operand, old in before.items():
            if operand.startswith("%"):
                new = np.ascontiguousarray(inner.each(operand))
                changed = np.flatnonzero(new.view(f"u{new.itemsize}") != old.view(f"u{new.itemsize}"))
                frame.registers[operand] = new[changed[-1]] if len(changed) else frame[operand]
            else:
                cells, tile = inner.tiles[operand].cells, frame.tiles[operand]
                points, places = np.nonzero(cells != old)
                tile.cells[tile.row, places] = cells[points, places]

    # -- what a user sees -------------------------------------------------------------------------------------------------

    def op_check(self, frame: Frame, it: Instruction, condition: str, site: str, message: str) -> None:
        if (frame.mask & ~frame.each(condition)).any():
            text = json.loads(message)
            raise catalogue.E620.error(self._source.spans[int(site)], message=f": {text}" if text else "")

    def op_same(self, frame: Frame, it: Instruction, left: str, right: str, site: str) -> None:
        for pair in zip(frame.each(left)[frame.mask].tolist(), frame.each(right)[frame.mask].tolist()):
            self._agree(site, *([extent] for extent in pair))

    def _agree(self, site: str, *sides: list[int]) -> None:
        """E640 where the extents of both sides of a copy differ."""
        left, right = (" x ".join(map(str, side)) or "1" for side in sides)
        if left != right:
            raise catalogue.E640.error(self._source.spans[int(site)], left=left, right=right)

    def op_print(self, frame: Frame, it: Instruction, message: str, *rest: str) -> None:
        """A message, then nothing, a value, or a tile with offsets and extents."""
        show = partial(print_line, json.loads(message))
        if rest and rest[0].startswith("@"):
            ((tile, outside, indices, _),) = self._boxes(frame, rest)
            show(tile.read(indices, outside))
            return
        for point in np.flatnonzero(frame.mask):
            show(frame.each(rest[0])[point] if rest else None)


def _wide(bound: Array) -> Any:
    """A loop's bound: of one value unbounded, of many in 64 bits."""
    return int(bound) if np.ndim(bound) == 0 else bound.astype(np.int64)
