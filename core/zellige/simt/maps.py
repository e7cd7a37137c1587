"""Maps: the points of a T.Parallel, and every elementwise tile operation, shared out among the lanes of a block.

In: a Map and the context. Out: loops over this lane's registers or points. Elements of global and shared memory that neighbouring points
use one after the other are read and written by accesses as wide as alignment is proven for; where fragments decide which lane has which
point, their distribution is followed.
"""

from __future__ import annotations

from collections.abc import Sequence

from zellige.analysis.forms import Form
from zellige.dtypes import DType
from zellige.ir.expr import INT64, Binary, Buffer, Cast, Compare, Const, Expr, Load, Select, Var, constant_value
from zellige.ir.folding import index_as
from zellige.ir.stmt import Alloc, Assign, Atomic, Bind, For, Map, Serial, Stmt, StmtNode, Store
from zellige.ir.traverse import always_evaluated, substitute, walk
from zellige.records import dataclass
from zellige.simt import elements, factors, shared_divisors
from zellige.simt.context import Context, Point, conjunction
from zellige.simt.distribution import Distribution, distribute, number, times
from zellige.simt.exchange import Exchange, exchange_for, exchanged, held_apart
from zellige.simt.homes import (
    TENSOR_ALIGNMENT,
    GlobalHome,
    RegisterHome,
    SharedHome,
    dense_forms,
)
from zellige.simt.ir import THREAD

UNROLLED_REGISTERS = 64
"""Points a lane up to which the loop over them is written out even where no fragment needs it."""


def emit_map(ctx: Context, statement: Map, *, identity: int | None = None, distribution: Distribution | None = None) -> None:
    """The Map. ``identity`` is the id of the statement that it stands for, by which distributions were decided, unless one is given."""
    extents = [constant_value(e) for e in statement.extents]
    decided = distribution or ctx.maps.get(identity if identity is not None else id(statement))
    if ctx.threads % ctx.lanes or (decided is None and not all(isinstance(e, int) for e in extents)):
        _emit_dynamic(ctx, statement)
        return
    sizes = [int(e) for e in extents if e is not None]
    if any(size <= 0 for size in sizes):
        return
    if decided is None:
        vector = _widest(ctx, statement, sizes)
        decided = distribute(sizes, lanes=ctx.lanes, warps=ctx.warps, vector=vector)
    else:
        decided = decided.with_shape(sizes)
    with ctx.when(factors.where_needed(ctx, identity if identity is not None else id(statement)), statement.span):
        _emit_distributed(ctx, statement, decided)


# ---- extents known at run time ----


def _at_least_none(ctx: Context, extent: Expr) -> Expr:
    """The extent as it is where it is proven not to be below 0, else the greater of both."""
    if ctx.scope.is_nonnegative(ctx.scope.form(extent)):
        return extent
    return Binary(op="max", left=extent, right=Const(value=0, dtype=extent.dtype))


def _emit_dynamic(ctx: Context, statement: Map) -> None:
    """Lane after lane takes the next point, counted row-major. An extent below 0 is one of no points, whatever the others are."""
    extents = [_at_least_none(ctx, elements.value_of(ctx, extent)) for extent in statement.extents]
    total = Form.of(1)
    for extent in extents:
        total = total * ctx.scope.form(extent)
    wide = Var(name=ctx.fresh("points"), dtype=INT64, kind="value")
    ctx.code.emit(Bind(var=wide, value=total.expression(), span=statement.span))
    counter = Var(name=ctx.fresh("point"), dtype=INT64, kind="loop")
    with ctx.inner_scope() as scope, ctx.code.nested() as body:
        rest: Expr = counter
        for position in reversed(range(len(statement.axes))):
            axis, extent = statement.axes[position], extents[position]
            size = extent if extent.dtype == INT64 else Cast(value=extent, dtype=INT64)
            place: Expr = rest if position == 0 else Binary(op="truncmod", left=rest, right=size)
            rest = Binary(op="truncdiv", left=rest, right=size)
            ctx.code.emit(Bind(var=axis, value=index_as(place, axis.dtype)))
            scope.add_variable(axis, Form.of(0), scope.form(extent) - 1)
        alone = Point(axes=statement.axes, distribution=Distribution(shape=(), digits=()), register=number(0))
        with ctx.at(alone):
            ctx.emit_body(ctx, statement.body)
    step = Const(value=ctx.threads, dtype=INT64)
    start = Cast(value=THREAD, dtype=INT64)
    ctx.code.emit(For(var=counter, start=start, stop=wide, step=step, kind=Serial(), body=tuple(body), span=statement.span))


