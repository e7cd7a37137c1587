"""Running statements: control flow by masks, scalar statements for all points at once, Maps as frames of points.

In: a body, a frame, the mask of active points. Out: the mask of the points that reach the end of the body. A point that
leaves by Break or Continue is noted in the :class:`Jumps` of its loop, one that returns is in no mask any more. The points of a Map run
in lock step, which is one of the orders that the IR allows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache

import numpy as np

from zellige.diagnostics import InternalError, catalogue, unreachable
from zellige.elements.conversion import Array
from zellige.interp import lanes
from zellige.interp.elements import atomic, reducer_update, store
from zellige.interp.expressions import evaluate, integer
from zellige.interp.frame import Frame, Place, Run, is_per_point
from zellige.interp.masks import Mask, active_points, both, either, mask_of, without
from zellige.interp.memory import Layout, Memory, storage_bytes
from zellige.interp.names import Names, names_of
from zellige.interp.privacy import PrivateBuffer, PrivateVariable, note_assignment
from zellige.interp.regions import box_of, read_box
from zellige.interp.report import RaceWatch
from zellige.interp.tile_operations import run_tile_operation
from zellige.ir.expr import Buffer, Region, Var
from zellige.ir.lanes import PRIVATE, tile_regions
from zellige.ir.stmt import (
    Alloc,
    Assert,
    Assign,
    Assume,
    Atomic,
    AtomicTile,
    Barrier,
    Bind,
    Break,
    Continue,
    Copy,
    Dialect,
    Fill,
    For,
    Gemm,
    If,
    Map,
    Print,
    Reduce,
    ReducerFinalize,
    ReducerInit,
    ReducerUpdate,
    Return,
    Scan,
    Shuffle,
    Stmt,
    Store,
    Transpose,
    Vote,
    While,
)
from zellige.records import dataclass
from zellige.runtime.failures import failed_assertion
from zellige.runtime.printing import print_line

MAXIMUM_POINTS = 1 << 18
"""So many points of a Map run at once, which bounds the memory that a Map over a large tensor takes."""

MAXIMUM_FACTS = 1 << 22
"""So many half bytes of private copies are held at once."""


@dataclass(slots=True)
class Jumps:
    """The points that left the iteration in work."""

    broken: Mask = False
    continued: Mask = False


def run_body(run: Run, frame: Frame, body: Sequence[Stmt], mask: Mask, jumps: Jumps | None) -> Mask:
    """Run ``body`` for the points of ``mask``; the points that reach its end."""
    for statement in body:
        if mask is False:
            break
        run.statement = statement
        if run.observer is not None:
            run.observer(run, frame, statement, mask)
        mask = _run(run, frame, statement, mask, jumps)
    return mask


def _run(run: Run, frame: Frame, statement: Stmt, mask: Mask, jumps: Jumps | None) -> Mask:
    match statement:
        case If():
            return _if(run, frame, statement, mask, jumps)
        case For():
            return _for(run, frame, statement, mask)
        case While():
            return _while(run, frame, statement, mask)
        case Break():
            _loop_jumps(jumps).broken = either(_loop_jumps(jumps).broken, mask)
            return False
        case Continue():
            _loop_jumps(jumps).continued = either(_loop_jumps(jumps).continued, mask)
            return False
        case Return():
            return False
        case Map():
            _map(run, frame, statement, mask)
        case Bind():
            frame.values[statement.var] = evaluate(run, frame, statement.value, mask)
            frame.undefined_variables.discard(statement.var)
        case Assign():
            assign(frame, statement.var, evaluate(run, frame, statement.value, mask), mask)
        case Store():
            indices = [evaluate(run, frame, index, mask) for index in statement.indices]
            store(run, frame, statement, indices, evaluate(run, frame, statement.value, mask), mask)
        case Atomic():
            old = atomic(run, frame, statement, mask)
            if statement.result is not None and old is not None:
                frame.values[statement.result] = old
        case ReducerUpdate():
            reducer_update(run, frame, statement, mask)
        case Alloc():
            allocate(run, frame, statement.buffer)
        case Copy() | Fill() | Gemm() | Reduce() | Scan() | Transpose() | AtomicTile() | ReducerInit():
            _tile_operation(run, frame, statement, mask)
        case Print():
            _print(run, frame, statement, mask)
        case Assert():
            holds = mask_of(evaluate(run, frame, statement.condition, mask))
            if without(mask, holds) is not False:
                raise failed_assertion(statement.span, statement.message)
        case Shuffle():
            frame.values[statement.result] = lanes.shuffle(run, frame, statement, mask)
        case Vote():
            frame.values[statement.result] = lanes.vote(run, frame, statement, mask)
        case Barrier():
            lanes.barrier(run, statement)
        case Assume() | ReducerFinalize():
            pass
        case Dialect():
            raise catalogue.E445.error(statement.span, operation=statement.op)
        case _:
            unreachable(statement)
    return mask


def _loop_jumps(jumps: Jumps | None) -> Jumps:
    if jumps is None:
        raise InternalError("Break or Continue outside of a loop")
    return jumps


def assign(frame: Frame, var: Var, value: Array, mask: Mask) -> None:
    """Another value for the active points."""
    if mask is not True:
        spread = np.asarray(mask)[..., None] if var.dtype.lanes > 1 else mask
        value = np.where(spread, value, frame.values[var])
    frame.values[var] = value
    frame.undefined_variables.discard(var)
    note_assignment(frame, var, mask)


def _if(run: Run, frame: Frame, statement: If, mask: Mask, jumps: Jumps | None) -> Mask:
    """A chain of elif is a loop here, so that its length does not matter."""
    done: Mask = False
    while True:
        condition = mask_of(evaluate(run, frame, statement.condition, mask))
        taken = both(mask, condition)
        if taken is not False:
            done = either(done, run_body(run, frame, statement.then, taken, jumps))
        mask = without(mask, condition)
        if mask is False:
            return done
        if len(statement.otherwise) != 1 or not isinstance(statement.otherwise[0], If):
            return either(done, run_body(run, frame, statement.otherwise, mask, jumps))
        statement = statement.otherwise[0]
        run.statement = statement


def _for(run: Run, frame: Frame, statement: For, mask: Mask) -> Mask:
    start, stop, step = (evaluate(run, frame, bound, mask) for bound in (statement.start, statement.stop, statement.step))
    native = statement.var.dtype.numpy
    left: Mask = False
    live = mask
    if start.ndim == stop.ndim == step.ndim == 0:
        for value in range(int(start), int(stop), int(step)) if int(step) else ():
            frame.values[statement.var] = np.array(value, np.int64 if value < 1 << 63 else np.uint64).astype(native)
            live, left = _iteration(run, frame, statement, live, left)
            if live is False:
                break
        return either(live, left)
    bounds = [np.broadcast_to(bound, frame.count).tolist() for bound in (start, stop, step)]
    counts = [-((first - last) // by) if by else 0 for first, last, by in zip(*bounds)]
    trips = np.array([min(count, 1 << 62) for count in counts])  # an inactive point's bounds may be anything
    ended: Mask = False
    for trip in range(int(trips.max(initial=0))):
        goes_on = mask_of(np.asarray(trips > trip))
        ended, live = either(ended, without(live, goes_on)), both(live, goes_on)
        if live is False:
            break
        values = start.astype(np.int64) + step.astype(np.int64) * trip
        frame.values[statement.var] = np.broadcast_to(values, frame.count).astype(native)
        live, left = _iteration(run, frame, statement, live, left)
    return either(either(live, ended), left)


def _while(run: Run, frame: Frame, statement: While, mask: Mask) -> Mask:
    left: Mask = False
    ended: Mask = False
    live = mask
    while live is not False:
        run.statement = statement
        if run.observer is not None:
            run.observer(run, frame, statement, live)
        goes_on = mask_of(evaluate(run, frame, statement.condition, live))
        ended, live = either(ended, without(live, goes_on)), both(live, goes_on)
        if live is not False:
            live, left = _iteration(run, frame, statement, live, left)
    return either(ended, left)


def _iteration(run: Run, frame: Frame, statement: For | While, live: Mask, left: Mask) -> tuple[Mask, Mask]:
    """One iteration: the points that go on, and all that have left the loop."""
    jumps = Jumps()
    end = run_body(run, frame, statement.body, live, jumps)
    return either(end, jumps.continued), either(left, jumps.broken)


def allocate(run: Run, frame: Frame, buffer: Buffer) -> None:
    """Fresh storage: of each lane or point for private spaces, else of the block. A view has no storage of its own."""
    if buffer.alias is not None:
        return
    count = frame.count if buffer.space in PRIVATE else 1
    shape = tuple(integer(run, frame, extent, True, what=f"an extent of {buffer.label}") for extent in buffer.shape)
    layout = Layout.dense(shape)
    if buffer.strides is not None:
        strides = tuple(integer(run, frame, stride, True, what=f"a stride of {buffer.label}") for stride in buffer.strides)
        layout = Layout(shape=shape, strides=strides)
    _check_size(buffer, count * storage_bytes(layout.span, buffer.dtype))
    memory = Memory.fresh(layout.span, buffer.dtype, copies=count, tracks_undefined=run.report.undefined)
    frame.places[buffer] = Place(memory=memory, copies=np.arange(count) if count > 1 else 0, layouts={buffer: layout})


def _check_size(buffer: Buffer, needed: int) -> None:
    """E301 where a tile alone is larger than this machine's memory, which would end the process."""
    limit = _machine_bytes()
    if needed > limit:
        space, tiles, fits = "this machine's memory", f"{buffer.label} {needed}", f"make {buffer.label} smaller"
        raise catalogue.E301.error(buffer.span, space=space, target=lanes.TARGET, limit=limit, needed=needed, tiles=tiles, fits=fits)


