"""Products that groups of warps start and wait for: operands stay in shared memory, sums in registers.

In: a Gemm with its warps and the context. Out: its statements: a fence for the registers of the sums, a product for each block and each
step of k, and the end of the group. Groups finish in the order in which they were started, so a wait says how many may be left.
"""

from __future__ import annotations

from zellige.diagnostics import InternalError, Span
from zellige.ir.expr import BOOL, Binary, Buffer, Const, Expr, Region
from zellige.ir.stmt import Gemm
from zellige.simt import elements
from zellige.simt.context import Context
from zellige.simt.distribution import added, number, times
from zellige.simt.engine_tiles import held_digits
from zellige.simt.homes import RegisterHome, SharedHome
from zellige.simt.ir import (
    WARP,
    AsyncProduct,
    CommitProducts,
    FenceProducts,
    Registers,
    SharedOperand,
    WaitProducts,
)
from zellige.simt.products import sizes
from zellige.simt.warps import WarpTiling


def start(ctx: Context, gemm: Gemm, tiling: WarpTiling) -> None:
    """The product as a group of its own."""
    _, _, k = sizes(gemm)
    form = tiling.form
    home = ctx.homes.get(gemm.c.buffer.root)
    if not isinstance(home, RegisterHome) or home.distribution.digits != tiling.accumulator.digits:
        raise InternalError(f"the sums of {gemm.c.buffer.name} are not where the product keeps them")
    held = ctx.homes.get(gemm.a.buffer.root)
    in_memory = [r.buffer.root for r in (gemm.a, gemm.b) if isinstance(ctx.homes.get(r.buffer.root), SharedHome)]
    ctx.code.touch(reads=[root for root in in_memory if ctx.is_shared_by_lanes(root)], engine_reads=in_memory, span=gemm.span)
    group = WARP if tiling.form.warps == 1 else Binary(op="truncdiv", left=WARP, right=number(form.warps))
    first_row = times(group, tiling.row_tiles * form.m)
    a_is_k_inner, b_is_k_inner = not gemm.transpose_a, gemm.transpose_b
    a: _Operand | _Held = (
        _Held(held, tiling, k) if isinstance(held, RegisterHome)
        else _operand(ctx, gemm.a, first_row if tiling.rows > 1 else number(0), is_k_inner=a_is_k_inner)
    )  # fmt: skip
    b = _operand(ctx, gemm.b, number(0), is_k_inner=b_is_k_inner)
    clear = elements.value_of(ctx, gemm.clear)
    ctx.code.emit(FenceProducts(span=gemm.span))
    for step in range(k // form.k):
        cleared = clear if step == 0 else Const(value=False, dtype=BOOL)
        for i in range(tiling.row_tiles):
            for j in range(tiling.column_tiles):
                place = (i * tiling.column_tiles + j) * form.c_layout.registers
                ctx.code.emit(
                    AsyncProduct(
                        form=form, a=a.part(i * form.m, step * form.k), b=b.part(j * form.n, step * form.k),
                        c=Registers(buffer=home.memory, start=number(place)), clear=cleared, span=gemm.span,
                    )
                )  # fmt: skip
    ctx.code.emit(CommitProducts(span=gemm.span))
    ctx.products_begun.append((home.memory, *((held.memory,) if isinstance(held, RegisterHome) else ())))


def wait(ctx: Context, leave: int, span: Span | None) -> None:
    """Until at most ``leave`` groups are unfinished, of whatever token: they finish in the order in which they began, so this is no less
    than what one token asks for. The sums of all but those are settled then."""
    begun = ctx.products_begun
    in_flight = begun[-leave:] if leave else []
    busy = [registers for product in in_flight for registers in product]
    settled = tuple(dict.fromkeys(r for product in begun for r in product if not any(r is other for other in busy)))
    ctx.code.emit(WaitProducts(leave=leave, settled=settled, span=span))
    # engines may have read until now, whatever barriers stand between the beginning and here
    ctx.code.touch(reads=[root for root in ctx.engine_operands if ctx.is_shared_by_lanes(root)], span=span)


class _Held:
    """a in registers: each step of k follows the one before, each block of rows after all steps of the one before."""

    def __init__(self, home: RegisterHome, tiling: WarpTiling, depth: int) -> None:
        self._memory, self._form, self._depth = home.memory, tiling.form, depth
        if home.distribution.digits != held_digits(tiling, depth):
            raise InternalError(f"{home.memory.name} is not held as the product takes it")

    def part(self, outer: int, k: int) -> Registers:
        """From row ``outer`` of m and step ``k`` on."""
        a = self._form.a_layout.registers
        step = outer // self._form.m * (self._depth // self._form.k) + k // self._form.k
        return Registers(buffer=self._memory, start=number(step * a))


class _Operand:
    """An operand of this group of warps: element ``start`` of its tile, and how parts of it follow in bytes."""

    def __init__(self, home: SharedHome, buffer: Buffer, start: Expr, rows: int, *, is_k_inner: bool) -> None:
        swizzle = home.swizzle
        size = buffer.dtype.bytes
        if swizzle is None or not home.slab:
            raise InternalError(f"{buffer.name} is not stored for engines")
        self._span = home.slab * size
        self._slab_bytes = home.slab_elements * size
        self._size = size
        self._rows = rows
        self._is_k_inner = is_k_inner
        self._buffer = home.memory
        self._start = start

    def part(self, outer: int, k: int) -> SharedOperand:
        """From row ``outer`` of m or n and step ``k`` on."""
        row, column = (outer, k) if self._is_k_inner else (k, outer)
        slab, within = divmod(column * self._size, self._span)
        return SharedOperand(
            buffer=self._buffer, start=self._start, advance=slab * self._slab_bytes + row * self._span + within,
            is_k_contiguous=self._is_k_inner, swizzle_bytes=self._span, row_group_bytes=self._rows * self._span,
            span_bytes=self._slab_bytes,
        )  # fmt: skip


def _operand(ctx: Context, region: Region, first_row: Expr, *, is_k_inner: bool) -> _Operand:
    root = region.buffer.root
    home = ctx.homes.get(root)
    if not isinstance(home, SharedHome):
        raise InternalError(f"{root.name} is no operand in shared memory")
    terms: list[Expr] = []
    slot = ctx.slots.get(root)
    if home.slots > 1 and slot is not None:
        terms.append(Binary(op="mul", left=slot, right=number(home.slot_elements)))
    # rows of m stand below each other, or beside each other in slabs: a group's rows are whole slabs or lie within one
    if is_k_inner:
        terms.append(times(first_row, home.slab))
    else:
        terms.append(_along_slabs(first_row, home))
    assert ctx.machine.engines is not None, "products begin where there are engines"
    start = ctx.value("operand", added(terms))
    return _Operand(home, region.buffer, start, ctx.machine.engines.rows, is_k_inner=is_k_inner)


def _along_slabs(column: Expr, home: SharedHome) -> Expr:
    if isinstance(column, Const):
        return number(int(column.value) // home.slab * home.slab_elements + int(column.value) % home.slab)
    slab = number(home.slab)
    which = Binary(op="truncdiv", left=column, right=slab)
    rest = Binary(op="truncmod", left=column, right=slab)
    return added((times(which, home.slab_elements), rest))


