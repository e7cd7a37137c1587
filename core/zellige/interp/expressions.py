"""Evaluating expressions over all points of a frame at once.

In: an expression, a frame, the mask of active points. Out: an array with one value, or one a point. An expression is put into an order in
which operands come first, each node once, so that neither depth nor sharing costs anything; the order is kept for the next time.
The side of a Select that is not chosen is computed as well, which changes no value: reads outside a buffer are safe. What was
really read, for the reports, follows afterwards from the conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zellige.diagnostics import InternalError, catalogue
from zellige.elements import arithmetic, operations
from zellige.elements.conversion import Array, cast, reinterpret
from zellige.interp.frame import Frame, Place, Run
from zellige.interp.masks import Mask, active_points, both, either, mask_of, without
from zellige.interp.memory import Layout, Memory
from zellige.interp.names import shape_variables
from zellige.interp.report import AccessKind, index_text
from zellige.ir.expr import Binary, Buffer, Cast, Compare, Const, Expr, Load, Math, Reinterpret, Select, Unary, Var
from zellige.ir.traverse import children
from zellige.records import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One node: where its operands are among the results, how they give its value (None: a Var or Load), which results end here."""

    node: Expr
    operands: tuple[int, ...]
    apply: Callable[..., Array] | None
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """The nodes of ``expression``, operands before their users; its own value comes last."""

    expression: Expr
    steps: tuple[Step, ...]
    has_loads: bool


@dataclass(frozen=True, slots=True)
class Access:
    """The elements that a Load or Store names: their positions in the memory and whether each is inside the buffer."""

    buffer: Buffer
    place: Place
    layout: Layout
    indices: tuple[Array, ...]
    positions: Array
    inside: Array


def constant(node: Const) -> Array:
    """The value of a Const, with the lanes of a vector."""
    value = operations.constant(node.value, node.dtype.scalar)
    return value if node.dtype.lanes == 1 else np.full(node.dtype.lanes, value, value.dtype)


def operation(node: Expr, random: np.random.Generator | None) -> Callable[..., Array] | None:
    """What a node does to the values of its operands; None for a Var or Load. ``random`` is for stochastic rounding."""
    match node:
        case Const():
            value = constant(node)
            return lambda: value
        case Unary(op=op, dtype=dtype):
            return lambda x: arithmetic.unary(op, x, dtype)
        case Binary(op=binary_op, dtype=dtype):
            return lambda x, y: arithmetic.binary(binary_op, x, y, dtype)
        case Compare(op=compare_op, left=left):
            operand = left.dtype
            return lambda x, y: arithmetic.compare(compare_op, x, y, operand)
        case Select():
            spreads = node.condition.dtype.lanes < node.dtype.lanes
            return lambda c, x, y: np.asarray(np.where(c[..., None] if spreads else c, x, y))
        case Cast(value=value_node, dtype=dtype, rounding=rounding, saturate=saturate):
            source = value_node.dtype
            return lambda x: cast(x, source, dtype, rounding, saturate=saturate, random=random)
        case Math(function=function, args=args):
            operand = args[0].dtype
            return lambda *values: arithmetic.math_function(function, values, operand)
        case Reinterpret(value=value_node, dtype=dtype):
            source = value_node.dtype
            return lambda x: reinterpret(x, source, dtype)
        case Var() | Load():
            return None
        case _:
            raise InternalError(f"{type(node).__name__} is no expression")


def program_of(run: Run, expression: Expr) -> Program:
    """The order of evaluation of ``expression``, made once a run."""
    found = run.programs.get(id(expression))
    if found is None:
        found = run.programs[id(expression)] = _ordered(run, expression)
    return found


def _ordered(run: Run, expression: Expr) -> Program:
    position: dict[int, int] = {}
    nodes: list[Any] = []
    pending: list[tuple[Any, bool]] = [(expression, False)]
    while pending:
        node, is_ready = pending.pop()
        if id(node) in position:
            continue
        if is_ready:
            position[id(node)] = len(nodes)
            nodes.append(node)
        else:
            pending.append((node, True))
            pending.extend((child, False) for child in children(node))
    operands = [tuple(position[id(child)] for child in children(node)) for node in nodes]
    last_use = {operand: index for index, taken in enumerate(operands) for operand in taken}
    ends: list[list[int]] = [[] for _ in nodes]
    for operand, index in last_use.items():
        ends[index].append(operand)
    steps = tuple(Step(node, operands[i], operation(node, run.random), tuple(ends[i])) for i, node in enumerate(nodes))
    return Program(expression, steps, any(isinstance(node, Load) for node in nodes))


