"""From a plan to thread-level programs: one function a launch.

In: a :class:`~zellige.plan.nodes.PlannedKernel` and a :class:`~zellige.simt.machine.LaneMachine`. Out: a :class:`~zellige.simt.ir.Module`.
Raises Unsupported (E410) for what the family does not lower, E301 where shared memory is too small.

Order: lanes of a block -> warps of products -> who holds fragments (:mod:`zellige.simt.solve`) -> where shared tiles lie -> statements
(:mod:`zellige.simt.control`) -> barriers (:mod:`zellige.simt.code`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import Form, is_index_dtype
from zellige.diagnostics import CompileError, InternalError, Span, catalogue
from zellige.dtypes import dtype as as_dtype
from zellige.ir.expr import INT32, Binary, Buffer, Cast, Const, Expr, Var, constant_value
from zellige.ir.functions import FUNCTIONS
from zellige.ir.lanes import lane_dependence
from zellige.ir.sizes import size_vars
from zellige.ir.stmt import Alloc, Bind, Gemm, Kernel, Launch, LayoutHint, Map, NamedHint, Reduce, ScalarParam, StmtNode, Store, TensorParam
from zellige.ir.traverse import walk
from zellige.layouts import Banks
from zellige.plan.clusters import has_clusters
from zellige.plan.nodes import Choice, PlannedKernel, PlannedLaunch, Role
from zellige.plan.products import sizes_of
from zellige.simt import channels, control, storage
from zellige.simt.code import Code, Resource, with_barriers, without_barriers
from zellige.simt.context import Context
from zellige.simt.copy_groups import with_few_groups
from zellige.simt.distribution import number
from zellige.simt.engine_tiles import EngineStorage, EngineTiles, NotLowered, engine_swizzle
from zellige.simt.homes import (
    TENSOR_ALIGNMENT,
    GlobalHome,
    LaneHome,
    RegisterHome,
    SharedHome,
    dense_forms,
    dense_strides,
)
from zellige.simt.ir import GRID_AXES, THREAD, Exchange, Function, Memory, Module, Parameter, Pointer, Scalar, Stmt, Tile
from zellige.simt.lane_products import tile_lanes
from zellige.simt.machine import LaneMachine
from zellige.simt.packing import Room, aligned, packed, resources_that_meet
from zellige.simt.products import sizes
from zellige.simt.raster import raster_of, why_not
from zellige.simt.repeated_parts import with_parts_named
from zellige.simt.residence import OWN_MEMORY, indexed_by_numbers, settled
from zellige.simt.roles import lower_roles
from zellige.simt.solve import Solution, Solver
from zellige.simt.spelling import OWN_NAMES, WIDE
from zellige.simt.statements import statements_of
from zellige.simt.storage import Storage
from zellige.simt.taking_part import with_lanes_named
from zellige.simt.warps import WarpTiling, tile_warps
from zellige.simt.words import declared_in, is_among, is_reserved

UINT8 = as_dtype("uint8")
_TAKEN = frozenset(("shared", "lane", "warp", "thread", "printf", "memcpy", "malloc", "free", *FUNCTIONS)) | OWN_NAMES | declared_in(WIDE)


class Overfull(CompileError):
    """E301 with the number of bytes that are too many."""

    excess = 0


def lower(planned: PlannedKernel, machine: LaneMachine, *, synchronises: bool = True) -> Module:
    """The thread-level programs of a planned kernel, as :func:`lower_launch` makes them. Roles that are not lowered are
    whoever's fault the plan is; :mod:`zellige.simt.fitting` asks for other plans instead."""
    try:
        functions = tuple(
            lower_launch(planned.kernel, launch, machine, index, synchronises=synchronises)
            for index, launch in enumerate(planned.launches)
        )
    except NotLowered as reason:
        raise InternalError(f"a launch of several roles was chosen and is not lowered: {reason}") from reason
    return Module(name=planned.kernel.name, functions=functions)


