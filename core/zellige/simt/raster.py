"""The order in which a grid's blocks run: panels of blocks side by side, which share operands in the cache, or the last block first.

In: a planned launch. Out: the variables that the machine counts blocks by instead of the first of the launch, and the statements that
compute those from them. Machines start blocks in the order of their number, the first axis fastest: the number is cut into panels of some
blocks along one axis and all along the other, and within a panel the blocks of the first kind follow each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zellige.ir.expr import INT32, Binary, BinaryOp, Cast, Const, Expr, Var, constant_value
from zellige.ir.stmt import Bind
from zellige.plan.nodes import PlannedLaunch
from zellige.simt.distribution import added, number, times

MOST_ALONG_FIRST: Final = 32767
"""Blocks along the first axis up to which the number of a block fits 32 bits, with the 65535 that machines take along the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raster:
    """``axes`` stand for the launch's first variables, which ``statements`` compute."""

    axes: tuple[Var, ...]
    statements: tuple[Bind, ...]


def raster_of(planned: PlannedLaunch) -> Raster | None:
    """The order that the plan asks for; None where it is the machine's own."""
    launch, plan = planned.launch, planned.order
    if plan.from_last is not None:
        return _from_last(planned, plan.from_last)
    if plan.panel <= 1 or len(launch.grid_vars) < 2 or why_not(planned) is not None:
        return None
    x, y = (Var(name=f"{var.name}_{word}", dtype=INT32, kind="grid") for var, word in zip(launch.grid_vars, ("column", "row")))
    across, along = (0, 1) if plan.order == "row" else (1, 0)
    extents = [_as_int32(extent) for extent in launch.grid[:2]]
    panel = number(plan.panel)
    place = Var(name="place", dtype=INT32, kind="value")
    which = Var(name="panel", dtype=INT32, kind="value")
    rest = Var(name="in_panel", dtype=INT32, kind="value")
    height = Var(name="height", dtype=INT32, kind="value")
    size = _product(extents[across], panel)
    statements = [
        Bind(var=place, value=added((_product(y, extents[0]), x))),
        Bind(var=which, value=_joined("truncdiv", place, size)),
        Bind(var=rest, value=_joined("truncmod", place, size)),
        Bind(var=height, value=_height(extents[along], which, plan.panel)),
    ]
    values = {across: _joined("truncdiv", rest, height), along: added((times(which, plan.panel), _joined("truncmod", rest, height)))}
    for axis in (0, 1):
        var, value = launch.grid_vars[axis], values[axis]
        statements.append(Bind(var=var, value=value if var.dtype == INT32 else Cast(value=value, dtype=var.dtype)))
    return Raster(axes=(x, y), statements=tuple(statements))


def _from_last(planned: PlannedLaunch, var: Var) -> Raster:
    """The machine counts from the first; the block takes the place as far from the last."""
    launch = planned.launch
    place = launch.grid_vars.index(var)
    counted = Var(name=f"{var.name}_from_last", dtype=var.dtype, kind="grid")
    extent = launch.grid[place]
    size = extent if extent.dtype == var.dtype else Cast(value=extent, dtype=var.dtype)
    last = Binary(op="sub", left=size, right=Const(value=1, dtype=var.dtype))
    bind = Bind(var=var, value=Binary(op="sub", left=last, right=counted))
    return Raster(axes=(*launch.grid_vars[:place], counted), statements=(bind,))


def why_not(planned: PlannedLaunch) -> str | None:
    """Why blocks run in the machine's own order though the plan asks for panels; None where they do not."""
    launch = planned.launch
    if planned.order.panel <= 1 or len(launch.grid_vars) < 2:
        return None
    if launch.cluster is not None:
        return "clusters are made of neighbours in the machine's own order"
    first = constant_value(launch.grid[0])
    if first is None:
        return f"how many blocks there are along {launch.grid_vars[0].name} is known at run time only"
    return f"there are {first} blocks along {launch.grid_vars[0].name}" if int(first) > MOST_ALONG_FIRST else None


def _height(extent: Expr, which: Expr, panel: int) -> Expr:
    """Blocks of a panel: fewer in the last."""
    known = constant_value(extent)
    if known is not None and int(known) % panel == 0:
        return number(panel)
    left = Binary(op="sub", left=extent, right=times(which, panel))
    return Binary(op="min", left=number(panel), right=left)


def _as_int32(extent: Expr) -> Expr:
    if isinstance(extent, Const):
        return number(int(extent.value))
    return extent if extent.dtype == INT32 else Cast(value=extent, dtype=INT32)


def _product(left: Expr, right: Expr) -> Expr:
    if isinstance(left, Const):
        return times(right, int(left.value))
    return times(left, int(right.value)) if isinstance(right, Const) else Binary(op="mul", left=left, right=right)


def _joined(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    return Binary(op=op, left=left, right=right)