# ---- extents known now ----


def _emit_distributed(ctx: Context, statement: Map, distribution: Distribution) -> None:
    statement, before = shared_divisors.with_reciprocals(ctx, statement, distribution)
    for computed, held in before:
        _emit_distributed(ctx, computed, held)
    if (exchange := _exchange(ctx, statement, distribution)) is not None:
        tile, filling = held_apart(ctx, statement, distribution)
        _emit_distributed(ctx, filling, distribution)
        _emit_distributed(ctx, *exchanged(ctx, statement, tile, exchange))
        return
    inner = len(distribution.shape) - 1
    vector = _neighbours(distribution, inner)
    for axis, extent in zip(statement.axes, distribution.shape):
        ctx.scope.add_variable(axis, Form.of(0), Form.of(extent - 1))
    wide = _wide_accesses(ctx, statement, distribution, vector) if vector > 1 else _Wide(1, (), ())
    groups = distribution.registers // wide.vector
    touches_registers = any(isinstance(ctx.homes.get(b.root), RegisterHome) for b in _buffers(statement))
    is_unrolled = touches_registers or groups <= UNROLLED_REGISTERS // max(1, wide.vector)
    owner = ctx.is_owner(distribution) if _has_outer_effect(ctx, statement) else None
    with ctx.inner_scope():
        is_shared_out = not _writes_registers(ctx, statement)
        with (
            ctx.when(owner if is_shared_out else None, statement.span),
            ctx.loop("r", groups, is_unrolled=is_unrolled, span=statement.span) as group,
        ):
            _emit_group(ctx, statement, distribution, wide, group, None if is_shared_out else owner)


def _exchange(ctx: Context, statement: Map, distribution: Distribution) -> Exchange | None:
    """How lanes make the store of a Map wider by giving each other words, where the tensor's rows allow stores so wide."""
    found = exchange_for(ctx, statement, distribution)
    if found is None:
        return None
    store = statement.body[0]
    assert isinstance(store, Store)
    with ctx.inner_scope() as scope:
        for axis, extent in zip(statement.axes, distribution.shape):
            scope.add_variable(axis, Form.of(0), Form.of(extent - 1))
        return found if is_wide(ctx, store, statement.axes, found.neighbours()) else None


def _emit_group(ctx: Context, statement: Map, distribution: Distribution, wide: _Wide, group: Expr, owner: Expr | None) -> None:
    """``wide.vector`` neighbouring points: wide reads, the points one by one, wide writes."""
    first = scaled(group, wide.vector)
    if wide.vector == 1:
        bind_axes(ctx, statement.axes, distribution, first)
        point = Point(axes=statement.axes, distribution=distribution, register=first, owner=owner)
        with ctx.when(inside(statement.axes, distribution), statement.span), ctx.inner_scope(), ctx.at(point):
            ctx.emit_body(ctx, statement.body)
        return
    bind_axes(ctx, statement.axes, distribution, first)
    with ctx.when(inside(statement.axes, distribution), statement.span):
        hoisted = {load: _read_wide(ctx, load, wide.vector, group) for load in wide.loads}
        kept = {store.buffer: ctx.registers(f"{store.buffer.name}_out", store.buffer.dtype, wide.vector) for store in wide.stores}
        with ctx.loop("e", wide.vector, is_unrolled=True) as part:
            last = statement.axes[-1]
            moved = Var(name=last.name, dtype=last.dtype, kind="value")
            ctx.code.emit(Bind(var=moved, value=Binary(op="add", left=last, right=index_as(part, last.dtype))))
            body = [substitute(_into_registers(s, kept, part), {last: moved}) for s in statement.body]
            hoisted_here = {substitute(load, {last: moved}): Load(buffer=array, indices=(part,)) for load, array in hoisted.items()}
            ctx.scope.add_variable(moved, Form.of(0), Form.of(distribution.shape[-1] - 1))
            register = Binary(op="add", left=first, right=part)
            axes = (*statement.axes[:-1], moved)
            point = Point(axes=axes, distribution=distribution, register=register, hoisted=hoisted_here, owner=owner)
            with ctx.inner_scope(), ctx.at(point):
                ctx.emit_body(ctx, body)
        for store in wide.stores:
            with ctx.when(owner, store.span):
                _write_wide(ctx, store, kept[store.buffer], wide.vector)


