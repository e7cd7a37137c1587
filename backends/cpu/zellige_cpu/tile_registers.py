"""When the registers of matrix tiles are configured: once for each call of a launch function that uses them.

In: the places where a launch's code multiplies by tiles, and where other programs run in its midst. Out: the configuration at its start,
once more behind those, and the release at its end, all left out where the launch has no such product.

Configuring takes about three hundred cycles (112 ns on an Emerald Rapids server, with the release), as long as a product of 64 x 64 x 64.
Python code that a launch calls (a record that it prints, the handler of a signal) may use tiles for itself, and then releases them.
"""

from __future__ import annotations

from zellige_cpu.context import Context
from zellige_cpu.leaf.units import Unit
from zellige_cpu.lines import Line
from zellige_cpu.text import Function


def begin(ctx: Context) -> None:
    """The start of the launch function."""
    _mark(ctx)


def after_other_code(ctx: Context) -> None:
    """Behind a call of code that may leave the registers otherwise than it found them."""
    _mark(ctx)


def _mark(ctx: Context) -> None:
    ctx.memory.tile_places.append((ctx.fn, ctx.fn.reserve()))


def used_by(ctx: Context, unit: Unit) -> None:
    """A product by ``unit`` stands here."""
    ctx.memory.uses_tiles |= unit.is_matrix


def end(ctx: Context) -> None:
    """The end of the launch function; all of its code is written."""
    if not ctx.memory.uses_tiles:
        return
    from zellige_cpu.leaf.matrices import release

    release(ctx.fn)
    for fn, place in ctx.memory.tile_places:
        _fill(fn, place)


def _fill(fn: Function, place: list[Line]) -> None:
    from zellige_cpu.leaf.matrices import configure

    with fn.inside(place):
        configure(fn)
