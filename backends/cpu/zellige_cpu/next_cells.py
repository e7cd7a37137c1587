"""What the next cell will copy from tensors, asked for while this cell computes: its own copies then find it in the second level.

In: the Maps of a cell as they are emitted. :func:`note` remembers of a Map what it reads of a tensor; :func:`taken` gives the next Map over
as many points what it is to ask for; :func:`ask` is the code, for some points at a time. A processor fetches little by itself while it
computes on tiles, so a kernel that first copies and then computes would have memory wait for it and wait for memory in turn. Asking
changes no result, and what is asked for need not exist.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from zellige.analysis.forms import Form
from zellige.ir.expr import Var
from zellige.records import dataclass
from zellige_cpu.accesses import element_offset
from zellige_cpu.indexes import pointer, separate
from zellige_cpu.prefetch import ask_for, prefetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zellige.ir.expr import Buffer
    from zellige_cpu.context import Context

_MOST: Final = 1 << 17
"""Bytes that a cell copies up to which the next cell's are asked for: they have to stay in the second level beside this cell's tiles."""


@dataclass(frozen=True, slots=True)
class Following:
    """Where the next cell finds its element for a point of ``axes``, in bytes from the tensor's first."""

    axes: tuple[Var, ...]
    extents: tuple[Form, ...]
    buffer: Buffer
    place: Form


def note(ctx: Context, axes: tuple[Var, ...], extents: Sequence[Form], loads: Iterable[tuple[Buffer, tuple[Form, ...]]]) -> None:
    """Remember what a Map over ``axes`` loads from tensors, where the next cell does the same some way further on."""
    sizes = [extent.constant for extent in extents]
    cell = next((var for var, extent in ctx.grid.items() if extent != 1), None)
    if prefetch(ctx.host) is None or cell is None or None in sizes:
        return
    for buffer, forms in loads:
        storage = ctx.storage(buffer)
        size = storage.element_bytes
        if not storage.is_global or storage.is_packed or storage.lanes > 1 or prod(s or 0 for s in sizes) * size > _MOST:
            continue
        place = element_offset(storage, forms).scaled(size)
        adjacent, moved = place.split(axes[-1]), place.split(cell)
        if adjacent is None or adjacent[0].constant != size or moved is None or moved[0].constant == 0:
            continue
        if all(_is_known(ctx, axes, atom) for atom in place.atoms()):
            ctx.following += (Following(axes, tuple(extents), buffer, place + moved[0]),)


def _is_known(ctx: Context, axes: tuple[Var, ...], atom: object) -> bool:
    """Whether a variable is the same in the next cell, but for the cell's own: an axis, an argument, the variable of a single iteration."""
    if not isinstance(atom, Var):
        return False
    if atom in axes or atom in ctx.grid or ctx.var_levels.get(atom) == 0:
        return True
    return ctx.scope.is_nonnegative(Form.of(atom)) and ctx.scope.is_nonnegative(Form.of(atom).scaled(-1))


def taken(ctx: Context, axes: tuple[Var, ...], extents: Sequence[Form]) -> tuple[Following, ...]:
    """What a Map asks for; nobody after it will."""
    if not ctx.following:
        return ()
    found = tuple(one for one in ctx.following if one.extents == tuple(extents))
    ctx.following = tuple(one for one in ctx.following if one not in found)
    return tuple(Following(axes, one.extents, one.buffer, _renamed(one.place, one.axes, axes)) for one in found)


def _renamed(place: Form, before: tuple[Var, ...], after: tuple[Var, ...]) -> Form:
    for old, new in zip(before, after):
        renamed = place.replaced(old, Form.of(new))
        assert renamed is not None, "an axis stands in sums only"
        place = renamed
    return place


def ask(ctx: Context, lanes: int) -> None:
    """Code that asks for the elements of ``lanes`` points from the one at hand on."""
    for one in ctx.asks:
        storage = ctx.storage(one.buffer)
        shared, _, _ = separate(ctx, one.place)
        ask_for(ctx.fn, pointer(ctx, storage.pointer, storage.level, shared), lanes * storage.element_bytes, level=2)
