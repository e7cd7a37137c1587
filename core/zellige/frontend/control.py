"""if, while and for: decided while compiling where that is possible, otherwise statements of the tile IR.

A condition or a loop that is known while compiling is simply followed. For one that is not, the body is traced once; what the names
that it assigns mean afterwards is settled by :mod:`zellige.frontend.joins`. A name that is read after the construct, or carried from one
iteration to the next (:mod:`zellige.frontend.flow` knows), becomes a mutable variable before the construct when it holds a number, and at
its first assignment when it holds nothing yet. Any other object must be the same on all paths, otherwise the name is hidden and reading it
is an error. No loop has an else here: :mod:`zellige.frontend.endings` has written it out.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal

from zellige.diagnostics import Span, catalogue
from zellige.diagnostics.wording import counted
from zellige.frontend import arithmetic
from zellige.frontend.apart import aside, splice
from zellige.frontend.assignments import assign
from zellige.frontend.builder import Points
from zellige.frontend.changes import refuse_iterator
from zellige.frontend.evaluator import evaluate, execute, executes
from zellige.frontend.expressions import plain, run_time
from zellige.frontend.joins import MISSING, at_ends, held, joined, prepare, put, restore, same_object, settle_after_loop
from zellige.frontend.junctions import condition_of
from zellige.frontend.loops import ForSpec, GridSpec, MapSpec, PersistentSpec, WhileSpec, warn_of_schedule
from zellige.frontend.parameters import PendingTensor
from zellige.frontend.scopes import Frame, Hidden, LoopContext, Pending, RunTimeJump, Signal
from zellige.frontend.values import Scalar, Tile, TileRegion, Variable, bind, is_number
from zellige.frontend.vectors import Vector, can_vary, empty_like, is_variable, variable_for
from zellige.ir.expr import BOOL, INT32, Const, Expr, Load, Var, const
from zellige.ir.lanes import PRIVATE
from zellige.ir.stmt import Assert, Assign, Break, For, If, Map, Persistent, Return, Serial, Stmt, StmtNode, While
from zellige.ir.traverse import children, walk, walk_into

_LIMIT: Final = 10_000  # iterations of a while loop that is followed while compiling
_OF_THE_BLOCK: Final = ("fragment", *PRIVATE)  # spaces of tiles that nobody but the statements of the loop itself changes


# ---- conditions


@executes(ast.If)
def _if(frame: Frame, node: ast.If) -> Signal:
    condition = condition_of(evaluate(frame, node.test))
    span = frame.here(node.test)
    if not run_time(condition):
        return execute(frame, node.body if is_true(frame, condition, span) else node.orelse)
    return run_time_if(
        frame, node, condition, span, lambda: execute(frame, node.body), lambda: execute(frame, node.orelse)
    )


def is_true(frame: Frame, condition: Any, span: Span) -> bool:
    """The truth of a condition that is known while compiling; E104 for a tile."""
    if isinstance(condition, (Tile, TileRegion, PendingTensor)):
        raise catalogue.E104.error(span, given=condition.described)
    return bool(plain(condition))


def run_time_if(
    frame: Frame, node: ast.stmt, condition: Any, span: Span, then: Callable[[], Signal], otherwise: Callable[[], Signal]
) -> Signal:
    """Traces both branches and joins what their names hold. ``node`` is the statement whose names are joined."""
    frame.builder.require_body("if")
    names = prepare(frame, node, None)
    before = held(frame, names)
    with frame.trace.inside("if"):
        with frame.builder.body() as then_body:
            first = then()
        then_names = held(frame, names)
        restore(frame, before)
        with frame.builder.body() as else_body:
            second = otherwise()
        else_names = held(frame, names)
    frame.builder.span = span
    if then_body or else_body:
        statement = If(condition=arithmetic.truth(condition, span), then=tuple(then_body), otherwise=tuple(else_body), span=span)
        frame.builder.emit(statement)
    for name in names:
        paths = []
        if first is Signal.NEXT:
            paths.append(then_names[name])
        if second is Signal.NEXT:
            paths.append(else_names[name])
        put(frame, name, joined(before[name], paths))
    return first if first is not Signal.NEXT and second is not Signal.NEXT else Signal.NEXT


@contextmanager
def _loop(frame: Frame, kind: Literal["unrolled", "loop", "grid", "map"], names: Iterable[str] = ()) -> Iterator[LoopContext]:
    context = LoopContext(kind, frame.trace.depth, cleanups=len(frame.trace.cleanups), names=tuple(names))
    frame.loops.append(context)
    frame.trace.loops.append((frame, context))
    try:
        yield context
    finally:
        frame.trace.loops.pop()
        frame.loops.pop()


# ---- while


@executes(ast.While)
def _while(frame: Frame, node: ast.While) -> Signal:
    if isinstance(node.test, ast.Constant) and node.test.value and frame.builder.is_inside_launch:
        return _run_time_while(frame, node)
    names, mark = dict(frame.locals), frame.builder.mark()
    context: LoopContext | None = None
    try:
        for _ in range(_LIMIT):
            before = dict(frame.locals)
            condition, statements = aside(frame, lambda: condition_of(evaluate(frame, node.test)))
            span = frame.here(node.test)
            if run_time(condition):
                _put_back(frame, before)  # names that the condition gave are given anew by the loop
                return _run_time_while(frame, node)
            splice(frame, statements)
            if not is_true(frame, condition, span):
                return Signal.NEXT
            with _loop(frame, "unrolled") as context:
                context.may_restart = mark is not None
                signal = execute(frame, node.body)
            if signal is Signal.BREAK:
                return Signal.NEXT
            if signal is Signal.RETURN:
                return signal
    except RunTimeJump as jump:
        if jump.loop is not context or mark is None:
            raise
        _put_back(frame, names)
        del mark[0][mark[1] :]
        return _run_time_while(frame, node, jump)
    reason = f"the condition of this loop is known while compiling and still holds after {_LIMIT} iterations"
    hint = "loop with range(...), or make the condition a run-time value with T.alloc_var"
    raise catalogue.E121.error(frame.here(node.test), reason=reason, hint=hint)


def _put_back(frame: Frame, names: dict[str, Any]) -> None:
    frame.locals.clear()
    frame.locals.update(names)


def _run_time_while(frame: Frame, node: ast.While, jump: RunTimeJump | None = None) -> Signal:
    """``jump`` is what made a loop of the kernel of one that was followed while compiling. E112 where its condition is no number."""
    span = frame.here(node.test)
    frame.builder.require_body("while")
    before = held(frame, prepare(frame, node, node))
    with frame.trace.inside("while"), _loop(frame, "loop", before) as loop, frame.builder.body() as body:
        condition, statements = aside(frame, lambda: condition_of(evaluate(frame, node.test)))
        frame.here(node.test)
        if jump is not None and not is_number(condition):
            given = arithmetic.describe(condition)
            hint = f"the condition of this while is {given}, which only Python knows: loop with range(...) or T.serial(...)"
            raise catalogue.E112.error(jump.span, jump=jump.word, hint=hint)
        test = arithmetic.truth(plain(condition) if not run_time(condition) else condition, span)
        if statements:
            splice(frame, statements)
            frame.builder.emit(If(condition=arithmetic.unary("not", Scalar(test), span), then=(Break(span=span),), span=span))
            test = const(True, BOOL, span)
        execute(frame, node.body)
    frame.builder.span = span
    _refuse_endless(test, body, span)
    frame.builder.emit(While(condition=test, body=tuple(body), span=span))
    settle_after_loop(frame, node, before, loop.jumps, span)
    return Signal.NEXT


def _refuse_endless(condition: Expr, body: Sequence[Stmt], span: Span) -> None:
    """E121 for a loop that never ends once it is entered: its condition cannot change, and nothing in its body leaves it."""
    if _may_change(condition, body) or (isinstance(condition, Const) and not condition.value):
        return
    own = walk_into(body, lambda node: () if isinstance(node, (For, While)) else children(node))
    if any(isinstance(node, Break) for node in own) or any(isinstance(n, (Return, Assert)) for s in body for n in walk(s)):
        return
    never = "always holds" if isinstance(condition, Const) else "cannot change"
    reason = f"nothing ends this loop: its condition {never}, and no break leaves it"
    raise catalogue.E121.error(span, reason=reason)


def _may_change(condition: Expr, body: Sequence[Stmt]) -> bool:
    """Whether the condition may have another value after ``body``, which writes what it reads; or somebody else does, in other spaces."""
    inner = [node for statement in body for node in walk(statement)]
    assigned = {node.var for node in inner if isinstance(node, Assign)}
    written = {region.buffer.root for node in inner if isinstance(node, StmtNode) for region in node.writes()}
    for node in walk(condition):
        if isinstance(node, Var) and node in assigned:
            return True
        if isinstance(node, Load) and (node.buffer.root in written or node.buffer.space not in _OF_THE_BLOCK):
            return True
    return False


def run_while_block(frame: Frame, node: ast.With, spec: WhileSpec) -> Signal:
    """``with T.While(condition):`` as a loop: every number that the block assigns to a name is carried from one iteration to the next."""
    span = spec.span or frame.here(node)
    frame.builder.require_body("while")
    names = sorted(frame.flow.assigned(node) - frame.flow.outer_names)
    for name in names:
        current = frame.locals.get(name, MISSING)
        if can_vary(current) and not is_variable(current):
            frame.locals[name] = variable_for(name, current)
        elif current is MISSING and frame.flow.is_needed_after(node, name):
            frame.locals[name] = Pending(frame.builder.depth)
    before = held(frame, names)
    with frame.trace.inside("while"), _loop(frame, "loop", before) as loop, frame.builder.body() as body:
        execute(frame, node.body)
    frame.builder.span = span
    _refuse_endless(spec.condition, body, span)
    frame.builder.emit(While(condition=spec.condition, body=tuple(body), span=span))
    for name, old in before.items():
        new = at_ends(frame, name, old, loop.jumps)
        is_kept = new is old or same_object(new, old) or (isinstance(old, Pending) and old.variable is new)
        put(frame, name, (new if isinstance(old, Pending) else old) if is_kept else Hidden("has a value only inside a run-time loop"))
    return Signal.NEXT


# ---- for


@executes(ast.For)
def _for(frame: Frame, node: ast.For) -> Signal:
    iterable = evaluate(frame, node.iter)
    span = frame.here(node.iter)
    match iterable:
        case range() if frame.builder.is_inside_launch:
            return _run_time_for(frame, node, _range_spec(iterable, span), span)
        case ForSpec():
            return _run_time_for(frame, node, iterable, span)
        case GridSpec():
            return _grid(frame, node, iterable, span)
        case MapSpec():
            return _map(frame, node, iterable, span)
        case PersistentSpec():
            return _persistent(frame, node, iterable, span)
        case Scalar() | Tile() | TileRegion() | PendingTensor():
            raise catalogue.E132.error(span, given=iterable.described)
    refuse_iterator(frame.trace, iterable, span)
    try:
        values = iter(iterable.taken() if isinstance(iterable, Vector) else iterable)
    except TypeError:
        raise catalogue.E132.error(span, given=arithmetic.describe(iterable)) from None
    return _unrolled(frame, node, values)


def _unrolled(frame: Frame, node: ast.For, values: Iterator[Any]) -> Signal:
    """A loop over Python values: its body is traced for each of them."""
    for value in values:
        kept = _bind_known(frame, node, value)
        with _loop(frame, "unrolled"):
            signal = execute(frame, node.body)
        frame.locals.update(kept)
        if signal is Signal.BREAK:
            return Signal.NEXT
        if signal is Signal.RETURN:
            return signal
    return Signal.NEXT


def _bind_known(frame: Frame, node: ast.For, value: Any) -> dict[str, Variable]:
    """Binds the targets to a value that is known. One that is a variable of the kernel is stored to, and means the value itself inside,
    so that conditions on it are decided while compiling; those variables are returned, to be put back after the iteration."""
    frame.here(node.target)
    names = {n.id: n for n in ast.walk(node.target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    assigned_inside = set().union(*(frame.flow.assigned(statement) for statement in node.body))
    variables = {n: v for n in names if n not in assigned_inside and is_variable(v := frame.locals.get(n))}
    for name in variables:
        del frame.locals[name]
    assign(frame, node.target, value, None)
    kept: dict[str, Variable] = {}
    for name, variable in variables.items():
        known = frame.locals[name]
        frame.locals[name] = variable
        assign(frame, names[name], known, None)
        if frame.locals[name] is variable:
            kept[name] = variable
            frame.locals[name] = known
    return kept


def _range_spec(values: range, span: Span) -> ForSpec:
    parts = {"start": values.start, "stop": values.stop, "step": values.step}
    exprs = {k: arithmetic.as_expr(v, span) for k, v in parts.items()}
    dtype = INT32
    for expr in exprs.values():
        dtype = arithmetic.common_dtype(dtype, expr.dtype)
    start, stop, step = (arithmetic.cast(expr, dtype, span) for expr in exprs.values())
    return ForSpec(kind=Serial(), start=start, stop=stop, step=step, span=span)


def is_empty(spec: ForSpec) -> bool:
    """Whether a loop is known to have no iteration."""
    if not (isinstance(spec.start, Const) and isinstance(spec.stop, Const) and isinstance(spec.step, Const)):
        return False
    return not range(int(spec.start.value), int(spec.stop.value), int(spec.step.value))


def _run_time_for(frame: Frame, node: ast.For, spec: ForSpec, span: Span) -> Signal:
    if is_empty(spec):
        return Signal.NEXT
    frame.builder.require_body("for")
    before = held(frame, prepare(frame, node, node))
    var = loop_variable(frame, _target_names(node.target, 1)[0], spec.start)
    with frame.trace.inside("for"), _loop(frame, "loop", before) as context, frame.builder.body() as body:
        kept = _bind_targets(frame, node, [Scalar(var)], is_tuple=False)
        execute(frame, node.body)
    frame.locals.update(kept)
    frame.builder.span = span
    warn_of_schedule(spec, len(node.body), body)
    loop = For(var=var, start=spec.start, stop=spec.stop, step=spec.step, kind=spec.kind, body=tuple(body), span=span)
    frame.builder.emit(loop)
    settle_after_loop(frame, node, before, [{**jump, **kept} for jump in context.jumps], span)
    return Signal.NEXT


def loop_variable(frame: Frame, name: str, bound: Expr) -> Var:
    """A fresh loop variable with the dtype of the loop's bounds."""
    return frame.builder.var(name, bound.dtype, "loop")