def scaled(value: Expr, factor: int) -> Expr:
    """An int32 times a constant."""
    return times(value, factor)


def bind_axes(ctx: Context, axes: Sequence[Var], distribution: Distribution, register: Expr) -> None:
    """Give the axes the coordinates of a register of this lane."""
    for dimension, axis in enumerate(axes):
        ctx.code.emit(Bind(var=axis, value=index_as(ctx.coordinate(distribution, dimension, register), axis.dtype)))


def inside(axes: Sequence[Var], distribution: Distribution) -> Expr | None:
    """Whether the coordinates are of an element, where the digits reach further."""
    tests: list[Expr] = []
    for dimension, (axis, extent) in enumerate(zip(axes, distribution.shape)):
        if distribution.covered(dimension) != extent:
            tests.append(Compare(op="lt", left=axis, right=Const(value=extent, dtype=axis.dtype)))
    return conjunction(tests)


# ---- wide accesses ----


@dataclass(frozen=True, slots=True)
class _Wide:
    """``vector`` neighbours at once: the loads that are read so, and the stores that are written so."""

    vector: int
    loads: tuple[Load, ...]
    stores: tuple[Store, ...]


def _neighbours(distribution: Distribution, dimension: int) -> int:
    """How many successive registers hold neighbours along a dimension."""
    digits = distribution.of_source("register")
    if not digits or digits[0].dimension != dimension or digits[0].stride != 1:
        return 1
    return digits[0].radix


def _widest(ctx: Context, statement: Map, sizes: Sequence[int]) -> int:
    """How many neighbours a lane should take: as many as the widest access that some memory of the Map allows."""
    best = 1
    accesses = _accesses(statement)
    for axis, extent in zip(statement.axes, sizes):
        ctx.scope.add_variable(axis, Form.of(0), Form.of(extent - 1))
    for vector in (16, 8, 4, 2):
        if sizes[-1] % vector:
            continue
        total = 1
        for size in sizes:
            total *= size
        if total // vector < ctx.threads // 2:
            continue
        if any(is_wide(ctx, node, statement.axes, vector) for node in accesses):
            best = vector
            break
    return best


def _accesses(statement: Map) -> list[Load | Store]:
    """Element accesses of the Map's own statements that every point makes, at indices that are known before its statements run."""
    inside = {node.var for node in walk(statement) if isinstance(node, (Bind, Assign, For))}
    changing = _stored(statement) | {node.buffer for node in walk(statement) if isinstance(node, Alloc)}
    return [
        access
        for access in _every_access(statement)
        if not any(
            node in inside if isinstance(node, Var) else isinstance(node, Load) and node.buffer.root in changing
            for index in access.indices
            for node in walk(index)
        )
    ]


def _every_access(statement: Map) -> list[Load | Store]:
    found: list[Load | Store] = []
    for s in statement.body:
        if isinstance(s, (Store, Bind)):
            found.extend(_unconditional_loads(s.value))
            for index in s.indices if isinstance(s, Store) else ():
                found.extend(_unconditional_loads(index))
        if isinstance(s, Store):
            found.append(s)
    return found


