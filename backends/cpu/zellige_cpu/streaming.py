"""Stores that pass the caches by, for results so large that they would only push other data out.

In: a Map whose results go to a tensor. Out: the test, made once before its loops, under which whole vectors may be stored that way: the
tensor is at least half of the last cache, and every vector lies on its natural boundary. A plain store of a line reads it first; such a
store does not, which is a third of the traffic of a kernel that reads and writes as much.

The stores of one core may be seen in another order than its others: so a launch whose blocks speak to each other (atomics, barriers of
the grid, loops that wait) has none, and the launch function ends with a fence.
"""

from __future__ import annotations

from zellige.analysis.forms import Form
from zellige.ir.expr import Buffer, Var
from zellige.ir.stmt import Atomic, AtomicTile, Barrier, Launch, While
from zellige.ir.traverse import walk
from zellige_cpu.accesses import element_offset
from zellige_cpu.context import Context, Storage
from zellige_cpu.host import Host
from zellige_cpu.indexes import conjunction, i64, is_stable, pointer, uniform
from zellige_cpu.leaf.units import family_of
from zellige_cpu.values import Value
from zellige_intrinsics.tables import copy_rows


def may_stream(launch: Launch) -> bool:
    """Whether no block of the launch can see what another one has written while both run."""
    speaks = (Atomic, AtomicTile, While)
    return not any(isinstance(n, speaks) or (isinstance(n, Barrier) and n.scope not in ("warp", "block")) for n in walk(launch))


def passes_caches(host: Host) -> bool:
    """Whether the machine has a store of its whole vectors that passes the caches by, and the table of instructions holds it."""
    stores = (row for row in copy_rows(family_of(host)) if row.is_asynchronous and row.destination == "global")
    return host.is_x86 and any(row.bytes_each == host.vector_bytes and host.features.issuperset(row.requires) for row in stores)


def condition(ctx: Context, buffer: Buffer, forms: tuple[Form, ...], axes: tuple[Var, ...], vector_axis: Var, lanes: int) -> Value | None:
    """The test under which a store at these indices, ``lanes`` adjacent elements at a time along ``vector_axis``, may pass the caches by;
    None where it never may."""
    storage = ctx.storage(buffer)
    width = ctx.host.vector_bytes
    if not storage.is_global or storage.is_packed or lanes * storage.element_bytes % width or not passes_caches(ctx.host):
        return None
    offset = element_offset(storage, forms).scaled(storage.element_bytes)
    steps: list[Form] = []
    start = offset
    for axis in axes:
        parts = start.split(axis)
        if parts is None:
            return None
        step, start = parts
        if axis is vector_axis:
            if step.constant != storage.element_bytes:
                return None
        else:
            steps.append(step)
    if not all(is_stable(atom) for form in (start, *steps) for atom in form.atoms()):
        return None
    if any(node in axes for form in (start, *steps) for atom in form.atoms() for node in walk(atom) if isinstance(node, Var)):
        return None
    fn = ctx.fn
    first = fn.convert("ptrtoint", pointer(ctx, storage.pointer, storage.level, start), "i64")
    tests = [_is_multiple(ctx, first, width)]
    for step in steps:
        number = step.constant
        if number is None:
            tests.append(_is_multiple(ctx, uniform(ctx, step), width))
        elif number % width:
            return None
    tests.append(fn.compare("uge", _bytes(ctx, storage), i64(ctx.host.last_cache_bytes // 2)))
    return conjunction(ctx, *tests)


def _is_multiple(ctx: Context, value: Value, of: int) -> Value:
    return ctx.fn.compare("eq", ctx.fn.binary("and", value, i64(of - 1)), i64(0))


def _bytes(ctx: Context, storage: Storage) -> Value:
    """The size of a tensor."""
    total = Form.of(storage.element_bytes)
    for extent in storage.shape:
        total = total * extent
    return uniform(ctx, total)


def fence(ctx: Context) -> None:
    """What was stored past the caches is seen by whoever sees that the launch has ended."""
    if ctx.memory.streams:
        ctx.module.declare("llvm.x86.sse.sfence", "void", [])
        ctx.fn.line("call void @llvm.x86.sse.sfence()")
