"""Statements in the order of a role's program: control flow, scalars, channels, and what goes to the modules of tile operations.

In: the body of a role (tile IR and plan statements) and the context. Out: thread-level statements in ``ctx.code``.

Where the launch has no lanes of its own, every lane runs the block's scalar statements and holds its scalars; what changes memory that
lanes share is done by one lane. Where the author counts lanes, each runs the statements for itself. Inside a Map the code is the point's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from zellige.analysis.forms import is_index_dtype
from zellige.diagnostics import catalogue, unreachable
from zellige.ir.expr import BOOL, INT32, Binary, Buffer, Compare, Const, Expr, Load, Region, Unary, Var, constant_value
from zellige.ir.lanes import PRIVATE
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
    Serial,
    Shuffle,
    Stmt,
    StmtNode,
    Store,
    TileOperation,
    Transpose,
    Unrolled,
    Vote,
    While,
)
from zellige.ir.traverse import loads_in, rebuilt, walk
from zellige.passes import tile_operations
from zellige.plan.facts import leaves_early, statements_in
from zellige.plan.nodes import Acquire, Get, Issue, PlanStmt, Put, Release, Slotted, Turn, Wait
from zellige.simt import async_products, box_stores, channels, copies, elements, lane_products, lanes, maps, products, reductions
from zellige.simt.code import Declared
from zellige.simt.context import Context
from zellige.simt.distribution import number
from zellige.simt.homes import GlobalHome, LaneHome, SharedHome
from zellige.simt.ir import LANE, THREAD, Opaque
from zellige.simt.written_out import is_written_out

SHAREABLE = (GlobalHome, SharedHome)


Operation: TypeAlias = TileOperation | ReducerInit
"""What a block does together, or a lane alone."""


def emit_body(ctx: Context, body: Sequence[Any]) -> None:
    """The statements one after the other."""
    for statement in body:
        emit(ctx, statement)


def emit(ctx: Context, statement: Stmt | PlanStmt) -> None:
    """One statement of the tile IR or the plan. Raises E410 for an operation of another target."""
    match statement:
        case Acquire() | Put() | Get() | Release() | Issue() | Wait() | Turn() | Slotted():
            channels.emit(ctx, statement)
        case Alloc(buffer=buffer):
            _allocate(ctx, buffer)
        case Copy() | Fill() | Transpose() | AtomicTile() | Map() | ReducerInit() | Gemm() | Reduce() | Scan():
            emit_operation(ctx, statement)
        case ReducerUpdate():
            _update(ctx, statement)
        case ReducerFinalize():
            ctx.code.touch(reads=(statement.buffer.root,), writes=(statement.buffer.root,), span=statement.span)
        case Bind() | Assign():
            _scalar(ctx, statement)
        case Store():
            _store(ctx, statement)
        case Atomic():
            _atomic(ctx, statement)
        case If():
            _if(ctx, statement)
        case For():
            _for(ctx, statement)
        case While():
            _while(ctx, statement)
        case Break() | Continue() | Return():
            ctx.code.emit(statement)
        case Assume(condition=condition):
            ctx.scope.assume(condition)
        case Print():
            _print(ctx, statement)
        case Assert():
            _touch_loads(ctx, statement)
            condition = elements.value_of(ctx, statement.condition)
            ctx.code.emit(rebuilt(statement, condition=condition))
        case Barrier() | Shuffle() | Vote():
            _touch_loads(ctx, statement)
            lanes.emit(ctx, statement)
        case Dialect():
            raise catalogue.E410.error(statement.span, target=ctx.machine.capabilities.target, operation=statement.op)
        case _:
            unreachable(statement)


# ---- tile operations ----


def emit_operation(ctx: Context, statement: Operation) -> None:
    """A tile operation: by the whole block, or by the lane alone where it is inside a point or moves a lane's own data."""
    if ctx.point is not None or lanes.is_private(ctx, statement) or _changes_copies(ctx, statement):
        _sequential(ctx, statement)
        return
    _touch_loads(ctx, statement)  # elements in its own expressions: where a region begins, whether a product begins anew
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
            emit_body(ctx, written[:-1])
            _collective(ctx, written[-1], statement)
        case Reduce():
            if ctx.threads % ctx.lanes or not all(isinstance(constant_value(e), int) for e in statement.src.extents):
                _collective(ctx, tile_operations.reduce_as_map(statement), statement)
                return
            _touch(ctx, statement.reads(), ())
            reductions.emit_reduce(ctx, statement)
        case Scan():
            _collective(ctx, tile_operations.scan_as_map(statement), statement)
        case Fill() | ReducerInit():
            fill = statement if isinstance(statement, Fill) else tile_operations.reducer_fill(statement)
            written = tile_operations.fill_as_map(fill)
            emit_body(ctx, written[:-1])
            _collective(ctx, ctx.as_maps.get(id(statement), written[-1]), statement, values=written[-1])
        case Copy() if id(statement) in ctx.box_stores and box_stores.emit(ctx, statement):
            return
        case Copy():
            if not copies.emit_copy(ctx, statement, is_async=False):
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
    touch_map(ctx, written)
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
    roots = {load.buffer.root for extent in written.extents for load in loads_of(extent)}
    if not roots:
        return written
    _touch_roots(ctx, roots, set(), set(), written.span)
    extents = []
    for extent in written.extents:
        named = ctx.value("extent", elements.value_of(ctx, extent))
        if isinstance(named, Var) and loads_of(extent):
            ctx.scope.add_data_variable(named)
        extents.append(named)
    return rebuilt(written, extents=tuple(extents))