def _unconditional_loads(expr: Expr) -> list[Load]:
    """Loads that are evaluated whatever the values are: not those in a branch of a Select or behind and / or."""
    return [node for node in always_evaluated(expr) if isinstance(node, Load)]


def is_wide(ctx: Context, access: Load | Store, axes: Sequence[Var], vector: int) -> bool:
    """Whether ``vector`` neighbours along the last axis are one aligned access that is inside or outside as a whole."""
    buffer = access.buffer
    home = ctx.homes.get(buffer.root)
    size = buffer.dtype.storage_bits * vector // 8
    if not isinstance(home, (GlobalHome, SharedHome)) or buffer.dtype.storage_bits % 8:
        return False
    if buffer.alias is not None and isinstance(home, SharedHome):
        return False
    if size > ctx.machine.access_bytes or size < 2 or size & (size - 1) or not access.indices:  # accesses are of 2, 4, 8 or 16 bytes
        return False
    last = axes[-1]
    if any(_mentions(index, last) for index in access.indices[:-1]):
        return False
    parts = ctx.scope.place(access.indices[-1]).split(last)
    if parts is None or parts[0].constant != 1 or not _is_multiple(ctx, parts[1], vector):
        return False
    if any(ctx.scope.mentions(atom, frozenset((last,))) for atom in parts[1].atoms()):
        return False
    if isinstance(home, SharedHome):
        aligned = all(p % vector == 0 for p in home.pitch[:-1]) and home.pitch[-1] == 1 and home.slot_elements % vector == 0
        within = (home.swizzle is None or vector <= 1 << home.swizzle.base) and home.slab % vector == 0
        return aligned and within and home.extents[-1] % vector == 0
    extents, strides = (home.extents, home.strides) if buffer.alias is None else (buffer.shape, dense_forms(ctx.scope, buffer.shape))
    is_aligned = all(_is_multiple(ctx, ctx.scope.form(s), vector) for s in strides[:-1])
    is_unit = constant_value(strides[-1]) == 1
    return TENSOR_ALIGNMENT % size == 0 and is_aligned and is_unit and _is_multiple(ctx, ctx.scope.form(extents[-1]), vector)


def _mentions(expr: Expr, var: Var) -> bool:
    return any(node is var for node in walk(expr))


def _is_multiple(ctx: Context, form: Form, factor: int) -> bool:
    return ctx.scope.multiple_of(form) % factor == 0


def _wide_accesses(ctx: Context, statement: Map, distribution: Distribution, neighbours: int) -> _Wide:
    """The widest accesses that the distribution's neighbours allow."""
    vector = neighbours
    for axis, extent in zip(statement.axes, distribution.shape):
        ctx.scope.add_variable(axis, Form.of(0), Form.of(extent - 1))
    known = _accesses(statement)
    stored = _stored(statement)
    while vector > 1:
        if neighbours % vector == 0 and distribution.shape[-1] % vector == 0:
            accesses = [a for a in known if is_wide(ctx, a, statement.axes, vector)]
            if accesses:
                written = {a.buffer.root for a in accesses if isinstance(a, Store)}
                stores = tuple(a for a in accesses if isinstance(a, Store) and _stands_alone(statement, a))
                read = {n.buffer.root for n in walk(statement) if isinstance(n, Load)}
                loads = tuple(dict.fromkeys(a for a in accesses if isinstance(a, Load) and a.buffer.root not in stored))
                stores = tuple(s for s in stores if s.buffer.root not in read or s.buffer.root in written)
                if loads or stores:
                    return _Wide(vector, loads, stores)
        vector -= 1
    return _Wide(1, (), ())


def _stored(statement: Map) -> set[Buffer]:
    inner = (n for n in walk(statement) if isinstance(n, StmtNode) and n is not statement)
    return {region.buffer.root for n in inner for region in n.writes()}


