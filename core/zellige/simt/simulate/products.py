"""Products: operands gathered through their layouts, multiplied, scattered.

In: a product form and registers. Out: the registers of c afterwards. Floats are multiplied and summed in float64 and rounded once to the
type that the form accumulates in, then c is added and rounded again; integers wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from zellige.dtypes import DType
from zellige.elements.conversion import FLOAT64, cast, stored
from zellige.simt import ir
from zellige.simt.distribution import Distribution
from zellige.simt.simulate import faults

if TYPE_CHECKING:
    from zellige.simt.simulate.compile import Compiler
    from zellige.simt.simulate.warp import Warp

Array = Any


def operand_of(compiler: Compiler, registers: ir.Registers, kind: Hashable | None = None) -> Callable[..., Array]:
    """What gives a view of so many registers of every lane, axes lane and register. ``kind`` is that of an asynchronous product, as
    :class:`~zellige.simt.simulate.readiness.Readiness` tells them apart."""
    start, buffer, span, touch = compiler.value(registers.start), registers.buffer, compiler.span, compiler.touching(registers.buffer)

    def view(warp: Warp, mask: Any, count: int) -> Array:
        first = int(start(warp, mask))
        held = warp.view(buffer)
        if first < 0 or first + count > held.shape[1]:
            raise faults.outside(span, buffer.name, first + count - 1, held.shape[1], warp.threads)
        warp.marks(buffer)[:, first : first + count] = True
        if kind is not None:
            warp.readiness.take(span, buffer, first, count, kind)
        elif touch is not None:
            touch(warp, slice(first, first + count))
        return held[:, first : first + count]

    return view


def places(layout: Distribution, lanes: int, warp: int) -> tuple[Array, Array]:
    """Row and column of what each register of each lane holds, axes lane and register."""
    register, lane = np.arange(layout.registers)[None, :], np.arange(lanes)[:, None]
    rows, columns = layout.coordinates(register, lane, np.full((1, 1), warp, np.int64))
    shape = (lanes, layout.registers)
    return np.broadcast_to(rows, shape), np.broadcast_to(columns, shape)


def widened(values: Array, dtype: DType, into: DType) -> Array:
    """Operands as what is multiplied: float64 of floats, int64 of integers."""
    if into.is_float:
        return cast(stored(values, dtype), dtype, FLOAT64)
    return values.astype(np.int64)


def multiplied(a: Array, b: Array, form: ir.ProductForm) -> Array:
    """a @ b in the type that sums are kept in."""
    into = form.accumulates_in
    total = widened(a, form.a, into) @ widened(b, form.b, into)
    return cast(total, FLOAT64, into) if into.is_float else total.astype(into.numpy)


def product(form: ir.ProductForm) -> Callable[[Array, Array, Array], Array]:
    """Of the registers of a, b and c (axes lane and register) the new ones of c."""
    lanes = max(form.a_layout.count("lane"), form.b_layout.count("lane"), form.c_layout.count("lane"))
    a_at, b_at, c_at = (places(layout, lanes, 0) for layout in (form.a_layout, form.b_layout, form.c_layout))

    def run(a: Array, b: Array, c: Array) -> Array:
        left, right = np.zeros((form.m, form.k), a.dtype), np.zeros((form.k, form.n), b.dtype)
        left[a_at], right[b_at] = a, b
        return added(multiplied(left, right, form)[c_at], c, form)

    return run


def added(total: Array, c: Array, form: ir.ProductForm) -> Array:
    """c + total in the type that sums are kept in, as elements of c."""
    with np.errstate(all="ignore"):
        into = form.accumulates_in
        result = np.asarray(cast(c, form.c, into) + total)
        return cast(result, into, form.c)