def evaluate(run: Run, frame: Frame, expression: Expr, mask: Mask = True) -> Array:
    """The value of ``expression``. Only points of ``mask`` count as reading."""
    if isinstance(expression, Var):
        return _variable(run, frame, expression)
    program = program_of(run, expression)
    is_watched = program.has_loads and run.report.is_any
    results: list[Any] = []
    accesses: dict[int, Access] = {}
    conditions: dict[int, Array] = {}
    for index, step in enumerate(program.steps):
        values = [results[i] for i in step.operands]
        if step.apply is not None:
            results.append(step.apply(*values))
        elif isinstance(step.node, Var):
            results.append(_variable(run, frame, step.node))
        else:
            assert isinstance(step.node, Load)
            access = locate(run, frame, step.node.buffer, values)
            results.append(read(run, access))
            accesses[index] = access
        if is_watched and (isinstance(step.node, Select) or (isinstance(step.node, Binary) and step.node.op in ("and", "or"))):
            conditions[index] = values[0]
        for operand in step.ends:
            results[operand] = None  # a sum of thousands of tiles would keep them all
    if is_watched:
        _report_reads(run, frame, program, accesses, conditions, mask)
    result: Array = results[-1]
    return result


def _variable(run: Run, frame: Frame, var: Var) -> Array:
    if var in frame.undefined_variables and run.statement is not None:
        run.findings.undefined_variable(run.statement, var)
    return frame.values[var]


def integer(run: Run, frame: Frame, expression: Expr, mask: Mask, *, what: str) -> int:
    """The value of an integer expression that all active points must agree on, such as an extent; ``what`` names it. Raises E641."""
    value = evaluate(run, frame, expression, mask)
    if value.ndim:
        active = value if mask is True else value[mask]
        if active.size == 0:
            return 0
        if (active != active[0]).any():
            raise catalogue.E641.error(run.span, what=what)
        value = active[0]
    return int(value)


def layout_of(run: Run, frame: Frame, buffer: Buffer, place: Place) -> Layout:
    """Extents and strides of a buffer or a view. They are kept with the storage, unless they may change while it lives."""
    found = place.layouts.get(buffer)
    if found is None:
        shape = tuple(integer(run, frame, extent, True, what=f"an extent of {buffer.label}") for extent in buffer.shape)
        if buffer.strides is None:
            found = Layout.dense(shape)
        else:
            strides = tuple(integer(run, frame, stride, True, what=f"a stride of {buffer.label}") for stride in buffer.strides)
            found = Layout(shape=shape, strides=strides)
        if all(var.kind in ("size", "scalar") for var in shape_variables(buffer)):
            place.layouts[buffer] = found
    return found


def locate(run: Run, frame: Frame, buffer: Buffer, indices: list[Array]) -> Access:
    """The element of ``buffer`` that ``indices`` name, for each point."""
    place = frame.places[buffer.root]
    layout = layout_of(run, frame, buffer, place)
    elements, inside = layout.locate(indices)
    return Access(buffer, place, layout, tuple(indices), place.memory.positions(elements, place.copies, buffer.dtype), inside)


def safe_value(run: Run, buffer: Buffer) -> Array:
    """What an element outside of ``buffer`` reads as."""
    found = run.safe_values.get(buffer)
    return found if found is not None else np.asarray(np.zeros((), np.float32)).astype(buffer.dtype.scalar.numpy)


def read(run: Run, access: Access) -> Array:
    """The values of the elements inside, the safe value for those outside."""
    dtype, inside = access.buffer.dtype, access.inside
    if not inside.any():
        outside = safe_value(run, access.buffer)
        shape = np.broadcast_shapes(access.positions.shape, (*inside.shape, dtype.lanes) if dtype.lanes > 1 else inside.shape)
        return np.full(shape, outside, outside.dtype)
    values = access.place.memory.read(access.positions, dtype)
    if inside.all():
        return values
    return np.where(inside[..., None] if dtype.lanes > 1 else inside, values, safe_value(run, access.buffer))


