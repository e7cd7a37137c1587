"""Maps (T.Parallel and every elementwise tile operation) as loops over vectors of adjacent points.

In: a Map and what emits a body. Out: nested loops, the innermost over one axis in steps of several points where the body allows it.

The vector axis is the one along which most accesses are adjacent. A body that cannot be masked (loops whose trip count differs from point
to point, jumps, output, nested Maps) is emitted for one point at a time. Where bounds cannot be proven but can be tested once before the
loops, the body is emitted twice: without and with tests of each access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import field

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import ZERO, Form
from zellige.dtypes import DType
from zellige.ir.expr import INT64, Binary, Buffer, Compare, Expr, ExprNode, Load, Math, Node, Var, constant_value
from zellige.ir.stmt import (
    Alloc,
    Assign,
    Assume,
    Atomic,
    Bind,
    For,
    If,
    Map,
    ReducerUpdate,
    Stmt,
    Store,
)
from zellige.ir.traverse import loads_in, walk
from zellige.plan.facts import statements_in
from zellige.records import dataclass
from zellige_cpu import factors, next_cells, streaming
from zellige_cpu.accesses import element_offset
from zellige_cpu.clipped import NOTHING, Clip, clipped
from zellige_cpu.context import Context, EmitBody, Lanes
from zellige_cpu.folds import SHORT_ROW, folding, waiting
from zellige_cpu.fusion import Fold, folds_of
from zellige_cpu.indexes import conjunction, i64, iota, is_nonnegative, is_stable, uniform
from zellige_cpu.leaf.math import is_formula
from zellige_cpu.storage import fits_stack
from zellige_cpu.types import ELEMENT_BITS, compute_dtype, memory_type, register_type
from zellige_cpu.values import Value, constant

_VERSIONED_NODES = 300
"""Bodies up to this many nodes are emitted twice where that saves the tests of bounds."""

_TESTS = 16
"""Run-time tests before a Map; with more, each access tests for itself."""

_MATH_NODES = 120
"""Bodies with math functions up to this many nodes work on two registers at once: the chains of their polynomials are long."""

_SIMPLE_NODES = 40
"""Bodies up to this many nodes work on several registers at once, which hides the latency of memory."""

_MASKABLE = (Alloc, Assign, Assume, Atomic, Bind, Fold, For, If, ReducerUpdate, Store)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a Map is emitted: the number of its vector axis and the lanes there; None and 1 for one point at a time. ``clip`` says where
    loops over the other axes begin and end, if not with the axis."""

    axis: int | None
    lanes: int
    narrow_lanes: int
    clip: Clip = NOTHING


@dataclass(frozen=True, slots=True)
class Known:
    """What can be known of all points of a Map before its loops: ``holding`` are at least 0 at each where all ``tests`` are. ``scope``
    knows the variables of the body."""

    scope: Scope
    holding: frozenset[Form]
    tests: tuple[Form, ...]


def known_of_points(ctx: Context, statement: Map) -> Known:
    """What the comparisons of a Map's body hold for."""
    scope, found = _declared(ctx, statement, [ctx.freeze(ctx, extent) for extent in statement.extents])
    return Known(scope, *_run_time_tests(ctx, scope, statement, list(walk(statement)), found.conditions, drops_never=True))


def _declared(ctx: Context, statement: Map, extents: list[Form]) -> tuple[Scope, _Findings]:
    """The scope inside of a Map, and what its body touches and asks."""
    scope = ctx.scope.inner()
    for axis, extent in zip(statement.axes, extents):
        scope.add_variable(axis, ZERO, extent - 1)
    found = _Findings()
    _declare(ctx, scope, statement.body, found)
    return scope, found


