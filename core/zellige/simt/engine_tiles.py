"""Tiles that engines read and write: asynchronous products and copies of boxes, and how shared memory stores tiles for them.

In: a planned launch of several roles and a machine. Out: :class:`EngineTiles`: the warps of each asynchronous product, the boxes of each
copy, the storage of each tile that an engine touches; or the reason why the family does not lower the launch (:class:`NotLowered`).

A tile for engines stands in slabs of columns as wide as the widest swizzle span of the machine that divides its rows, swizzled over them.
Box copies write that order and products read it with either dimension as k, so one storage serves every operand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from math import prod

from zellige.ir.expr import Buffer, Region, Var, constant_value
from zellige.ir.stmt import Copy, Gemm, StmtNode
from zellige.ir.traverse import walk
from zellige.plan.clusters import cluster_axis
from zellige.plan.nodes import Acquire, Channel, Choice, Issue, PlannedLaunch, Put, Role
from zellige.records import dataclass
from zellige.simt.distribution import Digit, Distribution
from zellige.simt.homes import Swizzle
from zellige.simt.ir import GRID_AXES, ProductForm, TensorBox
from zellige.simt.machine import EngineMemory, LaneMachine
from zellige.simt.statements import statements_of
from zellige.simt.warps import WarpTiling


class NotLowered(Exception):
    """Why a launch of several roles is not lowered: a reason for a decision, never an error of the user's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStorage:
    """How a tile of ``rows`` x ``columns`` stands in shared memory: slabs of ``slab`` columns, swizzled over ``span`` bytes."""

    rows: int
    columns: int
    slab: int
    span: int

    @property
    def slab_elements(self) -> int:
        return self.rows * self.slab


@dataclass(frozen=True, slots=True, kw_only=True)
class Boxes:
    """A copy as boxes of one shape: a slab each. Of ``peers`` blocks along the grid's variable ``along`` each brings boxes with its part of
    the rows, dimension ``row_dimension`` of the box, to all; ``bytes`` come to each block."""

    box: TensorBox
    slabs: int
    bytes: int
    peers: int = 1
    along: Var | None = None
    row_dimension: int = 0


@dataclass(slots=True, kw_only=True)
class EngineTiles:
    """``tilings`` and ``boxes`` by the identity of the operation; ``stores`` are the copies to tensors that boxes may make."""

    tilings: dict[int, WarpTiling] = field(default_factory=dict)
    boxes: dict[int, Boxes] = field(default_factory=dict)
    storage: dict[Buffer, EngineStorage] = field(default_factory=dict)
    stores: frozenset[int] = frozenset()


def engine_tiles(planned: PlannedLaunch, machine: LaneMachine) -> EngineTiles:
    """What the engines do in a launch. Raises NotLowered."""
    engines, found = machine.engines, EngineTiles()
    box_copy = None if engines is None else engines.box_copy
    choices = {id(c.operation): c for c in planned.choices}
    for role in planned.roles:
        warps = role.lanes * role.count // machine.lanes
        for statement in statements_of(role.body, into_maps=True):
            choice = choices.get(id(statement))
            match statement:
                case Gemm() if choice is not None and choice.unit in machine.products and machine.products[choice.unit].is_asynchronous:
                    if engines is None:
                        raise NotLowered("the target does not say how engines have tiles in shared memory")
                    found.tilings[id(statement)] = _tiling(statement, machine.products[choice.unit], warps, engines)
                    for region in (statement.a, statement.b):
                        if region is statement.b or not is_held(statement):
                            _store(found, region, engines)
                case _:
                    pass
        for copy in _issued_copies(role):
            choice = choices.get(id(copy))
            if choice is None or choice.mechanism != box_copy or engines is None:
                if any(c.is_transaction and copy.dst.buffer.root in {b.root for b in c.buffers} for c in planned.channels):
                    raise NotLowered(f"the copy to {copy.dst.buffer.name} is none of boxes")
                continue
            _store(found, copy.dst, engines)
            boxes = _boxes(copy, found.storage[copy.dst.buffer.root], engines)
            found.boxes[id(copy)] = _shared_out(copy, boxes, planned, engines)
        _check_puts(role)
    found.stores = frozenset(
        id(c.operation) for c in planned.choices
        if isinstance(c.operation, Copy) and c.mechanism == box_copy and id(c.operation) not in found.boxes
    )  # fmt: skip
    for role in planned.roles:
        for statement in statements_of(role.body, into_maps=True):
            if isinstance(statement, Copy) and statement.src.buffer.root.space == "global" and id(statement) not in found.boxes:
                if statement.dst.buffer.root in found.storage:
                    raise NotLowered(_why_no_boxes(statement, choices.get(id(statement))))
    return found


