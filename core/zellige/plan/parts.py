"""A copy within one buffer in parts, so that a region of any size moves through a tile of constant size.

In: a copy, or an atomic operation on tiles, whose source and destination are regions of one buffer and may meet. Out: loops over parts, in
each of which the part is read whole into a tile and then written (:class:`Parts`); None where the regions do not pair dimension by
dimension.

The order is that of a move in memory: where the destination lies behind the source in a dimension, the last parts go first. An element is
then read by the time that another part is written over it: a part that is read later differs from the one written in some dimension, first
in loop order, and there the loop goes from the destination's side to the source's.
"""

from __future__ import annotations

from collections.abc import Sequence

from zellige.analysis.bounds import Scope
from zellige.ir.expr import INT64, Binary, Buffer, Compare, Expr, Region, Select, Var, constant_value
from zellige.ir.stmt import AtomicTile, Bind, Copy, For, Serial, Stmt
from zellige.ir.traverse import rebuilt
from zellige.passes.tile_operations import added, axis, number, wide
from zellige.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What takes the operation's place, and the tile that it goes through (to be allocated before)."""

    tile: Buffer
    statements: tuple[Stmt, ...]


def in_parts(statement: Copy | AtomicTile, scope: Scope, tile_bytes: int) -> Parts | None:
    """The operation in parts of at most ``tile_bytes`` bytes."""
    src, dst = statement.src, statement.dst
    if src.buffer is not dst.buffer or any((scope.form(a) - scope.form(b)).constant != 0 for a, b in zip(src.extents, dst.extents)):
        return None
    sizes = _part_sizes(src.extents, max(1, tile_bytes * 8 // max(1, src.buffer.dtype.storage_bits)))
    buffer = Buffer(
        name=f"{src.buffer.name}_part", dtype=src.buffer.dtype, shape=tuple(map(number, sizes)), space="fragment", span=statement.span
    )
    begins: list[Expr] = []
    extents: list[Expr] = []
    loops: list[tuple[For, tuple[Stmt, ...]]] = []
    for dimension, (size, extent) in enumerate(zip(sizes, src.extents)):
        if constant_value(extent) == size:
            begins.append(number(0))
            extents.append(extent)
            continue
        loop, inside, begin = _loop(src, dst, dimension, size)
        loops.append((loop, inside))
        begins.append(begin)
        left = Binary(op="sub", left=wide(extent), right=begin)
        extents.append(number(1) if size == 1 else Binary(op="min", left=left, right=number(size)))
    tile = Region(buffer=buffer, offsets=(number(0),) * len(sizes), extents=tuple(extents), span=src.span)
    body: tuple[Stmt, ...] = (
        Copy(src=_part(src, begins, extents), dst=tile, span=statement.span),
        rebuilt(statement, src=tile, dst=_part(dst, begins, extents), **({"is_async": False} if isinstance(statement, Copy) else {})),
    )
    for loop, inside in reversed(loops):
        body = (rebuilt(loop, body=(*inside, *body)),)
    return Parts(tile=buffer, statements=body)


def _part_sizes(extents: Sequence[Expr], limit: int) -> list[int]:
    """The extents of a part: whole dimensions from the last on, then as much of one as the limit allows, then one element of each."""
    sizes: list[int] = []
    is_whole = True
    for extent in reversed(extents):
        value = constant_value(extent)
        if is_whole and value is not None and value <= limit:
            sizes.insert(0, int(value))
            limit //= max(1, int(value))
            continue
        sizes.insert(0, max(1, limit) if is_whole else 1)
        is_whole, limit = False, 1
    return sizes


def _loop(src: Region, dst: Region, dimension: int, size: int) -> tuple[For, tuple[Stmt, ...], Expr]:
    """A loop over the parts along a dimension, without its body; what begins the body; and where the part begins in its region."""
    extent = wide(src.extents[dimension])
    round_up = Binary(op="add", left=extent, right=number(size - 1))
    count: Expr = extent if size == 1 else Binary(op="floordiv", left=round_up, right=number(size))
    step = axis("part")
    begin = Var(name="begin", dtype=INT64, kind="value")
    last = Binary(op="sub", left=Binary(op="sub", left=count, right=number(1)), right=step)
    is_behind = Compare(op="gt", left=wide(dst.offsets[dimension]), right=wide(src.offsets[dimension]))
    place: Expr = Select(condition=is_behind, then=last, otherwise=step)
    bind = Bind(var=begin, value=Binary(op="mul", left=place, right=number(size)))
    return For(var=step, start=number(0), stop=count, step=number(1), kind=Serial(), body=(bind,)), (bind,), begin


def _part(region: Region, begins: Sequence[Expr], extents: Sequence[Expr]) -> Region:
    offsets = tuple(offset if constant_value(begin) == 0 else added(offset, begin) for offset, begin in zip(region.offsets, begins))
    return rebuilt(region, offsets=offsets, extents=tuple(extents))