def emit_map(ctx: Context, statement: Map, emit_body: EmitBody) -> None:
    """The Map at the current place, which handles one point itself."""
    extents = [ctx.freeze(ctx, extent) for extent in statement.extents]
    scope, found = _declared(ctx, statement, extents)
    nodes = list(walk(statement))
    shape = _choose(ctx, statement, nodes, extents, found.accesses)
    bounds = dict.fromkeys(bound for access in found.accesses for bound in access.open_bounds)
    granted, tests = _run_time_tests(ctx, scope, statement, nodes, bounds)
    holding, conditions = _run_time_tests(ctx, scope, statement, nodes, found.conditions, drops_never=True)

    def whole() -> None:
        _emit_whole(ctx, statement, extents, shape, found.accesses, emit_body)

    def edge() -> None:
        stored = [access.open_bounds for access in found.accesses if access.is_store]
        looped = [number for number, extent in enumerate(extents) if number != shape.axis and extent.constant != 1]
        clip = clipped(ctx, statement, looped, stored, lambda atom: _is_available(ctx, atom))
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


# -- loops ---------------------------------------------------------------------------------------------------------------


def _emit_whole(
    ctx: Context, statement: Map, extents: list[Form], shape: Shape, accesses: list[_Access], emit_body: EmitBody
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


def _streams(ctx: Context, statement: Map, shape: Shape, accesses: list[_Access]) -> tuple[frozenset[Buffer], Value | None]:
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


# -- what the body touches -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Access:
    """An element access of the body: its index forms, which bounds are not proven, and whether it writes."""

    buffer: Buffer
    forms: tuple[Form, ...]
    open_bounds: tuple[Form, ...]
    is_store: bool


@dataclass(slots=True)
class _Findings:
    """Accesses of buffers that exist outside of a body, and what its comparisons of indices hold for: forms that are at least 0."""

    accesses: list[_Access] = field(default_factory=list)
    conditions: dict[Form, None] = field(default_factory=dict)


def _declare(ctx: Context, scope: Scope, body: Sequence[Stmt], found: _Findings) -> None:
    """Make the variables of the body known to the analyses and list what it touches and asks."""
    own: set[Buffer] = set()
    pending: list[tuple[Stmt, Scope]] = [(s, scope) for s in reversed(body)]
    while pending:
        statement, place = pending.pop()
        _note_accesses(ctx, place, statement, own, found.accesses)
        _note_conditions(ctx, place, statement, found.conditions)
        match statement:
            case Alloc(buffer=buffer):
                own.add(buffer)
            case Bind(var=var, value=value):
                if var.is_mutable or not place.define(var, value, may_wrap=True):
                    place.add_data_variable(var)
            case Atomic(result=result) if result is not None:
                place.add_data_variable(result)
            case Assume(condition=condition):
                place.assume(condition)
            case For():
                _declare_loop(place, statement)
                inner = place.inner()
                pending.extend((s, inner) for s in reversed(statement.body))
            case If():
                taken, other = place.inner(), place.inner()
                taken.assume(statement.condition)
                other.assume(statement.condition, holds=False)
                pending.extend((s, other) for s in reversed(statement.otherwise))
                pending.extend((s, taken) for s in reversed(statement.then))
            case _:
                for name in type(statement).BODIES:
                    inner = place.inner()
                    pending.extend((s, inner) for s in reversed(getattr(statement, name)))
                if isinstance(statement, Map):
                    for axis, extent in zip(statement.axes, statement.extents):
                        place.add_variable(axis, ZERO, _stable_form(place, extent, -1))


def _declare_loop(scope: Scope, statement: For) -> None:
    step = scope.form(statement.step).constant
    low = high = None
    if step is not None and step > 0:
        low, high = _stable_form(scope, statement.start), _stable_form(scope, statement.stop, -1)
    elif step is not None and step < 0:
        low, high = _stable_form(scope, statement.stop, 1), _stable_form(scope, statement.start)
    scope.add_variable(statement.var, low, high)


def _stable_form(scope: Scope, expr: Expr, plus: int = 0) -> Form | None:
    form = scope.form(expr)
    return form + plus if all(is_stable(atom) for atom in form.atoms()) else None


def _note_accesses(ctx: Context, scope: Scope, statement: Stmt, own: set[Buffer], accesses: list[_Access]) -> None:
    found: list[tuple[Buffer, tuple[Expr, ...], bool]] = [(x.buffer, x.indices, False) for x in loads_in(statement)]
    if isinstance(statement, (Store, ReducerUpdate, Atomic)):
        found.append((statement.buffer, statement.indices, True))
    for buffer, indices, is_store in found:
        storage = ctx.storages.get(buffer)
        if buffer.root in own or storage is None:
            continue
        forms = tuple(scope.place(i) for i in indices)
        bounds = [b for form, extent in zip(forms, storage.shape) for b in (form, extent - form - 1)]
        unproven = tuple(b for b in bounds if b not in ctx.granted and not scope.is_nonnegative(b))
        accesses.append(_Access(buffer, forms, unproven, is_store))


def _note_conditions(ctx: Context, scope: Scope, statement: Stmt, conditions: dict[Form, None]) -> None:
    """Add the comparisons in the statement's own expressions that may hold for all points; a test of equality does not."""
    for node in walk(statement, bodies=False):
        if isinstance(node, Compare) and node.op not in ("eq", "ne"):
            for form in scope.differences(node) or ():
                if form in ctx.granted or not scope.fits(form, INT64):
                    continue
                if not scope.is_nonnegative(form) and not scope.is_nonnegative(form.scaled(-1) - 1):
                    conditions[form] = None


# -- tests before the loops ----------------------------------------------------------------------------------------------


def _run_time_tests(
    ctx: Context, scope: Scope, statement: Map, nodes: Sequence[Node], wanted: Iterable[Form], *, drops_never: bool = False
) -> tuple[frozenset[Form], tuple[Form, ...]]:
    """The wanted forms that are at least 0 at every point if the tests pass (forms that must be at least 0), and these tests.

    ``drops_never`` leaves out forms that are known to fail. For bounds they stay: where one fails, the version for edges runs, with masks
    no wider than a register (LLVM 22 aborts on some wider ones that are constant: "Getting value from an unknown LocationSize").
    """
    if not wanted or len(nodes) > _VERSIONED_NODES:
        return frozenset(), ()
    inner = set(statement.axes)
    inner.update(node.var for node in nodes if isinstance(node, For))
    variables = frozenset(inner)
    granted: set[Form] = set()
    tests: dict[Form, None] = {}
    for form in wanted:
        smallest = scope.minimum(form, variables)
        if smallest is None or not all(_is_available(ctx, atom) for atom in smallest.atoms()):
            continue
        if drops_never and not scope.fits(smallest, INT64):
            continue
        if drops_never and ctx.scope.is_nonnegative(smallest.scaled(-1) - 1):
            continue
        granted.add(form)
        if not ctx.scope.is_nonnegative(smallest):
            tests.setdefault(smallest)
    return (frozenset(granted), tuple(tests)) if len(tests) <= _TESTS else (frozenset(), ())


def _is_available(ctx: Context, atom: Expr) -> bool:
    """Whether the atom can be computed before the Map and stays the same in it."""
    pending: list[Expr] = [atom]
    seen: set[Var] = set()
    while pending:
        top = pending.pop()
        if not is_stable(top):
            return False
        for node in walk(top):
            if not isinstance(node, Var) or node in ctx.values or node in seen:
                continue
            seen.add(node)
            definition = ctx.scope.definition(node)
            if definition is None:
                return False
            pending.extend(definition.atoms())
    return True


# -- the vector axis -----------------------------------------------------------------------------------------------------


def _choose(ctx: Context, statement: Map, nodes: Sequence[Node], extents: list[Form], accesses: list[_Access]) -> Shape:
    natural = ctx.host.lanes(_widest_bytes(nodes))
    if ctx.lanes is not None or natural == 1 or not all(isinstance(s, _MASKABLE) for s in statements_in(statement.body)):
        return Shape(None, 1, 1)
    candidates = [i for i in reversed(range(len(extents))) if extents[i].constant not in (0, 1)]
    if folds_of(statement.body):
        candidates = [i for i in candidates if i == len(extents) - 1]
    candidates = [i for i in candidates if _is_maskable(ctx, statement, statement.axes[i], natural)]
    if not candidates:
        return Shape(None, 1, 1)
    best = max(candidates, key=lambda i: _score(ctx, statement.axes[i], accesses) * _utilisation(extents[i], natural))
    size = extents[best].constant
    lanes = min(natural * _registers_at_once(nodes), 64)
    if size is not None:
        while lanes >= 2 * size:
            lanes //= 2
    return Shape(best, lanes, min(lanes, natural))


def _registers_at_once(nodes: Sequence[Node]) -> int:
    """How many registers' worth of points to work on together, so that the processor has independent work while one chain waits."""
    if any(_is_costly(node) for node in nodes):
        return 1
    if any(isinstance(node, Math) for node in nodes):
        return 4 if len(nodes) <= _SIMPLE_NODES else 2 if len(nodes) <= _MATH_NODES else 1
    return 4 if len(nodes) <= _SIMPLE_NODES else 1


def _is_costly(node: Node) -> bool:
    """Whether an operation is done lane by lane, or by code too long to hold in registers twice."""
    if isinstance(node, Math):
        return not is_formula(node.function, node.args[0].dtype)
    if isinstance(node, Binary) and node.op in ("floordiv", "floormod", "truncdiv", "truncmod"):
        divisor = constant_value(node.right)
        return node.dtype.is_float or divisor is None or divisor <= 0 or int(divisor) & (int(divisor) - 1) != 0
    return isinstance(node, (Atomic, ReducerUpdate))


def _widest_bytes(nodes: Sequence[Node]) -> int:
    """Bytes of the widest register that the body works with, index arithmetic apart."""
    widest = 1
    for node in nodes:
        if isinstance(node, (Load, Store)):
            widest = max(widest, ELEMENT_BITS[memory_type(node.buffer.dtype)] // 8)
        elif isinstance(node, ExprNode) and not isinstance(node, (Var, Compare)):
            dtype: DType = node.dtype  # type: ignore[attr-defined]
            if dtype.is_float:
                widest = max(widest, ELEMENT_BITS[register_type(compute_dtype(dtype))] // 8)
    return widest


def _score(ctx: Context, axis: Var, accesses: list[_Access]) -> int:
    """How well the accesses suit vectors along ``axis``."""
    score = 1
    for access in accesses:
        storage = ctx.storages[access.buffer]
        offset = element_offset(storage, access.forms)
        parts = offset.split(axis)
        is_hidden = any(not isinstance(atom, Var) and _depends(atom, {axis}) for atom in offset.atoms())
        stride = None if parts is None or is_hidden else parts[0].constant
        if stride == 1:
            score += 4
        elif stride == 0:
            score += -2 if access.is_store else 2
    return max(score, 1)


def _utilisation(extent: Form, lanes: int) -> float:
    size = extent.constant
    return 1.0 if size is None or size >= lanes else size / lanes


def _is_maskable(ctx: Context, statement: Map, axis: Var, lanes: int) -> bool:
    """Whether no loop in the body has a trip count that differs along ``axis`` and the points' own arrays are small."""
    statements = list(statements_in(statement.body))
    own = [s.buffer for s in statements if isinstance(s, Alloc)]
    views = ctx.plan.views if ctx.plan is not None else {}
    if not all(fits_stack(buffer, 4 * lanes, views.get(buffer, ())) for buffer in own):
        return False
    varying = varying_names(statement, axis)
    return not any(_depends(bound, varying) for s in statements if isinstance(s, For) for bound in (s.start, s.stop, s.step))


def varying_names(statement: Map, axis: Var) -> set[Var | Buffer]:
    """Variables and own buffers whose values may differ between points along ``axis``, found by going round until none is added."""
    varying: set[Var | Buffer] = {axis}
    statements = list(statements_in(statement.body))
    for s in statements:
        if isinstance(s, Alloc):
            varying.add(s.buffer)
        elif isinstance(s, Assign) or (isinstance(s, Bind) and s.var.is_mutable):
            varying.add(s.var)
        elif isinstance(s, Atomic) and s.result is not None:
            varying.add(s.result)
    before = -1
    while len(varying) != before:
        before = len(varying)
        varying.update(s.var for s in statements if isinstance(s, Bind) and _depends(s.value, varying))
    return varying


def _depends(expr: Expr, varying: set[Var | Buffer]) -> bool:
    for node in walk(expr):
        if isinstance(node, Var) and node in varying:
            return True
        if isinstance(node, Load) and node.buffer.root in varying:
            return True
    return False