def _why_no_boxes(copy: Copy, choice: Choice | None) -> str:
    why = f": {' '.join(choice.rejected[0])}" if choice is not None and choice.rejected else ""
    return f"{copy.dst.buffer.name} is not brought by boxes{why}"


def _issued_copies(role: Role) -> Iterator[Copy]:
    for statement in role.body:
        for node in walk(statement):
            if isinstance(node, Issue) and isinstance(node.operation, Copy):
                yield node.operation


def _check_puts(role: Role) -> None:
    """That what is issued for a slot is issued whenever the slot is put: bytes that never come are waited for for ever."""
    pending: list[Sequence[object]] = [role.body]
    while pending:
        body = pending.pop()
        open_channels: set[Channel] = set()
        for statement in body:
            match statement:
                case Acquire(channel=channel):
                    open_channels.add(channel)
                case Put(channel=channel):
                    open_channels.discard(channel)
                case Issue(operation=Copy() as copy) if copy.dst.buffer.root.space == "shared":
                    if not any(copy.dst.buffer.root in (b.root for b in channel.buffers) for channel in open_channels):
                        raise NotLowered(f"the copy to {copy.dst.buffer.name} stands deeper than the slot that it fills")
                case StmtNode():
                    pending.extend(getattr(statement, name) for name in type(statement).BODIES)
                case _:
                    pass


def is_held(gemm: Gemm) -> bool:
    """Whether a product takes a from registers: a whole tile of them, as it is."""
    if gemm.a.buffer.root.space != "fragment":
        return False
    _whole(gemm.a)
    if gemm.transpose_a:
        raise NotLowered(f"{gemm.a.buffer.name} is an operand in registers and turned")
    return True


def held_digits(tiling: WarpTiling, depth: int) -> tuple[Digit, ...]:
    """How the warps of a product must hold a of ``depth`` columns: as they would hold sums of so many."""
    return replace(tiling, form=widened(tiling.form, depth), column_tiles=1).accumulator.digits


# ---- storage ----


