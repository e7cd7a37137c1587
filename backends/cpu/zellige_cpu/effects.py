"""Assertions, prints and interruptions: what native code tells Python, and hears from it, while it runs.

In: the statement. Out: for an assertion a branch that notes its number in the status word and leaves the launch; for a print a call of the
runtime's function with a record on the stack. :mod:`zellige_cpu.launch` reads both.

A record is 64-bit words: the address of the buffer's first element (or of the value itself, as memory holds it), then of each dimension
the region's offset, its extent, the buffer's extent and its stride in elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zellige.diagnostics import Span
from zellige.dtypes import DType
from zellige.ir.expr import Const, Expr, Region
from zellige.ir.stmt import Assert, AtomicTile, Copy, Fill, For, Gemm, Map, Print, Reduce, Scan, Stmt, Transpose, While
from zellige.ir.traverse import walk
from zellige_cpu import interruption, tile_registers
from zellige_cpu.context import Context
from zellige_cpu.expressions import evaluate
from zellige_cpu.indexes import conjunction, i64, uniform
from zellige_cpu.program import STATUS_WORDS, Site
from zellige_cpu.text import Function
from zellige_cpu.types import memory_type
from zellige_cpu.values import Value, constant

_LASTING: Final = (AtomicTile, Copy, Fill, For, Gemm, Map, Reduce, Scan, Transpose, While)


def emit_assert(ctx: Context, statement: Assert) -> None:
    """Emits a run-time check that stops the launch with the number of its place."""
    fn = ctx.fn
    test = evaluate(ctx, statement.condition)
    ctx.sites.append(Site(kind="assert", message=statement.message, span=statement.span))
    number = len(ctx.sites)
    assert ctx.status is not None
    fine, fails = fn.fresh_label("fine"), fn.fresh_label("fails")
    fn.branch_if(test, fine, fails)
    fn.label(fails)
    # the first to fail is told; the others only stop
    fn.compare_exchange(ctx.status, i64(0), i64(number), "monotonic", "monotonic", align=8)
    fn.branch(ctx.stop)
    fn.label(fine)


def check_reach(ctx: Context, offset: Value, dtype: DType, region: Region) -> None:
    """Stop the launch where the offset of a region is negative or beyond its type."""
    fn = ctx.fn
    ctx.sites.append(Site(kind="reach", message=region.buffer.name, span=region.span, dtype=dtype))
    _stop_unless(ctx, fn.compare("ule", offset, i64(int(dtype.max))), len(ctx.sites), [offset])


def check_extents(ctx: Context, left: Sequence[Expr], right: Sequence[Expr], pairs: Sequence[tuple[Expr, Expr]], span: Span | None) -> None:
    """Stop the launch where extents that must agree, in ``pairs``, do not; the message shows all of both sides."""
    fn = ctx.fn
    forms = [(ctx.freeze(ctx, a), ctx.freeze(ctx, b)) for a, b in pairs]
    differ = [fn.compare("ne", uniform(ctx, a), uniform(ctx, b)) for a, b in forms if a != b]
    if not differ:
        return
    ctx.sites.append(Site(kind="extents", message="", span=span, rank=len(left), width=len(right)))
    number = len(ctx.sites)
    test = conjunction(ctx, *[fn.binary("xor", d, constant("i1", True)) for d in differ]) or constant("i1", True)
    values = [uniform(ctx, ctx.freeze(ctx, extent)) for extent in (*left, *right)][:STATUS_WORDS]
    _stop_unless(ctx, test, number, values)


def _stop_unless(ctx: Context, test: Value, number: int, values: Sequence[Value]) -> None:
    """Stop the launch where the test fails; the first to fail notes the number of its place and the values, of 64 bits."""
    fn = ctx.fn
    assert ctx.status is not None
    fine, fails, first = fn.fresh_label("fine"), fn.fresh_label("fails"), fn.fresh_label("first")
    fn.branch_if(test, fine, fails)
    fn.label(fails)
    _, is_first = fn.compare_exchange(ctx.status, i64(0), i64(number), "monotonic", "monotonic", align=8)
    fn.branch_if(is_first, first, ctx.stop)
    fn.label(first)
    for place, value in enumerate(values, 1):
        fn.store(value, fn.offset(ctx.status, 8 * place), align=8)
    fn.branch(ctx.stop)
    fn.label(fine)


def poll(ctx: Context) -> None:
    """Stop here where another block has failed. It also ends the basic block.

    What follows is reached in two ways, so that LLVM does not sink what stands above into it: a chain of values would sink through all
    the blocks below, in time that grows with the square of their number, and leave its operands behind, in registers that do not exist.
    """
    if ctx.status is None:
        return
    fn = ctx.fn
    going, again = fn.fresh_label("going"), fn.fresh_label("again")
    fn.branch_if(_is_well(fn, ctx.status), going, again)
    fn.label(again)
    fn.branch_if(_is_well(fn, ctx.status), going, ctx.stop)
    fn.label(going)


def watch(ctx: Context) -> None:
    """Code that stops here when another block has failed or a signal's handler has raised, see :mod:`zellige_cpu.interruption`."""
    if ctx.status is None:
        return
    fn = ctx.fn
    state = _attention(ctx)
    count = fn.load(state, "i64", align=64)
    going, asking = fn.fresh_label("going"), fn.fresh_label("asking")
    fn.store(fn.binary("sub", count, i64(1)), state, align=64)
    fn.branch_if(fn.compare("sgt", count, i64(0)), going, asking)
    fn.label(asking)
    heard = fn.call(interruption.ATTEND, ctx.status, state)
    tile_registers.after_other_code(ctx)
    fn.branch_if(fn.compare("eq", heard, i64(0)), going, ctx.stop)
    fn.label(going)


