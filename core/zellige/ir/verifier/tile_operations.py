"""Invariants 19 to 22 of tile operations and atomics: shapes, element types, axes.

In: a statement and the :class:`Context` of the place where it stands. Out: diagnostics in the context, through :data:`RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, get_args

from zellige.dtypes import DType
from zellige.ir.expr import Expr, Region, constant_value
from zellige.ir.lanes import tile_regions
from zellige.ir.stmt import (
    Atomic,
    AtomicOp,
    AtomicTile,
    Copy,
    Fill,
    Gemm,
    GemmPolicy,
    MemoryOrder,
    Reduce,
    Scan,
    ScanOp,
    Stmt,
    Transpose,
)
from zellige.ir.verifier.context import Context, word
from zellige.ir.verifier.expressions import check, check_condition, check_indices, check_region
from zellige.ir.verifier.values import REDUCE_OPS, check_operator, check_result, check_value, check_word

_SCAN_OPS: Final = frozenset(get_args(ScanOp))
_ATOMIC_OPS: Final = frozenset(get_args(AtomicOp))
_ORDERS: Final = frozenset(get_args(MemoryOrder))
_POLICIES: Final = frozenset(get_args(GemmPolicy))


def _regions(context: Context, s: Stmt) -> bool:
    """Checks the regions of a tile operation; whether their ranks are right, so that shapes can be compared."""
    before = len(context.diagnostics)
    for region in tile_regions(s):
        check_region(context, region)
        if region.buffer.dtype.kind == "handle":
            context.report(20, s.span, f"{word(s)} of {region.buffer.label}, which is {region.buffer.dtype}")
    return len(context.diagnostics) == before


def _constants(extents: Sequence[Expr]) -> list[int | None]:
    return [None if value is None else int(value) for value in map(constant_value, extents)]


def _without_units(region: Region) -> list[int | None]:
    return [extent for extent in _constants(region.extents) if extent != 1]


def _agree(left: Sequence[int | None], right: Sequence[int | None]) -> bool:
    return len(left) == len(right) and all(a is None or b is None or a == b for a, b in zip(left, right))


def _shown(extents: Sequence[int | None]) -> str:
    return "(" + ", ".join("?" if extent is None else str(extent) for extent in extents) + ")"


def _same_extents(context: Context, s: Stmt, src: Region, dst: Region) -> None:
    if not _agree(_without_units(src), _without_units(dst)):
        shapes = f"{_shown(_constants(src.extents))} of {src.buffer.label} and {_shown(_constants(dst.extents))} of {dst.buffer.label}"
        context.report(19, s.span, f"{word(s)} between {shapes}")


def _same_lanes(context: Context, s: Copy | Transpose | AtomicTile) -> None:
    left, right = s.src.buffer.dtype, s.dst.buffer.dtype
    if left.lanes != right.lanes:
        context.report(20, s.span, f"{word(s)} of {left} elements into {right} ones")


def _copy(context: Context, s: Copy) -> None:
    if _regions(context, s):
        _same_extents(context, s, s.src, s.dst)
        _same_lanes(context, s)
    if s.vector_width is not None and s.vector_width < 1:
        context.report(22, s.span, f"vector width {s.vector_width}")


def _fill(context: Context, s: Fill) -> None:
    _regions(context, s)
    check_value(context, s.value, s.dst.buffer.dtype, f"buffer {s.dst.buffer.label}")


def _matrix(context: Context, s: Stmt, region: Region, what: str) -> tuple[int | None, int | None] | None:
    extents = _constants(region.extents)
    if len(extents) < 2 or any(extent != 1 for extent in extents[:-2]):
        context.report(19, s.span, f"{what} is {_shown(extents)} of {region.buffer.label}, not a matrix")
        return None
    return extents[-2], extents[-1]


def _gemm(context: Context, s: Gemm) -> None:
    check_condition(context, s.clear, "clear of gemm")
    check_word(context, s, s.policy, _POLICIES, "a gemm policy")
    if s.k_pack < 1:
        context.report(22, s.span, f"k_pack {s.k_pack}")
    if not _regions(context, s):
        return
    a, b, c = s.a.buffer.dtype, s.b.buffer.dtype, s.c.buffer.dtype
    classes = {"float" if d.is_float else "integer" if d.is_integer else "other" for d in (a, b, c)}
    if len(classes) != 1 or "other" in classes or any(d.lanes != 1 for d in (a, b, c)):
        context.report(20, s.span, f"gemm of {a} and {b} into {c}: all three must be floats, or all integers")
    if s.metadata is not None and not s.metadata.buffer.dtype.is_integer:
        context.report(20, s.span, f"the metadata of gemm is {s.metadata.buffer.dtype}, not an integer")
    for scale in (s.scale_a, s.scale_b):
        if scale is not None and not scale.buffer.dtype.is_float:
            context.report(20, s.span, f"a scale of gemm is {scale.buffer.dtype}, not a float")
    shapes = [_matrix(context, s, region, f"operand {name} of gemm") for name, region in (("a", s.a), ("b", s.b), ("c", s.c))]
    if None in shapes:
        return
    (am, ak), (bk, bn), (cm, cn) = shapes  # type: ignore[misc]
    stored = (am, ak), (bk, bn)
    if s.transpose_a:
        am, ak = ak, am
    if s.transpose_b:
        bk, bn = bn, bk
    if s.metadata is not None and ak is not None:
        ak *= 2
    for name, left, right in (("m", am, cm), ("n", bn, cn), ("k", ak, bk)):
        if left is not None and right is not None and left != right:
            context.report(19, s.span, f"gemm: {name} is {left} and {right} in its operands")
    for name, scale, full in zip(("scale_a", "scale_b"), (s.scale_a, s.scale_b), stored):
        if scale is not None and (blocks := _matrix(context, s, scale, f"{name} of gemm")) is not None:
            for extent, whole in zip(blocks, full):
                if extent is not None and whole is not None and (extent < 1 or whole % extent):
                    context.report(19, s.span, f"gemm: {name} has {extent} blocks along an extent of {whole}")


def _axis(context: Context, s: Reduce | Scan) -> bool:
    rank = len(s.src.extents)
    if 0 <= s.axis < rank:
        return True
    context.report(21, s.span, f"axis {s.axis} of {s.src.buffer.label}, whose region has {rank} dimensions")
    return False


def _reduce(context: Context, s: Reduce) -> None:
    check_operator(context, s, s.op, REDUCE_OPS, "a reduction", s.src.buffer.dtype)
    if not _regions(context, s) or not _axis(context, s):
        return
    extents = _constants(s.src.extents)
    kept = [extent for position, extent in enumerate(extents) if position != s.axis and extent != 1]
    if not _agree(kept, _without_units(s.dst)):
        given = f"{_shown(_constants(s.dst.extents))} of {s.dst.buffer.label}"
        context.report(19, s.span, f"reduction of {_shown(extents)} of {s.src.buffer.label} along axis {s.axis} into {given}")


def _scan(context: Context, s: Scan) -> None:
    check_operator(context, s, s.op, _SCAN_OPS, "a scan", s.src.buffer.dtype)
    if not _regions(context, s) or not _axis(context, s):
        return
    src, dst = _constants(s.src.extents), _constants(s.dst.extents)
    if not _agree(src, dst):
        context.report(19, s.span, f"scan of {_shown(src)} of {s.src.buffer.label} into {_shown(dst)} of {s.dst.buffer.label}")


def _transpose(context: Context, s: Transpose) -> None:
    if not _regions(context, s):
        return
    _same_lanes(context, s)
    src, dst = _matrix(context, s, s.src, "the source of transpose"), _matrix(context, s, s.dst, "the target of transpose")
    if src is not None and dst is not None and not _agree(src, dst[::-1]):
        context.report(19, s.span, f"transpose of {_shown(src)} of {s.src.buffer.label} into {_shown(dst)} of {s.dst.buffer.label}")


def _atomic_type(context: Context, s: Stmt, op: str, dtype: DType) -> None:
    if op in ("load", "store", "exchange"):
        return
    check_operator(context, s, op, _ATOMIC_OPS, "an atomic operation", dtype)


def _atomic(context: Context, s: Atomic) -> None:
    check(context, *s.indices)
    check_indices(context, s.buffer, s.indices, s)
    check_word(context, s, s.order, _ORDERS, "a memory order")
    dtype = s.buffer.dtype
    if check_word(context, s, s.op, _ATOMIC_OPS, "an atomic operation"):
        _atomic_type(context, s, s.op, dtype)
    if dtype.kind == "handle" or dtype.storage_bits < 8:
        context.report(20, s.span, f"an element of {s.buffer.label} ({dtype}) cannot be changed indivisibly")
    if (s.value is None) != (s.op == "load"):
        context.report(31, s.span, f"atomic {s.op} {'without' if s.value is None else 'with'} a value")
    if s.value is not None:
        check_value(context, s.value, dtype, f"buffer {s.buffer.label}")
    if s.result is not None and s.op == "store":
        context.report(31, s.span, "atomic store has no result")
    if s.op == "load" and s.result is None:
        context.report(31, s.span, "atomic load without a result")
    if s.result is not None:
        check_result(context, s.result, dtype, "result")


def _atomic_tile(context: Context, s: AtomicTile) -> None:
    if check_word(context, s, s.op, _ATOMIC_OPS - {"load", "exchange"}, "an atomic operation on tiles"):
        _atomic_type(context, s, s.op, s.dst.buffer.dtype)
    check_word(context, s, s.order, _ORDERS, "a memory order")
    if s.dst.buffer.dtype.storage_bits < 8:
        context.report(20, s.span, f"an element of {s.dst.buffer.label} ({s.dst.buffer.dtype}) cannot be changed indivisibly")
    if _regions(context, s):
        _same_extents(context, s, s.src, s.dst)
        _same_lanes(context, s)


RULES: Final[dict[type, Callable[[Context, Any], None]]] = {
    Copy: _copy,
    Fill: _fill,
    Gemm: _gemm,
    Reduce: _reduce,
    Scan: _scan,
    Transpose: _transpose,
    Atomic: _atomic,
    AtomicTile: _atomic_tile,
}