def _same_value(own: Stmt, other: Stmt) -> Stmt:
    if isinstance(own, Store) and isinstance(other, Store):
        return rebuilt(own, value=other.value)
    return own


def touch_map(ctx: Context, written: Map) -> None:
    """Say what a Map is about to read, write and change atomically."""
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()
    atomics: set[Buffer] = set()
    for node in walk(written):
        match node:
            case Load(buffer=buffer):
                reads.add(buffer.root)
            case Atomic(buffer=buffer) | ReducerUpdate(buffer=buffer):
                atomics.add(buffer.root)
            case _:
                if isinstance(node, StmtNode) and not isinstance(node, (Map, For, If, While)):
                    writes.update(r.buffer.root for r in node.writes())
                    reads.update(r.buffer.root for r in node.reads())
    _touch_roots(ctx, reads - atomics, writes - atomics, atomics, written.span)


def _touch(ctx: Context, reads: Sequence[Region], writes: Sequence[Region], span: Any = None) -> None:
    _touch_roots(ctx, {r.buffer.root for r in reads}, {r.buffer.root for r in writes}, set(), span)


def _touch_roots(ctx: Context, reads: set[Buffer], writes: set[Buffer], atomics: set[Buffer], span: Any) -> None:
    ctx.code.touch(
        reads=[b for b in reads if ctx.is_shared_by_lanes(b)],
        writes=[b for b in writes if ctx.is_shared_by_lanes(b)],
        atomics=[b for b in atomics if ctx.is_shared_by_lanes(b)],
        span=span,
    )


def _sequential(ctx: Context, statement: Operation) -> None:
    """All points of an operation one after the other, by this lane."""
    match statement:
        case Map():
            _loops(ctx, statement)
        case Copy() | Transpose():
            _loops(ctx, tile_operations.copy_as_map(statement))
        case AtomicTile():
            _loops(ctx, tile_operations.atomic_as_map(statement))
        case Fill() | ReducerInit():
            fill = statement if isinstance(statement, Fill) else tile_operations.reducer_fill(statement)
            _all_loops(ctx, tile_operations.fill_as_map(fill))
        case Gemm():
            _all_loops(ctx, tile_operations.gemm_as_map(statement))
        case Reduce():
            _loops(ctx, tile_operations.reduce_as_map(statement))
        case Scan():
            _loops(ctx, tile_operations.scan_as_map(statement))
        case _:
            unreachable(statement)


