"""Maps (T.Parallel and every elementwise tile operation) as loops over vectors of adjacent points.

In: a Map and what emits a body. Out: nested loops, the innermost over one axis in steps of several points where the body allows it.

The vector axis is the one along which most accesses are adjacent. A body that cannot be masked (loops whose trip count differs from point
to point, jumps, output, nested Maps) is emitted for one point at a time. Where bounds cannot be proven but can be tested once before the
loops, the body is emitted twice: without and with tests of each access.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from zellige.analysis.forms import ZERO, Form
from zellige.ir.expr import Buffer, Var
from zellige.ir.stmt import Bind, Map, Store
from zellige.ir.traverse import walk
from zellige_cpu import factors, next_cells, streaming
from zellige_cpu.clipped import clipped
from zellige_cpu.context import Context, EmitBody, Lanes
from zellige_cpu.folds import SHORT_ROW, folding, waiting
from zellige_cpu.fusion import Fold, folds_of
from zellige_cpu.indexes import conjunction, i64, iota, is_nonnegative, uniform
from zellige_cpu.map_facts import Access, declared, is_available, run_time_tests
from zellige_cpu.values import Value, constant
from zellige_cpu.vector_axis import Shape, choose_shape


def emit_map(ctx: Context, statement: Map, emit_body: EmitBody) -> None:
    """The Map at the current place, which handles one point itself."""
    extents = [ctx.freeze(ctx, extent) for extent in statement.extents]
    scope, found = declared(ctx, statement, extents)
    nodes = list(walk(statement))
    shape = choose_shape(ctx, statement, nodes, extents, found.accesses)
    bounds = dict.fromkeys(bound for access in found.accesses for bound in access.open_bounds)
    granted, tests = run_time_tests(ctx, scope, statement, nodes, bounds)
    holding, conditions = run_time_tests(ctx, scope, statement, nodes, found.conditions, drops_never=True)

    def whole() -> None:
        _emit_whole(ctx, statement, extents, shape, found.accesses, emit_body)

    def edge() -> None:
        stored = [access.open_bounds for access in found.accesses if access.is_store]
        looped = [number for number, extent in enumerate(extents) if number != shape.axis and extent.constant != 1]
        clip = clipped(ctx, statement, looped, stored, lambda atom: is_available(ctx, atom))
        narrow = Shape(shape.axis, shape.narrow_lanes, shape.narrow_lanes, clip)
        outer, ctx.granted = ctx.granted, ctx.granted | clip.holding
        _emit_nest(ctx, statement, extents, narrow, emit_body)
        ctx.granted = outer

    needed = factors.is_needed(ctx, statement)
    outer, ctx.asks = ctx.asks, next_cells.taken(ctx, statement.axes, extents)
    with ExitStack() as enclosing:
        if needed is not None:
            enclosing.enter_context(ctx.nested())
            enclosing.enter_context(ctx.fn.when(needed))
        _versions(ctx, tests, granted, lambda: _versions(ctx, conditions, holding, whole, whole), edge)
    ctx.asks = outer
    next_cells.note(ctx, statement.axes, extents, ((x.buffer, x.forms) for x in found.accesses if not x.is_store))


def _versions(
    ctx: Context, tests: tuple[Form, ...], granted: frozenset[Form], inside: Callable[[], None], edge: Callable[[], None]
) -> None:
    """What ``inside`` emits where all ``tests`` are at least 0, which grants its forms; what ``edge`` emits otherwise."""
    fn = ctx.fn
    outer = ctx.granted
    if not tests:
        ctx.granted = outer | granted
        inside()
        ctx.granted = outer
        return
    fast, slow, end = fn.fresh_label("inside"), fn.fresh_label("edge"), fn.fresh_label("mapped")
    passed = conjunction(ctx, *[is_nonnegative(ctx, test) for test in tests]) or constant("i1", True)
    stretches = fn.reserve(), fn.reserve()
    fn.branch_if(passed, fast, slow)
    fn.label(fast)
    with ctx.nested(stretches[0]):
        ctx.granted = outer | granted
        inside()
        ctx.granted = outer
    fn.branch(end)
    fn.label(slow)
    with ctx.nested(stretches[1]):
        edge()
    fn.label(end)


def _emit_whole(
    ctx: Context, statement: Map, extents: list[Form], shape: Shape, accesses: list[Access], emit_body: EmitBody
) -> None:
    """The loops; twice where results may be stored past the caches if they are large."""
    tensors, test = _streams(ctx, statement, shape, accesses)
    if test is None:
        _emit_nest(ctx, statement, extents, shape, emit_body)
        return
    fn = ctx.fn
    large, small, end = fn.fresh_label("large"), fn.fresh_label("small"), fn.fresh_label("written")
    stretches = fn.reserve(), fn.reserve()
    fn.branch_if(test, large, small)
    outer = ctx.streaming
    for label, stretch, streaming_here in ((large, stretches[0], outer | tensors), (small, stretches[1], outer)):
        fn.label(label)
        with ctx.nested(stretch):
            ctx.streaming = streaming_here
            _emit_nest(ctx, statement, extents, shape, emit_body)
            ctx.streaming = outer
        fn.branch(end)
    fn.label(end)


def _streams(ctx: Context, statement: Map, shape: Shape, accesses: list[Access]) -> tuple[frozenset[Buffer], Value | None]:
    """The tensors that the Map writes and does not read, and the test under which it writes them past the caches; None: it never does."""
    none: tuple[frozenset[Buffer], Value | None] = (frozenset(), None)
    if not ctx.may_stream or ctx.lanes is not None or shape.axis is None or shape.lanes == 1:
        return none
    if not all(isinstance(s, (Bind, Fold, Store)) for s in statement.body):
        return none
    loaded = {access.buffer.root for access in accesses if not access.is_store}
    stores = [access for access in accesses if access.is_store and ctx.storages[access.buffer].is_global]
    if not stores or any(access.buffer.root in loaded for access in stores):
        return none
    axis = statement.axes[shape.axis]
    tests = [streaming.condition(ctx, access.buffer, access.forms, statement.axes, axis, shape.lanes) for access in stores]
    if any(test is None for test in tests):
        return none
    return frozenset(access.buffer for access in stores), conjunction(ctx, *tests)


def _emit_nest(ctx: Context, statement: Map, extents: list[Form], shape: Shape, emit_body: EmitBody) -> None:
    order = [i for i in range(len(extents)) if i != shape.axis]
    _emit_axes(ctx, statement, extents, order, shape, emit_body)


def _emit_axes(
    ctx: Context, statement: Map, extents: list[Form], order: list[int], shape: Shape, emit_body: EmitBody, *, is_folding: bool = False
) -> None:
    folds = folds_of(statement.body)
    if folds and not is_folding and len(order) == (0 if shape.axis is not None else 1):  # all that is left is the last axis
        with folding(ctx, folds):
            _emit_axes(ctx, statement, extents, order, shape, emit_body, is_folding=True)
    elif order:
        axis, extent = statement.axes[order[0]], extents[order[0]]
        if extent.constant == 1:
            _single(ctx, axis)
            _emit_axes(ctx, statement, extents, order[1:], shape, emit_body, is_folding=is_folding)
            return
        length = None if shape.axis is None else extents[shape.axis].constant
        is_row = bool(folds) and not is_folding and len(order) == 1 and length is not None and length <= SHORT_ROW
        low, high = shape.clip.range(ctx, order[0], extent)
        with waiting(ctx, folds if is_row else (), axis, extent), ctx.nested(), ctx.fn.loop(low, high) as loop:
            ctx.scope.add_variable(axis, ZERO, extent - 1)
            ctx.set_index(axis, loop.index)
            _emit_axes(ctx, statement, extents, order[1:], shape, emit_body, is_folding=is_folding)
    elif shape.axis is None:
        with ctx.nested():
            emit_body(ctx, statement.body)
    else:
        _emit_vectors(ctx, statement, statement.axes[shape.axis], extents[shape.axis], shape, emit_body)


def _single(ctx: Context, axis: Var) -> None:
    ctx.scope.add_variable(axis, ZERO, ZERO)
    ctx.set_index(axis, i64(0))


def _emit_vectors(ctx: Context, statement: Map, axis: Var, extent: Form, shape: Shape, emit_body: EmitBody) -> None:
    size = extent.constant
    if size is None:
        _dynamic_vectors(ctx, statement, axis, extent, shape, emit_body)
        return
    whole = size // shape.lanes * shape.lanes
    if whole == shape.lanes:
        _vector(ctx, statement, axis, extent, i64(0), shape.lanes, None, emit_body)
    elif whole:
        with ctx.nested(), ctx.fn.loop(i64(0), i64(whole), shape.lanes) as loop:
            _vector(ctx, statement, axis, extent, loop.index, shape.lanes, None, emit_body)
    rest = size - whole
    if rest == 1:  # a scalar: a vector of one lane is another type
        with ctx.nested():
            ctx.scope.add_variable(axis, ZERO, extent - 1)
            ctx.set_index(axis, i64(whole))
            emit_body(ctx, statement.body)
    elif rest:
        lanes = 1 << (rest - 1).bit_length()
        mask = None if lanes == rest else ctx.fn.compare("slt", iota("i8", lanes), constant("i8", rest, lanes))
        _vector(ctx, statement, axis, extent, i64(whole), lanes, mask, emit_body)


def _dynamic_vectors(ctx: Context, statement: Map, axis: Var, extent: Form, shape: Shape, emit_body: EmitBody) -> None:
    fn = ctx.fn
    end = fn.intrinsic("llvm.smax", uniform(ctx, extent), i64(0))  # a region may have fewer elements than none
    whole = fn.binary("sub", end, fn.binary("and", end, i64(shape.lanes - 1)))
    with ctx.nested(), fn.loop(i64(0), whole, shape.lanes) as loop:
        _vector(ctx, statement, axis, extent, loop.index, shape.lanes, None, emit_body)
    lanes = shape.narrow_lanes
    with ctx.nested(), fn.loop(whole, end, lanes) as loop:
        left = fn.intrinsic("llvm.smin", fn.binary("sub", end, loop.index), i64(lanes))
        mask = fn.compare("slt", iota("i8", lanes), fn.splat(fn.convert("trunc", left, "i8"), lanes))
        _vector(ctx, statement, axis, extent, loop.index, lanes, mask, emit_body)


def _vector(
    ctx: Context, statement: Map, axis: Var, extent: Form, base: Value, lanes: int, mask: Value | None, emit_body: EmitBody
) -> None:
    """The body for ``lanes`` points from ``base`` on, those of ``mask`` where some lie beyond the end."""
    with ctx.nested():
        ctx.scope.add_variable(axis, ZERO, extent - 1)
        ctx.set_index(axis, base)
        if lanes == 1:  # a vector of one lane is no vector
            emit_body(ctx, statement.body)
            return
        outer = ctx.mask, ctx.has_idle_lanes
        ctx.lanes, ctx.mask, ctx.has_idle_lanes = Lanes(axis, lanes), mask, mask is not None
        if mask is None:
            next_cells.ask(ctx, lanes)
        emit_body(ctx, statement.body)
        ctx.lanes = None
        ctx.mask, ctx.has_idle_lanes = outer
