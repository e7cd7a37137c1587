"""The loops of a product over packed operands: blocks of c in registers, over all of k at hand.

In: a :class:`Macro`. Out: the name of a function ``void (ptr a, ptr b, ptr c, i64 steps, i64 rows, i64 columns, i1 clear)`` in the module,
which adds the product of ``steps`` words of k to c (or replaces c by it). With ``out``, ``clear`` is followed by ``ptr out, i64 pitch``:
the results go there, in rows ``pitch`` bytes apart, and c is only read. Where a is pitched ``i64 a_pitch`` follows, bytes from one row of a
to the next. For each of ``soon`` follows ``ptr source, i64 pitch, i64 lines``: what will be packed or read next and is asked for meanwhile.

A micro-kernel holds a block of c in registers over all steps, so each element is one chain of multiply-adds in the order of k, that
begins at c: the bits do not depend on how k was cut into calls. The panel of b stays in the first-level cache while all blocks of rows
pass by. Blocks that lie wholly beyond ``rows`` or ``columns`` are left out. Edges of c itself have micro-kernels of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from zellige.dtypes import DType
from zellige.plan.products import even_parts
from zellige.records import dataclass
from zellige_cpu.leaf.convert import cast
from zellige_cpu.leaf.units import Unit, multiply
from zellige_cpu.leaf.vectors import lane_mask, load_lanes
from zellige_cpu.prefetch import LINE, ask_for
from zellige_cpu.text import Function, Module
from zellige_cpu.types import element_bytes, register_type
from zellige_cpu.values import Value, constant, zero

_UNROLL = 4
"""Words of k in one round of a micro-kernel's loop, where the block is small."""

