"""The order in which a grid's blocks run: panels of blocks side by side, which share operands in the cache, or the last block first.

In: a planned launch. Out: the variables that the machine counts blocks by instead of the first of the launch, and the statements that
compute those from them. Machines start blocks in the order of their number, the first axis fastest: the number is cut into panels of some
blocks along one axis and all along the other, and within a panel the blocks of the first kind follow each other.
"""

from __future__ import annotations

from typing import Final

from zellige.ir.expr import INT32, INT64, Binary, BinaryOp, Const, Expr, Var, constant_value
from zellige.ir.folding import index_as
from zellige.ir.stmt import Bind
from zellige.plan.nodes import PlannedLaunch
from zellige.records import dataclass
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
    if plan.panel > 1 and len(launch.grid_vars) > 1 and why_not(planned) is None:
        return _in_panels(planned)
    if plan.from_last is None:
        return None
    place = launch.grid_vars.index(plan.from_last)
    counted = Var(name=f"{plan.from_last.name}_from_last", dtype=plan.from_last.dtype, kind="grid")
    value = _turned(planned, plan.from_last, counted)
    return Raster(axes=(*launch.grid_vars[:place], counted), statements=(Bind(var=plan.from_last, value=value),))


def _in_panels(planned: PlannedLaunch) -> Raster:
    launch, plan = planned.launch, planned.order
    x, y = (Var(name=f"{var.name}_{word}", dtype=INT32, kind="grid") for var, word in zip(launch.grid_vars, ("column", "row")))
    across, along = (0, 1) if plan.order == "row" else (1, 0)
    # as many blocks as there may be are counted in 64 bits where their number is not known
    dtype = INT32 if constant_value(launch.grid[0]) is not None else INT64
    extents = [index_as(extent, dtype) for extent in launch.grid[:2]]
    place = Var(name="place", dtype=dtype, kind="value")
    which = Var(name="panel", dtype=INT32, kind="value")
    rest = Var(name="in_panel", dtype=dtype, kind="value")
    height = Var(name="height", dtype=INT32, kind="value")
    size = _product(extents[across], Const(value=plan.panel, dtype=dtype))
    statements = [
        Bind(var=place, value=Binary(op="add", left=_product(index_as(y, dtype), extents[0]), right=index_as(x, dtype))),
        Bind(var=which, value=index_as(_joined("truncdiv", place, size), INT32)),
        Bind(var=rest, value=_joined("truncmod", place, size)),
        Bind(var=height, value=_height(index_as(launch.grid[along], INT32), which, plan.panel)),
    ]
    tall = index_as(height, dtype)
    values = {
        across: index_as(_joined("truncdiv", rest, tall), INT32),
        along: added((times(which, plan.panel), index_as(_joined("truncmod", rest, tall), INT32))),
    }
    for axis in (0, 1):
        var, value = launch.grid_vars[axis], index_as(values[axis], launch.grid_vars[axis].dtype)
        statements.append(Bind(var=var, value=_turned(planned, var, value) if var is plan.from_last else value))
    return Raster(axes=(x, y), statements=tuple(statements))


def _turned(planned: PlannedLaunch, var: Var, value: Expr) -> Expr:
    """The place that is as far from the last as ``value`` from the first."""
    extent = index_as(planned.launch.grid[planned.launch.grid_vars.index(var)], var.dtype)
    return Binary(op="sub", left=Binary(op="sub", left=extent, right=Const(value=1, dtype=var.dtype)), right=value)


def why_not(planned: PlannedLaunch) -> str | None:
    """Why blocks run in the machine's own order though the plan asks for panels; None where they do not."""
    launch = planned.launch
    if planned.order.panel <= 1 or len(launch.grid_vars) < 2:
        return None
    if planned.order.cluster is not None:
        return "clusters are made of neighbours in the machine's own order"
    first = constant_value(launch.grid[0])
    is_many = first is not None and int(first) > MOST_ALONG_FIRST
    return f"there are {first} blocks along {launch.grid_vars[0].name}" if is_many else None


def _height(extent: Expr, which: Expr, panel: int) -> Expr:
    """Blocks of a panel: fewer in the last."""
    known = constant_value(extent)
    if known is not None and int(known) % panel == 0:
        return number(panel)
    left = Binary(op="sub", left=extent, right=times(which, panel))
    return Binary(op="min", left=number(panel), right=left)


def _product(left: Expr, right: Expr) -> Expr:
    if isinstance(left, Const) and left.dtype == INT32:
        return times(right, int(left.value))
    is_narrow = isinstance(right, Const) and right.dtype == INT32
    return times(left, int(right.value)) if isinstance(right, Const) and is_narrow else Binary(op="mul", left=left, right=right)


def _joined(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    return Binary(op=op, left=left, right=right)
