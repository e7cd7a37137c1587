"""Rows that a kernel passes over several times, in blocks, brought once: each lane keeps its elements in shared memory.

In: a loop of a role, what stands behind it, and the context. Out: before the loop the copies of all its iterations, landing later, a group
each; in the context where the reads of this loop and of the later ones find them. A lane reads what it copied itself, so no barrier of the
block is needed: the loop waits for one group in each iteration.

Registers hold what loops read, too, where these are written out (:mod:`zellige.simt.written_out`). That takes registers of every lane, and
the text of every iteration from the instruction cache; it is left where enough lanes run beside each other all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from zellige.analysis.forms import Form
from zellige.ir.expr import Const, Expr, Load, Var, constant_value
from zellige.ir.stmt import Assume, Bind, Copy, Fill, For, Map, Pipelined, Reduce, Serial, Store, Unrolled
from zellige.ir.traverse import rebuilt, substitute
from zellige.passes import tile_operations
from zellige.simt import elements, maps, written_out
from zellige.simt.context import Context, KeptRow, Point
from zellige.simt.distribution import Distribution, times
from zellige.simt.homes import GlobalHome, RegisterHome
from zellige.simt.ir import AsyncCopy, CommitCopies, WaitCopies

ENOUGH_LANES: Final = 1024
"""Lanes of a processor at work at a time from which more of them hide nothing that these do not."""

FEWEST_LANES: Final = 512
"""Lanes at work below which reading a tensor again is left to the caches."""

WORKING: Final = 32
"""Registers of a lane beside its fragments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A copy in a loop that brings ``elements`` of a tensor to each lane, in pieces of ``vector``."""

    copy: Copy
    written: Map
    load: Load
    distribution: Distribution
    vector: int

    @property
    def pieces(self) -> int:
        return self.distribution.registers // self.vector


def keep(ctx: Context, loop: For) -> None:
    """Bring what the loop and a later one beside it read, where that is possible and pays."""
    if not ctx.following or any(around.is_loop for around in ctx.following) or not _is_plain(ctx, loop) or id(loop) in ctx.kept_rows:
        return
    later = [s for s in ctx.following[-1].statements if isinstance(s, For) and _is_plain(ctx, s) and _bounds(s) == _bounds(loop)]
    with _within(ctx, loop):
        reads = [read for statement in loop.body if isinstance(statement, Copy) and (read := _read(ctx, statement)) is not None]
        again = {id(read.copy): [other for s in later for other in _again(ctx, read, loop, s)] for read in reads}
    reads = [read for read in reads if again[id(read.copy)]]
    if reads and _pays(ctx, loop, reads):
        _bring(ctx, loop, reads, again)


@contextmanager
def within(ctx: Context, loop: For) -> Iterator[None]:
    """The body of a loop. Where it is the first to use what was brought, that of the iteration has landed: as many groups follow it as
    before, those of iterations that have begun being empty."""
    if id(loop) in ctx.waiting_loops:
        ctx.code.emit(WaitCopies(leave=len(_iterations(loop)) - 1, span=loop.span), CommitCopies(span=loop.span))
    before = ctx.kept_here
    ctx.kept_here = ctx.kept_rows.get(id(loop), {})
    try:
        yield
    finally:
        ctx.kept_here = before


def repetition(loop: For) -> Unrolled:
    """How the loop is written: as a loop, since nothing is known in an iteration of what another loads, and its text stays in the cache of
    instructions. Of two iterations the compiler keeps a flag instead of a counter, and then parts wide stores: they stand one by one."""
    return Unrolled() if len(_iterations(loop)) == 2 else Unrolled(factor=1)


def leave(ctx: Context, loop: For) -> None:
    """Behind a loop that has read them: what comes into the same bytes comes after that."""
    memories = {row.memory: None for row in ctx.kept_rows.get(id(loop), {}).values()}
    if memories:
        ctx.code.touch(reads=memories, span=loop.span)


@contextmanager
def reading(ctx: Context, copy: Copy) -> Iterator[None]:
    """Reads of the copy are from where it was brought to."""
    before = ctx.kept_row
    ctx.kept_row = ctx.kept_here.get(id(copy))
    try:
        yield
    finally:
        ctx.kept_row = before


# ---- which ----


def _is_plain(ctx: Context, loop: For) -> bool:
    """Whether a loop has few iterations, and its body does nothing but work on whole tiles."""
    if ctx.point is not None or ctx.has_lanes or ctx.is_among_roles or ctx.planned.channels or not ctx.machine.async_copy_bytes:
        return False
    if not isinstance(loop.kind, (Serial, Pipelined)) or not all(isinstance(b, Const) for b in (loop.start, loop.stop, loop.step)):
        return False
    is_whole = all(isinstance(s, (Copy, Map, Reduce, Fill, Bind, Assume)) for s in loop.body)
    return is_whole and _bounds(loop)[2] > 0 and 2 <= len(_iterations(loop)) <= written_out.MOST_ITERATIONS


def _bounds(loop: For) -> tuple[int, int, int]:
    return int(constant_value(loop.start) or 0), int(constant_value(loop.stop) or 0), int(constant_value(loop.step) or 0)


def _iterations(loop: For) -> range:
    return range(*_bounds(loop))


def _read(ctx: Context, copy: Copy) -> _Read | None:
    """The copy, where each lane brings elements of its own of a tensor that nobody writes, in pieces as large as copies that land later."""
    source, target = ctx.homes.get(copy.src.buffer.root), ctx.homes.get(copy.dst.buffer.root)
    root = copy.src.buffer.root
    if not isinstance(source, GlobalHome) or not isinstance(target, RegisterHome) or root in ctx.written_tensors:
        return None
    written = ctx.as_maps.get(id(copy)) or tile_operations.copy_as_map(copy)
    decided, extents = ctx.maps.get(id(copy)), [constant_value(e) for e in written.extents]
    if decided is None or not all(isinstance(e, int) and e > 0 for e in extents) or len(written.body) != 1:
        return None
    distribution, store = decided.with_shape([int(e or 0) for e in extents]), written.body[0]
    if not isinstance(store, Store) or not distribution.is_exact or distribution.replicated:
        return None
    vector, loads = maps.wide_reads(ctx, written, distribution)
    size = copy.src.buffer.dtype.storage_bits * vector
    if size % 8 or size // 8 != max(ctx.machine.async_copy_bytes) or [load.buffer for load in loads] != [copy.src.buffer]:
        return None
    return _Read(copy=copy, written=written, load=loads[0], distribution=distribution, vector=vector)


def _again(ctx: Context, read: _Read, loop: For, other: For) -> list[tuple[Copy, For]]:
    """The copies of a later loop that bring the same elements to the same lanes."""
    found: list[tuple[Copy, For]] = []
    renamed: dict[Var, Expr] = {other.var: loop.var}
    for statement in other.body:
        if not isinstance(statement, Copy) or statement.src.buffer is not read.copy.src.buffer:
            continue
        places = zip((*statement.src.offsets, *statement.src.extents), (*read.copy.src.offsets, *read.copy.src.extents))
        if any((ctx.scope.form(substitute(a, renamed)) - ctx.scope.form(b)).constant != 0 for a, b in places):
            continue
        with _within(ctx, other):
            same = _read(ctx, statement)
        if same is not None and (same.distribution, same.vector) == (read.distribution, read.vector):
            found.append((statement, other))
    return found


@contextmanager
def _within(ctx: Context, loop: For) -> Iterator[None]:
    """What is known in an iteration of a loop with constant bounds."""
    first, stop, _ = _bounds(loop)
    with ctx.inner_scope() as scope:
        scope.add_variable(loop.var, Form.of(first), Form.of(stop - 1))
        yield


def _pays(ctx: Context, loop: For, reads: Sequence[_Read]) -> bool:
    """Whether the lanes at work are more than where registers hold what is read, or enough where they cannot."""
    registers = ctx.machine.capabilities.registers
    if registers is None:
        return False
    memories = {home.memory for home in ctx.homes.values() if isinstance(home, RegisterHome)}
    taken = WORKING + sum(-(-int(constant_value(m.shape[0]) or 0) * m.dtype.bytes // 4) for m in memories)
    held = len(_iterations(loop)) * sum(-(-r.distribution.registers * r.copy.src.buffer.dtype.bytes // 4) for r in reads)

    def lanes(count: int, size: int) -> int:
        given = -(-count // registers.step) * registers.step if registers.step else count
        blocks = min(ctx.machine.block_registers // (ctx.threads * given), ctx.machine.shared_bytes // max(1, ctx.shared_bytes + size))
        return blocks * ctx.threads

    kept = lanes(taken, 4 * held * ctx.threads)
    if not written_out.is_written_out(ctx, loop):
        return kept >= FEWEST_LANES
    return lanes(taken + held, 0) < min(ENOUGH_LANES, kept)


# ---- bringing ----


def _bring(ctx: Context, loop: For, reads: Sequence[_Read], again: dict[int, list[tuple[Copy, For]]]) -> None:
    """The copies of all iterations, and where each read finds its part."""
    count = len(_iterations(loop))
    rows: list[KeptRow] = []
    for read in reads:
        tensor = read.copy.src.buffer
        memory = ctx.kept_memory(f"{tensor.name}_kept", tensor.dtype, count * read.distribution.registers * ctx.threads)
        ctx.code.touch(writes=(memory,), span=loop.span)
        row = KeptRow(tensor=tensor, memory=memory, pieces=read.pieces, vector=read.vector, loop=loop, threads=ctx.threads)
        rows.append(row)
        for copy, of in ((read.copy, loop), *again[id(read.copy)]):
            ctx.kept_rows.setdefault(id(of), {})[id(copy)] = replace(row, loop=of)
        size = count * read.distribution.registers * tensor.dtype.bytes * ctx.threads
        ctx.notes.append(f"{tensor.name} is brought once for the loops that read it: {size} bytes stay in shared memory, each lane its own")
    ctx.waiting_loops.add(id(loop))
    with _within(ctx, loop), ctx.code.quiet(), ctx.code.nested() as body:
        for read, row in zip(reads, rows):
            _copies(ctx, read, row)
        ctx.code.emit(CommitCopies(span=loop.span))
    ctx.code.emit(rebuilt(loop, kind=repetition(loop), body=tuple(body)))


def _copies(ctx: Context, read: _Read, row: KeptRow) -> None:
    """What one iteration reads, piece by piece of this lane."""
    axes, load, span = read.written.axes, read.load, read.copy.span
    with ctx.inner_scope() as scope, ctx.loop("r", read.pieces, is_unrolled=True, span=span) as group:
        for axis, extent in zip(axes, read.distribution.shape):
            scope.add_variable(axis, Form.of(0), Form.of(extent - 1))
        register = times(group, read.vector)
        maps.bind_axes(ctx, axes, read.distribution, register)
        with ctx.at(Point(axes=axes, distribution=read.distribution, register=register)):
            place = elements.place_of(ctx, load.buffer, tuple(elements.value_of(ctx, i) for i in load.indices))
            ctx.code.emit(
                AsyncCopy(
                    target=row.memory, target_index=times(row.piece(group), read.vector), source=place.memory, source_index=place.index,
                    size=read.vector * load.buffer.dtype.bytes, is_valid=place.condition, span=span,
                )
            )  # fmt: skip