def _all_loops(ctx: Context, statements: Sequence[Stmt]) -> None:
    for statement in statements:
        if isinstance(statement, Map):
            _loops(ctx, statement)
        else:
            emit(ctx, statement)


def _loops(ctx: Context, written: Map) -> None:
    body: tuple[Stmt, ...] = written.body
    for axis, extent in reversed(list(zip(written.axes, written.extents))):
        zero, one = Const(value=0, dtype=axis.dtype), Const(value=1, dtype=axis.dtype)
        stop = extent if extent.dtype == axis.dtype else tile_operations.converted(extent, axis.dtype)
        body = (For(var=axis, start=zero, stop=stop, step=one, kind=Serial(), body=body, span=written.span),)
    emit_body(ctx, body)


# ---- storage ----


def _allocate(ctx: Context, buffer: Buffer) -> None:
    """Registers and a lane's own arrays are declared where they are made; shared memory was laid out before."""
    home = ctx.homes.get(buffer)
    if home is None and (ctx.point is not None or buffer.space in PRIVATE):
        extents = tuple(int(constant_value(e) or 0) for e in buffer.shape)
        if not all(isinstance(constant_value(e), int) for e in buffer.shape):
            raise catalogue.E410.error(
                buffer.span, target=ctx.machine.capabilities.target, operation="a local tile of a size that is not constant"
            )
        count = 1
        for extent in extents:
            count *= extent
        memory = Buffer(
            name=ctx.fresh(buffer.name), dtype=buffer.dtype, shape=(number(max(1, count)),), space="registers", span=buffer.span
        )
        home = LaneHome(memory=memory, extents=extents)
        ctx.homes[buffer] = home
    if isinstance(home, SharedHome):
        ctx.code.emit(Declared(memory=home.memory))
    if home is not None and home.memory.space == "registers":
        ctx.code.emit(Alloc(buffer=home.memory, span=buffer.span))


# ---- scalars ----


def _scalar(ctx: Context, statement: Bind | Assign) -> None:
    _touch_loads(ctx, statement)
    value = _agreed(ctx, statement.value, statement.span)
    if isinstance(statement, Bind) and not statement.var.is_mutable and is_index_dtype(statement.var.dtype):
        if not ctx.scope.define(statement.var, statement.value):
            ctx.scope.add_data_variable(statement.var)
    ctx.code.emit(rebuilt(statement, value=value))


def _agreed(ctx: Context, expr: Expr, span: Any) -> Expr:
    """The value of a scalar of the block. Where it depends on a tensor that other blocks may be changing, one lane reads and all get what
    it read: lanes that read different values would part."""
    value = elements.value_of(ctx, expr)
    if ctx.has_lanes or ctx.is_one_lane or ctx.point is not None or not any(_may_change(ctx, load.buffer.root) for load in loads_of(expr)):
        return value
    memory = ctx.scratch_memory(value.dtype, 1)
    ctx.code.touch(writes=(ctx.scratch,), span=span)
    with ctx.when(_one_lane(ctx), span):
        ctx.code.emit(Store(buffer=memory, indices=(number(0),), value=value, span=span))
    ctx.code.touch(reads=(ctx.scratch,), span=span)
    return ctx.value("agreed", Load(buffer=memory, indices=(number(0),)))


def _may_change(ctx: Context, root: Buffer) -> bool:
    return isinstance(ctx.homes.get(root), GlobalHome) and root in ctx.written_tensors


def loads_of(expr: Expr) -> list[Load]:
    """The elements that an expression reads."""
    return [node for node in walk(expr) if isinstance(node, Load)]


def _touch_loads(ctx: Context, statement: Stmt) -> None:
    if ctx.point is None:
        _touch_roots(ctx, {load.buffer.root for load in loads_in(statement)}, set(), set(), statement.span)


