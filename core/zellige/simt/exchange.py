"""Tiles that leave for a tensor with more neighbours a lane than the lanes hold.

In: a Map that stores a tile held in registers, its distribution and the context. Out: the same tile over the same lanes with longer rows of
neighbours in each, and the Map that stores it so; or None where nothing is gained.

Accumulators of a product hold two neighbours of a row in a lane and the next ones in the lanes beside it, so that a store of 16-bit
elements writes 4 bytes a lane and half a sector of memory a row. Where the lane's further registers hold the same places of the next
columns, lanes give each other words in a transposition: of R lanes with R words each, lane q gets word q of all. log2(R) steps, in each of
which half the words go to the lane whose number differs in one bit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zellige.dtypes import dtype as as_dtype
from zellige.ir.expr import Binary, Buffer, Compare, Expr, Load, Select, Var
from zellige.ir.stmt import Map, Shuffle, Store
from zellige.ir.traverse import walk
from zellige.records import dataclass
from zellige.simt.context import Context
from zellige.simt.distribution import Digit, Distribution, added, digit_value, number, times
from zellige.simt.homes import GlobalHome, RegisterHome
from zellige.simt.ir import LANE

UINT32: Final = as_dtype("uint32")
WORD_BITS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """``lanes`` is the digit of lanes that hold the next neighbours, ``registers`` that of the words further along the row, of which the
    first ``lanes.radix`` are exchanged; ``vector`` neighbours make a word."""

    vector: int
    lanes: Digit
    registers: Digit

    def neighbours(self) -> int:
        """Elements of a row that a lane holds afterwards."""
        return self.vector * self.lanes.radix

    def applied(self, held: Distribution) -> Distribution:
        """Who holds what afterwards."""
        count, inner = self.lanes.radix, self.lanes.dimension
        digits = [replace(d, stride=self.registers.stride) if d == self.lanes else d for d in held.digits if d.source != "register"]
        order = [Digit(source="register", divisor=1, radix=self.neighbours(), dimension=inner, stride=1)]
        for d in held.of_source("register")[1:]:
            order.append(replace(d, radix=d.radix // count, stride=d.stride * count) if d == self.registers else d)
        divisor = 1
        for d in order:
            digits.append(replace(d, divisor=divisor))
            divisor *= d.radix
        return Distribution(shape=held.shape, digits=tuple(digits))


def exchange_for(ctx: Context, statement: Map, held: Distribution) -> Exchange | None:
    """How lanes can make the one store of a Map wider."""
    store = statement.body[0] if len(statement.body) == 1 else None
    if not isinstance(store, Store) or not held.is_exact:
        return None
    if not isinstance(ctx.homes.get(store.buffer.root), GlobalHome) or store.buffer.alias is not None:
        return None
    if any(isinstance(node, Load) and node.buffer.root is store.buffer.root for node in walk(store.value)):
        return None  # another lane may store the element before this one has read it
    inner, registers = len(held.shape) - 1, held.of_source("register")
    if not registers or registers[0].dimension != inner or registers[0].stride != 1:
        return None
    vector = registers[0].radix
    if vector * store.buffer.dtype.storage_bits != WORD_BITS or store.buffer.dtype.is_bool:
        return None
    for lanes in held.of_source("lane"):
        count = lanes.radix
        if lanes.dimension != inner or lanes.stride != vector or count not in (2, 4):
            continue
        for digit in registers[1:]:
            if digit.dimension == inner and digit.stride == vector * count and digit.radix % count == 0:
                return Exchange(vector=vector, lanes=lanes, registers=digit)
    return None


def held_apart(ctx: Context, statement: Map, held: Distribution) -> tuple[Buffer, Map]:
    """A tile in registers for what the Map stores, and the Map that fills it."""
    store = statement.body[0]
    assert isinstance(store, Store)
    tile = _tile(ctx, f"{store.buffer.name}_held", store, held)
    return tile, replace(statement, body=(Store(buffer=tile, indices=statement.axes, value=store.value, span=store.span),))


def _tile(ctx: Context, name: str, store: Store, held: Distribution) -> Buffer:
    tile = Buffer(name=name, dtype=store.buffer.dtype, shape=tuple(number(e) for e in held.shape), space="fragment")
    ctx.homes[tile] = RegisterHome(memory=ctx.registers(name, tile.dtype, held.registers), extents=held.shape, distribution=held)
    return tile


def exchanged(ctx: Context, statement: Map, tile: Buffer, exchange: Exchange) -> tuple[Map, Distribution]:
    """Emit the transposition of ``tile``; what stores the outcome, and its distribution."""
    store, home = statement.body[0], ctx.homes[tile]
    assert isinstance(store, Store)
    assert isinstance(home, RegisterHome)
    held = exchange.applied(home.distribution)
    moved = _tile(ctx, f"{store.buffer.name}_rows", store, held)
    target = ctx.homes[moved]
    assert isinstance(target, RegisterHome)
    count = exchange.lanes.radix
    words = home.distribution.registers // exchange.vector
    step = exchange.registers.divisor // exchange.vector
    place = ctx.value("q", digit_value(LANE, exchange.lanes, ctx.lanes))
    source, sink = ctx.view(home.memory, UINT32), ctx.view(target.memory, UINT32)
    with ctx.loop("r", words // count, is_unrolled=True) as rest:
        base = _base(rest, step, count, words)
        row: list[Expr] = [ctx.value("w", Load(buffer=source, indices=(added((base, number(g * step))),))) for g in range(count)]
        bit = 1
        while bit < count:
            row = _half_exchanged(ctx, row, bit, place, exchange.lanes.divisor)
            bit *= 2
        for p, word in enumerate(row):
            ctx.code.emit(Store(buffer=sink, indices=(added((times(rest, count), number(p))),), value=word, span=store.span))
    stored = Store(buffer=store.buffer, indices=store.indices, value=Load(buffer=moved, indices=statement.axes), span=store.span)
    return replace(statement, body=(stored,)), held


def _base(rest: Expr, step: int, count: int, words: int) -> Expr:
    """The first word of group ``rest``: words of a group are ``step`` apart."""
    low = digit_value(rest, Digit(source="register", divisor=1, radix=step, dimension=None), words // count)
    high = digit_value(rest, Digit(source="register", divisor=step, radix=words // count // step, dimension=None), words // count)
    return added((low if step > 1 else number(0), times(high, step * count)))


def _half_exchanged(ctx: Context, row: list[Expr], bit: int, place: Expr, divisor: int) -> list[Expr]:
    """One step: words whose number has ``bit`` not as the lane's has it go to the lane that differs in it."""
    is_upper = ctx.value("up", Compare(op="ne", left=Binary(op="bitand", left=place, right=number(bit)), right=number(0)))
    found = list(row)
    for i in range(len(row)):
        if i & bit:
            continue
        low, high = row[i], row[i | bit]
        given = ctx.value("given", Select(condition=is_upper, then=low, otherwise=high))
        got = Var(name=ctx.fresh("got"), dtype=UINT32, kind="value")
        ctx.code.emit(Shuffle(result=got, mode="xor", value=given, operand=number(bit * divisor), width=ctx.lanes))
        found[i] = ctx.value("w", Select(condition=is_upper, then=got, otherwise=low))
        found[i | bit] = ctx.value("w", Select(condition=is_upper, then=high, otherwise=got))
    return found
