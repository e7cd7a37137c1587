"""Values computed from the elements of a region by loops: what T.sum(acc[i, :]), T.any_of(mask) and reductions to a variable stand on.

In: a region and an operation. Out: a scalar; the loops before it are emitted. Floats below 32 bits accumulate in float32 and round once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from zellige.dtypes import DType, dtype as as_dtype
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.values import Scalar, declare, here
from zellige.ir.expr import Const, Load, Math, Region, Var, const
from zellige.ir.reductions import identity
from zellige.ir.stmt import For, ReduceOp, Serial, Stmt


def over(region: Region, update: Callable[[Scalar], None]) -> None:
    """Emits nested serial loops over the points of a region around ``update(element)``."""
    builder = current_builder("a reduction of a region")
    axes: list[Var | None] = []
    for extent in region.extents:
        is_unit = isinstance(extent, Const) and extent.value == 1
        axes.append(None if is_unit else builder.var("r", extent.dtype, "loop"))
    bodies: list[list[Stmt]] = []
    with ExitStack() as stack:
        for axis in axes:
            if axis is not None:
                bodies.append(stack.enter_context(builder.body()))
        indices = tuple(
            offset if axis is None else arithmetic.binary("add", offset, axis, builder.span) for offset, axis in zip(region.offsets, axes)
        )
        update(Scalar(Load(buffer=region.buffer, indices=indices, span=builder.span)))
    loops = [(axis, extent) for axis, extent in zip(axes, region.extents) if axis is not None]
    for position in range(len(loops) - 1, -1, -1):
        axis, extent = loops[position]
        zero, one = const(0, axis.dtype), const(1, axis.dtype)
        loop = For(var=axis, start=zero, stop=extent, step=one, kind=Serial(), body=tuple(bodies[position]), span=builder.span)
        if position:
            bodies[position - 1].append(loop)
        else:
            builder.emit(loop)


def fold(region: Region, op: ReduceOp, result: DType, *, nan_propagate: bool = False, initial: Scalar | None = None) -> Scalar:
    """The reduction of all elements of a region as a value of dtype ``result``, combined with ``initial`` where it is given."""
    span = here()
    if op in ("any", "all"):
        accumulator = as_dtype("bool")
        first: Any = op == "all"
    else:
        source = region.buffer.dtype
        accumulator = arithmetic.common_dtype(source, result)
        accumulator = as_dtype("float32") if accumulator.is_float and accumulator.bits < 32 else accumulator
        skips_nan = op in ("max", "min") and accumulator.is_float and not nan_propagate
        first = math.nan if skips_nan else identity(op, accumulator)  # of NaN alone the result is NaN
    total = declare("total", accumulator, Scalar(arithmetic.cast(initial.expr, accumulator, span)) if initial is not None else first)

    def update(element: Scalar) -> None:
        value = arithmetic.cast(element.expr, accumulator, span)
        if op in ("absmax", "abssum") and value.dtype.kind != "uint":
            value = Math(function="abs", args=(value,), dtype=accumulator, span=span)
        match op:
            case "sum" | "abssum":
                combined = arithmetic.binary("add", total, value, span)
            case "max" | "absmax":
                combined = arithmetic.binary("max_nan" if nan_propagate else "max", total, value, span)
            case "min":
                combined = arithmetic.binary("min_nan" if nan_propagate else "min", total, value, span)
            case "prod":
                combined = arithmetic.binary("mul", total, value, span)
            case "bitand" | "bitor" | "bitxor":
                combined = arithmetic.binary(op, total, value, span)
            case "any" | "all":
                combined = arithmetic.binary("or" if op == "any" else "and", total, element, span)
        total.assign(Scalar(combined))

    over(region, update)
    return Scalar(arithmetic.cast(total.value().expr, result, span))