def lower_launch(
    kernel: Kernel, planned: PlannedLaunch, machine: LaneMachine, index: int, *, synchronises: bool = True, has_gaps: bool = True
) -> Function:
    """The function of launch number ``index``; the wishes for layouts are followed unless the tiles fit without them only.
    ``synchronises`` False: the author places every barrier of lane code. ``has_gaps`` False: rows of tiles lie one behind the other, with
    conflicts of banks where only gaps between them would prevent these.

    Raises Overfull (E301), Unsupported (E410), and NotLowered (:mod:`zellige.simt.engine_tiles`) for roles that the family does not lower.
    """
    try:
        return LaunchLowering(kernel, planned, machine, index, synchronises=synchronises, has_gaps=has_gaps).function()
    except CompileError as error:
        if error.code != catalogue.E301.id or not any(isinstance(hint, LayoutHint) for hint in planned.launch.hints):
            raise
    again = LaunchLowering(kernel, planned, machine, index, synchronises=synchronises, has_gaps=has_gaps, follows_layouts=False)
    return again.function()


def function_name(kernel: str, index: int, reserved: frozenset[str] = frozenset()) -> str:
    """The name of a launch's function: the kernel's, with a number from the second launch on and an ending where languages of the family
    or one of them (``reserved``, with patterns: :func:`~zellige.simt.words.is_among`) use the name themselves or write it otherwise."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in kernel)
    name = plain if index == 0 else f"{plain}_{index}"
    if plain == kernel and not is_reserved(name) and not name[0].isdigit() and name not in _TAKEN and not is_among(name, reserved):
        return name
    return f"{'x' if name[0] in '_0123456789' else ''}{name}_kernel"


class LaunchLowering:
    """One launch. What is public serves :mod:`zellige.simt.roles`."""

    def __init__(
        self, kernel: Kernel, planned: PlannedLaunch, machine: LaneMachine, index: int, *, synchronises: bool, follows_layouts: bool = True,
        has_gaps: bool = True,
    ) -> None:  # fmt: skip
        self._kernel = kernel
        self.planned = planned
        self._launch: Launch = planned.launch
        self.machine = machine
        self._index = index
        self._synchronises = synchronises
        self._raster = raster_of(planned)
        self._follows_layouts = follows_layouts
        self._has_gaps = has_gaps
        self._folded = Var(name="rest", dtype=INT32, kind="grid")
        self._name = function_name(kernel.name, index, machine.reserved)

    def function(self) -> Function:
        if len(self.planned.roles) > 1:
            return lower_roles(self)
        launch = self._launch
        has_lanes = bool(launch.lane_vars)
        threads = self._threads(has_lanes)
        tilings, solution = self._solved(threads)
        needed, wider = _registers(solution), None
        while not has_lanes and self._are_too_few(solution, threads):
            threads = wider = 2 * threads
            tilings, solution = self._solved(threads)
        context = self.context(solution, tilings, threads, has_lanes=has_lanes)
        if wider:
            asked = self._threads(has_lanes)
            context.notes.append(f"the block has {wider} lanes: with the {asked} asked for, fragments take {needed} registers of each")
        params = self.parameters(context)
        self.shared_tiles(context, solution.shared, {})
        role = self.planned.roles[0]
        self.head(context)
        channels.declare(context, self.planned.channels)
        self.fragments(context, solution)
        control.emit_body(context, role.body)
        body = context.code.statements
        if not has_lanes:
            placed = with_barriers(body, self._share_bytes(context))
        else:
            placed = with_barriers(body) if self._synchronises else without_barriers(body)
            if self.machine.meets_by_name:
                placed = with_lanes_named(placed, [*self._grid_vars(), *(p.var for p in params if isinstance(p, Scalar))])
        return self.finished(context, solution, params, placed, min_blocks=_min_blocks(launch))

    def finished(
        self, context: Context, solution: Solution, params: tuple[Parameter, ...], body: tuple[Stmt, ...], *, min_blocks: int | None,
        registers: int | None = None,
    ) -> Function:  # fmt: skip
        """The function with its body and the memory that the context has given out."""
        body = with_few_groups(with_parts_named(body))
        launch, engines = self._launch, self.machine.engines
        memories, total = self._memories(context)
        tiles, made = self.planned.order.tiles, self._tiles(context)
        elsewhere = _elsewhere(solution, made, body)
        return Function(
            name=self._name, params=params, grid=self._grid(), grid_vars=self._grid_vars(), threads=context.threads,
            lanes=self.machine.lanes, body=body, memories=memories, shared_bytes=total, cluster=self._cluster(), min_blocks=min_blocks,
            workers=None if tiles is None else tiles.workers, registers=registers, header=self._header(context, elsewhere), tiles=made,
            exchange=None if engines is None else Exchange(piece_bytes=engines.piece_bytes, rows=engines.rows),
            meeting=_own_stores(launch), elsewhere=elsewhere, span=launch.span,
        )  # fmt: skip

    def _cluster(self) -> tuple[int, ...] | None:
        """The blocks of a cluster along the axes of the grid, where a channel joins them."""
        cluster = self.planned.order.cluster
        if cluster is None or not has_clusters(self.planned):
            return None
        return (*cluster, *[1] * (GRID_AXES - len(cluster)))[:GRID_AXES]

    # ---- the block ----

    def _solved(self, threads: int) -> tuple[dict[int, WarpTiling], Solution]:
        """The warps of products, and who holds fragments, in a block of so many lanes."""
        warps = -(-threads // self.machine.lanes)
        is_whole = threads % self.machine.lanes == 0
        tilings = self.tilings(self.planned.roles[0], warps, EngineTiles()) if is_whole else {}
        solver = Solver(self.planned, tilings, lanes=self.machine.lanes, warps=warps, are_warps_whole=is_whole)
        return tilings, solver.solve()

    def _are_too_few(self, solution: Solution, threads: int) -> bool:
        """Whether fragments do not fit the registers that a lane can name, and each lane of twice as many can have as many."""
        machine, registers = self.machine, self.machine.capabilities.registers
        most = 0 if registers is None else registers.per_lane
        may_double = 2 * threads <= machine.block_lanes and 2 * threads * most <= machine.block_registers
        return 0 < most < _registers(solution) and may_double

    def _threads(self, has_lanes: bool) -> int:
        wanted = 1
        for extent in self._launch.threads or ():
            value = constant_value(extent)
            if value is None:
                raise catalogue.E410.error(
                    self._launch.span, target=self.machine.capabilities.target, operation="a number of threads that is not constant"
                )
            wanted *= int(value)
        if self._launch.threads is None:
            wanted = self.machine.default_lanes
        if has_lanes:
            return wanted
        lanes = self.machine.lanes
        return min(max(lanes, -(-wanted // lanes) * lanes), self.machine.block_lanes)

    def tilings(self, role: Role, warps: int, tiles: EngineTiles) -> dict[int, WarpTiling]:
        """How the warps of a role share its products; those of engines as ``tiles`` has them."""
        found: dict[int, WarpTiling] = {}
        choices = {id(choice.operation): choice for choice in self.planned.choices}
        statements = list(statements_of(role.body))
        by_rows = _reduced_by_rows(statements)
        for statement in statements:
            if isinstance(statement, Gemm):
                tiling = tiles.tilings.get(id(statement)) or self._tiling(statement, choices.get(id(statement)), warps, by_rows)
                if tiling is not None:
                    found[id(statement)] = tiling
        return found

    def _tiling(self, gemm: Gemm, choice: Choice | None, warps: int, by_rows: frozenset[int]) -> WarpTiling | None:
        if any(r.buffer.root.space not in ("shared", "fragment") for r in (gemm.a, gemm.b)):
            return None  # a lane's own tile, or a tensor: each element is read where it is
        if any(s is None for s in sizes_of(gemm)) or gemm.metadata or gemm.scale_a or gemm.scale_b:
            return None
        form = self.machine.form_of(choice.unit) if choice is not None else None
        if form is None:
            return tile_lanes(gemm, self.machine.lanes, warps)
        m, n, _ = sizes(gemm)
        has_rows = m in by_rows and m >= form.m * warps
        return tile_warps(form, m, n, warps, "full_row" if has_rows and gemm.policy == "square" else gemm.policy)

    # ---- names that stand for the launch ----

    def context(self, solution: Solution, tilings: dict[int, WarpTiling], threads: int, *, has_lanes: bool) -> Context:
        launch = self._launch
        written = {r.buffer.root for s in walk(launch) if isinstance(s, StmtNode) for r in s.writes() if r.buffer.root.space == "global"}
        return Context(
            kernel=self._kernel, planned=self.planned, machine=self.machine, threads=threads, homes={}, maps=dict(solution.maps),
            code=Code(), scope=Scope(), safe_values={s.buffer: s.value for s in launch.safe_values}, written_tensors=frozenset(written),
            has_lanes=has_lanes, emit_body=control.emit_body, tilings=tilings,
            as_maps=dict(solution.as_maps), factors={id(c.operation): c.factor for c in self.planned.choices if c.factor is not None},
            dependence=lane_dependence(launch) if has_lanes else None, synchronises=self._synchronises,
        )  # fmt: skip

    def parameters(self, context: Context) -> tuple[Parameter, ...]:
        params: list[Parameter] = []
        for param in self._kernel.params:
            if isinstance(param, ScalarParam):
                params.append(Scalar(var=param.var))
                if is_index_dtype(param.var.dtype):
                    context.scope.add_parameter(param.var)
        given = {p.var for p in params if isinstance(p, Scalar)}
        for var in size_vars(self._kernel):
            context.scope.add_parameter(var)
            if var not in given:
                params.append(Scalar(var=var))
        tensors = [param.buffer for param in self._kernel.params if isinstance(param, TensorParam)]
        for extent in (extent for tensor in tensors for extent in tensor.shape):
            context.scope.add_extent(extent)
        params += [self._tensor(context, tensor) for tensor in tensors]
        return tuple(params)

    def _tensor(self, context: Context, tensor: Buffer) -> Pointer:
        strides = tensor.strides if tensor.strides is not None else dense_forms(context.scope, tensor.shape)
        span = Form.of(1)
        for extent, stride in zip(tensor.shape, strides):
            span = span + (context.scope.form(extent) - 1) * context.scope.sum(stride)
        dtype = tensor.dtype
        if dtype.storage_bits < 8:
            dtype = UINT8
            per_byte = 8 // tensor.dtype.storage_bits
            size: Expr = Binary(
                op="floordiv", left=(span + (per_byte - 1)).expression(), right=Const(value=per_byte, dtype=as_dtype("int64"))
            )
        else:
            size = span.expression()
        memory = Buffer(name=tensor.name, dtype=dtype, shape=(size,), space="global", span=tensor.span)
        context.homes[tensor] = GlobalHome(memory=memory, extents=tensor.shape, strides=tuple(strides))
        is_written = tensor in context.written_tensors
        return Pointer(buffer=memory, tensor=tensor, alignment=TENSOR_ALIGNMENT, is_written=is_written, is_aliased=is_written)

    def shared_tiles(self, context: Context, shared: Mapping[Buffer, str], storage: Mapping[Buffer, EngineStorage]) -> None:
        """Shared buffers, and fragments that live in shared memory, one after the other; first those that are stored for engines."""
        slots = {b.root: c.depth for c in self.planned.channels for b in c.buffers}
        named = (getattr(n, "buffer", None) for n in walk(self._launch))
        viewed = {b.root for b in named if isinstance(b, Buffer) and b.alias is not None}
        operands = {r.buffer.root for n in walk(self._launch) if isinstance(n, Gemm) for r in (n.a, n.b)}
        for buffer, stored in storage.items():
            self._engine_tile(context, buffer, slots.get(buffer, 1), stored)
        for node in walk(self._launch):
            if not isinstance(node, Alloc) or node.buffer in context.homes:
                continue
            buffer = node.buffer
            if buffer.space == "shared" or buffer in shared:
                is_viewed = buffer in viewed
                can_move = buffer in operands and not is_viewed
                self._shared_tile(context, buffer, slots.get(buffer, 1), can_move=can_move, is_viewed=is_viewed)

    def _engine_tile(self, context: Context, buffer: Buffer, slots: int, stored: EngineStorage) -> None:
        """A tile in slabs, swizzled over their rows; every slot begins where the swizzle does."""
        size = buffer.dtype.bytes
        extents = tuple(int(constant_value(e) or 0) for e in buffer.shape)
        engines = self.machine.engines
        assert engines is not None, "tiles are stored for engines that there are"
        swizzle = engine_swizzle(engines, stored.span, size)
        pitch = [*(p // max(1, extents[-1]) * stored.slab for p in dense_strides(extents)[:-1]), 1]
        per_slot = aligned(stored.rows * stored.columns * size, engines.alignment) // size
        memory = Buffer(name=buffer.name, dtype=buffer.dtype, shape=(number(per_slot * slots),), space="shared", span=buffer.span)
        offset = aligned(context.shared_bytes, engines.alignment)
        context.memories.append(Memory(buffer=memory, offset=offset))
        context.shared_bytes = offset + per_slot * slots * size
        context.homes[buffer] = SharedHome(
            memory=memory, extents=extents, pitch=tuple(pitch), swizzle=swizzle, slots=slots, slot_elements=per_slot, slab=stored.slab,
            slab_elements=stored.slab_elements,
        )  # fmt: skip
        if any(isinstance(h, LayoutHint) and h.buffer.root is buffer for h in self._launch.hints):
            context.notes.append(f"{buffer.name} is not stored as asked: engines read it in swizzled rows of {stored.span} bytes")

    def _shared_tile(self, context: Context, buffer: Buffer, slots: int, *, can_move: bool, is_viewed: bool) -> None:
        values = [constant_value(e) for e in buffer.shape]
        if not all(isinstance(v, int) for v in values):
            raise catalogue.E410.error(
                buffer.span, target=self.machine.capabilities.target, operation=f"the tile {buffer.label} of a size that is not constant"
            )
        extents = tuple(int(v or 0) for v in values) or (1,)
        element = max(1, buffer.dtype.bytes)
        stored = self._storage(context, buffer, extents, element, can_move=can_move, is_viewed=is_viewed)
        per_slot = aligned(stored.elements * element) // element
        memory = Buffer(name=buffer.name, dtype=buffer.dtype, shape=(number(per_slot * slots),), space="shared", span=buffer.span)
        context.memories.append(Memory(buffer=memory, offset=context.shared_bytes))
        context.shared_bytes += aligned(per_slot * slots * element)
        context.homes[buffer] = SharedHome(
            memory=memory, extents=extents, pitch=stored.pitch, swizzle=stored.swizzle, slots=slots, slot_elements=per_slot
        )

    def _storage(
        self, context: Context, buffer: Buffer, extents: tuple[int, ...], element: int, *, can_move: bool, is_viewed: bool
    ) -> Storage:
        """Free of bank conflicts where a product reads the tile, unless its author asks for something else."""
        banks = Banks(count=self.machine.banks, width=self.machine.bank_bytes)
        chosen, dense = storage.without_conflicts(extents, element, banks) if can_move else storage.rows(extents), storage.rows(extents)
        if not self._has_gaps and chosen.elements > dense.elements:
            context.notes.append(f"rows of {buffer.name} have no gaps against conflicts of banks: with them the tiles would not fit")
            chosen = dense
        hint = next((h for h in self._launch.hints if isinstance(h, LayoutHint) and h.buffer.root is buffer), None)
        if hint is None:
            return chosen
        if is_viewed or not self._follows_layouts:
            reason = "it is seen in another shape or type" if is_viewed else "so the tiles would need more shared memory than a block has"
            context.notes.append(f"{buffer.name} is not stored as asked: {reason}")
            return chosen
        stored = storage.hinted(hint, extents, element, banks, chosen)
        context.notes.append(stored.note)
        return stored

    def fragments(self, context: Context, solution: Solution) -> None:
        for buffer, distribution in solution.distributions.items():
            extents = tuple(int(constant_value(e) or 0) for e in buffer.shape)
            memory = Buffer(
                name=buffer.name, dtype=buffer.dtype, shape=(number(distribution.registers),), space="registers", span=buffer.span
            )
            context.homes[buffer] = RegisterHome(memory=memory, extents=extents, distribution=distribution)
        for hint in self._launch.hints:
            if isinstance(hint, LayoutHint) and hint.buffer.root in solution.distributions:
                context.notes.append(f"{hint.buffer.name} is not held as asked: what makes and uses it decides which lane holds what")

    def head(self, context: Context) -> None:
        """Grid variables with their ranges, lane variables from the number of the lane."""
        launch = self._launch
        for var, extent in zip(launch.grid_vars, launch.grid):
            context.scope.add_variable(var, Form.of(0), context.scope.form(extent) - 1)
        if self._raster is not None:
            context.code.emit(*self._raster.statements)
        elif (reason := why_not(self.planned)) is not None:
            context.notes.append(f"blocks run in the machine's own order and not in panels: {reason}")
        if len(launch.grid_vars) > GRID_AXES:
            self._fold_grid(context)
        rest: Expr = THREAD
        for place, var in enumerate(launch.lane_vars):
            extent = (launch.threads or ())[place] if launch.threads else number(context.threads)
            size = int(constant_value(extent) or 1)
            value = rest if place == len(launch.lane_vars) - 1 else Binary(op="truncmod", left=rest, right=number(size))
            rest = Binary(op="truncdiv", left=rest, right=number(size))
            context.scope.add_variable(var, Form.of(0), Form.of(size - 1))
            context.code.emit(Bind(var=var, value=value if var.dtype == INT32 else Cast(value=value, dtype=var.dtype)))

    def _fold_grid(self, context: Context) -> None:
        launch = self._launch
        folded = self._grid_vars()[-1]
        rest: Expr = folded
        for var, extent in list(zip(launch.grid_vars, launch.grid))[GRID_AXES - 1 :]:
            size = extent if extent.dtype == rest.dtype else Cast(value=extent, dtype=rest.dtype)
            value: Expr = Binary(op="truncmod", left=rest, right=size)
            rest = Binary(op="truncdiv", left=rest, right=size)
            context.code.emit(Bind(var=var, value=value if var.dtype == value.dtype else Cast(value=value, dtype=var.dtype)))

    def _grid_vars(self) -> tuple[Var, ...]:
        found = self._launch.grid_vars
        if self._raster is not None:
            found = (*self._raster.axes, *found[len(self._raster.axes) :])
        if len(found) <= GRID_AXES:
            return found
        return (*found[: GRID_AXES - 1], self._folded)

    def _grid(self) -> tuple[Expr, ...]:
        grid = self._launch.grid
        if len(grid) <= GRID_AXES:
            return grid
        total: Expr = grid[GRID_AXES - 1]
        for extent in grid[GRID_AXES:]:
            total = Binary(op="mul", left=total, right=extent if extent.dtype == total.dtype else Cast(value=extent, dtype=total.dtype))
        return (*grid[: GRID_AXES - 1], total)

    # ---- the end ----

    @staticmethod
    def close_scratch(context: Context) -> None:
        """Give the memory that operations take one after the other its place."""
        if context.scratch is not None:
            size = aligned(context.scratch_bytes)
            context.memories.append(Memory(buffer=context.scratch, offset=context.shared_bytes, bytes=size))
            context.shared_bytes += size
            context.scratch = None

    def _share_bytes(self, context: Context) -> dict[Resource, frozenset[Resource]]:
        """Give memories that are used at different times the same bytes; what shares bytes, by the names of touches."""
        resources: dict[Buffer, set[Resource]] = {m.buffer: {m.buffer} for m in context.memories}
        for buffer, home in context.homes.items():
            if isinstance(home, SharedHome):
                resources.setdefault(home.memory.root, set()).add(buffer)
        if context.scratch is not None:
            resources[context.scratch] = {context.scratch}
        self.close_scratch(context)
        ends = [m.offset for m in context.memories[1:]] + [context.shared_bytes]
        rooms = [Room(memory=m.buffer, bytes=end - m.offset) for m, end in zip(context.memories, ends)]
        slots = {b for channel in self.planned.channels for b in channel.buffers}
        alone = {home.memory for buffer, home in context.homes.items() if isinstance(home, SharedHome) and buffer in slots}
        found = packed(context.code.statements, rooms, alone)
        if not found.meets:
            return {}
        context.memories = [replace(m, offset=found.offsets[m.buffer]) for m in context.memories]
        saved, context.shared_bytes = context.shared_bytes - found.bytes, found.bytes
        context.notes.append(f"memory that is used at different times shares bytes: {saved} fewer")
        context.sizes = {r.memory: r.bytes for r in rooms}
        return resources_that_meet(found, {memory: frozenset(names) for memory, names in resources.items()})

    def _memories(self, context: Context) -> tuple[tuple[Memory, ...], int]:
        self.close_scratch(context)
        memories, total = context.memories, context.shared_bytes
        limit = self.machine.shared_bytes
        if total > limit:
            raise self._too_large(memories, total, limit, context)
        return tuple(memories), total

    def _too_large(self, memories: Sequence[Memory], total: int, limit: int, context: Context) -> Exception:
        ends = [m.offset for m in memories[1:]] + [total]
        sizes = context.sizes or {m.buffer: end - m.offset for m, end in zip(memories, ends)}
        slots = {h.memory: h.slots for h in context.homes.values() if isinstance(h, SharedHome)}
        parts, fits = [], f"make the tiles smaller: {total - limit} bytes are too many"
        for memory in memories:
            count = slots.get(memory.buffer, 1)
            each = sizes[memory.buffer] // count
            parts.append(f"{memory.buffer.label} {count} x {each} bytes" if count > 1 else f"{memory.buffer.label} {each} bytes")
        staged = [m.buffer for m in memories if slots.get(m.buffer, 1) > 1]
        stages = sum(sizes[m] // slots[m] for m in staged)
        fewer = -(-(total - limit) // stages) if stages else 0
        if staged and all(slots[m] > fewer for m in staged):
            names = " and ".join(f"{m.label} in {slots[m] - fewer}" for m in staged)
            fits = f"with {names} stage{'s' if any(slots[m] - fewer > 1 for m in staged) else ''} it would fit"
        target, tiles = self.machine.capabilities.target, ", ".join(parts)
        error = catalogue.E301.error(self._launch.span, space="shared", target=target, needed=total, limit=limit, tiles=tiles, fits=fits)
        found = Overfull(*error.diagnostics)
        found.excess = total - limit
        return found

    def _tiles(self, context: Context) -> tuple[Tile, ...]:
        made = dict.fromkeys(node.buffer for node in walk(self._launch) if isinstance(node, Alloc))
        homes = ((buffer, context.homes.get(buffer)) for buffer in made)
        return tuple(Tile(buffer=b, home=h) for b, h in homes if isinstance(h, (SharedHome, RegisterHome, LaneHome)))

    def _header(self, context: Context, elsewhere: Sequence[tuple[str, str, str]]) -> tuple[str, ...]:
        lines = [f"{self._name}: {context.threads} lanes, {context.shared_bytes} bytes of shared memory"]
        decided = settled(self.planned.decisions, elsewhere)
        lines += [f"{d.question} {d.chosen}" for d in decided[: len(decided) - len(elsewhere)]]
        lines += [f"{name} lives in {place}: {reason}" for name, place, reason in elsewhere]
        lines += context.notes
        return tuple(lines)


def _elsewhere(solution: Solution, tiles: Sequence[Tile], body: Sequence[Stmt]) -> tuple[tuple[str, str, str], ...]:
    """The tiles that are not in the registers that the plan has them in."""
    found = [(buffer.name, "shared memory", reason) for buffer, reason in solution.shared.items()]
    unfixed = indexed_by_numbers(body, at_run_time=True)
    why = "an index of it is known at run time only, and registers have no numbers then"
    return (*found, *((tile.buffer.name, OWN_MEMORY, why) for tile in tiles if tile.home.memory.root in unfixed))


def _registers(solution: Solution) -> int:
    """Registers of 4 bytes a lane that hold the fragments, were all of them needed at once."""
    return sum(-(-d.registers * max(1, b.dtype.bytes) // 4) for b, d in solution.distributions.items())


def _reduced_by_rows(statements: Sequence[StmtNode]) -> frozenset[int]:
    """The heights of accumulators whose rows are reduced: with a row in one warp, no lane waits for another warp's part of it, and what is
    kept of each row is where the other products of that height need it."""
    sums = {s.c.buffer.root: sizes_of(s)[0] for s in statements if isinstance(s, Gemm)}
    found = {
        sums[s.src.buffer.root]
        for s in statements
        if isinstance(s, Reduce) and s.src.buffer.root in sums and s.axis == len(s.src.extents) - 1
    }
    return frozenset(height for height in found if height is not None)


def _min_blocks(launch: Launch) -> int | None:
    for hint in launch.hints:
        if isinstance(hint, NamedHint) and hint.name == "min_blocks_per_core":
            return int(hint.value)
    return None


def _own_stores(launch: Launch) -> frozenset[Span]:
    """The places of the stores that each lane of a launch written for lanes does by itself."""
    if not launch.lane_vars:
        return frozenset()
    stores = [(node, walk(node)) for node in walk(launch) if isinstance(node, (Map, Store))]
    shared = {id(inner) for node, inside in stores if isinstance(node, Map) for inner in inside if isinstance(inner, Store)}
    return frozenset(node.span for node, _ in stores if isinstance(node, Store) and node.span is not None and id(node) not in shared)
