"""Runs thread-level programs: blocks, and in each block warps whose turns are drawn.

In: a :class:`~zellige.simt.ir.Module`, the bytes of its tensors, its scalars, a seed. Out: the tensors changed; the first fault is raised.
Blocks run one after the other, those of a cluster together, unless the program orders all of them (barriers of the grid, atomics with an
order): then all run together.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from zellige.interp.launch import scalar_value
from zellige.ir.expr import Buffer, Var
from zellige.ir.sizes import evaluate_size
from zellige.ir.stmt import Atomic, Barrier
from zellige.ir.traverse import walk
from zellige.simt.ir import LANE, THREAD, WARP, Fence, Function, Memory as SharedMemory, Module, Pointer, Scalar
from zellige.simt.simulate import faults
from zellige.simt.simulate.compile import Program, compile_function, coroutine
from zellige.simt.simulate.memory import Memory, Shadow
from zellige.simt.simulate.report import Report
from zellige.simt.simulate.warp import Block, Grid, Warp

Array = Any

SHARED_ADDRESS: Final = 1 << 20
"""Where a block's shared memory begins: a multiple of every alignment."""

LANDING: Final = 0.05
"""How likely a copy lands early at a turn."""

LOOK: Final = 16
"""Turns after which warps that wait are looked at again."""


def simulate(
    module: Module,
    tensors: Mapping[Buffer, Array],
    scalars: Mapping[Var, int | float],
    *,
    seed: int = 0,
    report: Report | None = None,
    sample: int | None = None,
) -> None:
    """Run every function of ``module`` in order. ``tensors``: the bytes (uint8 arrays) of each Pointer's ``tensor``; ``sample``: at most so
    many blocks of each function, drawn. Raises E650 to E658 for what a program does wrong."""
    with np.errstate(all="ignore"):
        for function in module.functions:
            _Launch(function, tensors, scalars, seed, report).run(sample)


