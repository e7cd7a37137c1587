"""Where buffers live: tensors at the caller's addresses, tiles in the worker's scratch memory, a point's own arrays on the stack.

In: the buffers of a launch. Out: a :class:`ScratchPlan` (offset of each tile, bytes in all) before code is written, and
:class:`zellige_cpu.context.Storage` records while it is.

Tiles keep one element a byte or more, also of 4-bit types, unless a view shows the same memory with another width: then they are packed
as tensors are.
"""

from __future__ import annotations

from collections.abc import Iterable

from zellige.analysis.forms import Form
from zellige.diagnostics import InternalError, catalogue
from zellige.ir.expr import Buffer, Expr, constant_value
from zellige.ir.stmt import Alloc, Launch
from zellige.ir.traverse import walk
from zellige.records import dataclass
from zellige_cpu.context import Context, Storage
from zellige_cpu.types import element_bytes, is_packed, memory_type, vector_type
from zellige_cpu.values import Value

ALIGNMENT = 64
"""Bytes to which every tile is aligned."""

STACK_BYTES = 1 << 13
"""The most that one array of a Map's points may take on a worker's stack."""

STACK_TOTAL = 1 << 18
"""The most that a function's arrays may take there; further ones lie beside the tiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchPlan:
    """``offsets`` of the tiles in bytes, ``total`` bytes a worker needs, the views of each buffer, and which roots are packed."""

    offsets: dict[Buffer, int]
    total: int
    views: dict[Buffer, tuple[Buffer, ...]]
    packed: frozenset[Buffer]


def all_buffers(launch: Launch) -> list[Buffer]:
    """Every buffer that the launch mentions, with the storage of each view, once, in order of appearance."""
    found: dict[Buffer, None] = {}
    for node in walk(launch):
        buffer = getattr(node, "buffer", None)
        while isinstance(buffer, Buffer):
            found.setdefault(buffer)
            buffer = buffer.alias
    return list(found)


def plan_scratch(launch: Launch) -> ScratchPlan:
    """Lay the tiles of a launch out one after the other."""
    buffers = all_buffers(launch)
    views: dict[Buffer, list[Buffer]] = {}
    for buffer in buffers:
        if buffer.alias is not None:
            views.setdefault(buffer.root, []).append(buffer)
    packed = {root for root, group in views.items() if len({is_packed(b.dtype) for b in [root, *group]}) > 1}
    offsets: dict[Buffer, int] = {}
    total = 0
    for node in walk(launch):
        if isinstance(node, Alloc) and node.buffer not in offsets:
            offsets[node.buffer] = total
            size = _bytes(node.buffer, node.buffer in packed)
            total += -(-size // ALIGNMENT) * ALIGNMENT
    return ScratchPlan(offsets=offsets, total=total, views={r: tuple(v) for r, v in views.items()}, packed=frozenset(packed))


def check_capacity(launch: Launch, plan: ScratchPlan, needed: int, limit: int) -> None:
    """Raises E301 where a worker's memory would be more than ``limit`` bytes."""
    if needed <= limit:
        return
    sizes = sorted(((_bytes(buffer, buffer in plan.packed), buffer.label) for buffer in plan.offsets), reverse=True)
    tiles = ", ".join(f"{name} {size}" for size, name in sizes[:8])
    fits = f"{sizes[0][1]} is the largest" if sizes else "use smaller tiles"
    raise catalogue.E301.error(launch.span, space="a worker's memory", target="cpu", limit=limit, needed=needed, tiles=tiles, fits=fits)


def _bytes(buffer: Buffer, packed: bool) -> int:
    elements = element_count(buffer)
    if elements is None:
        raise catalogue.E411.error(buffer.span, name=buffer.label)
    return (elements + 1) // 2 if packed and is_packed(buffer.dtype) else elements * element_bytes(buffer.dtype)


def element_count(buffer: Buffer) -> int | None:
    """How many elements a buffer has, None where that is known only at run time."""
    total = 1
    for extent in buffer.shape:
        value = constant_value(extent)
        if value is None:
            return None
        total *= int(value)
    return total


def dense_strides(shape: tuple[Form, ...]) -> tuple[Form, ...]:
    """Row-major strides in elements."""
    strides = [Form.of(1)]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides))


def describe(
    ctx: Context,
    buffer: Buffer,
    address: Value,
    level: int,
    *,
    packed: bool,
    lanes: int = 1,
    is_global: bool = False,
    safe_value: Expr | None = None,
) -> Storage:
    """The storage of ``buffer`` at ``address``."""
    shape = tuple(ctx.scope.form(extent) for extent in buffer.shape)
    strides = dense_strides(shape) if buffer.strides is None else tuple(ctx.scope.sum(s) for s in buffer.strides)
    return Storage(
        dtype=buffer.dtype,
        pointer=address,
        level=level,
        shape=shape,
        strides=strides[: len(shape)],
        element_bytes=element_bytes(buffer.dtype),
        is_packed=packed and is_packed(buffer.dtype),
        is_global=is_global,
        lanes=lanes,
        safe_value=safe_value,
    )


def add_tensor(ctx: Context, buffer: Buffer, address: Value, plan: ScratchPlan, safe_values: dict[Buffer, Expr]) -> None:
    """A tensor parameter at the caller's address, and its views."""
    for shown in (buffer, *plan.views.get(buffer, ())):
        safe = safe_values.get(shown)
        ctx.storages[shown] = describe(ctx, shown, address, ctx.level, packed=True, is_global=True, safe_value=safe)


def allocate(ctx: Context, buffer: Buffer) -> None:
    """A tile of the block, or an array of each point of a Map."""
    if ctx.lanes is not None:
        _allocate_private(ctx, buffer)
        return
    plan = ctx.plan
    if plan is None or ctx.scratch is None:
        raise InternalError(f"buffer {buffer.label} is allocated outside a launch")
    with ctx.at(0):
        address = ctx.fn.offset(ctx.scratch, plan.offsets[buffer])
    for shown in (buffer, *plan.views.get(buffer, ())):
        safe = ctx.safe_values.get(shown)
        ctx.storages[shown] = describe(ctx, shown, address, 0, packed=buffer in plan.packed, safe_value=safe)


def _allocate_private(ctx: Context, buffer: Buffer) -> None:
    assert ctx.lanes is not None
    count = element_count(buffer)
    assert count is not None
    lanes = ctx.lanes.count
    size = count * lanes * element_bytes(buffer.dtype)
    if ctx.fn.stack_bytes + size <= STACK_TOTAL:
        address = ctx.fn.alloca(vector_type(memory_type(buffer.dtype), lanes), count)
    else:
        address = ctx.reserve_scratch(size)
    safe = ctx.safe_values.get(buffer)
    ctx.storages[buffer] = describe(ctx, buffer, address, 0, packed=False, lanes=lanes, safe_value=safe)


def fits_stack(buffer: Buffer, lanes: int, views: Iterable[Buffer]) -> bool:
    """Whether a buffer can be kept as one array a lane."""
    count = element_count(buffer)
    return count is not None and count * element_bytes(buffer.dtype) * lanes <= STACK_BYTES and not tuple(views)