@cache
def _machine_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not known here: NumPy says when there is too little
        return sys.maxsize


def names(run: Run, statement: Stmt) -> Names:
    """The outer names of a statement, found once a run."""
    found = run.names.get(id(statement))
    if found is None:
        found = run.names[id(statement)] = names_of(statement)
    return found


def _is_lanewise(run: Run, statement: Stmt) -> bool:
    """Whether each lane does the operation for itself: it touches a lane's own buffer, or its operands differ between lanes."""
    found = run.lanewise.get(id(statement))
    if found is None:
        dependence = run.dependence
        if isinstance(statement, Map) or tile_regions(statement):
            found = dependence is not None and dependence.is_private(statement)
        else:
            named = names(run, statement)
            found = any(root.space in PRIVATE for root in named.buffers)
            found |= dependence is not None and any(dependence.is_lane_dependent(var) for var in named.reads)
        run.lanewise[id(statement)] = found
    return found


def _tile_operation(run: Run, frame: Frame, statement: Stmt, mask: Mask) -> None:
    """For the block once, or for each lane or point where it is theirs."""
    if frame.count == 1:
        run_tile_operation(run, frame, statement, mask)
    elif frame.kind == "lanes" and not _is_lanewise(run, statement):
        run_tile_operation(run, frame.single(int(active_points(mask, frame.count)[0]), names(run, statement)), statement, True)
    elif isinstance(statement, AtomicTile) or _is_ragged(run, frame, statement, mask):
        for point in active_points(mask, frame.count):
            run_tile_operation(run, frame.single(int(point), names(run, statement)), statement, True)
    else:
        run_tile_operation(run, frame, statement, mask)


