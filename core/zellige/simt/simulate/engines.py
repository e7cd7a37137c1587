"""Engines that work beside the lanes: transaction barriers, copies of boxes, asynchronous products.

In: the statements that ask for them and the compiler. Out: their compiled form, and :class:`Engines`: what a block's engines have yet to
do. Boxes land at any time after their issue, in any order, those of some statements as late as can be; products read and write their
registers at the wait that ends them. What a box has stored is the engine's until the lane that asked for it waits for its arrival: nobody
else's access is ordered after it before that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zellige.diagnostics import InternalError, Span
from zellige.ir.expr import Buffer
from zellige.ir.sizes import evaluate_size
from zellige.records import dataclass
from zellige.simt import ir
from zellige.simt.simulate import faults
from zellige.simt.simulate.memory import DEFINED, FLYING, NOBODY, Access, Memory, check_read, check_write
from zellige.simt.simulate.products import added, multiplied, operand_of, places

if TYPE_CHECKING:
    from zellige.simt.simulate.compile import Compiled, Compiler, Touch
    from zellige.simt.simulate.warp import Block, Warp

Array = Any

LATE: Final = 0.25
"""How likely the boxes of a statement land as late as they can."""


@dataclass(slots=True)
class _Job:
    """A box under way: ``land`` moves it; ``group`` of the lane that asked (None: it is not committed; -1: a load). One that
    ``is_late`` lands when nobody can go on without it."""

    lane: int
    land: Callable[[], None]
    group: int | None
    is_late: bool


@dataclass(slots=True)
class _Products:
    """The asynchronous products of a warp: what each will do, and its group (None: not committed). ``sums`` are the values of registers
    that products in flight add to, as those finished so far left them, and how many are still to come."""

    jobs: list[tuple[list[int | None], Callable[[], None]]] = field(default_factory=list)
    groups: int = 0
    sums: dict[tuple[Buffer, int], list[Any]] = field(default_factory=dict)


class Engines:
    """What the engines of one block have been asked for."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._jobs: list[_Job] = []
        self._groups: dict[int, int] = {}
        self._products: dict[int, _Products] = {}
        self._stored: dict[int, list[tuple[int, int]]] = {}
        self._unread: dict[int, list[tuple[int | None, Span | None]]] = {}
        """Of each lane, the group and place of stores that it has not waited for: their memory may be read still."""
        self._landing = 0
        self._is_late: dict[int, bool] = {}
        self._fenced = np.zeros(block.threads, np.int32)
        self._shown = np.zeros((block.threads, block.threads + 1), np.int32)

    @property
    def is_idle(self) -> bool:
        return not self._jobs

    def fence(self, threads: Array) -> None:
        """What the lanes wrote before, each by itself and others as far as it knows of it, is shown to engines."""
        clocks = self._block.clocks
        self._fenced[threads] = clocks.epochs(threads)
        self._shown[threads] = clocks.known[threads]
        clocks.advance(threads)

    def check_shown(self, memory: Memory, cells: Array, asking: int, access: Access) -> None:
        """That what an engine is about to read for a lane was shown to it: by who wrote it, or by the lane that asks."""
        shadow, block = memory.shadow, self._block
        if shadow is None or not shadow.write.is_used:
            return
        writer = shadow.write.thread[cells] - block.number * (block.threads + 1)
        by_lanes = (shadow.write.thread[cells] != NOBODY) & (writer >= 0) & (writer < block.threads)
        lane = np.where(by_lanes, writer, 0)
        hidden = by_lanes & (shadow.write.epoch[cells] > np.maximum(self._fenced[lane], self._shown[asking, lane]))
        if hidden.any():
            at = int(np.argmax(hidden))
            place = block.places[int(shadow.write.place[cells[at]])]
            what = "gives an engine what was not shown to it and was written by"
            raise faults.race(access.span, memory.name, int(cells[at]) * memory.cell_bytes, what, [asking], int(lane[at]), place)

    def ask_load(self, lane: int, land: Callable[[], None], place: int) -> None:
        self._jobs.append(_Job(lane, land, -1, self._lands_late(place)))

    def ask_store(self, lane: int, land: Callable[[], None], place: int, span: Span | None) -> None:
        self._jobs.append(_Job(lane, land, None, self._lands_late(place)))
        self._unread.setdefault(lane, []).append((None, span))

    def commit(self, lane: int) -> None:
        group = self._groups.get(lane, 0)
        for job in self._jobs:
            if job.lane == lane and job.group is None:
                job.group = group
        if lane in self._unread:
            self._unread[lane] = [(group if of is None else of, span) for of, span in self._unread[lane]]
        self._groups[lane] = group + 1

    def finish(self, lane: int, leave: int, *, of_reading: bool) -> None:
        """All but the last groups of a lane's stores. That they have arrived the lane knows unless it waits for their reading only."""
        last = self._groups.get(lane, 0) - leave
        for job in list(self._jobs):
            if job.lane == lane and job.group is not None and 0 <= job.group < last:
                self._land(job)
        if lane in self._unread:
            self._unread[lane] = [(group, span) for group, span in self._unread[lane] if group is None or group >= last]
        if not of_reading:
            known, stored = self._block.clocks.known[lane], self._stored.get(lane, [])
            engine = self._block.clocks.engine
            known[engine] = max([known[engine], *(epoch for group, epoch in stored if group < last)])
            self._stored[lane] = [entry for entry in stored if entry[0] >= last]

    def stored(self, lane: int, memory: Memory, cells: Array, place: int) -> None:
        """An engine has written the cells for a lane."""
        block = self._block
        epoch = block.clocks.tick_engine()
        number = block.clocks.engine + block.number * (block.threads + 1)
        if memory.shadow is not None:
            memory.shadow.write.put(cells, np.full(len(cells), number), np.full(len(cells), epoch, np.int32), place)
        self._stored.setdefault(lane, []).append((self._landing, epoch))

    def check_read(self, threads: Array) -> None:
        """That the lanes, which return now, have waited until what they stored was read: shared memory goes with the block."""
        for lane in threads.tolist():
            for _, span in self._unread.get(lane, ()):
                raise faults.misused(span, f"lane {lane} returns and has not waited for a box that is stored from shared memory")

    def _lands_late(self, place: int) -> bool:
        """Whether the boxes of a statement are the last to land in this block: drawn for each, so that a wait for other boxes, which would
        often have ended late enough for these, is seen not to be a wait for these."""
        if place not in self._is_late:
            self._is_late[place] = self._block.chance.random() < LATE
        return self._is_late[place]

    def land_some(self) -> None:
        if early := [job for job in self._jobs if not job.is_late]:
            self._land(self._block.chance.choice(early))

    def land_one(self) -> None:
        """The next box, where nobody can go on without one."""
        self._land(self._block.chance.choice([job for job in self._jobs if not job.is_late] or self._jobs))

    def land_all(self) -> None:
        while self._jobs:
            self.land_one()

    def _land(self, job: _Job) -> None:
        self._jobs.remove(job)
        self._landing = self._groups.get(job.lane, 0) if job.group is None else job.group
        job.land()

    # ---- products ----

    def multiply(self, warp: int, job: Callable[[], None]) -> None:
        self._products.setdefault(warp, _Products()).jobs.append(([None], job))

    def begin_sum(self, warp: int, registers: tuple[Buffer, int], values: Array) -> None:
        """One more product will add to these registers, which hold ``values`` where none is in flight yet."""
        entry = self._products.setdefault(warp, _Products()).sums.setdefault(registers, [values, 0])
        entry[1] += 1

    def end_sum(self, warp: int, registers: tuple[Buffer, int], add: Callable[[Array], Array]) -> Array | None:
        """A product adds to the registers; their values where it was the last in flight."""
        sums = self._products[warp].sums
        entry = sums[registers]
        entry[0], entry[1] = add(entry[0]), entry[1] - 1
        return sums.pop(registers)[0] if entry[1] == 0 else None

    def commit_products(self, warp: int) -> None:
        found = self._products.setdefault(warp, _Products())
        for group, _ in found.jobs:
            if group[0] is None:
                group[0] = found.groups
        found.groups += 1

    def finish_products(self, warp: int, leave: int) -> None:
        found = self._products.setdefault(warp, _Products())
        kept = []
        for group, job in found.jobs:
            if group[0] is not None and group[0] < found.groups - leave:
                job()
            else:
                kept.append((group, job))
        found.jobs = kept


