"""Statements that change single elements: stores, atomics and reducer updates, for all points of a frame at once.

In: a statement, a frame, the mask of active points. Out: changed buffers; of an atomic operation the elements before it.
Points that meet at one element act one after the other, in their order.
"""

from __future__ import annotations

import numpy as np

from zellige.elements import arithmetic
from zellige.elements.conversion import Array, cast, codes
from zellige.elements.operations import rounds
from zellige.interp.expressions import Access, evaluate, locate, log_access, log_blocks, per_point, report_outside, report_undefined
from zellige.interp.frame import Frame, Run
from zellige.interp.masks import Mask
from zellige.interp.tile_operations import atomic_combine, combiner
from zellige.ir.reductions import reduction_dtype
from zellige.ir.stmt import Atomic, ReducerUpdate, Store


def _inside(run: Run, frame: Frame, access: Access, value: Array, mask: Mask) -> tuple[Array, Array, Array]:
    """For the active points inside the buffer: their numbers, positions and values; a vector's lanes along the last axis."""
    report_outside(run, frame, access, mask)
    lanes = access.buffer.dtype.lanes
    trailing = int(lanes > 1)
    points, (inside,) = per_point(frame, mask, access.inside)
    _, (positions, values) = per_point(frame, mask, access.positions, value, trailing=trailing)
    if inside.all():
        return points, positions, values
    return points[inside], positions[inside], values[inside]


def store(run: Run, frame: Frame, statement: Store, indices: list[Array], value: Array, mask: Mask) -> None:
    """``buffer[indices] = value`` inside the buffer."""
    access = locate(run, frame, statement.buffer, indices)
    memory, dtype = access.place.memory, statement.buffer.dtype
    points, positions, values = _inside(run, frame, access, value, mask)
    if run.report.races:
        if frame.kind == "lanes":
            _report_lanes(run, access, points, positions, values)
        log_access(run, frame, access.buffer, memory, access.layout, positions.ravel(), np.repeat(points, dtype.lanes), "write")
    log_blocks(run, access, positions, "write", values)
    memory.write(positions, values, dtype)


def _report_lanes(run: Run, access: Access, points: Array, positions: Array, values: Array) -> None:
    """Lanes of one statement that write different values to one element."""
    statement = run.statement
    if statement is None or len(points) < 2:
        return
    dtype = access.buffer.dtype
    first = positions if dtype.lanes == 1 else positions[:, 0]
    bits = codes(values, dtype.scalar).reshape(len(points), -1)
    order = np.argsort(first, kind="stable")
    is_race = (first[order][1:] == first[order][:-1]) & (bits[order][1:] != bits[order][:-1]).any(axis=1)
    for place in np.flatnonzero(is_race)[:1]:
        one, other = points[order[place]], points[order[place + 1]]
        element = access.layout.index_of(int(first[order[place]]) // dtype.lanes)
        run.findings.race(statement, access.buffer, element, f"lanes {one} and {other}, which store different values in one statement")


def atomic(run: Run, frame: Frame, statement: Atomic, mask: Mask) -> Array | None:
    """The operation for every active point; the elements before it where the statement has a result."""
    indices = [evaluate(run, frame, index, mask) for index in statement.indices]
    access = locate(run, frame, statement.buffer, indices)
    memory, dtype = access.place.memory, statement.buffer.dtype
    zero = np.zeros((frame.count, dtype.lanes) if dtype.lanes > 1 else frame.count, np.int8).astype(
        dtype.numpy if dtype.lanes == 1 else dtype.scalar.numpy
    )
    value = zero if statement.value is None else evaluate(run, frame, statement.value, mask)
    points, positions, values = _inside(run, frame, access, value, mask)
    log_access(run, frame, access.buffer, memory, access.layout, positions.ravel(), np.repeat(points, dtype.lanes), "atomic")
    log_blocks(run, access, positions, "atomic")
    if statement.op not in ("store", "exchange"):
        report_undefined(run, memory, access.buffer, access.layout, positions.ravel())
    old = zero
    for chosen in rounds(positions if dtype.lanes == 1 else positions[:, 0]):
        before = memory.read(positions[chosen], dtype)
        old[points[chosen]] = before
        if statement.op != "load":
            memory.write(positions[chosen], atomic_combine(statement.op, before, values[chosen], dtype), dtype)
    if statement.result is None:
        return None
    return old if frame.count > 1 else old[0]


def reducer_update(run: Run, frame: Frame, statement: ReducerUpdate, mask: Mask) -> None:
    """``buffer[indices] = op(buffer[indices], value)`` for every active point; float32 between the updates of one statement."""
    indices = [evaluate(run, frame, index, mask) for index in statement.indices]
    access = locate(run, frame, statement.buffer, indices)
    memory, dtype = access.place.memory, statement.buffer.dtype
    points, positions, values = _inside(run, frame, access, evaluate(run, frame, statement.value, mask), mask)
    log_access(run, frame, access.buffer, memory, access.layout, positions, points, "atomic")
    wide = arithmetic.wide_dtype(reduction_dtype(dtype, dtype))
    operands = cast(values, dtype, wide)
    if statement.op in ("absmax", "abssum"):
        operands = np.abs(operands)
    elements, which = np.unique(positions, return_inverse=True)
    total = cast(memory.read(elements, dtype), dtype, wide)
    if statement.op in ("any", "all"):
        operands, total = operands != 0, total != 0
    combiner(statement.op, nan_propagate=False).at(total, which.reshape(-1), operands)
    memory.write(elements, cast(total.astype(wide.numpy), wide, dtype), dtype)