def _store(ctx: Context, statement: Store) -> None:
    root = statement.buffer.root
    if ctx.point is None:
        _touch_loads(ctx, statement)
        if ctx.is_shared_by_lanes(root) or isinstance(ctx.homes.get(root), SHAREABLE):
            _touch_roots(ctx, set(), {root}, set(), statement.span)
            with ctx.when(_storing_lane(ctx, statement), statement.span):
                elements.store(ctx, statement)
            return
    elements.store(ctx, statement)


def _storing_lane(ctx: Context, statement: Store) -> Expr | None:
    """Whether this lane stores for the block: also in code written for lanes where all would store the same, and would meet each other
    between reading what is there and storing. Not where no barrier can stand behind it."""
    dependence = ctx.dependence
    if dependence is None or not dependence.is_repeated(statement) or ctx.code.is_quiet or not ctx.synchronises:
        return _one_lane(ctx)
    return Compare(op="eq", left=THREAD, right=number(0))


def _one_lane(ctx: Context) -> Expr | None:
    """Whether this lane acts for the block; None where each acts for itself."""
    return None if ctx.has_lanes or ctx.point is not None else Compare(op="eq", left=THREAD, right=number(0))


def _atomic(ctx: Context, statement: Atomic) -> None:
    if ctx.point is not None or ctx.has_lanes or not isinstance(ctx.homes.get(statement.buffer.root), SHAREABLE):
        if ctx.point is None:
            _touch_loads(ctx, statement)
            _touch_roots(ctx, set(), set(), {statement.buffer.root}, statement.span)
        elements.atomic(ctx, statement)
        return
    _touch_loads(ctx, statement)
    _touch_roots(ctx, set(), set(), {statement.buffer.root}, statement.span)
    result = statement.result
    if result is None:
        with ctx.when(_one_lane(ctx), statement.span):
            elements.atomic(ctx, statement)
        return
    memory = ctx.scratch_memory(result.dtype, 1)
    ctx.code.touch(writes=(ctx.scratch,), span=statement.span)
    inner = Var(name=ctx.fresh(result.name), dtype=result.dtype, kind="value")
    with ctx.when(_one_lane(ctx), statement.span):
        elements.atomic(ctx, rebuilt(statement, result=inner))
        ctx.code.emit(Store(buffer=memory, indices=(number(0),), value=inner))
    ctx.code.touch(reads=(ctx.scratch,), span=statement.span)
    ctx.code.emit(Bind(var=result, value=Load(buffer=memory, indices=(number(0),)), span=statement.span))


_ATOMIC_OF = {"sum": "add", "abssum": "add", "prod": "mul", "max": "max", "absmax": "max", "min": "min", "bitand": "and", "bitor": "or",
              "bitxor": "xor", "any": "or", "all": "and"}  # fmt: skip


def _update(ctx: Context, statement: ReducerUpdate) -> None:
    op = _ATOMIC_OF.get(statement.op)
    if op is None:
        raise catalogue.E410.error(statement.span, target=ctx.machine.capabilities.target, operation=f"a reducer of {statement.op}")
    value = tile_operations.contribution(statement.op, statement.value)
    value = tile_operations.converted(value, statement.buffer.dtype)
    emit(ctx, Atomic(op=op, buffer=statement.buffer, indices=statement.indices, value=value, span=statement.span))  # type: ignore[arg-type]


# ---- control flow ----


def _if(ctx: Context, statement: If) -> None:
    _touch_loads(ctx, statement)
    condition = _agreed(ctx, statement.condition, statement.span)
    with lanes.maybe_divergent(ctx, statement, statement.condition):
        with ctx.inner_scope() as scope, ctx.code.nested() as then:
            scope.assume(statement.condition)
            emit_body(ctx, statement.then)
        with ctx.inner_scope() as scope, ctx.code.nested() as otherwise:
            scope.assume(statement.condition, holds=False)
            emit_body(ctx, statement.otherwise)
    ctx.code.emit(rebuilt(statement, condition=condition, then=tuple(then), otherwise=tuple(otherwise)))


