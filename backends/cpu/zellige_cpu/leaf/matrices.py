"""Micro-kernels of matrix units: blocks of c in tiles of several rows, over all of k at hand.

In: the :class:`zellige_cpu.leaf.blocks.Macro` of a product and the shape of a block. Out: code in the micro-kernel's function. Operands lie
packed as for any other unit; what a tile takes beyond the rows of a is read from there and never stored.

All eight tiles are configured alike, to 16 rows of 64 bytes, by whoever calls (:func:`configure`): four hold sums, two rows of a, two
columns of b. A tile whose sums are c's elements as they lie is loaded and stored there; else, and at edges, it passes
through memory of the stack, where vectors convert and cut it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from zellige.records import dataclass
from zellige_cpu.leaf.convert import cast
from zellige_cpu.leaf.vectors import lane_mask, load_lanes
from zellige_cpu.prefetch import ask_for
from zellige_cpu.text import Function
from zellige_cpu.types import element_bytes, register_type
from zellige_cpu.values import Value, constant

if TYPE_CHECKING:
    from zellige_cpu.leaf.blocks import Macro

ROW_BYTES: Final = 64
"""Bytes of a row of a tile (palette 1; Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter on AMX)."""

ROW_TILES: Final = 2
COLUMN_TILES: Final = 2
"""Tiles of a block: with two by two each operand tile serves two products, and all eight tiles are in use."""

_SUMS: Final = tuple((row * COLUMN_TILES + column, row, column) for row in range(ROW_TILES) for column in range(COLUMN_TILES))
"""Tile, row of tiles and column of tiles of the sums of a whole block."""

_SMALL_PANEL: Final = 8192
"""Bytes of a panel up to which the next one comes into the first level beside it: where there are few steps all of its lines would have to
come from the second level at once."""

_A, _B = 4, 6
"""The first tile of a and of b; sums are in those before."""


def _configuration() -> list[int]:
    """The 64 bytes that LDTILECFG reads: palette 1, then bytes a row (16 bits each) and rows (8 bits each) of up to 16 tiles."""
    tiles = 8
    row_bytes = [byte for i in range(16) for byte in (ROW_BYTES if i < tiles else 0, 0)]
    return [1, *[0] * 15, *row_bytes, *(16 if i < tiles else 0 for i in range(16))]


def configure(fn: Function) -> None:
    """From here on tiles may be used."""
    fn.intrinsic("llvm.x86.ldtilecfg", fn.module.table("i8", _configuration()))


def release(fn: Function) -> None:
    """Tiles are in their initial state again, which the system need not save when threads change."""
    fn.intrinsic("llvm.x86.tilerelease")


MOST_MULTIPLIED: Final = 256
"""Instructions that multiply of a product whose blocks are written out one after the other. With the loads beside them that is a few KiB of
code, which leaves most of the first level for instructions to the code around it."""


def is_written_out(macro: Macro, steps: int) -> bool:
    """Whether :class:`MatrixProduct` takes a product of ``steps`` words of k: few blocks, of whole tiles that are elements of c."""
    unit = macro.unit
    if not unit.is_matrix or macro.is_pitched or macro.soon or macro.out is not None or macro.c != unit.accumulator:
        return False
    rows, columns = ROW_TILES * unit.rows, COLUMN_TILES * macro.lanes
    is_even = macro.m % rows == macro.n % columns == steps % unit.words == 0 and macro.vectors == COLUMN_TILES and macro.rows == rows
    return is_even and macro.m // unit.rows * (macro.n // macro.lanes) * (steps // unit.words) <= MOST_MULTIPLIED


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """All blocks of a small product in one stretch of code, of ``steps`` words of k, without loops, calls and tests between them.

    That was faster than the loops where operands lie in the first level, as variants that take turns in one process; to load the next
    block's operands before the sums are stored brought nothing more.
    """

    fn: Function
    macro: Macro
    steps: int

    def emit(self) -> None:
        macro, rounds = self.macro, self.steps // self.macro.unit.words
        width = COLUMN_TILES * macro.lanes
        blocks = [(row, panel) for panel in range(macro.n // width) for row in range(0, macro.m, ROW_TILES * macro.unit.rows)]
        for block in blocks:
            self._begin(block)
            for step in range(rounds):
                self._load_operands(block, step)
                for tile, row, column in _SUMS:
                    self.fn.intrinsic(macro.unit.intrinsic, *(constant("i8", number) for number in (tile, _A + row, _B + column)))
            self._move_sums("stored", block)

    def _move(self, verb: str, tile: int, place: Value, pitch: int) -> None:
        self.fn.intrinsic(f"llvm.x86.tile{verb}64", constant("i8", tile), place, constant("i64", pitch))

    def _load_operands(self, block: tuple[int, int], step: int) -> None:
        fn, macro = self.fn, self.macro
        a, b = fn.params[:2]
        first, panel = block
        pitch = COLUMN_TILES * ROW_BYTES
        right = panel * macro.panel_step + step * macro.unit.words * pitch
        for column in range(COLUMN_TILES):
            self._move("loadd", _B + column, fn.offset(b, right + column * ROW_BYTES), pitch)
        for row in range(ROW_TILES):
            left = (first + row * macro.unit.rows) * macro.a_row_step + step * ROW_BYTES
            self._move("loadd", _A + row, fn.offset(a, left), macro.a_row_step)

    def _move_sums(self, verb: str, block: tuple[int, int]) -> None:
        fn, macro = self.fn, self.macro
        first, panel = block
        pitch = macro.c_stride * element_bytes(macro.c)
        for tile, row, column in _SUMS:
            place = (first + row * macro.unit.rows) * pitch + (panel * COLUMN_TILES + column) * ROW_BYTES
            self._move(verb, tile, fn.offset(fn.params[2], place), pitch)

    def _begin(self, block: tuple[int, int]) -> None:
        """Tiles of zeros, or what c holds."""
        fn = self.fn
        zeros, load, join = (fn.fresh_label(stem) for stem in ("zeros", "load", "begin"))
        fn.branch_if(fn.params[6], zeros, load)
        fn.label(zeros)
        for tile, _, _ in _SUMS:
            fn.intrinsic("llvm.x86.tilezero", constant("i8", tile))
        fn.branch(join)
        fn.label(load)
        self._move_sums("loadd", block)
        fn.label(join)


@dataclass(frozen=True, slots=True)
class MatrixBlock:
    """A block of ``rows`` by ``vectors`` columns of lanes; ``last_lanes`` of the last one exist, 0: all."""

    fn: Function
    macro: Macro
    rows: int
    vectors: int
    last_lanes: int

    def emit(self) -> None:
        """The micro-kernel: load c, all steps, store the results."""
        fn = self.fn
        a, panel, c, steps, clear, *results = fn.params
        ahead = results.pop()
        a_pitch = results.pop() if self.macro.is_pitched else constant("i64", self.macro.a_row_step)
        row_bytes = constant("i64", self.macro.c_stride * element_bytes(self.macro.c))
        out, pitch = results or (c, row_bytes)
        if results:
            self._ask_for_results(out, pitch)
        self._begin(c, row_bytes, clear)
        self._multiply(a, a_pitch, panel, steps, ahead)
        self._end(out, pitch)

    def _ask_for_results(self, out: Value, pitch: Value) -> None:
        """Asks to own the lines that results go to elsewhere, so that they are at hand when the sums are ready."""
        fn, line = self.fn, out
        for row in range(self.rows):
            line = fn.offset(line, pitch) if row else line
            ask_for(fn, line, self.vectors * self.macro.lanes * element_bytes(self.macro.out or self.macro.c), is_written=True)

    @property
    def _row_tiles(self) -> int:
        return -(-self.rows // self.macro.unit.rows)

    def _is_whole(self, stored: str) -> bool:
        """Whether tiles are stored elements: of the accumulator's type, and all of them exist."""
        unit = self.macro.unit
        return stored == unit.accumulator.name and self.rows % unit.rows == 0 and not self.last_lanes

    def _sums(self) -> Iterator[tuple[int, int, int]]:
        """(tile, row tile, column tile) of the sums."""
        for row in range(self._row_tiles):
            for v in range(self.vectors):
                yield row * COLUMN_TILES + v, row, v

    def move(self, verb: str, tile: int, first: Value, pitch: Value) -> None:
        self.fn.intrinsic(f"llvm.x86.tile{verb}64", constant("i8", tile), first, pitch)

    def _move_sums(self, verb: str, first: Value, pitch: Value) -> None:
        """Loads or stores the tiles of sums from rows that lie ``pitch`` bytes apart."""
        fn = self.fn
        for tile, row, v in self._sums():
            below = fn.offset(first, fn.binary("mul", pitch, constant("i64", row * self.macro.unit.rows))) if row else first
            self.move(verb, tile, fn.offset(below, v * ROW_BYTES), pitch)

    # -- c ---------------------------------------------------------------------------------------------------------------

    def _begin(self, c: Value, pitch: Value, clear: Value) -> None:
        """Tiles of zeros, or what c holds."""
        fn = self.fn
        zeros, load, join = (fn.fresh_label(stem) for stem in ("zeros", "load", "begin"))
        fn.branch_if(clear, zeros, load)
        fn.label(zeros)
        for tile, _, _ in self._sums():
            fn.intrinsic("llvm.x86.tilezero", constant("i8", tile))
        fn.branch(join)
        fn.label(load)
        if self._is_whole(self.macro.c.name):
            self._move_sums("loadd", c, pitch)
        else:
            place = self._place()
            self._convert(c, pitch, place)
            self._move_sums("loadd", place, self._place_pitch)
        fn.label(join)

    def _end(self, out: Value, pitch: Value) -> None:
        kind = self.macro.out or self.macro.c
        if self._is_whole(kind.name):
            self._move_sums("stored", out, pitch)
            return
        place = self._place()
        self._move_sums("stored", place, self._place_pitch)
        fn, accumulator = self.fn, self.macro.unit.accumulator
        with self._each_row(place, out, pitch) as (inner, outer):
            for v in range(self.vectors):
                total = fn.load(fn.offset(inner, v * ROW_BYTES), register_type(accumulator), self.macro.lanes, align=ROW_BYTES)
                result, address = cast(fn, total, accumulator, kind), fn.offset(outer, v * self.macro.lanes * element_bytes(kind))
                mask = self._mask(v)
                if mask is None:
                    fn.store(result, address, align=element_bytes(kind))
                else:
                    fn.masked_store(result, address, mask, align=element_bytes(kind))

    def _convert(self, c: Value, pitch: Value, place: Value) -> None:
        """The elements of c as sums, in rows of tiles."""
        fn, macro = self.fn, self.macro
        with self._each_row(place, c, pitch) as (inner, outer):
            for v in range(self.vectors):
                address = fn.offset(outer, v * macro.lanes * element_bytes(macro.c))
                value = load_lanes(fn, address, macro.c, macro.unit.accumulator, macro.lanes, self._mask(v))
                fn.store(value, fn.offset(inner, v * ROW_BYTES), align=ROW_BYTES)

    def _mask(self, v: int) -> Value | None:
        return lane_mask(self.macro.lanes, self.last_lanes) if self.last_lanes and v == self.vectors - 1 else None

    def _place(self) -> Value:
        """Memory for the sums of a block."""
        return self.fn.alloca(f"<{ROW_BYTES} x i8>", self._row_tiles * self.macro.unit.rows * self.vectors)

    @property
    def _place_pitch(self) -> Value:
        return constant("i64", self.vectors * ROW_BYTES)

    @contextmanager
    def _each_row(self, place: Value, outer: Value, pitch: Value) -> Iterator[tuple[Value, Value]]:
        """Rows that exist: where they are in the block's memory and outside."""
        fn = self.fn
        with fn.loop(constant("i64", 0), constant("i64", self.rows)) as row:
            inner = fn.offset(place, fn.binary("mul", row.index, self._place_pitch))
            yield inner, fn.offset(outer, fn.binary("mul", row.index, pitch))

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _multiply(self, a: Value, a_pitch: Value, panel: Value, steps: Value, ahead: Value) -> None:
        """All words of k, as many at a time as a tile's row holds; ``steps`` is a multiple of these, and not none. Operands are loaded one
        round ahead, those of the last round by the one before, so that nothing behind the rows of a is read. Meanwhile this block's share
        of the next panel comes nearer, from ``ahead`` on."""
        fn, words = self.fn, self.macro.unit.words
        below = fn.binary("mul", a_pitch, constant("i64", self.macro.unit.rows))
        operands = _Operands(self, a, a_pitch, below, panel)
        for tile in (*range(_A, _A + self._row_tiles), *range(_B, _B + self.vectors)):
            operands.load(constant("i64", 0), tile)
        last = fn.binary("sub", steps, constant("i64", words))
        with fn.loop(constant("i64", 0), last, words) as at:
            self._ask_ahead(ahead, at.index)
            following = fn.binary("add", at.index, constant("i64", words))
            self._round(partial(operands.load, following))
        self._ask_ahead(ahead, last)
        self._round(None)

    def _round(self, load: Callable[[int], None] | None) -> None:
        """Each tile of a times each of b. ``load`` brings the next round's operand into a tile of that number as soon as nothing reads the
        present one any more: a tile has no second place to be loaded into meanwhile."""
        for row in range(self._row_tiles):
            for column in range(self.vectors):
                numbers = (row * COLUMN_TILES + column, _A + row, _B + column)
                self.fn.intrinsic(self.macro.unit.intrinsic, *(constant("i8", number) for number in numbers))
                if load is not None and column == self.vectors - 1:
                    load(_A + row)
                if load is not None and row == self._row_tiles - 1:
                    load(_B + column)

    def _ask_ahead(self, ahead: Value, at: Value) -> None:
        share = self.macro.share(self.vectors)
        following = self.fn.offset(ahead, self.fn.binary("mul", at, constant("i64", share)))
        ask_for(self.fn, following, share * self.macro.unit.words, level=1 if self.macro.panel_step <= _SMALL_PANEL else 2)


@dataclass(frozen=True, slots=True)
class _Operands:
    """Where the operands of a block lie: rows of a, ``below`` bytes from one tile to the next, and the panel of b."""

    block: MatrixBlock
    a: Value
    a_pitch: Value
    below: Value
    panel: Value

    def load(self, at: Value, tile: int) -> None:
        """The operand of the round that begins with word ``at`` of k."""
        block, fn = self.block, self.block.fn
        if tile < _B:
            left = fn.offset(self.a, fn.binary("mul", at, constant("i64", block.macro.unit.word_bytes)))
            block.move("loadd", tile, fn.offset(left, self.below) if tile > _A else left, self.a_pitch)
        else:
            pitch = constant("i64", block.vectors * ROW_BYTES)
            right = fn.offset(self.panel, fn.binary("mul", at, pitch))
            block.move("loadd", tile, fn.offset(right, (tile - _B) * ROW_BYTES), pitch)
