"""Reductions and scans of tiles: T.reduce_*, T.cumsum, T.cummax."""

from __future__ import annotations

import math
from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.diagnostics.suggest import closest
from zellige.diagnostics.wording import counted
from zellige.dtypes import DType
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.regions import agree, paired_regions, place_of, region_of, significant
from zellige.frontend.slices import shape_text
from zellige.frontend.values import Element, Scalar, Variable, here
from zellige.frontend.vectors import AS_SCALARS
from zellige.ir.expr import Const, Expr, Region
from zellige.ir.stmt import Reduce, ReduceOp, Scan, ScanOp
from zellige.language.folds import fold
from zellige.language.keywords import accept, check_hints, count_of, flag, refuse_hints

_BITWISE: Final = ("bitand", "bitor", "bitxor")
_KEYWORDS: Final = ("buffer", "out", "dim", "clear", "batch", "nan_propagate")


def axis_of(dim: Any, rank: int, operation: str) -> int:
    """A dimension number, counted from the end where negative; E228 out of range."""
    number = arithmetic.whole_number(dim)
    if number is None or not -rank <= number < rank:
        dimensions = counted(rank, "dimension")
        raise catalogue.E228.error(here(), operation=operation, given=arithmetic.describe(dim), dimensions=dimensions)
    return number % rank


def check_dtype(operation: str, op: str, dtype: DType) -> None:
    """E204 where ``op`` has no meaning for the dtype."""
    if dtype.lanes != 1:
        raise catalogue.E204.error(here(), operation=operation, dtype=dtype, hint=AS_SCALARS)
    if dtype.kind == "handle" or (op in _BITWISE and not (dtype.is_integer or dtype.is_bool)):
        raise catalogue.E204.error(here(), operation=operation, dtype=dtype)
    if dtype.is_bool and op not in (*_BITWISE, "any", "all"):
        raise catalogue.E204.error(
            here(), operation=operation, dtype=dtype, hint="T.any_of, T.all_of or T.reduce_bitor of bools; or copy them to an int32 tile"
        )


def check_batch(batch: Any, results: tuple[Expr, ...], operation: str) -> None:
    """``batch``, how many results may be combined together, is a hint that has to make sense: a divisor of the number of results, whose
    extents are ``results``. E245: no count; E291: no divisor. A number of results that only a run tells is not looked at."""
    size = count_of(batch, "as batch", hint="batch must be >= 1")
    extents = [extent.value for extent in results if isinstance(extent, Const)]
    if len(extents) < len(results):
        return
    results_made = math.prod(int(extent) for extent in extents)
    if results_made % size:
        raise catalogue.E291.error(here(), operation=operation, batch=size, count=results_made)


def reduce(buffer: Any, out: Any, op: ReduceOp, dim: Any, clear: Any, batch: Any, nan_propagate: Any, hints: dict[str, Any]) -> None:
    """``out = op over dimension dim of buffer``, combined with what out holds unless ``clear``. ``batch`` is a hint.

    E222: not a tile; E228: dimension; E229: shape of ``out``; E204: dtype; E245, E291: batch; E105: a flag known only at run time.
    """
    name = f"T.reduce_{op}"
    wishes = accept(name, hints, _KEYWORDS, hints_of="T.reduce")
    src = region_of(buffer, name)
    is_cleared, propagates = flag(clear, name, "clear"), flag(nan_propagate, name, "nan_propagate")
    axis = axis_of(dim, len(src.extents), name)
    check_dtype(name, op, src.buffer.dtype)
    out = place_of(out)
    if isinstance(out, Variable) and not isinstance(out, Element):
        check_batch(batch, (), name)
        refuse_hints(name, wishes, "the reduction into a variable is a loop")
        _into_variable(name, op, src, axis, out, is_cleared, propagates)
        return
    dst = region_of(out, name)
    check_dtype(name, op, dst.buffer.dtype)
    results = src.extents[:axis] + src.extents[axis + 1 :]
    check_batch(batch, results, name)
    kept = significant(results)
    if not agree(kept, significant(dst.extents)):
        raise catalogue.E229.error(here(), operation=name, src=shape_text(src.extents), dst=shape_text(dst.extents), axis=axis)
    builder = current_builder(name)
    builder.emit(Reduce(src=src, dst=dst, axis=axis, op=op, clear=is_cleared, nan_propagate=propagates, hints=wishes, span=builder.span))


def _into_variable(name: str, op: ReduceOp, src: Region, axis: int, out: Variable, is_cleared: bool, propagates: bool) -> None:
    """The reduction of everything to one variable; E229 where more than one result is left."""
    check_dtype(name, op, out.dtype)
    if significant(src.extents[:axis] + src.extents[axis + 1 :]):
        raise catalogue.E229.error(here(), operation=name, src=shape_text(src.extents), dst=out.described, axis=axis)
    out.assign(fold(src, op, out.dtype, nan_propagate=propagates, initial=None if is_cleared else Scalar(out.expr)))


