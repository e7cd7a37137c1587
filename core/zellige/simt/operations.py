"""Tile operations: by the lanes of the block together, or by a lane alone.

In: tile operations of the tile IR and the context. Out: thread-level statements in ``ctx.code``. An operation for which there is no form of
its own is a Map, whose points are shared out among the lanes; inside a point, and on a lane's own data, it is loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from zellige.diagnostics import unreachable
from zellige.ir.expr import Const, Load, Var, constant_value
from zellige.ir.stmt import (
    Alloc,
    AtomicTile,
    Copy,
    Fill,
    For,
    Gemm,
    Map,
    Reduce,
    ReducerInit,
    Scan,
    Serial,
    Stmt,
    StmtNode,
    Store,
    TileOperation,
    Transpose,
)
from zellige.ir.traverse import rebuilt, walk
from zellige.passes import tile_operations
from zellige.simt import async_products, box_stores, elements, kept_rows, lane_products, lanes, maps, products, reductions, touches
from zellige.simt.context import Context
from zellige.simt.homes import LaneHome
from zellige.simt.ir import Opaque

Operation: TypeAlias = TileOperation | ReducerInit
"""What a block does together, or a lane alone."""


def emit_operation(ctx: Context, statement: Operation) -> None:
    """A tile operation: by the whole block, or by the lane alone where it is inside a point or moves a lane's own data."""
    if ctx.point is not None or lanes.is_private(ctx, statement) or _changes_copies(ctx, statement):
        _sequential(ctx, statement)
        return
    touches.touch_loads(ctx, statement)  # elements in its own expressions: where a region begins, whether a product begins anew
    match statement:
        case Gemm():
            tiling = ctx.tilings.get(id(statement))
            if tiling is not None and tiling.form.is_asynchronous:
                async_products.start(ctx, statement, tiling)
                async_products.wait(ctx, 0, statement.span)
                return
            if tiling is not None:
                emit_product = lane_products.emit_gemm if tiling.form.name == lane_products.MULTIPLY_ADD else products.emit_gemm
                emit_product(ctx, statement, tiling)
                return
            written = tile_operations.gemm_as_map(statement)
            ctx.emit_body(ctx, written[:-1])
            _collective(ctx, written[-1], statement)
        case Reduce():
            if ctx.threads % ctx.lanes or not all(isinstance(constant_value(e), int) for e in statement.src.extents):
                _collective(ctx, tile_operations.reduce_as_map(statement), statement)
                return
            touches.touch(ctx, statement.reads(), ())
            reductions.emit_reduce(ctx, statement)
        case Scan():
            _collective(ctx, tile_operations.scan_as_map(statement), statement)
        case Fill() | ReducerInit():
            fill = statement if isinstance(statement, Fill) else tile_operations.reducer_fill(statement)
            written = tile_operations.fill_as_map(fill)
            ctx.emit_body(ctx, written[:-1])
            _collective(ctx, ctx.as_maps.get(id(statement), written[-1]), statement, values=written[-1])
        case Copy() if id(statement) in ctx.box_stores and box_stores.emit(ctx, statement):
            return
        case Copy():
            with kept_rows.reading(ctx, statement):
                _collective(ctx, ctx.as_maps.get(id(statement)) or tile_operations.copy_as_map(statement), statement)
        case Transpose():
            _collective(ctx, ctx.as_maps.get(id(statement)) or tile_operations.copy_as_map(statement), statement)
        case AtomicTile():
            _collective(ctx, ctx.as_maps.get(id(statement)) or tile_operations.atomic_as_map(statement), statement)
        case Map():
            _collective(ctx, statement, statement)
        case _:
            unreachable(statement)


def _changes_copies(ctx: Context, statement: Stmt) -> bool:
    """Whether every lane must make all points because each holds a copy of what is written."""
    if ctx.has_lanes:
        return False
    inside = {node.buffer for node in walk(statement) if isinstance(node, Alloc)}
    written = {r.buffer.root for node in walk(statement) if isinstance(node, StmtNode) for r in node.writes()}
    return any(isinstance(ctx.homes.get(root), LaneHome) for root in written - inside)