def _target_names(target: ast.expr, count: int) -> list[str]:
    """Names for the loop variables: the author's where the target is plain names."""
    names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    found = [n.id if isinstance(n, ast.Name) and n.id != "_" else "i" for n in names]
    return found if len(found) == count else [f"i{axis}" for axis in range(count)]


class LoopVariables(tuple[Scalar, ...]):
    """The variables of a loop over several extents under the one name that its target has."""

    __slots__ = ()

    @property
    def described(self) -> str:
        return f"the {len(self)} variables of a loop under one name"


def _bind_targets(frame: Frame, node: ast.For, values: list[Scalar], *, is_tuple: bool) -> dict[str, Variable]:
    """Binds the loop variables. A target that is read after the loop is stored at the top of each iteration, and stays the loop's
    own variable inside; those variables are returned, to be put back after the loop."""
    target = node.target
    targets = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    if len(targets) != len(values):
        if is_tuple and isinstance(target, ast.Name):
            frame.locals[target.id] = LoopVariables(values)
            return {}
        given = f"{counted(len(values), 'loop variable')} for {counted(len(targets), 'name')}"
        raise catalogue.E136.error(frame.here(target), message=given)
    assigned_inside: set[str] = set()
    for statement in node.body:
        assigned_inside |= frame.flow.assigned(statement)
    kept: dict[str, Variable] = {}
    for single, value in zip(targets, values):
        frame.here(single)
        current = frame.locals.get(single.id, MISSING) if isinstance(single, ast.Name) else MISSING
        if isinstance(single, ast.Name) and not (isinstance(current, Pending) or is_variable(current)):
            frame.locals[single.id] = value
            continue
        assign(frame, single, value, None)
        if isinstance(single, ast.Name) and single.id not in assigned_inside:
            kept[single.id] = frame.locals[single.id]
            frame.locals[single.id] = value
    return kept


