"""Wishes about code generation that never change the meaning, and the safe value, which does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.diagnostics.suggest import closest
from zellige.diagnostics.wording import counted
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder, current_launch
from zellige.frontend.values import Scalar, Tile, here
from zellige.frontend.vectors import scalar_view
from zellige.ir.expr import INT32, Buffer, Var
from zellige.ir.stmt import LayoutHint, NamedHint, RasterHint, SafeValue
from zellige.language.keywords import count_of, flag
from zellige.layout import Fragment, Layout, PartialFragment

_CHECKED: Final = 1 << 17  # the largest tile whose layout is tried on every element

NAMES: Final = frozenset(
    (
        "use_swizzle", "annotate_layout", "annotate_l2_hit_ratio", "annotate_min_blocks_per_sm", "annotate_restrict_buffers",
        "annotate_compile_flags", "likely", "alloc_barrier", "func_attr", "Layout", "Fragment", "PartialFragment", "GemmWarpPolicy",
    )
)  # fmt: skip
"""Names of the language that are wishes only."""


def _buffer(value: Any, operation: str) -> Buffer:
    pending = getattr(value, "tile", None)
    tile = pending() if callable(pending) else value
    if not isinstance(tile, Tile):
        raise catalogue.E222.error(here(), operation=operation, given=arithmetic.describe(value))
    return tile.node


def _map(value: Any, operation: str, wanted: str) -> Mapping[Any, Any]:
    """The dictionary that ``operation`` takes; E258 for anything else."""
    if not isinstance(value, Mapping):
        raise catalogue.E258.error(here(), operation=operation, wanted=f"a dictionary {wanted}", given=arithmetic.describe(value))
    return value


def use_swizzle(panel_size: int, order: str = "row", enable: bool = True) -> None:
    """The wish to walk the grid in panels of ``panel_size`` blocks, so that neighbours share the cache. Orders: row, column, mlx.

    E244: another order; E245: no count; E258: neither True nor False.
    """
    if order not in ("row", "column", "col", "mlx"):
        raise catalogue.E244.error(here(), given=repr(order), suggestion=closest(order, ("row", "column")))
    panel = count_of(panel_size, "as panel_size")
    launch = current_launch("T.use_swizzle")
    if flag(enable, "T.use_swizzle", "enable"):
        launch.hints.append(RasterHint(panel=panel, order="column" if order in ("column", "col") else "row"))


def annotate_layout(layout_map: Mapping[Any, Any]) -> None:
    """The wish to store tiles by the given layouts: ``{tile: T.Layout(...) | T.Fragment(...) | make_swizzled_layout(tile) | callable}``.

    E246: no layout, or one of the wrong sort; E247: another shape, or two elements in one place; E258: no dictionary.
    """
    launch = current_launch("T.annotate_layout")
    builder = current_builder("T.annotate_layout")
    for tile, layout in _map(layout_map, "T.annotate_layout", "{tile: layout}").items():
        buffer = _buffer(tile, "T.annotate_layout")
        chosen = Layout(Tile(buffer).shape, layout) if callable(layout) and not isinstance(layout, Layout) else layout
        if not isinstance(chosen, Layout):
            raise catalogue.E246.error(here(), given=arithmetic.describe(layout))
        if chosen.kind == "map" and not chosen.has_map:
            raise catalogue.E246.error(here(), given=f"{chosen!r} without a function")
        if buffer in builder.reducers and not isinstance(chosen, PartialFragment):
            raise catalogue.E246.error(
                here(), given=f"{chosen!r} for a reducer", hint="a reducer takes a T.PartialFragment: where its partial results live"
            )
        launch.hints.append(layout_hint(buffer, chosen))


def layout_hint(buffer: Buffer, layout: Layout) -> LayoutHint:
    """A layout as a hint of the IR; E247 where it does not fit the buffer."""
    if len(layout.shape) != buffer.rank:
        reason = f"has {counted(len(layout.shape), 'dimension')}, the tile has {buffer.rank}"
        raise catalogue.E247.error(here(), name=buffer.label, reason=reason)
    _check_shape(buffer, layout)
    if layout.kind != "map":
        return LayoutHint(buffer=buffer, kind=layout.kind)
    axes = tuple(Var(name=f"i{n}", dtype=INT32, kind="loop") for n in range(buffer.rank))
    points = [Scalar(axis) for axis in axes]
    lane = None
    if isinstance(layout, Fragment):
        lane_value, index = layout.place(*points)
        lane = arithmetic.index(lane_value, here())
        forward = tuple(index) if isinstance(index, (tuple, list)) else (index,)
    else:
        _check_places(buffer, layout)
        forward = layout.index(*points)
    return LayoutHint(
        buffer=buffer,
        kind="map",
        axes=axes,
        forward=tuple(arithmetic.index(e, here()) for e in forward),
        lane=lane,
        replicate=layout.copies if isinstance(layout, Fragment) else 1,
    )


def _check_shape(buffer: Buffer, layout: Layout) -> None:
    """E247 for a layout made for a tile of other extents: of elements beyond its own it says nothing."""
    shape = Tile(buffer).shape
    differs = any(isinstance(n, int) and isinstance(size, int) and n != size for n, size in zip(layout.shape, shape, strict=True))
    if differs:
        raise catalogue.E247.error(here(), name=buffer.label, reason=f"is one of {tuple(layout.shape)}, the tile is {tuple(shape)}")


def _check_places(buffer: Buffer, layout: Layout) -> None:
    """E247 where the function gives no place, and where two elements of a tile of moderate, constant size get one."""
    first = (0,) * buffer.rank
    place = layout.index(*first)
    if not all(isinstance(n, (int, Scalar)) for n in place):
        reason = f"gives element {first} the place {place}, and a place is made of integers"
        raise catalogue.E247.error(here(), name=buffer.label, reason=reason)
    if not all(isinstance(n, int) for n in layout.shape) or math.prod(layout.shape) > _CHECKED:
        return
    found = layout.collision()
    if found is not None:
        first, second, place = found
        raise catalogue.E247.error(
            here(), name=buffer.label, reason=f"is not one to one: elements {first} and {second} both get the place {place}"
        )


def annotate_safe_value(safe_value_map: Mapping[Any, Any]) -> None:
    """What elements of tensors outside their shape read as, instead of 0.

    E222: no tile; E254: a number that does not fit; E258: no dictionary.
    """
    launch = current_launch("T.annotate_safe_value")
    for tile, value in _map(safe_value_map, "T.annotate_safe_value", "{tensor: value}").items():
        buffer = _buffer(tile, "T.annotate_safe_value")
        launch.safe_values.append(SafeValue(buffer=buffer, value=arithmetic.stored(value, buffer.dtype, here())))
        if buffer.dtype.lanes > 1 and buffer.strides is None:  # the lanes of an element are read as scalars
            scalars = scalar_view(buffer)
            launch.safe_values.append(SafeValue(buffer=scalars, value=arithmetic.stored(value, scalars.dtype, here())))


def annotate_l2_hit_ratio(l2_hit_ratio_map: Mapping[Any, float]) -> None:
    """The wish to keep this share of a tensor in the last-level cache. E258: no dictionary, or a share that is no number from 0 to 1."""
    operation = "T.annotate_l2_hit_ratio"
    launch = current_launch(operation)
    for tile, ratio in _map(l2_hit_ratio_map, operation, "{tensor: share}").items():
        if isinstance(ratio, bool) or not isinstance(ratio, Real) or not 0 <= ratio <= 1:  # type: ignore[operator]  # a Real compares with numbers
            raise catalogue.E258.error(here(), operation=operation, wanted="a share from 0 to 1", given=arithmetic.describe(ratio))
        launch.hints.append(NamedHint(name="l2_hit_ratio", value=float(ratio), buffer=_buffer(tile, operation)))


def annotate_min_blocks_per_sm(n: int) -> None:
    """The wish for at least ``n`` resident blocks a core. E245: no count."""
    launch = current_launch("T.annotate_min_blocks_per_sm")
    launch.hints.append(NamedHint(name="min_blocks_per_core", value=count_of(n, "as the number of blocks")))


def annotate_restrict_buffers(*buffers: Any) -> None:
    """Names tensors that may share memory with others."""
    launch = current_launch("T.annotate_restrict_buffers")
    for tile in buffers:
        launch.hints.append(NamedHint(name="may_alias", value=True, buffer=_buffer(tile, "T.annotate_restrict_buffers")))


def annotate_compile_flags(flags: str | list[str]) -> None:
    """Flags for the target's own compiler, where it has one. E258: neither text nor a list of texts."""
    builder = current_builder("T.annotate_compile_flags")
    given = [flags] if isinstance(flags, str) else flags
    if not isinstance(given, (list, tuple)) or not all(isinstance(flag, str) for flag in given):
        found = arithmetic.describe(flags)
        raise catalogue.E258.error(here(), operation="T.annotate_compile_flags", wanted="a text or a list of texts", given=found)
    builder.settings.compile_flags.extend(given)


def annotate_pass_configs(configs: Mapping[Any, Any]) -> None:
    """Pass configs of this kernel; those given to jit take precedence. E258: no dictionary."""
    builder = current_builder("T.annotate_pass_configs")
    builder.settings.pass_configs.update(_map(configs, "T.annotate_pass_configs", "{key: value}"))


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Attributes of the function for the compiler that older programs were written for, such as that its arrays do not overlap.

    They change nothing: what a kernel may assume of its arguments is what its parameters say. E258: no dictionary of names.
    """
    if not isinstance(attrs, Mapping) or not all(isinstance(name, str) for name in attrs):
        raise catalogue.E258.error(here(), operation="T.func_attr", wanted="a dictionary of names", given=arithmetic.describe(attrs))
