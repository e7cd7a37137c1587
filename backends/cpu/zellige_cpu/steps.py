"""One step of a merged loop: the product of what was packed, or lies as it is, added to the result or stored where it goes.

In: a :class:`Step` and where the last one stores. Out: calls of the loops over blocks (:mod:`zellige_cpu.leaf.blocks`).
"""

from __future__ import annotations

from dataclasses import replace

from zellige.dtypes import DType
from zellige.ir.stmt import Copy
from zellige.records import dataclass
from zellige_cpu.context import Context
from zellige_cpu.indexes import i64
from zellige_cpu.leaf.blocks import Macro, emit_macro
from zellige_cpu.types import element_bytes
from zellige_cpu.values import Value


@dataclass(frozen=True, slots=True)
class Rows:
    """The first row of a and the bytes from one to the next, which only code knows where ``is_pitched``."""

    first: Value
    pitch: Value
    is_pitched: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """Lines that the next step will read of an operand, ``pitch`` bytes apart; ``lines`` of them, each of ``bytes``."""

    first: Value
    pitch: Value
    lines: Value
    bytes: int


@dataclass(frozen=True, slots=True)
class Results:
    """Where the last step stores: the region's first element, bytes from row to row, and whether all of the region exists."""

    copy: Copy
    pointer: Value
    pitch: Value
    exists: Value


@dataclass(frozen=True, slots=True)
class Step:
    """A product of both operands at hand: c, the words of k, the rows and columns that are wanted, whether c is replaced, and what is asked
    for meanwhile."""

    macro: Macro
    a: Rows
    b: Value
    c: Value
    words: Value
    rows: Value
    columns: Value
    clear: Value
    asked: tuple[Asked, ...]


def emit_step(ctx: Context, step: Step, results: Results | None, is_last: Value) -> None:
    """One step: results go to c, those of the last step to their tensor where there is room for all."""
    fn, macro = ctx.fn, step.macro
    if results is None:
        _emit_product(ctx, step, None, [])
        return
    goes_out = fn.binary("and", is_last, results.exists)
    kind = results.copy.dst.buffer.dtype
    if kind == macro.c:  # the same code for both places
        row = i64(macro.c_stride * element_bytes(macro.c))
        places = [fn.select(goes_out, results.pointer, step.c), fn.select(goes_out, results.pitch, row)]
        _emit_product(ctx, step, kind, places)
        return
    out, inner, after = (fn.fresh_label(stem) for stem in ("out", "inner", "stored"))
    fn.branch_if(goes_out, out, inner)
    fn.label(out)
    _emit_product(ctx, step, kind, [results.pointer, results.pitch])
    fn.branch(after)
    fn.label(inner)
    _emit_product(ctx, step, None, [])
    fn.label(after)


def _emit_product(ctx: Context, step: Step, kind: DType | None, out: list[Value]) -> None:
    """The product with results of type ``kind`` at ``out`` (a pointer and bytes from row to row), or in c."""
    soon = tuple(at.bytes for at in step.asked)
    name = emit_macro(ctx.module, replace(step.macro, out=kind, is_pitched=step.a.is_pitched, soon=soon))
    pitches = [step.a.pitch] * step.a.is_pitched
    asked = [value for at in step.asked for value in (at.first, at.pitch, at.lines)]
    ctx.fn.call(name, step.a.first, step.b, step.c, step.words, step.rows, step.columns, step.clear, *out, *pitches, *asked)