def _is_ragged(run: Run, frame: Frame, statement: Stmt, mask: Mask) -> bool:
    """Whether an extent of a region differs between points."""
    for extent in (extent for region in tile_regions(statement) for extent in region.extents):
        value = evaluate(run, frame, extent, mask)
        if value.ndim and len(set(value[active_points(mask, frame.count)].tolist())) > 1:
            return True
    return False


def _print(run: Run, frame: Frame, statement: Print, mask: Mask) -> None:
    if isinstance(statement.value, Region):
        if frame.kind == "lanes" and not _is_lanewise(run, statement):
            frame, mask = frame.single(int(active_points(mask, frame.count)[0]), names(run, statement)), True
        for point in active_points(mask, frame.count):
            single = frame.single(int(point), names(run, statement))
            print_line(statement.message, read_box(run, single, box_of(run, single, statement.value, True), True)[0])
        return
    value = None if statement.value is None else evaluate(run, frame, statement.value, mask)
    for point in active_points(mask, frame.count):
        if value is None or statement.value is None:
            print_line(statement.message, None)
        else:
            print_line(statement.message, value[point] if value.ndim > (statement.value.dtype.lanes > 1) else value)


def _map(run: Run, frame: Frame, statement: Map, mask: Mask) -> None:
    """Every active point of the frame becomes as many points as the Map has, which run together in chunks."""
    named = names(run, statement)
    if frame.kind == "lanes" and frame.count > 1 and not _is_lanewise(run, statement):
        frame, mask = frame.single(int(active_points(mask, frame.count)[0]), named), True
    active = active_points(mask, frame.count)
    sizes = [np.broadcast_to(evaluate(run, frame, extent, mask), frame.count)[active].astype(np.int64) for extent in statement.extents]
    extents = tuple(max(0, int(size.max())) for size in sizes)
    total = int(np.prod(extents))
    buffers = {root: PrivateBuffer(frame.places[root]) for root in named.stored if root.space in PRIVATE}
    variables = [PrivateVariable(var, frame) for var in named.assigned]
    watch = RaceWatch(named.changed - buffers.keys()) if run.report.races and frame.kind != "lanes" else None
    chunk = max(1, min(MAXIMUM_POINTS, *(MAXIMUM_FACTS // max(1, private.facts_a_point) for private in buffers.values()), MAXIMUM_POINTS))
    for first in range(0, total * len(active), chunk):
        numbers = np.arange(first, min(first + chunk, total * len(active)))
        parents = active[numbers // total]
        child = _points(frame, named, parents, buffers, watch, first)
        child.assignments = {private.var: np.zeros(child.count, bool) for private in variables}
        inside: Mask = True
        for var, index, size in zip(statement.axes, np.unravel_index(numbers % total, extents), sizes):
            child.values[var] = index.astype(var.dtype.numpy)
            if (size != size[0]).any():
                inside = both(inside, mask_of(np.asarray(index < size[numbers // total])))
        run_body(run, child, statement.body, inside, None)
        for root, private in buffers.items():
            private.collect(child.places[root], parents)
        for private_variable in variables:
            private_variable.collect(child, parents)
    for private in buffers.values():
        private.finish()
    for private_variable in variables:
        private_variable.finish()
    if watch is not None:
        watch.report(run.findings)


def _points(frame: Frame, named: Names, parents: Array, buffers: dict[Buffer, PrivateBuffer], watch: RaceWatch | None, first: int) -> Frame:
    """A frame of points whose parents are given, with what the Map's body names."""
    values = {var: value[parents] if is_per_point(value, var) else value for var, value in frame.named_values(named)}
    places = {
        root: buffers[root].of_points(parents) if root in buffers else frame.places[root].of_points(parents) for root in named.buffers
    }
    return Frame(
        kind="points", count=len(parents), values=values, places=places, watch=watch, first_point=first,
        undefined_variables=set(frame.undefined_variables),
    )  # fmt: skip
