"""The axis of a Map along which vectors lie, and their lanes.

In: a Map, its extents and what its body touches. Out: a :class:`Shape`. The axis is the one along which most accesses are adjacent, among
those along which the body can be masked.
"""

from __future__ import annotations

from collections.abc import Sequence

from zellige.analysis.forms import Form
from zellige.dtypes import DType
from zellige.ir.expr import Binary, Buffer, Compare, Expr, ExprNode, Load, Math, Node, Var, constant_value
from zellige.ir.stmt import Alloc, Assign, Assume, Atomic, Bind, For, If, Map, ReducerUpdate, Store
from zellige.ir.traverse import walk
from zellige.plan.facts import statements_in
from zellige.records import dataclass
from zellige_cpu.accesses import element_offset
from zellige_cpu.clipped import NOTHING, Clip
from zellige_cpu.context import Context
from zellige_cpu.fusion import Fold, folds_of
from zellige_cpu.map_facts import Access
from zellige_cpu.storage import fits_stack
from zellige_cpu.types import ELEMENT_BITS, compute_dtype, memory_type, register_type

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


def choose_shape(ctx: Context, statement: Map, nodes: Sequence[Node], extents: list[Form], accesses: list[Access]) -> Shape:
    """The axis that suits vectors best and the lanes along it, for a body of these ``nodes``; one point at a time where none can be had."""
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
        from zellige_cpu.leaf.math import is_formula  # many kernels have no functions

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


def _score(ctx: Context, axis: Var, accesses: list[Access]) -> int:
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
    varying = _varying_names(statement, axis)
    return not any(_depends(bound, varying) for s in statements if isinstance(s, For) for bound in (s.start, s.stop, s.step))


def _varying_names(statement: Map, axis: Var) -> set[Var | Buffer]:
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