_LARGE = 64
"""Bytes of a vector from which the loop is not unrolled: its block is long enough without, and LLVM would put the steps of one sum next
to each other, each of which waits for the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Macro:
    """Sizes of a product: c is ``m`` by ``n`` elements of ``c``, ``c_stride`` elements from row to row.

    A panel is ``vectors`` vectors of ``lanes`` columns wide, or one less, so that all are about as wide; its blocks have at most ``rows``
    rows, those of the narrower ones ``narrow_rows``. Steps, in bytes: from one row of a to the next and one word of k to the next, from one
    panel of b to the next (``narrow_step`` where it is narrower) and one word of k to the next (0: dense). ``header`` bytes stand before
    each panel. ``b_alignment`` is that of b's vectors. The number of words of k is a multiple of ``multiple``. ``out`` is the type in which
    results are stored elsewhere than in c, None where c is their place. ``is_pitched``, for matrix units: how far rows of a lie apart is
    known only when it runs. Of each of ``soon`` (bytes of a line of it) every block asks for a few lines.
    """

    unit: Unit
    m: int
    n: int
    c: DType
    c_stride: int
    lanes: int
    rows: int
    narrow_rows: int
    vectors: int
    a_row_step: int
    a_k_step: int
    panel_step: int
    narrow_step: int
    b_k_step: int = 0
    b_alignment: int = 0
    header: int = 0
    multiple: int = 1
    out: DType | None = None
    is_pitched: bool = False
    soon: tuple[int, ...] = ()

    @property
    def unroll(self) -> int:
        """Words of k in one round of a micro-kernel's loop. Where integers are added by an instruction of its own it is one: LLVM would
        add up the products of a round first, for which registers do not suffice."""
        if self.unit.is_matrix:
            return self.unit.words
        is_regrouped = self.unit.step_registers > 0 and self.unit.accumulator.is_integer
        return 1 if is_regrouped or self.lanes * self.unit.word_bytes >= _LARGE else _UNROLL

    def row_blocks(self, vectors: int) -> tuple[tuple[int, int], ...]:
        """(blocks, rows each) of a panel: m cut into the fewest blocks, as even as they can be; those of a matrix unit begin where its
        tiles do."""
        if self.unit.is_matrix:
            return tuple(f for f in ((self.m // self.rows, self.rows), (1, self.m % self.rows)) if f[0] and f[1])
        return even_parts(self.m, self.rows if vectors == self.vectors else self.narrow_rows)

    @property
    def name(self) -> str:
        unit = self.unit
        return (
            f"product_{self.m}x{self.n}_{unit.a}_{unit.group}_{unit.accumulator}_{self.c}_{self.c_stride}"
            f"_{self.rows}x{self.vectors}_{self.narrow_rows}_{self.a_row_step}_{self.a_k_step}_{self.panel_step}_{self.b_k_step}_{self.b_alignment}"
            f"_{self.multiple}{'_biased' * unit.is_biased}{'_matrix' * unit.is_matrix}{'' if self.out is None else f'_to_{self.out}'}"
            f"{'_pitched' * self.is_pitched}{''.join(f'_lines{size}' for size in self.soon)}"
        )

    @property
    def results(self) -> list[tuple[str, str]]:
        """The parameters that say where results go."""
        return [] if self.out is None else [("out", "ptr"), ("pitch", "i64")]

    @property
    def pitches(self) -> list[tuple[str, str]]:
        """The parameter that says how far rows of a lie apart."""
        return [("a_pitch", "i64")] * self.is_pitched

    @property
    def asks_ahead(self) -> bool:
        """Whether blocks ask for the panel that comes next, which follows where b is packed."""
        return self.b_k_step == 0

    def share(self, vectors: int) -> int:
        """Bytes of the next panel that a block asks for with each word of k."""
        return -(-vectors * self.lanes * self.unit.word_bytes // sum(count for count, _ in self.row_blocks(vectors)))


def emit_macro(module: Module, macro: Macro, all_steps: int | None = None) -> str:
    """The name of the function for ``macro``, made on first use. ``all_steps``: calls are of so many words of k, and of all rows and
    columns."""
    if all_steps is not None and macro.unit.is_matrix:
        from zellige_cpu.leaf.matrices import is_written_out  # few processors have matrix units

        if is_written_out(macro, all_steps):
            return _written_out(module, macro, all_steps)
    if module.has_function(macro.name):
        return macro.name
    sizes = [(n, "i64") for n in ("steps", "rows", "columns")]
    params = [("a", "ptr"), ("b", "ptr"), ("c", "ptr"), *sizes, ("clear", "i1"), *macro.results, *macro.pitches]
    for number in range(len(macro.soon)):
        params += [(f"source{number}", "ptr"), (f"pitch{number}", "i64"), (f"lines{number}", "i64")]
    fn = module.function(macro.name, "void", params, inline=False)
    b, columns = fn.params[1], fn.params[5]
    first, last_lanes = 0, macro.n % macro.lanes
    groups = even_parts(-(-macro.n // macro.lanes), macro.vectors)
    shares, blocks = _shares(fn, macro, groups)
    before = constant("i64", 0)
    for number, (count, vectors) in enumerate(groups):
        width = vectors * macro.lanes
        step = macro.panel_step if vectors == macro.vectors else macro.narrow_step
        whole = count - (last_lanes > 0 and number == len(groups) - 1)
        of_panel = blocks.get(vectors, constant("i64", 0))
        if whole:
            wanted = _wanted(fn, columns, first, width, whole)
            with fn.loop(constant("i64", 0), wanted) as loop:
                panel = fn.offset(b, fn.binary("mul", loop.index, constant("i64", step)))
                column = fn.binary("add", fn.binary("mul", loop.index, constant("i64", width)), constant("i64", first))
                passed = fn.binary("add", fn.binary("mul", loop.index, of_panel), before)
                _emit_rows(fn, macro, _Panel(panel, step, column, vectors, 0, passed, shares))
            before = fn.binary("add", before, fn.binary("mul", wanted, of_panel))
        if whole < count:
            with fn.when(fn.compare("sgt", columns, constant("i64", first + whole * width))):
                panel, column = fn.offset(b, whole * step), constant("i64", first + whole * width)
                _emit_rows(fn, macro, _Panel(panel, step, column, vectors, last_lanes, before, shares))
        b, first = fn.offset(b, count * step), first + count * width
    return macro.name


def _wanted(fn: Function, size: Value, first: int, part: int, count: int) -> Value:
    """How many of ``count`` parts from ``first`` on begin before ``size``."""
    reached = fn.binary("sdiv", fn.binary("sub", size, constant("i64", first - part + 1)), constant("i64", part))
    return fn.intrinsic("llvm.smax", fn.intrinsic("llvm.smin", reached, constant("i64", count)), constant("i64", 0))


def _shares(fn: Function, macro: Macro, groups: tuple[tuple[int, int], ...]) -> tuple[list[Value], dict[int, Value]]:
    """How many lines of each of ``soon`` a block asks for, so that all blocks that there are ask for all of them; and how many blocks a
    panel has, by its vectors."""
    if not macro.soon:
        return [], {}
    _, _, _, _, rows, columns, *_ = fn.params
    blocks: dict[int, Value] = {}
    total, column = constant("i64", 0), 0
    for count, vectors in groups:
        blocks[vectors], row = constant("i64", 0), 0
        for number, height in macro.row_blocks(vectors):
            blocks[vectors] = fn.binary("add", blocks[vectors], _wanted(fn, rows, row, height, number))
            row += number * height
        panels = _wanted(fn, columns, column, vectors * macro.lanes, count)
        total = fn.binary("add", total, fn.binary("mul", panels, blocks[vectors]))
        column += count * vectors * macro.lanes
    total = fn.intrinsic("llvm.smax", total, constant("i64", 1))
    lines = fn.params[-1 : -3 * len(macro.soon) - 1 : -3][::-1]
    rounded = [fn.binary("add", one, fn.binary("sub", total, constant("i64", 1))) for one in lines]
    return [fn.binary("udiv", one, total) for one in rounded], blocks


def _written_out(module: Module, macro: Macro, steps: int) -> str:
    name = f"{macro.name}_of_{steps}"
    if not module.has_function(name):
        from zellige_cpu.leaf.matrices import MatrixProduct

        sizes = [(n, "i64") for n in ("steps", "rows", "columns")]
        fn = module.function(name, "void", [("a", "ptr"), ("b", "ptr"), ("c", "ptr"), *sizes, ("clear", "i1")], inline=False)
        MatrixProduct(fn, macro, steps).emit()
    return name


@dataclass(frozen=True, slots=True)
class _Panel:
    """A panel of b, which begins at a column of c; the next one lies ``step`` bytes behind. ``before`` blocks came before its first, and
    each asks for ``shares`` lines of what comes soon."""

    place: Value
    step: int
    column: Value
    vectors: int
    last_lanes: int
    before: Value
    shares: list[Value]


def _emit_rows(fn: Function, macro: Macro, panel: _Panel) -> None:
    """One panel against all rows of a."""
    a, _, c, steps, rows, _, clear, *others = fn.params
    results, soon = others[: len(macro.results)], others[len(macro.results) + len(macro.pitches) :]
    a_pitch = others[len(macro.results)] if macro.is_pitched else constant("i64", macro.a_row_step)
    c_row = macro.c_stride * element_bytes(macro.c)
    c = fn.offset(c, fn.binary("mul", panel.column, constant("i64", element_bytes(macro.c))))
    if macro.out is not None:
        results = [fn.offset(results[0], fn.binary("mul", panel.column, constant("i64", element_bytes(macro.out)))), results[1]]
    first = passed = 0
    for count, height in macro.row_blocks(panel.vectors):
        kernel = _micro_kernel(fn.module, macro, height, panel.vectors, panel.last_lanes)
        with fn.loop(constant("i64", 0), _wanted(fn, rows, first, height, count)) as loop:
            row = fn.binary("add", fn.binary("mul", loop.index, constant("i64", height)), constant("i64", first))
            number = fn.binary("add", loop.index, constant("i64", passed))
            block = fn.offset(a, fn.binary("mul", row, a_pitch))
            target = fn.offset(c, fn.binary("mul", row, constant("i64", c_row)))
            places = [fn.offset(results[0], fn.binary("mul", row, results[1])), results[1]] if results else []
            places += [a_pitch] * macro.is_pitched
            if macro.asks_ahead:
                share = fn.binary("mul", steps, constant("i64", macro.share(panel.vectors)))
                places.append(fn.offset(fn.offset(panel.place, panel.step), fn.binary("mul", number, share)))
            for place, (size, share) in enumerate(zip(macro.soon, panel.shares)):
                begin = fn.binary("mul", fn.binary("add", panel.before, number), share)
                _ask_for_source(fn, size, begin, share, soon[3 * place : 3 * place + 3])
            fn.call(kernel, block, panel.place, target, steps, clear, *places)
        first, passed = first + count * height, passed + count


def _ask_for_source(fn: Function, size: int, begin: Value, share: Value, source: list[Value]) -> None:
    """This block's share of the lines that will be packed next, each of ``size`` bytes, into the second level: packing waits for memory, a
    product does not."""
    first, pitch, lines = source
    with fn.loop(begin, fn.intrinsic("llvm.smin", fn.binary("add", begin, share), lines)) as line:
        ask_for(fn, fn.offset(first, fn.binary("mul", line.index, pitch)), size, level=2)


def _micro_kernel(module: Module, macro: Macro, rows: int, vectors: int, last_lanes: int) -> str:
    """The name of ``void (ptr a, ptr panel, ptr c, i64 steps, i1 clear)``, and ``ptr out, i64 pitch`` and ``i64
    a_pitch`` where the macro has them and ``ptr ahead`` where blocks ask for the next panel, for a block of that shape; ``last_lanes`` 0:
    all."""
    name = f"{macro.name}_block_{rows}x{vectors}_{last_lanes}"
    if not module.has_function(name):
        params = [("a", "ptr"), ("panel", "ptr"), ("c", "ptr"), ("steps", "i64"), ("clear", "i1"), *macro.results, *macro.pitches]
        params += [("ahead", "ptr")] * macro.asks_ahead
        fn = module.function(name, "void", params, inline=False)
        if macro.unit.is_matrix:
            from zellige_cpu.leaf.matrices import MatrixBlock

            MatrixBlock(fn, macro, rows, vectors, last_lanes).emit()
        else:
            _emit_block(fn, macro, rows, vectors, last_lanes)
    return name


def _emit_block(fn: Function, macro: Macro, rows: int, vectors: int, last_lanes: int) -> None:
    """The micro-kernel: load c, all steps, store the results."""
    a, panel, c, steps, clear, *results = fn.params
    ahead = results.pop() if macro.asks_ahead else None
    lanes = macro.lanes
    places = [(row, v) for row in range(rows) for v in range(vectors)]
    masks = [lane_mask(lanes, last_lanes) if last_lanes and v == vectors - 1 else None for v in range(vectors)]
    lines = _result_rows(fn, macro, rows, c, results)
    kind = macro.out or macro.c
    size = element_bytes(kind)
    if results:
        for line in lines:  # so that they are at hand when the sums are ready
            ask_for(fn, line, vectors * lanes * size, is_written=True)
    sums = _load_block(fn, macro, c, clear, places, masks)
    if macro.header:
        sums = _without_bias(fn, macro, panel, places, sums)
        panel = fn.offset(panel, macro.header)
    step = _Step(fn, macro, rows, vectors, ahead)
    if macro.multiple % macro.unroll == 0:
        sums = step.loop(a, panel, constant("i64", 0), steps, sums, macro.unroll)
    else:
        whole = fn.binary("and", steps, constant("i64", -macro.unroll))
        sums = step.loop(a, panel, constant("i64", 0), whole, sums, macro.unroll)
        sums = step.loop(a, panel, whole, steps, sums, 1)
    for (row, v), total in zip(places, sums):
        address = fn.offset(lines[row], v * lanes * size)
        result = cast(fn, total, macro.unit.accumulator, kind)
        mask = masks[v]
        if mask is None:
            fn.store(result, address, align=size)
        else:
            fn.masked_store(result, address, mask, align=size)


def _result_rows(fn: Function, macro: Macro, rows: int, c: Value, results: list[Value]) -> list[Value]:
    """Where each row of the block is stored."""
    if not results:
        return [fn.offset(c, row * macro.c_stride * element_bytes(macro.c)) for row in range(rows)]
    found = [results[0]]
    for _ in range(1, rows):
        found.append(fn.offset(found[-1], results[1]))
    return found


def _load_block(
    fn: Function, macro: Macro, c: Value, clear: Value, places: list[tuple[int, int]], masks: list[Value | None]
) -> list[Value]:
    """The block of c in the accumulator type, or zeros where the product replaces c; c is then not read."""
    lanes, c_size, accumulator = macro.lanes, element_bytes(macro.c), macro.unit.accumulator
    load, join = fn.fresh_label("load"), fn.fresh_label("begin")
    before = fn.current
    fn.branch_if(clear, join, load)
    fn.label(load)
    loaded = [
        load_lanes(fn, fn.offset(c, (row * macro.c_stride + v * lanes) * c_size), macro.c, accumulator, lanes, masks[v])
        for row, v in places
    ]
    end = fn.current
    fn.label(join)
    nothing = zero(register_type(accumulator), lanes)
    return [fn.phi((nothing, before), (value, end)) for value in loaded]


def _without_bias(fn: Function, macro: Macro, panel: Value, places: list[tuple[int, int]], sums: list[Value]) -> list[Value]:
    """The sums less what the panel's header says that the bias of a will add."""
    kind, size = register_type(macro.unit.accumulator), macro.lanes * macro.unit.word_bytes
    vectors = 1 + max(v for _, v in places)
    excess = [fn.load(fn.offset(panel, v * size), kind, macro.lanes, align=size) for v in range(vectors)]
    return [fn.binary("sub", total, excess[v]) for (_, v), total in zip(places, sums)]


