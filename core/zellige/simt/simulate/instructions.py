"""What lanes do together or leave to engines: barriers, shuffles, votes, atomics, matrices, products and copies that land later.

In: one such statement and the compiler. Out: its compiled form (see :mod:`zellige.simt.simulate.compile`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from zellige.diagnostics import InternalError, Span
from zellige.elements.conversion import INT64, cast
from zellige.elements.operations import rounds
from zellige.interp.tile_operations import atomic_combine
from zellige.ir.stmt import Atomic, Barrier, Shuffle, Vote
from zellige.simt import ir
from zellige.simt.simulate import faults
from zellige.simt.simulate.engines import engine_statement
from zellige.simt.simulate.memory import Access, check_read, check_write
from zellige.simt.simulate.order import merged
from zellige.simt.simulate.products import operand_of, product

if TYPE_CHECKING:
    from zellige.simt.simulate.compile import Compiled, Compiler, Touch
    from zellige.simt.simulate.memory import Memory
    from zellige.simt.simulate.warp import Block, Warp

Array = Any

ROWS = 8
ROW_BYTES = 16


def instruction(compiler: Compiler, statement: Any) -> Compiled:
    """The compiled form of a statement that is none of control flow, variables and single elements."""
    match statement:
        case Barrier():
            return _barrier(compiler, statement)
        case ir.NamedBarrier():
            return _named_barrier(compiler, statement)
        case Shuffle():
            return _shuffle(compiler, statement)
        case Vote():
            return _vote(compiler, statement)
        case ir.Taking():
            return _taking(compiler, statement)
        case Atomic():
            return _atomic(compiler, statement)
        case ir.MatrixLoad():
            return _matrix_load(compiler, statement)
        case ir.MatrixStore():
            return _matrix_store(compiler, statement)
        case ir.Product():
            return _product(compiler, statement)
        case ir.AsyncCopy():
            return _async_copy(compiler, statement)
        case ir.CommitCopies():
            return 0, _commit
        case ir.WaitCopies(leave=leave):
            return _wait_copies(leave)
        case ir.Fence():
            return _fence(statement)
        case ir.Budget():
            return _budget(compiler, statement)
        case _:
            return engine_statement(compiler, statement)


# ---- barriers ----


def _waiting(warp: Warp, span: Span | None, doing: str) -> None:
    warp.span, warp.doing = span, doing


def _barrier(compiler: Compiler, statement: Barrier) -> Compiled:
    span, scope = compiler.span, statement.scope

    def warp_barrier(warp: Warp, mask: Any) -> Any:
        warp.require_together(mask, span, "a barrier of the warp")
        warp.block.clocks.join(warp.chosen(mask))
        return mask

    def block_barrier(warp: Warp, mask: Any) -> Any:
        warp.require_together(mask, span, "a barrier of the block")
        _waiting(warp, span, "a barrier of the block")
        yield warp.block.join(warp, mask)
        return mask

    def wide_barrier(warp: Warp, mask: Any) -> Any:
        warp.require_together(mask, span, f"a barrier of the {scope}")
        _waiting(warp, span, f"a barrier of the {scope}")
        yield warp.block.join(warp, mask)
        yield warp.block.grid.join()
        return mask

    match scope:
        case "warp":
            return 1, warp_barrier
        case "block":
            return 2, block_barrier
        case _:
            return 2, wide_barrier


def _named_barrier(compiler: Compiler, statement: ir.NamedBarrier) -> Compiled:
    span, number, lanes, stays = compiler.span, compiler.value(statement.number), statement.lanes, statement.mode == "join"

    def run(warp: Warp, mask: Any) -> Any:
        warp.require_together(mask, span, "a barrier of some lanes")
        which = np.unique(warp.active(mask, np.asarray(number(warp, mask))))
        if len(which) != 1:
            raise faults.parted(span, f"barriers {', '.join(map(str, which))}", warp.chosen(mask))
        _waiting(warp, span, f"barrier {int(which[0])} of {lanes} lanes")
        yield warp.block.join_named(warp, mask, int(which[0]), lanes, span, stays=stays)
        return mask

    return 2, run


def _fence(statement: ir.Fence) -> Compiled:
    to = statement.to

    def run(warp: Warp, mask: Any) -> Any:
        block = warp.block
        if to == "engines":
            block.engines.fence(warp.chosen(mask))
        elif to == "barriers":
            block.transactions.fence(warp.chosen(mask))
        elif to == "grid":
            for thread in warp.chosen(mask).tolist():
                block.clocks.take(thread, block.seen.pop(thread, {}))
                block.fenced[thread] = block.clocks.snapshot(thread)
        return mask

    return 0, run


def _budget(compiler: Compiler, statement: ir.Budget) -> Compiled:
    span, wanted, is_larger, given = compiler.span, statement.registers, statement.is_larger, compiler.function.registers
    if given is None:
        raise InternalError("a budget of registers in a program that does not say how many its lanes are given")

    def run(warp: Warp, mask: Any) -> Any:
        warp.require_together(mask, span, "a budget of registers")
        held = given if warp.budget is None else warp.budget
        if (wanted < held) if is_larger else (wanted > held):
            what = "take more" if is_larger else "give some back"
            raise faults.misused(span, f"lanes that hold {held} registers {what} to have {wanted}")
        _waiting(warp, span, f"a budget of {wanted} registers")
        yield warp.block.pass_on((held - wanted) * warp.lanes)
        warp.budget = wanted
        return mask

    return 2, run


# ---- values between lanes ----


def _shuffle(compiler: Compiler, statement: Shuffle) -> Compiled:
    value, operand, span = compiler.value(statement.value), compiler.value(statement.operand), compiler.span
    slot, width, mode = compiler.slot(statement.result), statement.width, statement.mode
    check = _together(compiler, statement)

    def run(warp: Warp, mask: Any) -> Any:
        check(warp, mask)
        given = np.asarray(value(warp, mask))
        step = np.broadcast_to(np.asarray(operand(warp, mask)), (warp.lanes,)).astype(np.int64)
        own = warp.numbers % width
        end = width if mode in ("xor", "index") else warp.lanes
        odd = mask & ((step < 0) | (step >= end))
        if odd.any():
            raise InternalError(f"a shuffle ({mode}) in groups of {width} lanes by {int(step[odd][0])}")
        match mode:
            case "xor":
                other = own ^ step
            case "up":
                other = own - step
            case "down":
                other = own + step
            case _:
                other = step
        source = np.where((other < 0) | (other >= width), warp.numbers, warp.numbers - own + other)
        if mask is not warp.full:
            silent = mask & ~mask[source]
            if silent.any():
                raise faults.parted(span, "a shuffle that reads from them", warp.threads[np.unique(source[silent])])
        spread = np.broadcast_to(given, (warp.lanes,)) if given.ndim == 0 else given
        warp.assign(slot, spread[source], mask)
        return mask

    return 0, run


Together = Callable[[Any, Any], None]


def _together(compiler: Compiler, statement: Shuffle | Vote | ir.Taking) -> Together:
    """Refuses an exchange whose lanes are not those that it is said to be among: they would wait for others, or not for all."""
    among = getattr(statement, "among", None)
    is_of_warp = isinstance(statement, ir.Taking)
    if among is None and not is_of_warp:
        return lambda warp, mask: None
    named = None if among is None else compiler.value(among)

    def check(warp: Warp, mask: Any) -> None:
        here = _bits(mask)
        said = {_bits(warp.alive)} if named is None else {int(m) for m in np.unique(warp.active(mask, np.asarray(named(warp, mask))))}
        if {lanes & _bits(warp.alive) for lanes in said} != {here}:
            raise InternalError(f"an exchange of the lanes {here:#x} is said to be among {', '.join(f'{m:#x}' for m in sorted(said))}")

    return check


def _bits(mask: Any) -> int:
    return sum(1 << int(lane) for lane in np.flatnonzero(mask))


def _taking(compiler: Compiler, statement: ir.Taking) -> Compiled:
    condition, slot, check = compiler.value(statement.condition), compiler.slot(statement.result), _together(compiler, statement)

    def run(warp: Warp, mask: Any) -> Any:
        check(warp, mask)
        holds = np.broadcast_to(np.asarray(condition(warp, mask)), (warp.lanes,)).astype(bool)
        warp.assign(slot, np.full(warp.lanes, _bits(holds & mask), np.uint64), mask)
        return mask

    return 0, run


def _vote(compiler: Compiler, statement: Vote) -> Compiled:
    check = _together(compiler, statement)
    predicate, slot, mode, span = compiler.value(statement.predicate), compiler.slot(statement.result), statement.mode, compiler.span
    result = statement.result.dtype

    def answered(holds: Array, takes_part: Array) -> Array:
        match mode:
            case "any":
                return np.asarray((holds & takes_part).any())
            case "all":
                return np.asarray((holds | ~takes_part).all())
            case "count":
                found = int((holds & takes_part).sum())
            case "ballot":
                found = sum(1 << int(lane) for lane in np.flatnonzero(holds & takes_part))
        return np.asarray(cast(np.array(found, np.uint64).astype(np.int64), INT64, result))  # 64 lanes fill all bits

    def of_warp(warp: Warp, mask: Any) -> Any:
        check(warp, mask)
        holds = np.broadcast_to(np.asarray(predicate(warp, mask)), (warp.lanes,))
        warp.assign(slot, answered(holds, mask), mask)
        return mask

    def of_block(warp: Warp, mask: Any) -> Any:
        warp.require_together(mask, span, "a vote of the block")
        holds = np.broadcast_to(np.asarray(predicate(warp, mask)), (warp.lanes,))
        _waiting(warp, span, "a vote of the block")
        ballot = warp.block.ballot
        ballot.append((holds.copy(), np.array(mask)))
        yield warp.block.join(warp, mask)
        warp.assign(slot, answered(np.concatenate([h for h, _ in ballot]), np.concatenate([m for _, m in ballot])), mask)
        if warp.block.ballot is ballot:
            warp.block.ballot = []
        return mask

    if statement.scope == "warp":
        return 0, of_warp
    if statement.scope == "block" and mode != "ballot":
        return 2, of_block
    raise InternalError(f"a vote ({mode}) of the {statement.scope}")


# ---- atomics ----


def _atomic(compiler: Compiler, statement: Atomic) -> Compiled:
    access, root, op = compiler.access(statement.buffer.dtype), statement.buffer.root, statement.op
    index = compiler.value(statement.indices[0])
    value = None if statement.value is None else compiler.value(statement.value)
    slot = None if statement.result is None else compiler.slot(statement.result)
    dtype, width = statement.buffer.dtype, statement.buffer.dtype.lanes
    acquires, releases = (statement.order in orders for orders in (("acquire", "acq_rel", "seq_cst"), ("release", "acq_rel", "seq_cst")))
    if root.space == "registers":
        raise InternalError("an atomic operation on registers")

    def run(warp: Warp, mask: Any) -> Any:
        block, memory = warp.block, warp.block.memories[root]
        where = np.asarray(index(warp, mask))
        given = None if value is None else np.asarray(value(warp, mask))
        places = warp.reach_atomic(memory, access, mask, where, reads=op not in ("store", "exchange"))
        threads = warp.chosen(mask)
        operands = np.zeros(len(places), dtype.scalar.numpy) if given is None else warp.active_vectors(mask, given, width)
        elements = memory.view(dtype)
        old = np.zeros((len(places), *elements.shape[1:]), elements.dtype)
        order = np.array(block.chance.sample(range(len(places)), len(places)))
        for chosen in rounds(places[order]):
            picked = order[chosen]
            before = elements[places[picked]]
            old[picked] = before
            if op != "load":
                elements[places[picked]] = atomic_combine(op, before, operands[picked], dtype)
        if acquires or releases or block.grid.has_fences or op == "store":
            for which in order:
                _synchronise(block, (memory, int(places[which])), int(threads[which]), op, acquires=acquires, releases=releases)
        if slot is not None:
            spread = np.zeros((warp.lanes, *old.shape[1:]), old.dtype)
            spread[threads - warp.threads[0]] = old
            warp.assign(slot, spread, mask)
        return mask

    return 1, run


def _synchronise(block: Block, key: tuple[Memory, int], thread: int, op: str, *, acquires: bool, releases: bool) -> None:
    """What was done before a release of an element is known after an acquire that reads it, also through changes of others between; what a
    store leaves there is its own lane's alone. A fence before or behind a relaxed change releases or acquires with it."""
    released, clocks = block.grid.released, block.clocks
    found = released.get(key)
    if found is not None and op != "store":
        if acquires:
            clocks.take(thread, found)
        elif block.grid.has_fences:
            block.seen[thread] = merged(block.seen.get(thread), found)
    if op == "load":
        return
    given = clocks.snapshot(thread) if releases else block.fenced.get(thread)
    kept = None if op == "store" else found
    if given is not None:
        released[key] = merged(kept, given)
    elif op == "store":
        released.pop(key, None)