def engine_swizzle(engines: EngineMemory, span: int, element_bytes: int) -> Swizzle:
    """The exchange of pieces of a slab ``span`` bytes wide, in places of elements."""
    base = (engines.piece_bytes // element_bytes).bit_length() - 1
    return Swizzle(base=base, bits=(span // engines.piece_bytes).bit_length() - 1, shift=base + engines.rows.bit_length() - 1)


def _store(found: EngineTiles, region: Region, engines: EngineMemory) -> None:
    root = region.buffer.root
    if root.space != "shared":
        raise NotLowered(f"{root.name} is an operand in registers")
    shape = _whole(region)
    rows, columns = prod(shape[:-1]), shape[-1]
    size = root.dtype.bytes
    span = engines.span_of(columns * size)
    if root.dtype.storage_bits % 8 or span is None:
        raise NotLowered(f"rows of {root.name} are no multiple of {engines.spans[-1]} bytes")
    if rows % engines.rows:
        raise NotLowered(f"{root.name} has {rows} rows, no multiple of {engines.rows}")
    found.storage[root] = EngineStorage(rows=rows, columns=columns, slab=span // size, span=span)


def _whole(region: Region) -> tuple[int, ...]:
    """The extents of a region that is all of its tile. Raises NotLowered where it is not."""
    buffer = region.buffer
    extents = [constant_value(e) for e in region.extents]
    is_whole = (
        buffer.alias is None
        and all(constant_value(o) == 0 for o in region.offsets)
        and all(e is not None and e == constant_value(s) for e, s in zip(extents, buffer.shape))
    )
    if not is_whole:
        raise NotLowered(f"a part of {buffer.name} is used")
    return tuple(int(e or 0) for e in extents)


# ---- copies ----


def _boxes(copy: Copy, storage: EngineStorage, engines: EngineMemory) -> Boxes:
    """A copy from global memory as boxes of whole columns of the tile's slabs."""
    source = copy.src
    extents = [constant_value(e) for e in source.extents]
    if any(e is None for e in extents) or source.buffer.alias is not None or source.buffer.root.space != "global":
        raise NotLowered(f"the copy from {source.buffer.name} has no constant extents")
    sizes = [int(e or 0) for e in extents]
    wanted = [e for e in _whole(copy.dst) if e != 1]
    if [e for e in sizes if e != 1] != wanted or sizes[-1] != storage.columns:
        raise NotLowered(f"the copy to {copy.dst.buffer.name} changes the order of its dimensions")
    if (reason := engines.why_no_boxes(source.buffer)) is not None:
        raise NotLowered(reason)
    box = (*sizes[:-1], storage.slab)
    if max(box) > engines.box_extent or len(box) < 2:
        raise NotLowered(f"a box of {' x '.join(map(str, box))} elements is too large for the copy engine")
    tensor = TensorBox(tensor=source.buffer.root, box=box, swizzle_bytes=storage.span)
    slabs = storage.columns // storage.slab
    return Boxes(box=tensor, slabs=slabs, bytes=storage.rows * storage.columns * source.buffer.dtype.bytes)


def _shared_out(copy: Copy, boxes: Boxes, planned: PlannedLaunch, engines: EngineMemory) -> Boxes:
    """The boxes of a block where the blocks of a cluster share what the copy brings. Parts begin where the exchange of pieces does."""
    root, found = copy.dst.buffer.root, cluster_axis(planned.order)
    if found is None or not any(root in {b.root for b in channel.spread} for channel in planned.channels):
        return boxes
    axis, peers = found
    dimension = next((d for d, extent in enumerate(boxes.box.box) if extent != 1), 0)
    rows = boxes.box.box[dimension]
    if axis >= GRID_AXES or dimension == len(boxes.box.box) - 1 or rows % (peers * engines.rows):
        raise NotLowered(f"the {rows} rows of {root.name} are not shared by {peers} blocks in parts of {engines.rows}")
    box = tuple(rows // peers if d == dimension else extent for d, extent in enumerate(boxes.box.box))
    return replace(boxes, box=replace(boxes.box, box=box), peers=peers, along=planned.launch.grid_vars[axis], row_dimension=dimension)


# ---- products ----


def _tiling(gemm: Gemm, form: ProductForm, warps: int, engines: EngineMemory) -> WarpTiling:
    """Groups of warps below each other, each with all columns."""
    m, n, k = (constant_value(e) for e in (gemm.c.extents[-2], gemm.c.extents[-1], gemm.a.extents[-2 if gemm.transpose_a else -1]))
    if m is None or n is None or k is None or gemm.metadata is not None or gemm.scale_a is not None or gemm.scale_b is not None:
        raise NotLowered("a product of sizes that are not constant")
    m, n, k = int(m), int(n), int(k)
    groups = warps // form.warps
    if warps % form.warps or m % (form.m * groups) or n % form.n or k % form.k:
        raise NotLowered(f"a product of {m} x {n} x {k} is no whole number of {form.m} x {form.n} x {form.k} for {groups} groups of warps")
    _whole(gemm.c)
    if gemm.c.buffer.root.space != "fragment" or gemm.c.buffer.dtype != form.c or len(gemm.c.extents) != 2:
        raise NotLowered(f"{gemm.c.buffer.name} does not hold the sums of the product as they are")
    if form.reads_along_k and (gemm.transpose_a or not gemm.transpose_b):
        raise NotLowered(f"operands of {form.a} are read along k only, and one of them has its rows along the result's")
    slab = None if gemm.transpose_b else engines.span_of(n * gemm.b.buffer.dtype.bytes)
    tiles = _column_tiles(n, form, 1 if slab is None else slab // gemm.b.buffer.dtype.bytes)
    return WarpTiling(form=widened(form, n // tiles), rows=groups, columns=1, row_tiles=m // (form.m * groups), column_tiles=tiles)


def _column_tiles(n: int, form: ProductForm, slab: int) -> int:
    """In how many equal parts the columns are multiplied: as few as possible; a part of columns that stand in slabs is whole slabs."""
    for width in reversed(form.widths):
        if n % width == 0 and (width == n or width % slab == 0):
            return n // width
    raise NotLowered(f"{n} columns are no whole number of products")


def widened(form: ProductForm, n: int) -> ProductForm:
    """The asynchronous product of ``n`` columns: more registers of sums, each block of columns as those of the least form, or of a wider
    one."""
    least = _narrowed(form)
    count = n // least.n
    c_layout = Distribution(shape=(form.m, n), digits=_columns(least.c_layout, count))
    return replace(form, n=n, c_layout=c_layout, b_layout=Distribution(shape=(form.k, n), digits=_columns(least.b_layout, count)))


def _narrowed(form: ProductForm) -> ProductForm:
    """The least form, without the digit that counts blocks of its columns."""
    columns = form.widths[0]
    if form.n == columns:
        return form

    def less(layout: Distribution, rows: int) -> Distribution:
        digits = tuple(d for d in layout.digits if not (d.source == "register" and d.dimension == 1 and d.stride == columns))
        return Distribution(shape=(rows, columns), digits=digits)

    return replace(form, n=columns, c_layout=less(form.c_layout, form.m), b_layout=less(form.b_layout, form.k))


def _columns(layout: Distribution, count: int) -> tuple[Digit, ...]:
    if count == 1:
        return layout.digits
    more = Digit(source="register", divisor=layout.registers, radix=count, dimension=1, stride=layout.shape[1])
    registers = [d for d in layout.digits if d.source == "register"]
    return (*registers, more, *(d for d in layout.digits if d.source != "register"))