def _stands_alone(statement: Map, store: Store) -> bool:
    """Whether the buffer is touched by this store alone: then its elements may be written together after the points."""
    others = [n for n in walk(statement) if isinstance(n, (Load, Store, Atomic)) and n.buffer.root is store.buffer.root]
    return len(others) == 1 and any(s is store for s in statement.body)


def _into_registers(statement: Stmt, kept: dict[Buffer, Buffer], part: Expr) -> Stmt:
    """A store that is written together later goes to registers now."""
    if isinstance(statement, Store) and statement.buffer in kept:
        return Store(buffer=kept[statement.buffer], indices=(part,), value=statement.value, span=statement.span)
    return statement


def _vector_view(ctx: Context, memory: Buffer, dtype: DType, vector: int) -> Buffer:
    return ctx.view(memory, dtype.with_lanes(vector))


def wide_reads(ctx: Context, statement: Map, distribution: Distribution) -> tuple[int, tuple[Load, ...]]:
    """How many neighbours the Map takes at once where it is distributed so, and what it reads in such accesses."""
    vector = _neighbours(distribution, len(distribution.shape) - 1)
    wide = _wide_accesses(ctx, statement, distribution, vector) if vector > 1 else _Wide(1, (), ())
    return wide.vector, wide.loads


def _read_wide(ctx: Context, load: Load, vector: int, group: Expr) -> Buffer:
    """``vector`` neighbours from where ``load`` points, zeros (the safe value) where they are outside; the registers that hold them.
    ``group`` counts the lane's groups of neighbours."""
    array = ctx.registers(load.buffer.name, load.buffer.dtype, vector)
    indices = tuple(elements.value_of(ctx, i) for i in load.indices)
    place = elements.place_of(ctx, load.buffer, indices)
    wide = _vector_view(ctx, place.memory, load.buffer.dtype, vector)
    into = _vector_view(ctx, array, load.buffer.dtype, vector)
    value: Expr = Load(buffer=wide, indices=(_divided(place.index, vector),))
    row = ctx.kept_row
    if row is not None and row.tensor is load.buffer:
        value = Load(buffer=_vector_view(ctx, row.memory, load.buffer.dtype, vector), indices=(row.piece(group),))
    if place.condition is not None:
        safe = ctx.safe_values.get(load.buffer, elements.zero(load.buffer.dtype))
        value_of_safe = Cast(value=safe, dtype=load.buffer.dtype.with_lanes(vector))
        value = Select(condition=place.condition, then=value, otherwise=value_of_safe)
    ctx.code.emit(Store(buffer=into, indices=(number(0),), value=value, span=load.span))
    return array


def _write_wide(ctx: Context, store: Store, array: Buffer, vector: int) -> None:
    indices = tuple(elements.value_of(ctx, i) for i in store.indices)
    place = elements.place_of(ctx, store.buffer, indices)
    wide = _vector_view(ctx, place.memory, store.buffer.dtype, vector)
    out = _vector_view(ctx, array, store.buffer.dtype, vector)
    with ctx.when(place.condition, store.span):
        value = Load(buffer=out, indices=(number(0),))
        ctx.code.emit(Store(buffer=wide, indices=(_divided(place.index, vector),), value=value, span=store.span))


def _divided(index: Expr, vector: int) -> Expr:
    if isinstance(index, Const):
        return Const(value=int(index.value) // vector, dtype=index.dtype)
    return Binary(op="truncdiv", left=index, right=Const(value=vector, dtype=index.dtype))


# ---- effects ----


def _buffers(statement: Map) -> list[Buffer]:
    return [n.buffer for n in walk(statement) if isinstance(n, (Load, Store, Atomic))]


def _writes_registers(ctx: Context, statement: Map) -> bool:
    return any(isinstance(n, Store) and isinstance(ctx.homes.get(n.buffer.root), RegisterHome) for n in walk(statement))


def _has_outer_effect(ctx: Context, statement: Map) -> bool:
    """Whether points change memory that lanes share, so that lanes which hold the same point must not all act."""
    return any(isinstance(ctx.homes.get(root), (GlobalHome, SharedHome)) for root in _stored(statement))