def reduce_sum(buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, **hints: Any) -> None:
    """Sums along ``dim``; floats below 32 bits accumulate in float32 and round once. Errors as :func:`reduce`."""
    reduce(buffer, out, "sum", dim, clear, batch, False, hints)


def reduce_max(buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, nan_propagate: bool = False, **hints: Any) -> None:
    """Maxima along ``dim``; NaN elements are skipped unless ``nan_propagate``. Errors as :func:`reduce`."""
    reduce(buffer, out, "max", dim, clear, batch, nan_propagate, hints)


def reduce_min(buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, nan_propagate: bool = False, **hints: Any) -> None:
    """Minima along ``dim``; NaN elements are skipped unless ``nan_propagate``. Errors as :func:`reduce`."""
    reduce(buffer, out, "min", dim, clear, batch, nan_propagate, hints)


def reduce_absmax(
    buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, nan_propagate: bool = False, **hints: Any
) -> None:
    """Maxima of absolute values along ``dim``. Errors as :func:`reduce`."""
    reduce(buffer, out, "absmax", dim, clear, batch, nan_propagate, hints)


def reduce_abssum(buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, **hints: Any) -> None:
    """Sums of absolute values along ``dim``. Errors as :func:`reduce`."""
    reduce(buffer, out, "abssum", dim, clear, batch, False, hints)


def reduce_bitand(buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, **hints: Any) -> None:
    """Bitwise and along ``dim``, of integers and bools. Errors as :func:`reduce`."""
    reduce(buffer, out, "bitand", dim, clear, batch, False, hints)


def reduce_bitor(buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, **hints: Any) -> None:
    """Bitwise or along ``dim``, of integers and bools. Errors as :func:`reduce`."""
    reduce(buffer, out, "bitor", dim, clear, batch, False, hints)


def reduce_bitxor(buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, **hints: Any) -> None:
    """Bitwise exclusive or along ``dim``, of integers and bools. Errors as :func:`reduce`."""
    reduce(buffer, out, "bitxor", dim, clear, batch, False, hints)


_BY_NAME: Final[dict[str, ReduceOp]] = {
    "sum": "sum", "max": "max", "min": "min", "absmax": "absmax", "abssum": "abssum",
    "bitand": "bitand", "bitor": "bitor", "bitxor": "bitxor",
}  # fmt: skip


def reduce_by_name(
    buffer: Any, out: Any, reduce_type: str, dim: int, clear: bool, batch: int = 1, nan_propagate: bool = False, **hints: Any
) -> None:
    """The reduction called ``reduce_type`` along ``dim``; E257 for an unknown one."""
    if not isinstance(reduce_type, str) or reduce_type not in _BY_NAME:
        raise catalogue.E257.error(here(), given=repr(reduce_type), known=", ".join(_BY_NAME), suggestion=closest(reduce_type, _BY_NAME))
    reduce(buffer, out, _BY_NAME[reduce_type], dim, clear, batch, nan_propagate, hints)


def scan(src: Any, dst: Any, op: ScanOp, dim: Any, reverse: Any, operation: str) -> None:
    """Running results of ``op`` along ``dim``. E222, E228, E204; E223: ``dst`` has another shape."""
    source = region_of(src, operation)
    target = source
    if dst is not None:
        is_point = isinstance(place_of(dst), Element) and not isinstance(place_of(src), Element)
        target = paired_regions(src, dst, operation)[1] if is_point else region_of(dst, operation)
    if not agree(source.extents, target.extents):
        raise catalogue.E223.error(
            here(),
            operation=operation,
            left=shape_text(source.extents),
            right=shape_text(target.extents),
            hint="the result has the shape of the source, dimensions of size 1 included",
        )
    axis = axis_of(dim, len(source.extents), operation)
    for dtype in (source.buffer.dtype, target.buffer.dtype):
        check_dtype(operation, op, dtype)
    builder = current_builder(operation)
    reversed_ = flag(reverse, operation, "reverse")
    builder.emit(Scan(src=source, dst=target, axis=axis, op=op, reverse=reversed_, span=builder.span))


def cumsum(src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, annotations: Any = None) -> None:
    """Running sums along ``dim`` (from the end when ``reverse``) into ``dst``, in place when it is None. Errors as :func:`scan`."""
    check_hints("T.cumsum", annotations=annotations)
    scan(src, dst, "sum", dim, reverse, "T.cumsum")


def cummax(src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, annotations: Any = None) -> None:
    """Running maxima along ``dim`` into ``dst``, in place when it is None. Errors as :func:`scan`."""
    check_hints("T.cummax", annotations=annotations)
    scan(src, dst, "max", dim, reverse, "T.cummax")