def _collective(ctx: Context, written: Stmt, statement: Stmt, values: Stmt | None = None) -> None:
    """A Map that stands for ``statement``, shared out among the lanes."""
    assert isinstance(written, Map)
    if values is not None and isinstance(values, Map) and values is not written:
        written = rebuilt(written, body=tuple(_same_value(a, b) for a, b in zip(written.body, values.body)))
    written = _with_read_extents(ctx, written)
    touches.touch_map(ctx, written)
    with ctx.code.quiet():
        maps.emit_map(ctx, written, identity=id(statement))
    _keep_apart(ctx, written)


def _keep_apart(ctx: Context, written: Map) -> None:
    """Blocks of registers that a product is about to add to are filled each for itself: a compiler that sees them equal, as masks of
    different rows may be, gives them the same registers and then has to wait for the first product before it copies for the second."""
    read = {node.buffer.root for node in walk(written) if isinstance(node, Load)}
    filled = {s.buffer.root for s in written.body if isinstance(s, Store)} & ctx.sums_in_parts - read
    homes = [ctx.homes[root] for root in sorted(filled, key=lambda root: root.name)]
    if homes and ctx.machine.hoists:
        ctx.code.emit(Opaque(of=tuple(home.memory for home in homes), span=written.span))


def _with_read_extents(ctx: Context, written: Map) -> Map:
    """Extents that depend on elements are read once, before the points may change them."""
    roots = {load.buffer.root for extent in written.extents for load in touches.loads_of(extent)}
    if not roots:
        return written
    touches.touch_roots(ctx, roots, set(), set(), written.span)
    extents = []
    for extent in written.extents:
        named = ctx.value("extent", elements.value_of(ctx, extent))
        if isinstance(named, Var) and touches.loads_of(extent):
            ctx.scope.add_data_variable(named)
        extents.append(named)
    return rebuilt(written, extents=tuple(extents))


def _same_value(own: Stmt, other: Stmt) -> Stmt:
    if isinstance(own, Store) and isinstance(other, Store):
        return rebuilt(own, value=other.value)
    return own


def _sequential(ctx: Context, statement: Operation) -> None:
    """All points of an operation one after the other, by this lane."""
    match statement:
        case Map():
            emit_loops(ctx, statement)
        case Copy() | Transpose():
            emit_loops(ctx, tile_operations.copy_as_map(statement))
        case AtomicTile():
            emit_loops(ctx, tile_operations.atomic_as_map(statement))
        case Fill() | ReducerInit():
            fill = statement if isinstance(statement, Fill) else tile_operations.reducer_fill(statement)
            _all_loops(ctx, tile_operations.fill_as_map(fill))
        case Gemm():
            _all_loops(ctx, tile_operations.gemm_as_map(statement))
        case Reduce():
            emit_loops(ctx, tile_operations.reduce_as_map(statement))
        case Scan():
            emit_loops(ctx, tile_operations.scan_as_map(statement))
        case _:
            unreachable(statement)


def _all_loops(ctx: Context, statements: Sequence[Stmt]) -> None:
    for statement in statements:
        if isinstance(statement, Map):
            emit_loops(ctx, statement)
        else:
            ctx.emit_body(ctx, (statement,))


def emit_loops(ctx: Context, written: Map) -> None:
    """The points of a Map one after the other."""
    body: tuple[Stmt, ...] = written.body
    for axis, extent in reversed(list(zip(written.axes, written.extents))):
        zero, one = Const(value=0, dtype=axis.dtype), Const(value=1, dtype=axis.dtype)
        stop = extent if extent.dtype == axis.dtype else tile_operations.converted(extent, axis.dtype)
        body = (For(var=axis, start=zero, stop=stop, step=one, kind=Serial(), body=body, span=written.span),)
    ctx.emit_body(ctx, body)
