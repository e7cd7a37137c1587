"""A kernel as one LLVM module: two functions a launch.

In: a planned kernel. Out: a :class:`Program`: the text and what is needed to run it.

``i64 cells_K(ptr args)`` is the number of grid cells of launch K, or of groups of cells that its plan takes together; ``void
launch_K(ptr args, i64 begin, i64 end, ptr scratch, ptr leaf, ptr states, ptr shared, i64 is_first)`` runs those in [begin, end), numbered
with the first grid axis fastest; ``is_first`` is not 0 in the first call that a thread makes for the launch, behind which its later ones
find in ``scratch`` what the calls before left there.
``args`` is an array of 8-byte slots: one pointer a tensor parameter, one value a scalar parameter (integers as 64 bits, floats as a
double), one a symbolic size, then the address of the status word and the function that prints. ``scratch`` and ``leaf`` are memory of
the calling thread, ``states`` (zero when the launch begins) and ``shared`` of all its threads, aligned to 64 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import ZERO, Form, is_index_dtype
from zellige.diagnostics import InternalError, catalogue
from zellige.ir.expr import Cast, Var
from zellige.ir.sizes import size_vars
from zellige.ir.stmt import Kernel, Launch, Print, ScalarParam, Stmt, TensorParam
from zellige.ir.traverse import rebuilt, walk
from zellige.options import CompileOptions
from zellige.passes.expand_vectors import expand_vectors
from zellige.plan.nodes import PlannedKernel, PlannedLaunch, PlanStmt
from zellige_cpu import effects, statements, streaming, tile_registers
from zellige_cpu.arithmetic import FAST_FLAGS
from zellige_cpu.context import Context, Way
from zellige_cpu.expressions import evaluate
from zellige_cpu.host import Host
from zellige_cpu.indexes import i64, uniform
from zellige_cpu.leaf import convert
from zellige_cpu.planned import choices_of, products_of
from zellige_cpu.preparation import expanded, joined
from zellige_cpu.program import LaunchProgram, Program
from zellige_cpu.storage import ScratchPlan, add_tensor, check_capacity, plan_scratch
from zellige_cpu.text import Function, Module
from zellige_cpu.types import FLOAT64, register_type
from zellige_cpu.values import Value
from zellige_cpu.wide_tiles import with_wide_tiles

_MOST: Final = 2**63 - 1


def lower(planned: PlannedKernel, host: Host, options: CompileOptions) -> Program:
    """The whole kernel as LLVM IR. Its plan has one role, since nothing here runs beside the vector engine."""
    plans = planned.launches
    kernel = rebuilt(planned.kernel, launches=tuple(rebuilt(p.launch, body=_body_of(p)) for p in plans))
    _refuse_unknown(kernel)
    kernel = expand_vectors(kernel)
    module = Module(kernel.name, host)
    module.header = f"kernel {kernel.name}"
    launches = tuple(_lower_launch(module, kernel, launch, plans[i], i, options) for i, launch in enumerate(kernel.launches))
    return Program(text=module.text(), launches=launches, symbols=frozenset(module.symbols))


def _body_of(planned: PlannedLaunch) -> tuple[Stmt, ...]:
    """The statements of the only role."""
    if len(planned.roles) != 1 or planned.channels:
        raise InternalError("a plan with several roles or with channels reached a machine that runs one")
    statements = []
    for statement in planned.roles[0].body:
        if isinstance(statement, PlanStmt):
            raise InternalError("a plan with synchronisation reached a machine that runs one role")
        statements.append(statement)
    return tuple(statements)


def _refuse_unknown(kernel: Kernel) -> None:
    for node in walk(kernel):
        if isinstance(node, Cast) and node.rounding == "stochastic":
            raise catalogue.E410.error(node.span, target="cpu", operation="stochastic rounding")


def _lower_launch(
    module: Module, kernel: Kernel, launch: Launch, planned: PlannedLaunch, number_of: int, options: CompileOptions
) -> LaunchProgram:
    cells = f"cells_{number_of}"
    coarsen = planned.order.coarsen or (1,) * len(launch.grid)
    _emit_cells(module, kernel, launch, coarsen, cells)
    narrow = expanded(launch)
    plain = with_wide_tiles(narrow, choices_of(planned, narrow), module.host)
    choices = choices_of(planned, plain)
    prepared = joined(plain)
    plan = plan_scratch(prepared)
    name = f"launch_{number_of}"
    memory = ("scratch", "leaf", "states", "shared")
    params = [("args", "ptr"), ("begin", "i64"), ("end", "i64"), *((n, "ptr") for n in memory), ("is_first", "i64")]
    fn = module.function(name, "void", params, is_exported=True)
    ctx = _context(fn, options)
    ctx.products = products_of(choices, prepared)
    ctx.plan = plan
    ctx.scratch, ctx.leaf, ctx.states, ctx.shared = fn.params[3:7]
    ctx.is_first = fn.params[7]
    ctx.memory.scratch_bytes = plan.total
    ctx.may_stream = streaming.may_stream(prepared)
    ctx.safe_values = {safe.buffer: safe.value for safe in prepared.safe_values}
    tile_registers.begin(ctx)
    _bind_arguments(ctx, kernel, plan)
    ctx.stop = fn.fresh_label("stop")
    extents = [ctx.scope.form(extent) for extent in prepared.grid]
    ctx.grid = {var: extent.constant for var, extent in zip(prepared.grid_vars, extents)}
    with ctx.nested(), fn.loop(fn.params[1], fn.params[2]) as loop:
        ctx.cell_end = loop.next
        effects.watch(ctx)
        with _grid(ctx, prepared, extents, coarsen, loop.index):
            statements.emit_body(ctx, prepared.body)
    fn.label(ctx.stop)
    streaming.fence(ctx)
    tile_registers.end(ctx)
    fn.ret()
    check_capacity(launch, plan, ctx.memory.scratch_bytes + ctx.memory.leaf_bytes, module.host.memory_bytes // module.host.cores)
    return LaunchProgram(
        function=name,
        cells=cells,
        memory=(ctx.memory.scratch_bytes, ctx.memory.leaf_bytes, ctx.memory.state_bytes, ctx.memory.shared_bytes),
        sites=tuple(ctx.sites),
        prints=any(isinstance(node, Print) for node in walk(prepared)),
        is_single=all(extent.constant == 1 for extent in extents),
        is_apart=ctx.memory.keeps_apart,
    )


def _context(fn: Function, options: CompileOptions) -> Context:
    ctx = Context(
        fn=fn, evaluate=evaluate, freeze=statements.frozen, freeze_offset=statements.frozen_offset, give=statements.give, scope=Scope()
    )  # fmt: skip
    if options.fast_math:
        ctx.precision, ctx.float_flags = "fast", FAST_FLAGS
    return ctx


def _emit_cells(module: Module, kernel: Kernel, launch: Launch, coarsen: Sequence[int], name: str) -> None:
    """How many pieces of work the launch is: cells, or groups of cells that its plan takes together; at most the greatest number."""
    fn = module.function(name, "i64", [("args", "ptr")], is_exported=True)
    ctx = _context(fn, CompileOptions())
    _bind_arguments(ctx, kernel, None)
    total = i64(1)
    for extent, factor in zip(launch.grid, coarsen):
        size = fn.intrinsic("llvm.smax", _groups(fn, uniform(ctx, ctx.scope.form(extent)), factor), i64(0))
        fits = fn.compare("sle", total, fn.binary("sdiv", i64(_MOST), fn.intrinsic("llvm.smax", size, i64(1))))
        total = fn.select(fits, fn.binary("mul", total, size), i64(_MOST))
    fn.ret(total)


def _groups(fn: Function, extent: Value, factor: int) -> Value:
    """Groups of ``factor`` that cover ``extent``."""
    return extent if factor == 1 else fn.binary("sdiv", fn.binary("add", extent, i64(factor - 1)), i64(factor))


def _bind_arguments(ctx: Context, kernel: Kernel, plan: ScratchPlan | None) -> None:
    """Load every argument that is needed: numbers always, since shapes mention them, pointers for a launch."""
    fn = ctx.fn
    args = fn.params[0]
    tensors = [p.buffer for p in kernel.params if isinstance(p, TensorParam)]
    scalars = [p.var for p in kernel.params if isinstance(p, ScalarParam)]
    slot = len(tensors)
    for var in scalars:
        _bind_scalar(ctx, var, fn.offset(args, 8 * slot))
        slot += 1
    for var in size_vars(kernel):
        ctx.scope.add_parameter(var)
        ctx.set_index(var, fn.load(fn.offset(args, 8 * slot), "i64", align=8))
        slot += 1
    for extent in (extent for tensor in tensors for extent in tensor.shape):
        ctx.scope.add_extent(extent)
    if plan is None:
        return
    for place, buffer in enumerate(tensors):
        add_tensor(ctx, buffer, fn.load(fn.offset(args, 8 * place), "ptr", align=8), plan, ctx.safe_values)
    ctx.status = fn.load(fn.offset(args, 8 * slot), "ptr", align=8)
    ctx.printer = fn.load(fn.offset(args, 8 * (slot + 1)), "ptr", align=8)


def _bind_scalar(ctx: Context, var: Var, place: Value) -> None:
    fn = ctx.fn
    if is_index_dtype(var.dtype):
        ctx.scope.add_parameter(var)
        ctx.set_index(var, fn.load(place, "i64", align=8))
    elif var.dtype.is_float:
        statements.bind_value(ctx, var, convert.cast(fn, fn.load(place, "double", align=8), FLOAT64, var.dtype))
    else:
        value = fn.resize(fn.load(place, "i64", align=8), register_type(var.dtype), is_signed=True)
        statements.bind_value(ctx, var, value)


@contextmanager
def _grid(ctx: Context, launch: Launch, extents: list[Form], coarsen: Sequence[int], piece: Value) -> Iterator[None]:
    """The grid's variables in the cells of a piece of work; of variables whose cells are taken together the last is the fastest."""
    fn = ctx.fn
    rest = piece
    firsts: list[tuple[Var, Value, Value, int]] = []
    for place, (var, extent, factor) in enumerate(zip(launch.grid_vars, extents, coarsen)):
        ctx.scope.add_variable(var, ZERO, extent - 1)
        if extent.constant == 1:
            ctx.set_index(var, i64(0))
            continue
        coordinate = rest
        if place < len(extents) - 1:
            size = _groups(fn, uniform(ctx, extent), factor)
            coordinate, rest = fn.binary("urem", rest, size), fn.binary("udiv", rest, size)
        if factor == 1:
            ctx.set_index(var, coordinate)
        else:
            firsts.append((var, fn.binary("mul", coordinate, i64(factor)), uniform(ctx, extent), factor))
    with ExitStack() as stack:
        for var, first, extent_value, factor in firsts:
            stack.enter_context(ctx.nested())
            stop = fn.intrinsic("llvm.smin", fn.binary("add", first, i64(factor)), extent_value)
            loop = stack.enter_context(fn.loop(first, stop))
            ctx.set_index(var, loop.index)
            ctx.cell_end = loop.next
            ctx.way = Way(var, fn.binary("sub", loop.index, first), factor)
        yield