def engine_statement(compiler: Compiler, statement: Any) -> Compiled:
    """The compiled form of a statement of engines."""
    match statement:
        case ir.BarrierInit() | ir.Arrive() | ir.ExpectBytes() | ir.WaitBarrier():
            return _transaction(compiler, statement)
        case ir.TensorCopy():
            return _tensor_copy(compiler, statement)
        case ir.CommitStores():
            return 0, _commit_stores
        case ir.WaitStores(leave=leave, of_reading=of_reading):
            return _wait_stores(leave, of_reading)
        case ir.AsyncProduct():
            return _async_product(compiler, statement)
        case ir.FenceProducts():
            return 0, _fence_products
        case ir.CommitProducts():
            return 0, _commit_products
        case ir.MoveRegisters(into=into, source=source):
            return 0, _move(into, source, [t for t in map(compiler.touching, (into, source)) if t is not None])
        case ir.WaitProducts(leave=leave):
            return _wait_products(compiler, leave)
        case _:
            raise InternalError(f"{type(statement).__name__} is not simulated")


# ---- transaction barriers ----


def _transaction(compiler: Compiler, statement: Any) -> Compiled:
    span, root, index = compiler.span, statement.barriers.root, compiler.value(statement.index)
    extra = compiler.value(statement.bytes if isinstance(statement, ir.ExpectBytes) else statement.parity) if isinstance(
        statement, (ir.ExpectBytes, ir.WaitBarrier)
    ) else None  # fmt: skip

    is_elsewhere = isinstance(statement, ir.Arrive) and statement.peer is not None
    peer = compiler.value(statement.peer if is_elsewhere else statement.index)

    def number(warp: Warp, mask: Any, value: Any, what: str) -> int:
        found = np.unique(warp.active(mask, np.asarray(value(warp, mask))))
        if len(found) != 1:
            raise faults.misused(span, f"{what} differs between the lanes")
        return int(found[0])

    def init(warp: Warp, mask: Any) -> Any:
        which = number(warp, mask, index, "the barrier")
        warp.block.transactions.init(warp, mask, warp.block.memories[root], which, statement.arrivals, span)
        return mask

    def arrive_at(warp: Warp, mask: Any) -> Any:
        which, numbers = number(warp, mask, index, "the barrier"), warp.active(mask, np.asarray(peer(warp, mask)))
        for lane, at in zip(np.flatnonzero(mask), np.broadcast_to(numbers, (int(np.count_nonzero(mask)),))):
            if not 0 <= at < len(warp.block.peers):
                raise faults.misused(span, f"block {int(at)} of a cluster of {len(warp.block.peers)}")
            there, alone = warp.block.peers[int(at)], np.zeros(warp.lanes, bool)
            alone[lane] = True
            there.transactions.arrive(warp, alone, there.memories[root], which, span)
        return mask

    def arrive(warp: Warp, mask: Any) -> Any:
        expected = 0 if extra is None else number(warp, mask, extra, "the number of bytes")
        which = number(warp, mask, index, "the barrier")
        warp.block.transactions.arrive(warp, mask, warp.block.memories[root], which, span, expected)
        return mask

    def wait(warp: Warp, mask: Any) -> Any:
        which, parity = number(warp, mask, index, "the barrier"), number(warp, mask, extra, "the parity")
        warp.span, warp.doing = span, f"phase {parity} of transaction barrier {which}"
        yield warp.block.transactions.wait(warp, mask, warp.block.memories[root], which, parity, span)
        return mask

    match statement:
        case ir.BarrierInit():
            return 1, init
        case ir.WaitBarrier():
            return 2, wait
        case _:
            return 1, arrive_at if is_elsewhere else arrive