def _grid(frame: Frame, node: ast.For, spec: GridSpec, span: Span) -> Signal:
    if any(isinstance(e, Const) and e.value <= 0 for e in spec.extents):
        return Signal.NEXT
    frame.builder.require_body("for")
    before = held(frame, prepare(frame, node, node))
    names = _target_names(node.target, len(spec.extents))
    variables = [loop_variable(frame, name, extent) for name, extent in zip(names, spec.extents)]
    kind: Literal["grid", "loop"] = "grid" if len(variables) > 1 else "loop"
    with frame.trace.inside("for"), _loop(frame, kind, before) as context, frame.builder.body() as body:
        kept = _bind_targets(frame, node, [Scalar(v) for v in variables], is_tuple=True)
        execute(frame, node.body)
    frame.locals.update(kept)
    frame.builder.span = span
    nested = tuple(body)
    for var, extent in zip(reversed(variables), reversed(spec.extents)):
        zero, one = const(0, var.dtype, span), const(1, var.dtype, span)
        nested = (For(var=var, start=zero, stop=extent, step=one, kind=Serial(), body=nested, span=span),)
    frame.builder.emit(nested[0])
    settle_after_loop(frame, node, before, [{**jump, **kept} for jump in context.jumps], span)
    return Signal.NEXT