# ---- matrices ----


def _matrix_load(compiler: Compiler, statement: ir.MatrixLoad) -> Compiled:
    access, root, span = compiler.access(statement.buffer.dtype), statement.buffer.root, compiler.span
    source, start, count = compiler.value(statement.source), compiler.value(statement.into.start), statement.count
    into, is_transposed, size = statement.into.buffer, statement.is_transposed, access.bytes
    touch = compiler.touching(into)

    def run(warp: Warp, mask: Any) -> Any:
        memory, offsets, threads = _rows(warp, mask, source, root, access, count, size, span)
        _check_rows(warp, memory, offsets, threads, access, is_write=False)
        rows = memory.data[offsets[:, None] + np.arange(ROW_BYTES)].view(np.uint16).reshape(count, ROWS, ROWS)
        lane = warp.numbers
        column = 2 * (lane % 4)
        for i in range(count):
            pair = (
                (rows[i, column, lane // 4], rows[i, column + 1, lane // 4])
                if is_transposed
                else (rows[i, lane // 4, column], rows[i, lane // 4, column + 1])
            )
            data = _registers(warp, mask, into, start, i, span, touch, writes=True)
            data.view(np.uint16)[:] = np.stack(pair, axis=1)
        return mask

    return 1, run


def _matrix_store(compiler: Compiler, statement: ir.MatrixStore) -> Compiled:
    access, root, span = compiler.access(statement.buffer.dtype), statement.buffer.root, compiler.span
    target, start, count = compiler.value(statement.target), compiler.value(statement.registers.start), statement.count
    source, is_transposed, size = statement.registers.buffer, statement.is_transposed, access.bytes
    touch = compiler.touching(source)

    def run(warp: Warp, mask: Any) -> Any:
        memory, offsets, threads = _rows(warp, mask, target, root, access, count, size, span)
        _check_rows(warp, memory, offsets, threads, access, is_write=True)
        rows = np.zeros((count, ROWS, ROWS), np.uint16)
        lane = warp.numbers
        column = 2 * (lane % 4)
        for i in range(count):
            words = np.ascontiguousarray(_registers(warp, mask, source, start, i, span, touch)).view(np.uint16)
            for part in range(2):
                if is_transposed:
                    rows[i, column + part, lane // 4] = words[:, part]
                else:
                    rows[i, lane // 4, column + part] = words[:, part]
        memory.data[offsets[:, None] + np.arange(ROW_BYTES)] = rows.reshape(count * ROWS, ROWS).view(np.uint8)
        return mask

    return 1, run


def _rows(
    warp: Warp, mask: Any, source: Any, root: Any, access: Access, count: int, size: int, span: Span | None
) -> tuple[Any, Array, Array]:
    """The memory, and of each row its offset in bytes and the lane that gives it."""
    warp.require_together(mask, span, "matrices moved by a warp together")
    memory = warp.block.memories[root]
    index = np.broadcast_to(np.asarray(source(warp, mask)), (warp.lanes,))[: ROWS * count].astype(np.int64)
    threads = warp.threads[: ROWS * count]
    offsets = index * size
    wrong = (offsets < 0) | (offsets + ROW_BYTES > len(memory.data))
    if wrong.any():
        raise faults.outside(span, memory.name, index[wrong], len(memory.data) // size, threads[wrong])
    odd = (memory.address + offsets) % ROW_BYTES != 0
    if odd.any():
        raise faults.misaligned(span, memory.name, ROW_BYTES, int(offsets[odd][0]) + memory.address, threads[odd])
    report = warp.block.report
    if report is not None:
        report.addresses(span, access.place, memory.name, memory.address + offsets, ROW_BYTES, np.arange(len(offsets)))
    return memory, offsets, threads


def _check_rows(warp: Warp, memory: Any, offsets: Array, threads: Array, access: Access, *, is_write: bool) -> None:
    if memory.shadow is None:
        return
    block = warp.block
    count = ROW_BYTES // memory.cell_bytes
    cells = (offsets[:, None] // memory.cell_bytes + np.arange(count)).ravel()
    who = np.repeat(threads, count)
    if is_write:
        check_write(memory, cells, who, block.clocks, block.number, access, block.places)
    else:
        check_read(memory, cells, who, block.clocks, block.number, access, warp.lanes, block.places)


def _registers(
    warp: Warp, mask: Any, buffer: Any, start: Any, matrix: int, span: Span | None, touch: Touch | None, *, writes: bool = False
) -> Array:
    """The four bytes a lane that belong to a matrix."""
    first = np.asarray(start(warp, mask))
    if first.ndim:
        raise InternalError("registers of a matrix that differ between lanes")
    size = np.dtype(buffer.dtype.scalar.numpy).itemsize
    offset = int(first) * size + 4 * matrix
    data = warp.registers[buffer.root]
    if offset < 0 or offset + 4 > data.shape[1]:
        raise faults.outside(span, buffer.name, offset // size, data.shape[1] // size, warp.threads)
    if touch is not None:
        touch(warp, slice(offset // size, -(-(offset + 4) // size)))
    if writes:
        warp.written[buffer.root][:, offset : offset + 4] = True
    return data[:, offset : offset + 4]


def _product(compiler: Compiler, statement: ir.Product) -> Compiled:
    span, form = compiler.span, statement.form
    operands = [operand_of(compiler, r) for r in (statement.a, statement.b, statement.c)]
    multiply = product(form)

    def run(warp: Warp, mask: Any) -> Any:
        warp.require_together(mask, span, "a product by a warp together")
        a, b, c = (o(warp, mask, layout.registers) for o, layout in zip(operands, (form.a_layout, form.b_layout, form.c_layout)))
        c[:] = multiply(a, b, c)
        return mask

    return 0, run


# ---- copies that land later ----


def _async_copy(compiler: Compiler, statement: ir.AsyncCopy) -> Compiled:
    access, span = compiler.access(statement.target.dtype), compiler.span
    target, source = statement.target, statement.source
    target_index, source_index = compiler.value(statement.target_index), compiler.value(statement.source_index)
    valid = None if statement.is_valid is None else compiler.value(statement.is_valid)
    size = statement.size

    def run(warp: Warp, mask: Any) -> Any:
        memories, threads = warp.block.memories, warp.chosen(mask)
        count = len(threads)
        is_valid = np.ones(count, bool) if valid is None else warp.active(mask, np.asarray(valid(warp, mask))).copy()
        parts = []
        for buffer, index, used in ((target, target_index, np.ones(count, bool)), (source, source_index, is_valid)):
            memory = memories[buffer.root]
            element = np.dtype(buffer.dtype.scalar.numpy).itemsize * buffer.dtype.lanes
            places = warp.active(mask, np.asarray(index(warp, mask))).astype(np.int64)
            offsets = places * element
            wrong = used & ((offsets < 0) | (offsets + size > len(memory.data)))
            if wrong.any():
                raise faults.outside(span, memory.name, places[wrong], len(memory.data) // element, threads[wrong])
            odd = used & ((memory.address + offsets) % size != 0)
            if odd.any():
                raise faults.misaligned(span, memory.name, size, memory.address + int(offsets[odd][0]), threads[odd])
            parts.append((memory, offsets))
        (to, to_bytes), (of, of_bytes) = parts
        warp.copies.issue(mask, of, of_bytes, to, to_bytes, size, is_valid, access)
        return mask

    return 1, run


def _commit(warp: Warp, mask: Any) -> Any:
    warp.copies.commit(mask)
    return mask


def _wait_copies(leave: int) -> Compiled:
    def run(warp: Warp, mask: Any) -> Any:
        warp.copies.wait(mask, leave)
        return mask

    return 1, run