@dataclass(frozen=True, slots=True)
class _Step:
    """One word of k in a micro-kernel: a column of a, each word broadcast, times a row of the panel."""

    fn: Function
    macro: Macro
    rows: int
    vectors: int
    ahead: Value | None
    """Where this block's share of the next panel begins."""

    @property
    def panel_step(self) -> int:
        """Bytes from one word of k to the next in the panel."""
        return self.macro.b_k_step or self.vectors * self.macro.lanes * self.macro.unit.word_bytes

    def loop(self, a: Value, panel: Value, start: Value, stop: Value, sums: list[Value], unroll: int) -> list[Value]:
        fn = self.fn
        with fn.loop(start, stop, unroll) as loop:
            carried = [loop.carry(s) for s in sums]
            base_a = fn.offset(a, fn.binary("mul", loop.index, constant("i64", self.macro.a_k_step)))
            base_b = fn.offset(panel, fn.binary("mul", loop.index, constant("i64", self.panel_step)))
            if unroll == self.macro.unroll and self.macro.a_k_step == self.macro.unit.word_bytes:
                self._prefetch(a, loop.index, unroll)
            if unroll == self.macro.unroll and self.ahead is not None:
                self._ask_ahead(self.ahead, loop.index, unroll)
            current = carried
            for k in range(unroll):
                current = self._emit(base_a, base_b, k, current)
            for old, new in zip(carried, current):
                loop.update(old, new)
        return [loop.final(s) for s in carried]

    def _prefetch(self, a: Value, step: Value, unroll: int) -> None:
        """A share of the rows that the next block reads, which may lie far away: their bytes are spread evenly over the steps."""
        fn, macro = self.fn, self.macro
        share = self.rows * macro.unit.word_bytes  # of a step
        round_bytes = -(-share * unroll // LINE) * LINE if unroll > 1 else share
        first = fn.offset(fn.offset(a, self.rows * macro.a_row_step), fn.binary("mul", step, constant("i64", round_bytes // unroll)))
        ask_for(fn, first, round_bytes)

    def _ask_ahead(self, ahead: Value, step: Value, unroll: int) -> None:
        """A share of the next panel, into the second level: the panel at work needs the first."""
        fn, share = self.fn, self.macro.share(self.vectors)
        first = fn.offset(ahead, fn.binary("mul", step, constant("i64", share)))
        ask_for(fn, first, share * unroll, level=2)

    def _emit(self, a: Value, panel: Value, k: int, sums: list[Value]) -> list[Value]:
        fn, macro = self.fn, self.macro
        unit, lanes = macro.unit, macro.lanes
        alignment = macro.b_alignment or lanes * unit.word_bytes
        right = [
            fn.load(fn.offset(panel, k * self.panel_step + v * lanes * unit.word_bytes), unit.word, lanes, align=alignment)
            for v in range(self.vectors)
        ]
        left = self._column(a, k)
        result: list[Value] = []
        for row in range(self.rows):
            broadcast = next(left)
            result.extend(multiply(fn, unit, broadcast, right[v], sums[row * self.vectors + v]) for v in range(self.vectors))
        return result

    def _column(self, a: Value, k: int) -> Iterator[Value]:
        fn, macro = self.fn, self.macro
        for row in range(self.rows):
            address = fn.offset(a, row * macro.a_row_step + k * macro.a_k_step)
            # rows of a tile of narrow elements may begin anywhere
            yield fn.splat(fn.load(address, macro.unit.word, align=element_bytes(macro.unit.a)), macro.lanes)