def _persistent(frame: Frame, node: ast.For, spec: PersistentSpec, span: Span) -> Signal:
    """Waves of tiles: tile number ``wave * wave_size + index``, in panels of ``group_size`` along the last dimension."""
    frame.builder.require_body("for")
    before = held(frame, prepare(frame, node, node))

    def binary(op: Any, left: Any, right: Any) -> Expr:
        return arithmetic.binary(op, left, right, span)

    total: Expr = const(1, INT32, span)
    for extent in spec.domain:
        total = binary("mul", total, extent)
    rounded = binary("add", total, binary("sub", spec.wave_size, 1))
    waves = binary("floordiv", rounded, spec.wave_size)
    var = loop_variable(frame, "wave", waves)
    with frame.trace.inside("for"), frame.trace.inside("if"), _loop(frame, "loop", before) as context, frame.builder.body() as loop_body:
        builder = frame.builder
        tile = bind("tile", binary("add", binary("mul", var, spec.wave_size), spec.index))
        with builder.body() as body:
            coordinates = _panel(spec, tile, binary)
            kept = _bind_targets(frame, node, coordinates, is_tuple=True)
            execute(frame, node.body)
        builder.span = span
        builder.emit(If(condition=arithmetic.compare("lt", tile, total, span), then=tuple(body), span=span))
    frame.locals.update(kept)
    zero, one = const(0, var.dtype, span), const(1, var.dtype, span)
    frame.builder.emit(For(var=var, start=zero, stop=waves, step=one, kind=Persistent(), body=tuple(loop_body), span=span))
    settle_after_loop(frame, node, before, [{**jump, **kept} for jump in context.jumps], span)
    return Signal.NEXT