# ---- boxes ----


def swizzled_bytes(addresses: Array, swizzle_bytes: int, exchange: ir.Exchange) -> Array:
    """Where bytes at these addresses stand in storage whose pieces are exchanged within ``swizzle_bytes`` by the number of the line."""
    mask = swizzle_bytes // exchange.piece_bytes - 1 if swizzle_bytes else 0
    return addresses ^ (((addresses // exchange.line_bytes) & mask) * exchange.piece_bytes)


def _exchange(compiler: Compiler) -> ir.Exchange:
    if compiler.function.exchange is None:
        raise InternalError("a program asks engines, and its machine does not say how they have tiles in shared memory")
    return compiler.function.exchange


def _tensor_copy(compiler: Compiler, statement: ir.TensorCopy) -> Compiled:
    box, span, access = statement.box, compiler.span, compiler.access(statement.memory.dtype)
    pointer = next(
        (p for p in compiler.function.params if isinstance(p, ir.Pointer) and (p.tensor is box.tensor or p.buffer is box.tensor)), None
    )
    if pointer is None:
        raise InternalError(f"a box of {box.tensor.name}, which is no tensor argument")
    origin = [compiler.value(o) for o in statement.origin]
    start = compiler.value(statement.memory_index)
    index = None if statement.index is None else compiler.value(statement.index)
    barriers = None if statement.barriers is None else statement.barriers.root
    size, exchange = np.dtype(pointer.buffer.dtype.scalar.numpy).itemsize, _exchange(compiler)

    def run(warp: Warp, mask: Any) -> Any:
        block = warp.block
        for lane in np.flatnonzero(mask):

            def one(value: Any, lane: int = int(lane)) -> int:
                return int(np.broadcast_to(np.asarray(value(warp, mask)), (warp.lanes,))[lane])

            at = [one(o) for o in origin]
            memory, outer = block.memories[statement.memory.root], block.memories[pointer.buffer.root]
            offsets, elements, inside = _box(block, box, at, one(start) * access.bytes + memory.address, size, exchange)
            offsets = offsets - memory.address
            if offsets.min() < 0 or offsets.max() + size > len(memory.data):
                raise faults.outside(span, memory.name, offsets // size, len(memory.data) // size, [warp.threads[lane]])
            which = None if index is None or barriers is None else one(index)
            asking = int(warp.threads[lane])
            if statement.is_store:
                _ask_store(block, asking, memory, offsets, outer, elements, inside, size, access)
                continue
            if which is None or barriers is None:
                raise faults.misused(access.span, "a box copied to shared memory completes on no barrier")
            if statement.peers > len(block.peers):
                raise faults.misused(span, f"a box for {statement.peers} blocks of a cluster of {len(block.peers)}")
            for to in block.peers if statement.peers > 1 else (block,):
                told = to.memories[barriers], which
                _ask_load(block, to, asking, to.memories[statement.memory.root], offsets, outer, elements, inside, size, told, access)
        return mask

    return 1, run


def _box(
    block: Block, box: ir.TensorBox, origin: list[int], start: int, size: int, exchange: ir.Exchange
) -> tuple[Array, Array, Array]:
    """Of each element of a box: its address in shared memory, its number in the tensor and whether the tensor has it."""
    numbers = block.grid.numbers
    extents = [evaluate_size(e, numbers) for e in box.tensor.shape]
    strides = [evaluate_size(e, numbers) for e in box.tensor.strides or ()] or [int(np.prod(extents[d + 1 :])) for d in range(len(extents))]
    points = np.indices(box.box).reshape(len(box.box), -1)
    coordinates = [p + o for p, o in zip(points, origin)]
    inside = np.all([(c >= 0) & (c < e) for c, e in zip(coordinates, extents)], axis=0)
    elements = np.sum([c * s for c, s in zip(coordinates, strides)], axis=0)
    dense = np.ravel_multi_index(tuple(points), box.box) * size
    return swizzled_bytes(start + dense, box.swizzle_bytes, exchange), elements, inside


def _ask_store(
    block: Block, lane: int, memory: Memory, offsets: Array, outer: Memory, elements: Array, inside: Array, size: int, access: Access
) -> None:
    """Test what a box reads and leave the moving to the engine."""
    cells = offsets // memory.cell_bytes
    block.engines.check_shown(memory, cells, lane, access)
    check_read(memory, cells, np.full(len(cells), lane), block.clocks, block.number, access, 32, block.places)

    def store() -> None:
        outer_cells = elements[inside] * size // outer.cell_bytes
        check_write(outer, outer_cells, np.full(len(outer_cells), lane), block.clocks, block.number, access, block.places)
        for byte in range(size):
            outer.data[elements[inside] * size + byte] = memory.data[offsets[inside] + byte]
        block.engines.stored(lane, outer, outer_cells, access.place)

    block.engines.ask_store(lane, store, access.place, access.span)


def _ask_load(
    block: Block, to: Block, lane: int, memory: Memory, offsets: Array, outer: Memory, elements: Array, inside: Array, size: int,
    barrier: tuple[Memory, int], access: Access,
) -> None:  # fmt: skip
    """Test what a box overwrites in block ``to``, by what the asking lane of ``block`` knows of it, and leave the moving to the engine."""
    to.transactions.check_shown_to_engines(*barrier, block, lane, access.span)
    cells = offsets // memory.cell_bytes
    check_write(memory, cells, np.full(len(cells), lane), block.known_of(to), to.number, access, block.places)
    shadow = memory.shadow
    assert shadow is not None
    shadow.state[cells] = FLYING

    def load() -> None:
        for byte in range(size):
            memory.data[offsets + byte] = 0
            memory.data[offsets[inside] + byte] = outer.data[elements[inside] * size + byte]
        shadow.state[cells] = DEFINED
        epoch = to.clocks.tick_engine()
        engine = np.full(len(cells), to.clocks.engine + to.number * (to.threads + 1))
        shadow.write.put(cells, engine, np.full(len(cells), epoch, np.int32), access.place)
        to.transactions.landed(*barrier, len(offsets) * size, epoch, access.span)

    block.engines.ask_load(lane, load, access.place)


def _commit_stores(warp: Warp, mask: Any) -> Any:
    for thread in warp.chosen(mask):
        warp.block.engines.commit(int(thread))
    return mask


def _wait_stores(leave: int, of_reading: bool) -> Compiled:
    def run(warp: Warp, mask: Any) -> Any:
        for thread in warp.chosen(mask):
            warp.block.engines.finish(int(thread), leave, of_reading=of_reading)
        return mask

    return 1, run


# ---- asynchronous products ----


def _async_product(compiler: Compiler, statement: ir.AsyncProduct) -> Compiled:
    form, span = statement.form, compiler.span
    clear, c_view = compiler.value(statement.clear), operand_of(compiler, statement.c, ("sums", form.m, form.n, form.k))
    c_root, c_start = statement.c.buffer.root, compiler.value(statement.c.start)
    a_view = operand_of(compiler, statement.a, "operand") if isinstance(statement.a, ir.Registers) else None
    a_shared = _shared_operand(compiler, statement.a, form.m, form.k, is_a=True) if isinstance(statement.a, ir.SharedOperand) else None
    b_shared = _shared_operand(compiler, statement.b, form.n, form.k, is_a=False)

    def run(warp: Warp, mask: Any) -> Any:
        warp.require_together(mask, span, "a product by warps together")
        member = warp.index % form.warps
        c, is_cleared = c_view(warp, mask, form.c_layout.registers), bool(np.all(clear(warp, mask)))
        c_at = places(form.c_layout, warp.lanes, member)
        a = None if a_view is None else a_view(warp, mask, form.a_layout.registers)
        gather_a = None if a_shared is None else a_shared(warp, mask)
        gather_b = b_shared(warp, mask)
        engines, registers = warp.block.engines, (c_root, int(np.unique(np.asarray(c_start(warp, mask)))[0]))

        def finish() -> None:
            left = np.zeros((form.m, form.k), form.a.scalar.numpy) if gather_a is None else gather_a()
            if a is not None:
                left[places(form.a_layout, warp.lanes, member)] = a
            total = multiplied(left, gather_b().T, form)[c_at]
            values = engines.end_sum(
                warp.index, registers, lambda before: added(total, np.zeros_like(before) if is_cleared else before, form)
            )
            if values is not None:
                c[:] = values

        engines.begin_sum(warp.index, registers, c.copy())
        c[:] = np.nan if form.c.is_float else -1
        engines.multiply(warp.index, finish)
        return mask

    return 1, run


def _shared_operand(compiler: Compiler, operand: ir.SharedOperand, outer: int, depth: int, *, is_a: bool) -> Callable[..., Any]:
    """What gives, for a warp, a function that reads the operand as (outer, k), testing that it may be read now and then."""
    access, start, root = compiler.access(operand.buffer.dtype), compiler.value(operand.start), operand.buffer.root
    exchange = _exchange(compiler)
    size, span, rows_a_group = access.bytes, operand.swizzle_bytes or exchange.piece_bytes, exchange.rows
    rows, columns = np.meshgrid(np.arange(outer), np.arange(depth), indexing="ij")
    line, along = (rows, columns) if operand.is_k_contiguous else (columns, rows)
    inner = along * size
    group, row = line // rows_a_group, line % rows_a_group
    offsets = group * operand.row_group_bytes + inner // span * operand.span_bytes + row * span + inner % span

    def prepare(warp: Warp, mask: Any) -> Any:
        memory, block = warp.block.memories[root], warp.block
        first = int(np.unique(np.asarray(start(warp, mask)))[0]) * size + operand.advance + memory.address
        where = swizzled_bytes(first + offsets, operand.swizzle_bytes, exchange) - memory.address
        if where.min() < 0 or where.max() + size > len(memory.data):
            raise faults.outside(access.span, memory.name, where // size, len(memory.data) // size, warp.threads)

        def read() -> Array:
            cells = (where // memory.cell_bytes).ravel()
            who = np.full(len(cells), warp.threads[0])
            block.engines.check_shown(memory, cells, int(warp.threads[0]), access)
            check_read(memory, cells, who, block.clocks, block.number, access, warp.lanes, block.places)
            return memory.view(operand.buffer.dtype)[where // size]

        read()
        return read

    return prepare


def _fence_products(warp: Warp, mask: Any) -> Any:
    warp.readiness.fence()
    return mask


def _commit_products(warp: Warp, mask: Any) -> Any:
    warp.block.engines.commit_products(warp.index)
    return mask


def _move(into: Buffer, source: Buffer, touches: Sequence[Touch]) -> Any:
    def run(warp: Warp, mask: Any) -> Any:
        chosen = slice(None) if mask is warp.full else mask
        warp.view(into)[chosen] = warp.view(source)[chosen]
        warp.marks(into)[chosen] = warp.marks(source)[chosen]
        for touch in touches:
            touch(warp, slice(None))
        return mask

    return run


def _wait_products(compiler: Compiler, leave: int) -> Compiled:
    def run(warp: Warp, mask: Any) -> Any:
        warp.block.engines.finish_products(warp.index, leave)
        return mask

    return 1, run
