"""Other shapes and dtypes over the storage of a buffer: T.view, T.reshape."""

from __future__ import annotations

from typing import Any

from zellige.diagnostics import catalogue
from zellige.dtypes import DType
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.slices import shape_text
from zellige.frontend.values import Tile, here
from zellige.ir.expr import Buffer, Const, Expr
from zellige.language.allocate import tile_shape
from zellige.language.tensors import element_type, shape_tuple


def view(src: Any, shape: Any = None, dtype: Any = None, strides: Any = None) -> Tile:
    """Another shape or dtype over the storage of a dense buffer, row-major. Both name the same elements.

    E222: no whole tile; E236: the sizes in bits differ; E237: declared strides on either side that are not those of dense storage.
    """
    builder = current_builder("T.view")
    tile = _tile(src, "T.view")
    node = tile.node
    target = node.dtype if dtype is None else element_type(dtype)
    extents = node.shape if shape is None else tile_shape(shape)
    if shape is None and target.storage_bits != node.dtype.storage_bits:
        extents = _rescaled(node, target)
    if node.strides is not None:
        raise catalogue.E237.error(builder.span, name=node.label)
    before, after = _bits(node.shape, node.dtype), _bits(extents, target)
    if before is not None and after is not None and before != after:
        raise _mismatch(node, target, extents, before, after)
    if strides is not None and not _are_dense(extents, strides):
        raise catalogue.E237.error(builder.span, name=f"the view of {node.label}")
    name = builder.name_for(node.name)
    source_name = node.label if name == node.name else name
    return Tile(
        Buffer(
            name=builder.unique(name), source_name=source_name, dtype=target, shape=extents, space=node.space, alias=node, span=builder.span
        )
    )


def reshape(src: Any, shape: Any) -> Tile:
    """As :func:`view` with the same dtype: the elements in row-major order under another shape."""
    return view(src, shape)


def _tile(value: Any, operation: str) -> Tile:
    if isinstance(value, Tile):
        return value
    pending = getattr(value, "tile", None)  # a tensor parameter whose shape the call's argument gives
    if callable(pending):
        found = pending()
        if isinstance(found, Tile):
            return found
    raise catalogue.E222.error(here(), operation=operation, given=arithmetic.describe(value))


def _mismatch(node: Buffer, target: DType, extents: tuple[Expr, ...], before: int, after: int) -> Exception:
    old, new = f"{node.dtype}{shape_text(node.shape)}", f"{target}{shape_text(extents)}"
    return catalogue.E236.error(here(), old=old, new=new, before=before, after=after)


def _rescaled(node: Buffer, target: DType) -> tuple[Expr, ...]:
    """The shape for another width of elements: the last dimension takes up the difference. E236 where it cannot."""
    if not node.shape:
        raise _mismatch(node, target, node.shape, node.dtype.storage_bits, target.storage_bits)
    last, old, new = node.shape[-1], node.dtype.storage_bits, target.storage_bits
    if isinstance(last, Const) and int(last.value) * old % new:
        raise _mismatch(node, target, node.shape, int(last.value) * old, int(last.value) * new)
    if old % new == 0:
        return (*node.shape[:-1], arithmetic.binary("mul", last, old // new, here()))
    return (*node.shape[:-1], arithmetic.binary("floordiv", arithmetic.binary("mul", last, old, here()), new, here()))


def _bits(shape: tuple[Expr, ...], dtype: DType) -> int | None:
    """The size in bits, None where an extent is known only when the kernel is called."""
    total = dtype.storage_bits
    for extent in shape:
        if not isinstance(extent, Const):
            return None
        total *= int(extent.value)
    return total


def _are_dense(extents: tuple[Expr, ...], strides: Any) -> bool:
    step: Expr | int = 1
    for extent, given in zip(reversed(extents), reversed(shape_tuple(strides))):
        is_unit = isinstance(extent, Const) and extent.value == 1
        if not is_unit and arithmetic.index(given, here()) != arithmetic.index(step, here()):
            return False
        step = arithmetic.binary("mul", step, extent, here())
    return len(extents) == len(shape_tuple(strides))
