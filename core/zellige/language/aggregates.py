"""Values of a whole region: T.sum(acc[i, :]), T.max(row), T.any_of(mask); and convolution's T.im2col."""

from __future__ import annotations

from typing import Any, Literal

from zellige.diagnostics import catalogue
from zellige.dtypes import dtype as as_dtype
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.regions import region_of
from zellige.frontend.values import Scalar, Tile, TileRegion, here
from zellige.ir.expr import INT32, Region
from zellige.ir.stmt import Map
from zellige.language import elementwise
from zellige.language.folds import fold
from zellige.language.keywords import accept, check_hints, count_of, without
from zellige.language.reductions import check_dtype


def sum(value: Any) -> Scalar:
    """The sum of the elements of a tile or slice, as a value; floats below 32 bits accumulate in float32 and round once. E222, E204."""
    region = region_of(value, "T.sum")
    check_dtype("T.sum", "sum", region.buffer.dtype)
    return fold(region, "sum", region.buffer.dtype)


def any_of(buffer: Any) -> Scalar:
    """Whether any element of a tile or slice is not zero. E222 for anything else, E204 for elements of several lanes."""
    return _truth_of(region_of(buffer, "T.any_of"), "any")


def all_of(buffer: Any) -> Scalar:
    """Whether every element of a tile or slice is not zero. E222 for anything else, E204 for elements of several lanes."""
    return _truth_of(region_of(buffer, "T.all_of"), "all")


def _truth_of(region: Region, op: Literal["any", "all"]) -> Scalar:
    check_dtype(f"T.{op}_of", op, region.buffer.dtype)
    return fold(region, op, as_dtype("bool"))


@without("dtype", "span")
def max(first: Any, *others: Any, nan_propagate: bool = False) -> Any:
    """The larger of its operands (a NaN operand is ignored unless ``nan_propagate``), or the maximum of one tile or slice."""
    if not others and isinstance(first, (Tile, TileRegion)):
        region = region_of(first, "T.max")
        check_dtype("T.max", "max", region.buffer.dtype)
        return fold(region, "max", region.buffer.dtype, nan_propagate=nan_propagate)
    return elementwise.max(first, *others, nan_propagate=nan_propagate)


@without("dtype", "span")
def min(first: Any, *others: Any, nan_propagate: bool = False) -> Any:
    """The smaller of its operands (a NaN operand is ignored unless ``nan_propagate``), or the minimum of one tile or slice."""
    if not others and isinstance(first, (Tile, TileRegion)):
        region = region_of(first, "T.min")
        check_dtype("T.min", "min", region.buffer.dtype)
        return fold(region, "min", region.buffer.dtype, nan_propagate=nan_propagate)
    return elementwise.min(first, *others, nan_propagate=nan_propagate)


def im2col(
    img: Any,
    col: Any,
    nhw_step: Any,
    c_step: Any,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
    eviction_policy: Any = None,
    **hints: Any,
) -> None:
    """One tile (rows of output pixels, columns of kernel offsets and channels) of the matrix form of a square 2-D convolution.

    ``img`` is (N, H, W, C); row r of ``col`` is output pixel ``nhw_step * rows + r``, column c the input value at flattened (kernel row,
    kernel column, channel) ``c_step * columns + c``; padding reads 0. E258 for other ranks, E245 for counts below 1.
    """
    wishes = accept("T.im2col", hints, ("img", "col", "nhw_step", "c_step", "kernel", "stride", "dilation", "pad", "eviction_policy"))
    check_hints("T.im2col", eviction_policy=eviction_policy)
    pending = getattr(img, "tile", None)
    img = pending() if callable(pending) else img
    if not isinstance(img, Tile) or not isinstance(col, Tile) or img.ndim != 4 or col.ndim != 2:
        given = f"{arithmetic.describe(img)} and {arithmetic.describe(col)}"
        raise catalogue.E258.error(here(), operation="T.im2col", wanted="an image (N, H, W, C) and a two-dimensional tile", given=given)
    kernel, stride, dilation = count_of(kernel, "as kernel"), count_of(stride, "as stride"), count_of(dilation, "as dilation")
    pad = count_of(pad, "as pad", least=0)
    builder = current_builder("T.im2col")
    rows, columns = col.shape
    _, height, width, channels = img.shape
    out_height = (height + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    out_width = (width + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    axes = (builder.var("i", INT32, "loop"), builder.var("j", INT32, "loop"))
    with builder.body() as body:
        pixel = Scalar(arithmetic.index(nhw_step, here())) * rows + Scalar(axes[0])
        offset = Scalar(arithmetic.index(c_step, here())) * columns + Scalar(axes[1])
        row = pixel % (out_height * out_width) // out_width * stride + offset // (kernel * channels) * dilation - pad
        column = pixel % out_width * stride + offset // channels % kernel * dilation - pad
        value = img[pixel // (out_height * out_width), row, column, offset % channels]
        inside = _all(row >= 0, row < height, column >= 0, column < width, offset < kernel * kernel * channels)
        col[Scalar(axes[0]), Scalar(axes[1])] = elementwise.if_then_else(inside, value, 0)
    extents = tuple(arithmetic.index(e) for e in (rows, columns))
    builder.emit(Map(axes=axes, extents=extents, body=tuple(body), hints=wishes, span=builder.span))


def _all(*conditions: Any) -> Any:
    result = conditions[0]
    for condition in conditions[1:]:
        result = Scalar(arithmetic.binary("and", result, condition, here()))
    return result
