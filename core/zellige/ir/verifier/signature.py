"""Invariants 13 to 17 and 23: parameters, sizes, results, and what stands at the head of a launch.

In: the kernel or one of its launches and the :class:`Context`. Out: diagnostics in the context, and the
parameters' and the launch's names in its scope.
"""

from __future__ import annotations

from typing import get_args

from zellige.ir.expr import Expr, Var, constant_value
from zellige.ir.sizes import SizeSystem
from zellige.ir.stmt import Kernel, Launch, LayoutHint, NamedHint, ParamRole, RasterHint, ScalarParam, TensorParam
from zellige.ir.traverse import loads_in
from zellige.ir.verifier.context import Context, Frame
from zellige.ir.verifier.expressions import check, check_buffer, check_declaration, place, same

_ROLES = frozenset(get_args(ParamRole))


def check_signature(context: Context, kernel: Kernel) -> None:
    """Checks the parameters and results, and declares sizes, scalars and tensors."""
    sizes = SizeSystem.of(kernel)
    for size in sizes.variables:
        context.declare(size, "size")
        if size in sizes.unsolved:
            nothing = "does not follow from an argument: no argument has it as an extent or a stride"
            context.report(14, size.span, f"size {size.label} {nothing}")
        _scalar(context, size, "size")
    for param in kernel.params:
        if isinstance(param, ScalarParam):
            context.declare(param.var, "parameter")
            _scalar(context, param.var, "parameter")
            if param.var.kind not in ("scalar", "size"):
                context.report(3, param.var.span, f"parameter {param.var.label} is a {param.var.kind} variable, not scalar or size")
    for param in kernel.params:
        if isinstance(param, TensorParam):
            # before any tensor is declared, so that a shape that reads one is reported
            check_declaration(context, param.buffer, is_parameter=True)
    for param in kernel.params:
        if isinstance(param, TensorParam):
            _tensor(context, param)
    _results(context, kernel)


def _scalar(context: Context, var: Var, what: str) -> None:
    if var.dtype.lanes != 1 or (var.kind == "size" and not var.dtype.is_integer):
        context.report(13, var.span, f"{what} {var.label} is {var.dtype}")


def _tensor(context: Context, param: TensorParam) -> None:
    buffer = param.buffer
    context.declare(buffer, "parameter")
    if buffer.space != "global":
        context.report(13, buffer.span, f"parameter {buffer.label} is in the space {buffer.space}, not global")
    if buffer.alias is not None:
        context.report(13, buffer.span, f"parameter {buffer.label} is a view of {buffer.alias.label}")
    if param.role not in _ROLES:
        context.report(31, buffer.span, f"{param.role!r} is not a role of a parameter")


def _results(context: Context, kernel: Kernel) -> None:
    for position, index in enumerate(kernel.results):
        param = kernel.params[index] if 0 <= index < len(kernel.params) else None
        if not isinstance(param, TensorParam) or param.role == "workspace":
            context.report(15, kernel.span, f"result {position} is parameter {index}, which is no tensor that can be returned")
        if index in kernel.results[:position]:
            context.report(15, kernel.span, f"parameter {index} is returned twice")
    for index, param in enumerate(kernel.params):
        if isinstance(param, TensorParam) and param.role == "output" and index not in kernel.results:
            context.report(15, param.buffer.span, f"output {param.buffer.label} is not returned")