def _report_reads(run: Run, frame: Frame, program: Program, accesses: dict[int, Access], conditions: dict[int, Array], mask: Mask) -> None:
    """Decide which points reach each Load: users come before operands, a node's mask joins those of its uses."""
    masks: list[Mask] = [False] * len(program.steps)
    masks[-1] = mask
    for index in reversed(range(len(program.steps))):
        step, own = program.steps[index], masks[index]
        if own is False:
            continue
        parts: list[Mask] = [own] * len(step.operands)
        if index in conditions:
            condition = conditions[index]
            lanes_axis = () if program.steps[step.operands[0]].node.dtype.lanes == 1 else -1
            some, every = mask_of(np.asarray(condition.any(axis=lanes_axis))), mask_of(np.asarray(condition.all(axis=lanes_axis)))
            if isinstance(step.node, Select):
                parts[1], parts[2] = both(own, some), without(own, every)
            else:
                parts[1] = both(own, some) if step.node.op == "and" else without(own, every)  # type: ignore[union-attr]
        for operand, part in zip(step.operands, parts):
            masks[operand] = either(masks[operand], part)
        if index in accesses:
            report_read(run, frame, accesses[index], own)


def per_point(frame: Frame, mask: Mask, *arrays: Array, trailing: int = 0) -> tuple[Array, list[Array]]:
    """The active points, and the entries of each array for them; ``trailing`` last axes are not the points'."""
    points = active_points(mask, frame.count)
    found = []
    for array in arrays:
        rest = array.shape[array.ndim - trailing :] if trailing else ()
        found.append(np.broadcast_to(array, (frame.count, *rest))[points])
    return points, found


def report_read(run: Run, frame: Frame, access: Access, mask: Mask) -> None:
    """Look at the element that each active point reads."""
    dtype = access.buffer.dtype
    points, (inside,) = per_point(frame, mask, access.inside)
    report_outside(run, frame, access, mask)
    _, (positions,) = per_point(frame, mask, access.positions, trailing=int(dtype.lanes > 1))
    positions, points = positions[inside].ravel(), np.repeat(points[inside], dtype.lanes)
    report_undefined(run, access.place.memory, access.buffer, access.layout, positions)
    log_access(run, frame, access.buffer, access.place.memory, access.layout, positions, points, "read")
    log_blocks(run, access, positions, "read")


def report_undefined(run: Run, memory: Memory, buffer: Buffer, layout: Layout, positions: Array) -> None:
    """Note scalars that are read at ``positions`` (flat) and that nobody wrote."""
    if memory.undefined is None or not run.report.undefined or run.statement is None or not positions.size:
        return
    missing = positions[memory.any_half(memory.undefined, positions, buffer.dtype)]
    if missing.size:
        scalars = max(1, memory.copy_bytes * 8 // buffer.dtype.scalar.storage_bits)
        run.findings.undefined_read(run.statement, buffer, layout, missing % scalars // buffer.dtype.lanes)


def log_access(
    run: Run, frame: Frame, buffer: Buffer, memory: Memory, layout: Layout, positions: Array, points: Array, kind: AccessKind
) -> None:
    """Hand the accesses of the points of a Map to its race watch; all arrays are flat."""
    watch = frame.watch
    if watch is not None and buffer.root in watch.roots and positions.size and run.statement is not None:
        watch.log(run.statement, buffer, layout, memory, positions, points + frame.first_point, kind)


def log_blocks(run: Run, access: Access, positions: Array, kind: AccessKind, values: Array | None = None) -> None:
    """Hand accesses to a tensor to the watch over blocks; of a write before it is done, with the values."""
    if run.blocks is not None and access.buffer.root.space == "global" and positions.size and run.statement is not None:
        run.blocks.log(run.statement, access.buffer, access.layout, access.place.memory, positions, kind, values)


def report_outside(run: Run, frame: Frame, access: Access, mask: Mask) -> None:
    """Note element accesses outside of the buffer."""
    if not run.report.bounds or run.statement is None or access.inside.all():
        return
    _, (inside, *indices) = per_point(frame, mask, access.inside, *access.indices)
    outside = np.flatnonzero(~inside)
    if outside.size:
        first = index_text(tuple(int(index[outside[0]]) for index in indices))
        run.findings.outside(run.statement, access.buffer, access.layout, f"{access.buffer.label}[{first}]", outside.size)
