"""Zeros that a product adds to: where all of a tile becomes zero right before a product adds to it, the product replaces it instead.

In: a statement and the one behind it. Out: the test under which the first does nothing but that (:func:`test`), which the product takes
as a reason to begin at zero (:func:`note`, :func:`taken`). Masks of attention are such zeros: where a block of keys is seen by all queries
of a block, what the mask adds is zero everywhere, and this is known before its loops.
"""

from __future__ import annotations

from math import copysign
from typing import TYPE_CHECKING

from zellige.ir.expr import Binary, Cast, Compare, Const, Expr, Region, Select, constant_value
from zellige.ir.stmt import Bind, Fill, Gemm, Map, Stmt, Store, is_whole
from zellige.passes import tile_operations
from zellige_cpu.indexes import conjunction, is_nonnegative
from zellige_cpu.map_facts import known_of_points
from zellige_cpu.values import TRUE, Value

if TYPE_CHECKING:
    from zellige.analysis.bounds import Scope
    from zellige.analysis.forms import Form
    from zellige_cpu.context import Context, EmitBody


def test(ctx: Context, statement: Stmt, following: Stmt) -> Value | None:
    """The test, made here, under which the statement makes all of what the following product adds to zero and does nothing else; None where
    that is never so."""
    if not isinstance(following, Gemm) or ctx.lanes is not None or not _is_tile_of_its_own(following):
        return None
    if isinstance(statement, Fill):
        is_all = id(statement) not in ctx.products.absorbed and statement.dst.buffer is following.c.buffer and is_whole(statement.dst)
        return TRUE if is_all and _is_zero(statement.value) else None
    if not isinstance(statement, Map) or not _covers(statement, following.c):
        return None
    known = known_of_points(ctx, statement)
    store = statement.body[-1]
    assert isinstance(store, Store)
    if not _is_zero_where(store.value, known.scope, known.holding):
        return None
    return conjunction(ctx, *(is_nonnegative(ctx, form) for form in known.tests)) or TRUE


def note(ctx: Context, product: Stmt, zero: Value) -> None:
    """The product is to begin at zero where the test holds: the tile is then undefined."""
    ctx.zeroed[id(product)] = zero


def taken(ctx: Context, product: Gemm) -> Value | None:
    """The test under which the product begins at zero, for the code that multiplies to take."""
    return ctx.zeroed.pop(id(product), None)


def fill(ctx: Context, product: Gemm, zero: Value, emit_body: EmitBody) -> None:
    """The zeros after all, before code that reads them."""
    with ctx.nested(), ctx.fn.when(zero):
        zeros = Const(value=0.0 if product.c.buffer.dtype.is_float else 0, dtype=product.c.buffer.dtype)
        emit_body(ctx, tile_operations.fill_as_map(Fill(dst=product.c, value=zeros, span=product.span)))


def _is_tile_of_its_own(product: Gemm) -> bool:
    tile = product.c.buffer
    others = (product.a.buffer.root, product.b.buffer.root)
    return is_whole(product.c) and tile.space != "global" and tile.root is tile and tile not in others


def _covers(statement: Map, target: Region) -> bool:
    """Whether the Map stores each element of the target once and does nothing else; values may be bound before."""
    *binds, store = statement.body
    if not isinstance(store, Store) or store.buffer is not target.buffer or not all(isinstance(b, Bind) for b in binds):
        return False
    shape = target.buffer.shape
    sizes = [constant_value(extent) for extent in statement.extents]
    return store.indices == statement.axes and None not in sizes and sizes == [constant_value(extent) for extent in shape]


def _is_zero(value: Expr) -> bool:
    while isinstance(value, Cast):
        value = value.value
    number = constant_value(value)
    return number is not None and number == 0 and copysign(1, number) > 0


def _is_zero_where(value: Expr, scope: Scope, holding: frozenset[Form]) -> bool:
    """Whether the value is zero where all of ``holding`` are at least 0."""
    while isinstance(value, Select) and _holds(value.condition, scope, holding):
        value = value.then
    return _is_zero(value)


def _holds(condition: Expr, scope: Scope, holding: frozenset[Form]) -> bool:
    pending = [condition]
    while pending:
        match pending.pop():
            case Binary(op="and", left=left, right=right):
                pending += [left, right]
            case Compare() as compare:
                forms = scope.differences(compare)
                if forms is None or not all(form in holding or scope.is_nonnegative(form, unmasked_only=True) for form in forms):
                    return False
            case _:
                return False
    return True