def check_launch_head(context: Context, launch: Launch) -> None:
    """Checks grid, threads, lanes and cluster; declares the grid and lane variables in the frame at hand."""
    for extent in launch.grid:
        _host_integer(context, extent, "an extent of the grid", least=0)
    if len(launch.grid_vars) != len(launch.grid):
        context.report(16, launch.span, f"{len(launch.grid_vars)} grid variables for a grid of {len(launch.grid)} dimensions")
    for extent in launch.threads or ():
        _host_integer(context, extent, "a number of threads", least=1)
    if launch.lane_vars and len(launch.lane_vars) != len(launch.threads or ()):
        counts = f"{len(launch.lane_vars)} lane variables for threads of {len(launch.threads or ())} dimensions"
        context.report(16, launch.span, counts)
    if launch.cluster is not None and (len(launch.cluster) > max(3, len(launch.grid)) or any(size < 1 for size in launch.cluster)):
        context.report(16, launch.span, f"a cluster of {launch.cluster}")
    warp = () if launch.warp is None else (launch.warp,)
    if warp and not launch.lane_vars:
        context.report(16, launch.span, "the width of a warp in a launch without lanes")
    for kind, variables in (("grid", launch.grid_vars), ("lane", (*launch.lane_vars, *warp))):
        for var in variables:
            context.declare(var, f"{kind} variable")
            if var.kind != kind:
                context.report(3, var.span, f"{kind} variable {var.label} is a {var.kind} variable")
            if not var.dtype.is_integer or var.dtype.lanes != 1:
                context.report(16, var.span, f"{kind} variable {var.label} is {var.dtype}, not an integer")


def _host_integer(context: Context, extent: Expr, what: str, *, least: int) -> None:
    check(context, extent)
    span = place(extent)
    if not extent.dtype.is_integer or extent.dtype.lanes != 1:
        context.report(16, span, f"{what} is {extent.dtype}, not an integer")
    if loads_in(extent):
        context.report(16, span, f"{what} reads a tensor: it must be known before the launch")
    value = constant_value(extent)
    if value is not None and value < least:
        context.report(16, span, f"{what} is {value}")


def check_launch_hints(context: Context, launch: Launch) -> None:
    """Checks safe values and hints, once the buffers of the launch are known; the frame at hand has the launch's variables."""
    parameters = {id(p.buffer) for p in context.kernel.params if isinstance(p, TensorParam)}
    known = parameters | context.launch_buffers
    for safe in launch.safe_values:
        context.span = safe.span or launch.span
        check(context, safe.value)
        if not same(safe.value.dtype, safe.buffer.dtype):
            context.report(18, place(safe.value), f"the safe value of {safe.buffer.label} ({safe.buffer.dtype}) is {safe.value.dtype}")
    for hint in launch.hints:
        context.span = hint.span or launch.span
        match hint:
            case LayoutHint():
                _layout(context, hint)
            case RasterHint():
                if hint.panel < 1 or hint.order not in ("row", "column"):
                    context.report(23, None, f"raster of panels of {hint.panel} by {hint.order!r}")
            case NamedHint():
                if not hint.name:
                    context.report(23, None, "a hint without a name")
    for named in (*launch.safe_values, *launch.hints):
        if isinstance(named, RasterHint) or named.buffer is None:
            continue
        context.span = named.span or launch.span
        if id(named.buffer.root) not in known:
            context.report(23, None, f"a hint names buffer {named.buffer.label}, which the launch does not have")
        elif named.buffer.alias is not None:
            context.visible.add(id(named.buffer.root))
            check_buffer(context, named.buffer, context.span)


def _layout(context: Context, hint: LayoutHint) -> None:
    outer, inner = context.frame, Frame((), depth=0, in_loop=False, in_map=False)
    context.open(inner, ((axis, "layout variable") for axis in hint.axes))
    check(context, *hint.forward, *(() if hint.lane is None else (hint.lane,)))
    for expr in (*hint.forward, *(() if hint.lane is None else (hint.lane,))):
        if not expr.dtype.is_integer:
            context.report(23, place(expr), f"a coordinate of the layout of {hint.buffer.label} is {expr.dtype}, not an integer")
    context.close(inner)
    context.frame = outer
    if hint.axes and len(hint.axes) != hint.buffer.rank:
        counts = f"{len(hint.axes)} variables for {hint.buffer.rank} dimensions"
        context.report(23, None, f"the layout of {hint.buffer.label} has {counts}")
    if (hint.kind == "map") != bool(hint.forward) or hint.replicate < 1:
        context.report(23, None, f"the layout {hint.kind!r} of {hint.buffer.label} is not complete")