def _watch_closely(ctx: Context) -> None:
    """The same without counting, before Python code runs that ctypes calls: what a handler raises at its first instruction is lost."""
    if ctx.status is None:
        return
    fn = ctx.fn
    state, going = _attention(ctx), fn.fresh_label("going")
    fn.store(i64(1), fn.offset(state, 8 * interruption.ASKED), align=8)  # long ago
    fn.branch_if(fn.compare("eq", fn.call(interruption.ATTEND, ctx.status, state), i64(0)), going, ctx.stop)
    fn.label(going)


def _attention(ctx: Context) -> Value:
    """The state of the call at hand that :data:`zellige_cpu.interruption.ATTEND` works on."""
    if not ctx.module.has_function(interruption.ATTEND):
        text = interruption.attend_text(ctx.host)
        ctx.module.add_text(interruption.ATTEND, "i64", ("ptr", "ptr"), text, interruption.SYMBOLS)
    return ctx.fn.cleared("attention", interruption.STATE_WORDS)


def is_worth_watching(body: Sequence[Stmt]) -> bool:
    """Whether an iteration of a loop with this body takes long enough to ask in each: it holds loops or operations on tiles."""
    return any(isinstance(node, _LASTING) for statement in body for node in walk(statement))


def _is_well(fn: Function, status: Value) -> Value:
    return fn.compare("eq", fn.atomic_load(status, "i64", "monotonic", align=8), i64(0))


def emit_print(ctx: Context, statement: Print) -> None:
    """Emits the printing of a message, a value or the elements of a region."""
    fn = ctx.fn
    words: list[Value] = []
    match statement.value:
        case None:
            site = Site(kind="print", message=statement.message, span=statement.span)
        case Region() as region:
            words, site = _region(ctx, region, statement)
        case value:
            register = evaluate(ctx, value)
            memory = memory_type(value.dtype)
            cell = fn.alloca(memory)
            fn.store(fn.convert("zext", register, memory) if value.dtype.is_bool else register, cell, align=64)
            words = [_address(ctx, cell)]
            site = Site(kind="print", message=statement.message, span=statement.span, dtype=value.dtype, rank=0)
    ctx.sites.append(site)
    record = fn.alloca("i64", max(1, len(words)))
    for place, word in enumerate(words):
        fn.store(word, fn.offset(record, 8 * place), align=8)
    _watch_closely(ctx)
    assert ctx.printer is not None
    fn.call_pointer(ctx.printer, i64(len(ctx.sites)), record)
    tile_registers.after_other_code(ctx)


def _region(ctx: Context, region: Region, statement: Print) -> tuple[list[Value], Site]:
    storage = ctx.storage(region.buffer)
    words = [_address(ctx, storage.pointer)]
    for offset, extent, size, stride in zip(region.offsets, region.extents, storage.shape, storage.strides):
        words.extend(uniform(ctx, form) for form in (ctx.freeze(ctx, offset), ctx.freeze(ctx, extent), size, stride))
    site = Site(
        kind="print",
        message=statement.message,
        span=statement.span,
        dtype=region.buffer.dtype,
        rank=len(region.offsets),
        is_packed=storage.is_packed,
        safe_value=storage.safe_value.value if isinstance(storage.safe_value, Const) else 0,
    )
    return words, site


def _address(ctx: Context, pointer: Value) -> Value:
    return ctx.fn.convert("ptrtoint", pointer, "i64")

