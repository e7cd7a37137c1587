"""Loops that are written out because what they read then stays in registers.

In: a loop of the plan and the context. Out: whether its iterations stand one after the other. A kernel that passes over a row twice, in
blocks of a few thousand elements, loads them twice; written out, the loads of the second pass are those of the first, and all of them are
issued before the first is used. This holds for tensors that the kernel does not write, as long as the registers of a lane suffice.
"""

from __future__ import annotations

from math import prod
from typing import Final

from zellige.ir.expr import Const, constant_value
from zellige.ir.stmt import Assume, Bind, Copy, Fill, For, Map, Pipelined, Reduce, Serial
from zellige.simt.context import Context
from zellige.simt.homes import GlobalHome, RegisterHome

MOST_ITERATIONS: Final = 16
MOST_REGISTERS: Final = 64
"""Registers of 4 bytes a lane that may hold what the loop reads."""


def is_written_out(ctx: Context, loop: For) -> bool:
    """Whether the loop is short, brings tensors to registers and does nothing but work on whole tiles."""
    bounds = [loop.start, loop.stop, loop.step]
    if ctx.has_lanes or not isinstance(loop.kind, (Serial, Pipelined)) or not all(isinstance(b, Const) for b in bounds):
        return False
    first, stop, step = (int(constant_value(b) or 0) for b in bounds)
    if step <= 0 or not all(isinstance(s, (Copy, Map, Reduce, Fill, Bind, Assume)) for s in loop.body):
        return False
    iterations = -(-(stop - first) // step)
    held = sum(_registers(ctx, s) for s in loop.body if isinstance(s, Copy))
    return 2 <= iterations <= MOST_ITERATIONS and 0 < held * iterations <= MOST_REGISTERS


def _registers(ctx: Context, copy: Copy) -> int:
    """Registers of 4 bytes a lane that hold what the copy loads; 0 where it is no load that could be left out."""
    source, target = ctx.homes.get(copy.src.buffer.root), ctx.homes.get(copy.dst.buffer.root)
    if not isinstance(source, GlobalHome) or not isinstance(target, RegisterHome) or copy.src.buffer.root in ctx.written_tensors:
        return 0
    if prod(int(constant_value(e) or 0) for e in copy.dst.extents) != prod(target.extents):
        return 0
    return -(-target.distribution.registers * max(1, copy.src.buffer.dtype.bytes) // 4)