def _panel(spec: PersistentSpec, tile: Scalar, binary: Callable[[Any, Any, Any], Expr]) -> list[Scalar]:
    last = spec.domain[-1]
    leading: Expr = const(1, INT32)
    for extent in spec.domain[:-1]:
        leading = binary("mul", leading, extent)
    group = const(spec.group_size, last.dtype)
    size = binary("mul", leading, group)
    panel = bind("panel", binary("floordiv", tile, size))
    within = bind("within", binary("floormod", tile, size))
    first = bind("first", binary("mul", panel, group))
    width = bind("width", binary("min", group, binary("sub", last, first)))
    rest: Any = bind("rest", binary("floordiv", within, width))
    column = bind("column", binary("add", first, binary("floormod", within, width)))
    coordinates = [column]
    for axis in range(len(spec.domain) - 2, -1, -1):
        extent = spec.domain[axis]
        coordinates.insert(0, bind(f"row{axis}", rest.expr if axis == 0 else binary("floormod", rest, extent)))
        if axis:
            rest = bind("rest", binary("floordiv", rest, extent))
    return coordinates


# ---- T.Parallel


def _map(frame: Frame, node: ast.For, spec: MapSpec, span: Span) -> Signal:
    """Independent points. A variable from outside that a point assigns is the point's own inside: it begins with the outer value."""
    builder = frame.builder
    builder.require_body("T.Parallel")
    names = sorted(frame.flow.assigned(node) - frame.flow.outer_names)
    before = held(frame, names)
    variables = [
        loop_variable(frame, name, extent) for name, extent in zip(_target_names(node.target, len(spec.extents)), spec.extents)
    ]
    with frame.trace.inside("map"), _loop(frame, "map"), builder.body() as body:
        points = Points(tuple(variables), spec.extents, builder.depth)
        builder.points.append(points)
        builder.point_depths.append(builder.depth)
        try:
            for name in names:
                _make_private(frame, node, name, before[name])
            _bind_targets(frame, node, [Scalar(v) for v in variables], is_tuple=len(variables) > 1)
            execute(frame, node.body)
        finally:
            builder.point_depths.pop()
            builder.points.pop()
    builder.span = span
    ends = [end() for end in points.at_end]
    for ahead, _ in ends:
        splice(frame, ahead)
    axes, width = tuple(variables), spec.vector_width
    statement = Map(axes=axes, extents=spec.extents, body=tuple(body), vector_width=width, hints=spec.hints, span=span)
    builder.emit(statement)
    for _, behind in ends:
        splice(frame, behind)
    for name in names:
        new, old = frame.locals.get(name, MISSING), before[name]
        if new is old or new is MISSING or same_object(new, old):
            put(frame, name, old)
        else:
            reason = "is assigned in T.Parallel, where each point has its own, and is read after it"
            frame.locals[name] = Hidden(reason, "E115", old if is_variable(old) else None)
    return Signal.NEXT


def _make_private(frame: Frame, node: ast.For, name: str, value: Any) -> None:
    if isinstance(value, Pending):
        frame.locals.pop(name)
    elif is_variable(value):
        is_read_first = frame.flow.is_read_before_assigned(node, name)
        frame.locals[name] = empty_like(name, value, value if is_read_first else None)


