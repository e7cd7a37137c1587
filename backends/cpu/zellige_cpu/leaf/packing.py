"""Operands of a product brought into the form that micro-kernels read: rows of a, panels of b.

In: a :class:`Packing`, which says what lies in memory and what is wanted. Out: the name of a function
``void (ptr source, i64 pitch, i64 lines, i64 reach, i64 depth, ptr target, ptr spare)`` in the module.

The source is *lines* that follow each other ``pitch`` bytes apart; ``lines`` of them exist and ``reach`` elements of each, everything
beyond reads as zero. ``depth`` is how many elements of k are packed. The target consists of words (:mod:`zellige_cpu.leaf.units`):

- a: one row after the other, each with the words of k in order;
- b: panels of ``vectors * lanes`` columns, each ``[k][column]``, after ``header`` bytes, or one vector narrower, so that all are about
  as wide. Columns beyond the matrix are zero.

A source whose lines run along k is packed as it is into a and by squares of words, transposed in registers, into b; one whose lines
run across k the other way round. A line that is not whole is completed in spare memory, so that there is one path for edges and inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from zellige.dtypes import DType
from zellige.plan.products import even_parts
from zellige.records import dataclass
from zellige_cpu.leaf.convert import cast
from zellige_cpu.leaf.units import Unit, multiply
from zellige_cpu.leaf.vectors import transposed
from zellige_cpu.prefetch import LINE, ask_for
from zellige_cpu.text import Function, Module
from zellige_cpu.types import element_bytes, memory_type, register_type, vector_type
from zellige_cpu.values import Value, constant, zero

_UNROLLED = 16
"""Vectors of one line of b up to which the code has no loop over panels."""

_CLAIMED_ROWS = 1
_CLAIMED_STEPS = 8
"""How many rows of a and words of b ahead memory is asked for that will be written."""

_PREFETCHED = 1024
"""Bytes of a line up to which whole lines are asked for ahead."""


def round_up(size: int, multiple: int) -> int:
    """The least multiple of ``multiple`` that is not below ``size``."""
    return -(-size // multiple) * multiple


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """``extent``: rows of a or columns of b. ``depth``: the most elements of k, and the actual depth is a multiple of ``granule``.

    ``vectors``: of a full panel of b. ``is_along``: the lines of the source run along k. ``asks_ahead``: lines are asked for before
    they are packed, where the machine has an instruction for it. ``beyond``: of a, rows that do not exist and are packed all the same, as
    zeros; None: all, up to ``extent``.
    """

    operand: Literal["a", "b"]
    unit: Unit
    dtype: DType
    extent: int
    depth: int
    granule: int
    lanes: int
    is_along: bool
    vectors: int = 1
    asks_ahead: bool = True
    beyond: int | None = None

    @property
    def packed(self) -> DType:
        """The type of a packed element."""
        return self.unit.a if self.operand == "a" else self.unit.b

    @property
    def words(self) -> int:
        """Words of k that there is room for."""
        return round_up(-(-self.depth // self.unit.group), self.lanes)

    @property
    def row_step(self) -> int:
        """Bytes from one packed row of a to the next: rows begin in different sets of a cache, and where a vector is part of a line also at
        different places of one, since words at the same place of several lines lie in one bank and are loaded one after the other."""
        vector = self.lanes * self.unit.word_bytes
        return self.words * self.unit.word_bytes + LINE + vector % LINE

    @property
    def header(self) -> int:
        """Bytes before each panel, for what a biased unit adds too much."""
        return self.vectors * self.lanes * self.unit.word_bytes if self.unit.is_biased else 0

    @property
    def panel_step(self) -> int:
        """Bytes from one packed panel of b to the next: lines of the same k lie in different sets of a cache."""
        return self.header + self.words * self.vectors * self.lanes * self.unit.word_bytes + 64

    @property
    def panels(self) -> tuple[tuple[int, int], ...]:
        """(how many, how many vectors wide) panels follow each other."""
        return even_parts(-(-self.extent // self.lanes), self.vectors)

    @property
    def square(self) -> int:
        """Words along k, or rows across it, that are handled at once."""
        size = -(-self.granule // self.unit.group) if self.is_along else self.extent
        side = min(self.lanes, size & -size)
        return side if side >= min(4, self.lanes) else self.lanes

    @property
    def target_bytes(self) -> int:
        """Bytes of the packed operand."""
        if self.operand == "a":
            return round_up(self.extent, self.lanes) * self.row_step
        return sum(count for count, _ in self.panels) * self.panel_step

    @property
    def line_bytes(self) -> int:
        """The most bytes of a line that are read."""
        size = element_bytes(self.dtype)
        if self.is_along:
            return round_up(self.depth, self.square * self.unit.group) * size
        return round_up(self.extent, self.lanes if self.operand == "b" else self.square) * size

    @property
    def lines_at_once(self) -> int:
        group = self.unit.group
        if self.operand == "a":
            return 1 if self.is_along else self.square * group
        return self.square if self.is_along else group

    @property
    def spare_bytes(self) -> int:
        """Bytes of memory for lines that are completed."""
        return self.lines_at_once * round_up(self.line_bytes, 64)


def emit_packing(module: Module, packing: Packing) -> str:
    """The name of the function that packs, made on first use."""
    way = "along" if packing.is_along else "across"
    unit = packing.unit
    name = (
        f"pack_{packing.operand}_{way}_{packing.dtype}_{packing.packed}_{unit.accumulator}_{packing.extent}x{packing.depth}"
        f"_{packing.granule}_{packing.vectors}_g{unit.group}{'_biased' * unit.is_biased}"
        f"{'' if packing.beyond is None else f'_and_{packing.beyond}'}"
    )
    if module.has_function(name):
        return name
    sizes = [(n, "i64") for n in ("pitch", "lines", "reach", "depth")]
    fn = module.function(name, "void", [("source", "ptr"), *sizes, ("target", "ptr"), ("spare", "ptr")], inline=False)
    packer = _Packer(fn, packing, _line(module), module.zeros(packing.line_bytes))
    if packing.operand == "a":
        packer.rows() if packing.is_along else packer.rows_by_squares()
    elif packing.is_along:
        packer.panels_by_squares()
    else:
        packer.panels()
    if packing.operand == "b" and unit.is_biased:
        packer.headers()
    return name


def _line(module: Module) -> str:
    """``ptr line(source, pitch, number, lines, reach, need, zeros, spare)``: where ``need`` bytes of a line can be read."""
    name = "line"
    if module.has_function(name):
        return name
    sizes = [(n, "i64") for n in ("pitch", "number", "lines", "reach", "need")]
    fn = module.function(name, "ptr", [("source", "ptr"), *sizes, ("zeros", "ptr"), ("spare", "ptr")], inline=False)
    source, pitch, number, lines, reach, need, zeros, spare = fn.params
    missing, found, partial, whole = (fn.fresh_label(stem) for stem in ("missing", "found", "partial", "whole"))
    exists = fn.binary("and", fn.compare("slt", number, lines), fn.compare("sgt", reach, constant("i64", 0)))
    fn.branch_if(exists, found, missing)
    fn.label(missing)
    fn.ret(zeros)
    fn.label(found)
    address = fn.offset(source, fn.binary("mul", number, pitch))
    fn.branch_if(fn.compare("slt", reach, need), partial, whole)
    fn.label(partial)
    fn.intrinsic("llvm.memcpy", spare, address, reach, constant("i1", False))
    fn.intrinsic("llvm.memset", fn.offset(spare, reach), constant("i8", 0), fn.binary("sub", need, reach), constant("i1", False))
    fn.ret(spare)
    fn.label(whole)
    fn.ret(address)
    return name


def _times(fn: Function, index: Value, factor: int) -> Value:
    return index if factor == 1 else fn.binary("mul", index, constant("i64", factor))


@dataclass(frozen=True, slots=True)
class _Packer:
    """The function of one packing while it is written."""

    fn: Function
    spec: Packing
    line: str
    zeros: Value

    # -- lines -----------------------------------------------------------------------------------------------------------

    def _lines(self, first: Value, count: int) -> list[Value]:
        """Addresses of ``count`` lines from number ``first`` on."""
        fn, spec = self.fn, self.spec
        source, pitch, lines, reach, depth, _, spare = fn.params
        size = element_bytes(spec.dtype)
        need = constant("i64", spec.line_bytes)
        if spec.is_along:
            step = spec.square * spec.unit.group
            rounded = fn.binary("mul", fn.binary("udiv", fn.binary("add", depth, constant("i64", step - 1)), constant("i64", step)),
                                constant("i64", step * size))  # fmt: skip
            need = rounded
        reach_bytes = _times(fn, reach, size)
        end = fn.binary("add", first, constant("i64", count))
        is_whole = fn.binary("and", fn.compare("sle", end, lines), fn.compare("sge", reach_bytes, need))
        whole, edge, join = fn.fresh_label("whole"), fn.fresh_label("edge"), fn.fresh_label("lines")
        fn.branch_if(is_whole, whole, edge)
        fn.label(whole)  # without calls, which take as long as copying a line does
        inside = [fn.offset(source, fn.binary("mul", first, pitch))]
        for _ in range(1, count):
            inside.append(fn.offset(inside[-1], pitch))
        fn.branch(join)
        fn.label(edge)
        at_edge = []
        for i in range(count):
            number = fn.binary("add", first, constant("i64", i)) if i else first
            place = fn.offset(spare, i * round_up(spec.line_bytes, 64))
            at_edge.append(fn.call(self.line, source, pitch, number, lines, reach_bytes, need, self.zeros, place))
        fn.label(join)
        return [fn.phi((one, whole), (other, edge)) for one, other in zip(inside, at_edge)]

    def _prefetch(self, number: Value, ahead: int, count: int) -> None:
        """Asks for ``count`` lines that come ``ahead`` lines later: each may lie in a page of its own, where no hardware looks ahead."""
        fn, spec = self.fn, self.spec
        if spec.line_bytes > _PREFETCHED or not spec.asks_ahead:
            return
        source, pitch = fn.params[0], fn.params[1]
        for i in range(count):
            line = fn.offset(source, fn.binary("mul", fn.binary("add", number, constant("i64", ahead + i)), pitch))
            ask_for(fn, line, spec.line_bytes, level=2)

    def _claim(self, place: Value, distance: int, size: int) -> None:
        """Asks for ``size`` bytes that will be written ``distance`` bytes behind ``place``: a store that misses holds up those after it."""
        if self.spec.asks_ahead and distance:
            ask_for(self.fn, self.fn.offset(place, distance), size, is_written=True)

    def _steps(self) -> Value:
        """Words of k to pack."""
        fn, group = self.fn, self.spec.unit.group
        depth = fn.params[4]
        if group == 1:
            return depth
        return fn.binary("udiv", fn.binary("add", depth, constant("i64", group - 1)), constant("i64", group))

    # -- words -----------------------------------------------------------------------------------------------------------

    def _elements(self, address: Value, count: int) -> Value:
        """Adjacent elements as the packed type; a's of a biased unit with their sign flipped."""
        fn, spec = self.fn, self.spec
        raw = fn.load(address, memory_type(spec.dtype), count, align=element_bytes(spec.dtype))
        if spec.dtype.is_bool:
            raw = fn.convert("trunc", raw, "i1")
        value = cast(fn, raw, spec.dtype, spec.packed)
        if spec.unit.is_biased and spec.operand == "a":
            value = fn.binary("xor", value, constant(value.element, -128, value.lanes))
        return value

    def _along(self, address: Value, words: int) -> Value:
        """Words whose elements follow each other in memory."""
        spec = self.spec
        value = self._elements(address, words * spec.unit.group)
        return value if spec.unit.group == 1 else self.fn.bitcast_type(value, vector_type(spec.unit.word, words), words)

    def _across(self, addresses: Sequence[Value], words: int) -> Value:
        """Words of one element of each of ``group`` lines."""
        fn, unit = self.fn, self.spec.unit
        parts = [self._elements(address, words) for address in addresses]
        if unit.group == 1:
            return parts[0]
        bits = 8 * unit.word_bytes // unit.group
        total: Value | None = None
        for i, part in enumerate(parts):
            wide = fn.convert("zext", part, unit.word)
            if i:
                wide = fn.binary("shl", wide, constant(unit.word, bits * i, words))
            total = wide if total is None else fn.binary("or", total, wide)
        assert total is not None
        return total

    # -- a ---------------------------------------------------------------------------------------------------------------

    def rows(self) -> None:
        fn, spec = self.fn, self.spec
        side, size, word = spec.square, element_bytes(spec.dtype), spec.unit.word_bytes
        per_granule = -(-spec.granule // spec.unit.group)
        unroll = next(u for u in (4, 2, 1) if per_granule % (u * side) == 0 or u == 1)
        steps, stop = self._steps(), constant("i64", spec.extent)
        if spec.beyond is not None:
            stop = fn.intrinsic("llvm.smin", stop, fn.binary("add", fn.params[2], constant("i64", spec.beyond)))
        with fn.loop(constant("i64", 0), stop) as row:
            (source,) = self._lines(row.index, 1)
            self._prefetch(row.index, 4, 1)
            target = fn.offset(fn.params[5], _times(fn, row.index, spec.row_step))
            with fn.loop(constant("i64", 0), steps, unroll * side) as at:
                first = fn.offset(source, _times(fn, at.index, spec.unit.group * size))
                place = fn.offset(target, _times(fn, at.index, word))
                values = [self._along(fn.offset(first, i * side * spec.unit.group * size), side) for i in range(unroll)]
                self._claim(place, _CLAIMED_ROWS * spec.row_step, unroll * side * word)
                for i, value in enumerate(values):
                    fn.store(value, fn.offset(place, i * side * word), align=word)

    def rows_by_squares(self) -> None:
        fn, spec = self.fn, self.spec
        side, size, word, group = spec.square, element_bytes(spec.dtype), spec.unit.word_bytes, spec.unit.group
        with fn.loop(constant("i64", 0), self._steps(), side) as at:
            sources = self._lines(_times(fn, at.index, group), side * group)
            column = fn.offset(fn.params[5], _times(fn, at.index, word))
            with fn.loop(constant("i64", 0), constant("i64", round_up(spec.extent, side)), side) as rows:
                shift = _times(fn, rows.index, size)
                lines = [fn.offset(source, shift) for source in sources]
                square = [self._across(lines[i * group : (i + 1) * group], side) for i in range(side)]
                target = fn.offset(column, _times(fn, rows.index, spec.row_step))
                for i, vector in enumerate(transposed(fn, square)):
                    fn.store(vector, fn.offset(target, i * spec.row_step), align=word)

    # -- b ---------------------------------------------------------------------------------------------------------------

    def _groups_of_panels(self) -> Iterator[tuple[Value, Value, int]]:
        """First column (a counter), address and vectors of each panel; code is to be emitted as each is yielded."""
        fn, spec = self.fn, self.spec
        target, first = fn.params[5], 0
        is_unrolled = -(-spec.extent // spec.lanes) <= _UNROLLED and not spec.is_along
        for count, vectors in spec.panels:
            width = vectors * spec.lanes
            if is_unrolled or count == 1:
                for number in range(count):
                    yield constant("i64", first + number * width), fn.offset(target, number * spec.panel_step), vectors
            else:
                with fn.loop(constant("i64", 0), constant("i64", count)) as panel:
                    column = fn.binary("add", _times(fn, panel.index, width), constant("i64", first))
                    yield column, fn.offset(target, _times(fn, panel.index, spec.panel_step)), vectors
            target, first = fn.offset(target, count * spec.panel_step), first + count * width

    def panels(self) -> None:
        fn, spec = self.fn, self.spec
        size, lanes, word = element_bytes(spec.dtype), spec.lanes, spec.unit.word_bytes
        with fn.loop(constant("i64", 0), self._steps()) as at:
            sources = self._lines(_times(fn, at.index, spec.unit.group), spec.unit.group)
            self._prefetch(_times(fn, at.index, spec.unit.group), max(16, spec.unit.group), spec.unit.group)
            for column, panel, vectors in self._groups_of_panels():
                place = fn.offset(panel, fn.binary("add", _times(fn, at.index, vectors * lanes * word), constant("i64", spec.header)))
                shift = _times(fn, column, size)
                self._claim(place, _CLAIMED_STEPS * vectors * lanes * word, vectors * lanes * word)
                for v in range(vectors):
                    addresses = [fn.offset(fn.offset(source, shift), v * lanes * size) for source in sources]
                    fn.store(self._across(addresses, lanes), fn.offset(place, v * lanes * word), align=lanes * word)

    def panels_by_squares(self) -> None:
        fn, spec = self.fn, self.spec
        side, size, word, group = spec.square, element_bytes(spec.dtype), spec.unit.word_bytes, spec.unit.group
        steps = self._steps()
        for column, panel, vectors in self._groups_of_panels():
            step = vectors * spec.lanes * word
            with fn.loop(constant("i64", 0), constant("i64", vectors * spec.lanes), side) as across:
                sources = self._lines(fn.binary("add", column, across.index), side)
                place = fn.offset(fn.offset(panel, spec.header), _times(fn, across.index, word))
                with fn.loop(constant("i64", 0), steps, side) as at:
                    shift = _times(fn, at.index, group * size)
                    square = [self._along(fn.offset(source, shift), side) for source in sources]
                    target = fn.offset(place, _times(fn, at.index, step))
                    for i, vector in enumerate(transposed(fn, square)):
                        fn.store(vector, fn.offset(target, i * step), align=side * word)

    def headers(self) -> None:
        """Before each panel what 128 times its columns adds up to."""
        fn, spec = self.fn, self.spec
        lanes, word = spec.lanes, spec.unit.word_bytes
        bias = constant(spec.unit.word, 0x80808080, lanes)
        steps = self._steps()
        for _, panel, vectors in self._groups_of_panels():
            with fn.loop(constant("i64", 0), steps) as at:
                sums = [at.carry(zero(register_type(spec.unit.accumulator), lanes)) for _ in range(vectors)]
                place = fn.offset(panel, fn.binary("add", _times(fn, at.index, vectors * lanes * word), constant("i64", spec.header)))
                for v, total in enumerate(sums):
                    value = fn.load(fn.offset(place, v * lanes * word), spec.unit.word, lanes, align=lanes * word)
                    at.update(total, multiply(fn, spec.unit, bias, value, total))
            for v, total in enumerate(sums):
                fn.store(at.final(total), fn.offset(panel, v * lanes * word), align=lanes * word)
