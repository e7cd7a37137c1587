"""Operands of products that a loop does not change, held in registers over the loop, as the queries of an attention are.

In: a loop of a role and the context. Out: matrix loads before the loop, and the operands in the context, where products find them. Shared
memory is read once instead of in every iteration. That is done where registers are left for it, and no block fewer runs beside the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from zellige.ir.expr import Buffer, constant_value
from zellige.ir.stmt import For, Gemm, StmtNode
from zellige.simt import lane_products, products
from zellige.simt.context import Context, HeldOperand
from zellige.simt.distribution import added, number, times
from zellige.simt.homes import RegisterHome, SharedHome
from zellige.simt.ir import Registers
from zellige.simt.statements import statements_of

WORKING: Final = 96
"""Registers of a lane for addresses and for what a step takes from shared memory, with some to spare: a compiler near the limit spills."""


def hold(ctx: Context, loop: For) -> None:
    """Load the operands that the products of a loop share in all its iterations, those that fit."""
    if ctx.point is not None or ctx.has_lanes or ctx.is_among_roles or ctx.machine.capabilities.registers is None:
        return
    statements = list(statements_of((loop,), into_maps=True))
    gemms = [s for s in statements if isinstance(s, Gemm) and _is_by_matrix(ctx, s)]
    if not gemms:
        return
    changed = _written(statements)
    for gemm in gemms:
        for name in ("a", "b"):
            region = gemm.a if name == "a" else gemm.b
            home = ctx.homes.get(region.buffer.root)
            is_constant = all(isinstance(constant_value(o), int) for o in (*region.offsets, *region.extents))
            if isinstance(home, SharedHome) and home.slots == 1 and region.buffer.root not in changed and is_constant:
                _hold(ctx, gemm, name, home)


def forget(ctx: Context, statement: Any) -> None:
    """Operands whose tile a statement changes are no longer held."""
    if ctx.held_operands:
        changed = _written(statements_of((statement,), into_maps=True))
        ctx.held_operands = tuple(h for h in ctx.held_operands if h.region[0].root not in changed)


def _is_by_matrix(ctx: Context, gemm: Gemm) -> bool:
    tiling = ctx.tilings.get(id(gemm))
    return tiling is not None and not tiling.form.is_asynchronous and tiling.form.name != lane_products.MULTIPLY_ADD


def _written(statements: Iterable[StmtNode]) -> set[Buffer]:
    return {region.buffer.root for s in statements for region in s.writes()}


def _hold(ctx: Context, gemm: Gemm, name: Any, home: SharedHome) -> None:
    tiling = ctx.tilings[id(gemm)]
    m, n, depth = products.sizes(gemm)
    operand = products.operand_of(ctx, gemm, name, tiling.form)
    axis, extent = (0, m) if name == "a" else (1, n)
    how = products.matrices_of(ctx, operand, home, depth, tiling.accumulator.covered(axis) == extent)
    if how is None or products.held_operand(ctx, operand, tiling) is not None:
        return
    steps, tiles = -(-depth // operand.k_tile), products.tiles_of(operand, tiling)
    count = tiles * operand.layout.registers
    wanted = steps * count * operand.dtype.bytes // 4
    if not _fits(ctx, wanted):
        return
    memory = ctx.registers(f"{operand.region.buffer.name}_held", operand.dtype, steps * count)
    root = operand.region.buffer.root
    ctx.code.touch(reads=[root] if ctx.is_shared_by_lanes(root) else (), span=gemm.span)
    first = products.warp_place(ctx, tiling)[axis]
    with ctx.loop("k", steps, is_unrolled=True, span=gemm.span) as step, ctx.inner_scope():
        into = Registers(buffer=memory, start=added((times(step, count), number(0))))
        products.by_matrix(ctx, operand, home, into, tiles, first, step, how)
    held = HeldOperand(
        name=name, region=products.place_in_tile(operand.region), is_k_inner=operand.is_k_inner, tiling=tiling, memory=memory
    )
    ctx.held_operands = (*ctx.held_operands, held)
    ctx.notes.append(f"{operand.region.buffer.name} is held in registers over its loop, {wanted} of each lane")


def _fits(ctx: Context, wanted: int) -> bool:
    """Whether a lane has that many registers beside those for fragments, for what is held and for the work of a step, with as many blocks
    beside each other as without them."""
    registers = ctx.machine.capabilities.registers
    assert registers is not None
    memories = {h.memory for h in ctx.homes.values() if isinstance(h, RegisterHome)} | {h.memory for h in ctx.held_operands}
    taken = WORKING + sum(-(-int(constant_value(memory.shape[0]) or 0) * memory.dtype.bytes // 4) for memory in memories)
    by_memory = ctx.machine.shared_bytes // max(1, ctx.shared_bytes)

    def blocks(count: int) -> int:
        given = -(-count // registers.step) * registers.step
        return min(by_memory, ctx.machine.block_registers // (ctx.threads * given))

    return taken + wanted <= registers.per_lane and blocks(taken + wanted) >= blocks(taken)