def _for(ctx: Context, statement: For) -> None:
    _touch_loads(ctx, statement)
    start, stop, step = (_agreed(ctx, e, statement.span) for e in (statement.start, statement.stop, statement.step))
    bounds = Binary(op="add", left=statement.start, right=Binary(op="add", left=statement.stop, right=statement.step))
    with lanes.maybe_divergent(ctx, statement, bounds), ctx.inner_scope() as scope, ctx.code.nested() as body:
        increment = constant_value(statement.step)
        if increment is not None and increment > 0:
            scope.add_variable(statement.var, scope.form(statement.start), scope.form(statement.stop) - 1)
        elif increment is not None and increment < 0:
            scope.add_variable(statement.var, scope.form(statement.stop) + 1, scope.form(statement.start))
        else:
            scope.add_variable(statement.var, None, None)
        _hide_lane(ctx, statement)
        emit_body(ctx, channels.filled_late(ctx, statement.body))
    if ctx.is_among_roles and channels.runs_once(ctx, statement) and not leaves_early(statement.body):
        # products may be in flight across its end: no branch stands there
        ctx.code.emit(Bind(var=statement.var, value=start, span=statement.span), *body)
        return
    kind = statement.kind if isinstance(statement.kind, (Unrolled, Serial)) else Serial()
    if is_written_out(ctx, statement):
        kind = Unrolled()
        ctx.notes.append(f"the iterations over {statement.var.name} are written out: what they load is kept in registers")
    ctx.code.emit(rebuilt(statement, start=start, stop=stop, step=step, kind=kind, body=tuple(body)))


def _while(ctx: Context, statement: While) -> None:
    with lanes.maybe_divergent(ctx, statement, statement.condition), ctx.inner_scope(), ctx.code.nested() as body:
        _touch_loads(ctx, statement)
        condition = _agreed(ctx, statement.condition, statement.span)
        stop = Unary(op="not", value=condition)
        ctx.code.emit(If(condition=stop, then=(Break(),), span=statement.span))
        _hide_lane(ctx, statement)
        emit_body(ctx, statement.body)
    ctx.code.emit(While(condition=Const(value=True, dtype=BOOL), body=tuple(body), span=statement.span))


def _hide_lane(ctx: Context, loop: For | While) -> None:
    """In a loop around loops the places of a lane's elements are computed anew in each iteration: kept, those of a tile in registers would
    take as many registers as the tile."""
    inside = statements_in(loop.body, into_maps=False)
    is_around = any(isinstance(s, While) or (isinstance(s, For) and not isinstance(s.kind, Unrolled)) for s in inside)
    if ctx.machine.hoists and is_around and ctx.point is None and not ctx.has_lanes and not ctx.is_one_lane:
        ctx.code.emit(Opaque(of=(LANE,), span=loop.span))


# ---- printing ----


def _print(ctx: Context, statement: Print) -> None:
    """Values by each point or lane at hand; a region's elements by one lane, in order."""
    if isinstance(statement.value, Region):
        root = statement.value.buffer.root
        _touch_roots(ctx, {root}, set(), set(), statement.span)
        with ctx.when(_one_lane(ctx), statement.span):
            _print_region(ctx, statement, statement.value)
        return
    _touch_loads(ctx, statement)
    value = None if statement.value is None else elements.value_of(ctx, statement.value)
    with ctx.when(_one_lane(ctx), statement.span):
        ctx.code.emit(rebuilt(statement, value=value))


def _print_region(ctx: Context, statement: Print, region: Region) -> None:
    axes = tuple(Var(name=f"p{d}", dtype=INT32, kind="loop") for d in range(len(region.extents)))
    body: tuple[Stmt, ...] = (Print(value=tile_operations.load_at(region, axes), message=statement.message, span=statement.span),)
    written = Map(axes=axes, extents=region.extents, body=body, span=statement.span)
    _loops(ctx, written)