class _Launch:
    def __init__(
        self, function: Function, tensors: Mapping[Buffer, Array], scalars: Mapping[Var, int | float], seed: int, report: Report | None
    ) -> None:
        self._function = function
        self._scalars = scalars
        self._numbers = {v: int(x) for v, x in scalars.items() if not v.dtype.is_float}
        self._chance = random.Random(seed)
        self._report = report
        self._program: Program = compile_function(function, np.random.default_rng(seed))
        self._run_all_together = _orders_blocks(function)
        self._has_fences = any(isinstance(node, Fence) and node.to == "grid" for node in walk(function))
        self._globals = {p.buffer: self._tensor(p, tensors[p.tensor]) for p in function.params if isinstance(p, Pointer)}

    def run(self, sample: int | None) -> None:
        grid = [evaluate_size(e, self._numbers) for e in self._function.grid]
        if min(grid, default=1) <= 0:
            return
        numbers: Sequence[int] = range(int(np.prod(grid, dtype=np.int64)))
        if sample is not None and sample < len(numbers):
            numbers = sorted(self._chance.sample(numbers, sample))
        if self._run_all_together:
            self._run_together(numbers, grid)
        else:
            for together in self._clusters(numbers, grid):
                self._run_together(together, grid)

    def _clusters(self, numbers: Sequence[int], grid: Sequence[int]) -> list[list[int]]:
        """The numbers of blocks that run together: those of a cluster, each alone where there are none. A cluster is whole."""
        cluster = self._function.cluster
        if cluster is None:
            return [[number] for number in numbers]
        places = [[number // int(np.prod(grid[:axis], dtype=np.int64)) % extent for axis, extent in enumerate(grid)] for number in numbers]
        found: dict[tuple[int, ...], list[int]] = {}
        for place in places:
            found.setdefault(tuple(p // c for p, c in zip(place, cluster)), [])
        for first, members in found.items():
            for offset in np.ndindex(*reversed(cluster[: len(grid)])):
                place = [f * c + o for f, c, o in zip(first, cluster, reversed(offset))]
                members.append(int(sum(p * int(np.prod(grid[:axis], dtype=np.int64)) for axis, p in enumerate(place))))
        return list(found.values())

    def _tensor(self, pointer: Pointer, data: Array) -> Memory:
        size = np.dtype(pointer.buffer.dtype.scalar.numpy).itemsize
        used = min(len(data), max(0, evaluate_size(pointer.buffer.shape[0], self._numbers) * size))
        cell = self._program.cell_bytes[pointer.buffer]
        shadow = None
        if pointer.is_written:
            stride = self._function.threads + 1
            shadow = Shadow(-(-used // cell), stride, is_defined=True, are_blocks_ordered=False)
        data = data[:used]
        return Memory(pointer.buffer.name, data, address=data.ctypes.data if used else 0, cell_bytes=cell, shadow=shadow, is_shared=False)

    # ---- blocks ----

    def _run_together(self, numbers: Sequence[int], extents: Sequence[int]) -> None:
        grid = Grid(self._numbers, has_fences=self._has_fences)
        for number in numbers:
            grid.blocks.append(self._block(number, extents, grid))
        if self._function.cluster is not None:
            for block in grid.blocks:
                block.peers = grid.blocks
        _Turns(grid, self._program, self._chance).run()

    def _block(self, number: int, extents: Sequence[int], grid: Grid) -> Block:
        function = self._function
        memories = {**self._globals, **self._shared(number)}
        block = Block(number, function.threads, memories, self._program.places, self._chance, grid, self._report)
        places = []
        rest = number
        for extent in extents:
            rest, place = divmod(rest, extent)
            places.append(place)
        for index in range(-(-function.threads // function.lanes)):
            warp = Warp(block, index, function.lanes, len(self._program.variables))
            self._give(warp, index, places)
            block.warps.append(warp)
        return block

    def _give(self, warp: Warp, index: int, places: Sequence[int]) -> None:
        """The values that are there from the start."""
        slots = self._program.variables
        warp.values[slots[LANE]] = warp.numbers.astype(np.int32)
        warp.values[slots[WARP]] = np.asarray(np.int32(index))
        warp.values[slots[THREAD]] = warp.threads.astype(np.int32)
        for var, place in zip(self._function.grid_vars, places):
            warp.values[slots[var]] = np.asarray(place, var.dtype.numpy)
        for param in self._function.params:
            if isinstance(param, Scalar):
                warp.values[slots[param.var]] = scalar_value(self._scalars[param.var], param.var.dtype)

    def _shared(self, number: int) -> dict[Buffer, Memory]:
        function = self._function
        storage = np.frombuffer(self._chance.randbytes(function.shared_bytes), np.uint8).copy()
        made: dict[Buffer, Memory] = {}
        spans = {m.buffer: self._span(m) for m in function.memories}
        finest = min((self._program.cell_bytes[m] for m in spans), default=1)
        together = Shadow(-(-function.shared_bytes // finest), function.threads + 1, is_defined=False, are_blocks_ordered=True)
        for memory in function.memories:
            first, end = spans[memory.buffer]
            data = storage[first:end]
            cell = self._program.cell_bytes[memory.buffer]
            shadow = Shadow(-(-len(data) // cell), function.threads + 1, is_defined=False, are_blocks_ordered=True)
            if any(s < end and first < e for other, (s, e) in spans.items() if other is not memory.buffer):
                cell = finest
                shadow = together.part(first // cell, -(-len(data) // cell))
            made[memory.buffer] = Memory(
                memory.buffer.name, data, address=SHARED_ADDRESS + memory.offset, cell_bytes=cell, shadow=shadow, is_shared=True
            )
        return made


    def _span(self, memory: SharedMemory) -> tuple[int, int]:
        """The first byte and the one after the last."""
        size = np.dtype(memory.buffer.dtype.scalar.numpy).itemsize
        counted = evaluate_size(memory.buffer.shape[0], self._numbers) * size
        return memory.offset, memory.offset + (counted or memory.bytes)


class _Turns:
    """The warps of blocks that run together, one step at a time in an order that is drawn."""

    def __init__(self, grid: Grid, program: Program, chance: random.Random) -> None:
        self._grid = grid
        self._chance = chance
        self._running = {warp: coroutine(program, warp) for block in grid.blocks for warp in block.warps}

    def run(self) -> None:
        ready: list[Warp] = list(self._running)
        waiting: list[Warp] = []
        turns = 0
        while ready or waiting:
            turns += 1
            if not ready or turns % LOOK == 0:
                woken = [warp for warp in waiting if warp.wait is not None and warp.wait()]
                waiting = [warp for warp in waiting if warp not in woken]
                ready.extend(woken)
                if not ready:
                    if not self._land_one():
                        raise self._stuck(waiting)
                    continue
            at = int(self._chance.random() * len(ready))
            warp = ready[at]
            if self._chance.random() < LANDING:
                warp.copies.land_some()
                warp.block.engines.land_some()
            try:
                warp.wait = next(self._running[warp])
            except StopIteration:
                self._end(warp)
                del ready[at]
                continue
            if warp.wait is not None:
                del ready[at]
                waiting.append(warp)
        for block in self._grid.blocks:
            block.engines.land_all()

    def _end(self, warp: Warp) -> None:
        warp.block.engines.check_read(warp.threads)
        warp.alive = np.zeros(warp.lanes, bool)
        warp.copies.land_all()
        warp.block.settle()
        self._grid.settle()

    def _land_one(self) -> bool:
        """Let the engines of a block do the next that is left; whether there was anything."""
        busy = [block for block in self._grid.blocks if not block.engines.is_idle]
        if busy:
            self._chance.choice(busy).engines.land_one()
        return bool(busy)

    def _stuck(self, waiting: Sequence[Warp]) -> Exception:
        first = waiting[0]
        reasons = list(dict.fromkeys(_reasons(waiting)))
        return faults.stuck(first.span, reasons)


def _reasons(waiting: Sequence[Warp]) -> Iterator[str]:
    by_reason: dict[str, list[int]] = {}
    for warp in waiting:
        by_reason.setdefault(f"at {warp.doing} ({faults.place_text(warp.span)})", []).extend(warp.threads[warp.alive].tolist())
    for reason, lanes in by_reason.items():
        yield f"{faults.lanes_text(lanes)} wait {reason}"


def _orders_blocks(function: Function) -> bool:
    """Whether blocks may wait for each other."""
    for node in walk(function):
        match node:
            case Barrier(scope="cluster") if function.cluster is not None:
                pass  # those of a cluster run together
            case Barrier(scope="cluster" | "grid") | Fence(to="grid"):
                return True
            case Atomic(order=order) if order != "relaxed":
                return True
            case Atomic(op="load" | "store" | "exchange"):
                return True
            case _:
                pass
    return False
