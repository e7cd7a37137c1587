"""Rows multiplied by one: a tile whose rows are each multiplied by a number of their own stays as it is where all numbers are one.

In: a Map. Out: the test, made before its loops, whether there is anything to do (:func:`is_needed`). Attention that runs online multiplies
what it has by such numbers for each block of keys, and all are one unless a larger score has come: a few vectors are looked at instead of
a tile being read and written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zellige.analysis.forms import ZERO, Form
from zellige.ir.expr import Binary, Load, constant_value
from zellige.ir.stmt import Map, Store
from zellige_cpu.context import Lanes
from zellige_cpu.expressions import evaluate
from zellige_cpu.indexes import i64
from zellige_cpu.values import Value, constant

if TYPE_CHECKING:
    from zellige_cpu.context import Context

_MOST_VECTORS: Final = 16
"""Vectors of factors that are looked at."""

_LEAST_COLUMNS: Final = 32
"""Elements of a row from which looking at its factor is little against multiplying it."""


def is_needed(ctx: Context, statement: Map) -> Value | None:
    """Whether a factor differs from one, as code at the current place; None where the Map is not such a product."""
    factor = None if ctx.lanes is not None else _factor(statement)
    if factor is None:
        return None
    lanes = ctx.host.lanes(4)
    rows, columns = (constant_value(extent) for extent in statement.extents)
    if rows is None or columns is None or rows % lanes or not lanes <= rows <= _MOST_VECTORS * lanes or columns < _LEAST_COLUMNS:
        return None
    fn, axis = ctx.fn, statement.axes[0]
    found: Value | None = None
    ctx.loaded = {}
    for first in range(0, int(rows), lanes):
        with ctx.nested():
            ctx.scope.add_variable(axis, ZERO, Form.of(int(rows) - 1))
            ctx.set_index(axis, i64(first))
            ctx.lanes = Lanes(axis, lanes)
            value = fn.splat(evaluate(ctx, factor), lanes)
            ctx.lanes, ctx.loaded = None, {}
        differs = fn.compare("une", value, constant(value.element, 1.0, lanes))
        found = differs if found is None else fn.binary("or", found, differs)
    return None if found is None else fn.intrinsic("llvm.vector.reduce.or", found)


def _factor(statement: Map) -> Load | None:
    """The factor of each row, an element of a tile of float32 with one of each row; None where the Map does anything else."""
    if len(statement.body) != 1 or len(statement.axes) != 2:
        return None
    (store,) = statement.body
    if not isinstance(store, Store):
        return None
    value = store.value
    if not isinstance(value, Binary) or value.op != "mul" or store.buffer.space == "global":
        return None
    for own, factor in ((value.left, value.right), (value.right, value.left)):
        if not (isinstance(own, Load) and own.buffer is store.buffer and own.indices == store.indices == statement.axes):
            continue
        if isinstance(factor, Load) and factor.indices == statement.axes[:1] and factor.dtype.name == "float32":
            is_apart = factor.buffer.root is not store.buffer.root and factor.buffer.space != "global"
            is_long = constant_value(factor.buffer.shape[0]) == constant_value(statement.extents[0]) is not None
            return factor if is_apart and is_long and factor.buffer.root is factor.buffer else None
    return None
