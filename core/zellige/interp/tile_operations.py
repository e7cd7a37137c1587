"""What tile operations do: each as its NumPy line over regions.

In: a statement, a frame. Out: nothing; buffers change. Every function works for all points of the frame at once: the first axis of each
array is the points', of length 1 where they share the operands.

Order of float sums, which the IR leaves open: Gemm is one ``np.matmul`` in the accumulator's type; Reduce sums as ``np.add.reduce`` does,
in float32 or wider; Scan goes element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from zellige.diagnostics import InternalError
from zellige.dtypes import DType
from zellige.elements import arithmetic
from zellige.elements.conversion import FLOAT32, FLOAT64, INT64, UINT64, Array, cast
from zellige.interp.expressions import evaluate, report_undefined
from zellige.interp.frame import Frame, Run
from zellige.interp.masks import Mask
from zellige.interp.regions import Box, box_of, read_box, undefined_part, whole_box, write_box
from zellige.ir.expr import Region
from zellige.ir.reductions import identity, reduction_dtype
from zellige.ir.stmt import AtomicTile, Copy, Fill, Gemm, Reduce, ReduceOp, ReducerInit, Scan, Stmt, Transpose
from zellige.runtime.failures import differing_regions, extents_text


def significant(extents: tuple[int, ...]) -> tuple[int, ...]:
    """The extents other than 1."""
    return tuple(extent for extent in extents if extent != 1)


def reshaped(run: Run, values: Array, extents: tuple[int, ...], extra: int = 0) -> Array:
    """``values`` with other unit dimensions behind the points' axis; E640 where the extents differ otherwise."""
    end = values.ndim - extra
    if significant(values.shape[1:end]) != significant(extents):
        raise differing_regions(run.span, values.shape[1:end], extents)
    result: Array = values.reshape(values.shape[0], *extents, *values.shape[end:])
    return result


def _lanes(dtype: DType) -> int:
    return int(dtype.lanes > 1)


def copy(run: Run, frame: Frame, statement: Copy | Transpose, mask: Mask) -> None:
    """``dst[...] = src.astype(dst.dtype)``, transposed for a Transpose. What was undefined stays so."""
    source, target = box_of(run, frame, statement.src, mask), box_of(run, frame, statement.dst, mask)
    values = read_box(run, frame, source, mask, reports_undefined=False)
    missing = undefined_part(source)
    if isinstance(statement, Transpose):
        values = _transposed(values, source.extents)
        missing = None if missing is None else _transposed(missing, source.extents)
    values = reshaped(run, cast(values, source.buffer.dtype, target.buffer.dtype), target.extents, _lanes(target.buffer.dtype))
    if missing is not None:
        missing = reshaped(run, missing, target.extents)
        if target.buffer.root.space == "global" and missing.any():
            _report_leaving(run, statement, source, target, missing)
    write_box(run, frame, target, values, mask, undefined=missing)


def _report_leaving(run: Run, statement: Copy | Transpose, source: Box, target: Box, missing: Array) -> None:
    """Undefined elements are reported where they are stored to global memory, not where they only move."""
    positions, _ = source.elements()
    if isinstance(statement, Transpose):
        positions = _transposed(positions, source.extents)
    positions = reshaped(run, positions, target.extents, _lanes(source.buffer.dtype))
    flags = missing & target.elements()[1]
    positions = np.broadcast_to(positions, (*flags.shape, *positions.shape[flags.ndim :]))
    report_undefined(run, source.place.memory, source.buffer, source.layout, positions[flags].ravel())


def _transposed(values: Array, extents: tuple[int, ...]) -> Array:
    rows, columns = _matrix(extents)
    return np.swapaxes(values.reshape(values.shape[0], rows, columns, *values.shape[1 + len(extents) :]), 1, 2)


def _matrix(extents: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a region: its two dimensions, or the two that are not 1."""
    if len(extents) == 2:
        return extents[0], extents[1]
    sizes = significant(extents)
    if len(sizes) > 2 or len(extents) < 2:
        raise InternalError(f"a region of {extents_text(extents)} is no matrix")
    return extents[-2:] if len(sizes) < 2 else (sizes[0], sizes[1])  # type: ignore[return-value]


def fill(run: Run, frame: Frame, statement: Fill, mask: Mask) -> None:
    """``dst[...] = value``."""
    target = box_of(run, frame, statement.dst, mask)
    value = np.asarray(evaluate(run, frame, statement.value, mask))
    lanes = value.shape[value.ndim - _lanes(target.buffer.dtype) :]
    points = value.shape[0] if value.ndim > len(lanes) else 1
    spread = value.reshape(points, *(1,) * len(target.extents), *lanes)
    write_box(run, frame, target, np.broadcast_to(spread, (points, *target.extents, *lanes)), mask)


def gemm(run: Run, frame: Frame, statement: Gemm, mask: Mask) -> None:
    """``c = (0 if clear else c) + op(a) @ op(b)``: the product and the sum in the accumulator's type, rounded once to c's dtype."""
    box_a, box_b, box_c = (box_of(run, frame, region, mask) for region in (statement.a, statement.b, statement.c))
    dtype_c = box_c.buffer.dtype
    accumulator = accumulator_dtype(box_a.buffer.dtype, box_b.buffer.dtype, dtype_c)
    a = _operand(run, frame, box_a, statement.scale_a, accumulator, mask)
    if statement.metadata is not None:
        a = _expanded(a, read_box(run, frame, box_of(run, frame, statement.metadata, mask), mask), statement.transpose_a)
    b = _operand(run, frame, box_b, statement.scale_b, accumulator, mask)
    product = _matmul(
        np.swapaxes(a, 1, 2) if statement.transpose_a else a,
        np.swapaxes(b, 1, 2) if statement.transpose_b else b,
        accumulator,
    )
    clear = np.asarray(evaluate(run, frame, statement.clear, mask))
    if not clear.all():
        old = read_box(run, frame, box_c, mask)
        before = cast(old.reshape(old.shape[0], *_matrix_of_gemm(box_c)), dtype_c, accumulator)
        product = np.where(clear.reshape(-1, 1, 1), product, before + product)
    result = cast(product, accumulator, dtype_c)
    write_box(run, frame, box_c, reshaped(run, result, box_c.extents), mask)


def accumulator_dtype(a: DType, b: DType, c: DType) -> DType:
    """float64 where an operand is, float32 for all other floats, 64-bit integers (which wrap to c's dtype alike) for integers."""
    if a.is_float or b.is_float or c.is_float:
        return FLOAT64 if any(dtype.name == "float64" for dtype in (a, b, c)) else FLOAT32
    return INT64


def _matrix_of_gemm(box: Box) -> tuple[int, int]:
    rows, columns = box.extents[-2:]
    return rows, columns


def _operand(run: Run, frame: Frame, box: Box, scale: Region | None, accumulator: DType, mask: Mask) -> Array:
    values = read_box(run, frame, box, mask)
    matrix = cast(values.reshape(values.shape[0], *_matrix_of_gemm(box)), box.buffer.dtype, accumulator)
    if scale is None:
        return matrix
    scale_box = box_of(run, frame, scale, mask)
    factors = read_box(run, frame, scale_box, mask)
    factors = cast(factors.reshape(factors.shape[0], *_matrix_of_gemm(scale_box)), scale_box.buffer.dtype, accumulator)
    for axis in (1, 2):
        if factors.shape[axis] == 0 or matrix.shape[axis] % factors.shape[axis]:
            raise differing_regions(run.span, factors.shape[1:], matrix.shape[1:])
        factors = np.repeat(factors, matrix.shape[axis] // factors.shape[axis], axis=axis)
    return np.asarray(matrix * factors)


def _expanded(a: Array, metadata: Array, transposed: bool) -> Array:
    """A structured sparse operand with its zeros: of every four along k the two that ``metadata`` names hold the values kept."""
    kept = np.swapaxes(a, 1, 2) if transposed else a
    points, rows, half = kept.shape
    bits = np.unpackbits(np.ascontiguousarray(metadata).reshape(metadata.shape[0], rows, -1).view(np.uint8), axis=-1, bitorder="little")
    pairs = bits[..., : 2 * half].reshape(metadata.shape[0], rows, half, 2)
    column = (pairs[..., 0] + 2 * pairs[..., 1]).astype(np.int64) + 4 * (np.arange(half) // 2)
    dense = np.zeros((points, rows, 2 * half), kept.dtype)
    np.put_along_axis(dense, np.broadcast_to(column, kept.shape), kept, axis=2)
    return np.swapaxes(dense, 1, 2) if transposed else dense


def _matmul(a: Array, b: Array, accumulator: DType) -> Array:
    if accumulator.is_integer and a.size and b.size:
        largest_a, largest_b = (max(int(x.max()), -int(x.min())) for x in (a, b))
        if largest_a * largest_b * a.shape[-1] < 1 << 53:  # exact in float64, whose products are much faster
            return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64))
    return np.asarray(np.matmul(a, b))


def combiner(op: ReduceOp | str, *, nan_propagate: bool) -> np.ufunc:
    """The NumPy function of two operands that a reduction repeats."""
    match op:
        case "sum" | "abssum":
            return np.add
        case "prod":
            return np.multiply
        case "max" | "absmax":
            return np.maximum if nan_propagate else np.fmax
        case "min":
            return np.minimum if nan_propagate else np.fmin
        case "bitand":
            return np.bitwise_and
        case "bitor":
            return np.bitwise_or
        case "bitxor":
            return np.bitwise_xor
        case "any":
            return np.logical_or
        case "all":
            return np.logical_and
        case _:
            raise ValueError(f"{op} is no reduction")


def filled(value: bool | int | float, dtype: DType) -> Array:
    """A Python number as an array without axes."""
    if dtype.is_float:
        return cast(np.array(float(value)), FLOAT64, dtype)
    return cast(np.array(int(value) & 0xFFFF_FFFF_FFFF_FFFF, np.uint64), UINT64, dtype)


def reduce(run: Run, frame: Frame, statement: Reduce, mask: Mask) -> None:
    """``dst = op.reduce(src, axis)``, combined with what dst holds unless ``clear``."""
    source, target = box_of(run, frame, statement.src, mask), box_of(run, frame, statement.dst, mask)
    op, dtype = statement.op, reduction_dtype(source.buffer.dtype, target.buffer.dtype)
    wide = arithmetic.wide_dtype(dtype)  # 4-bit integers
    values = cast(read_box(run, frame, source, mask), source.buffer.dtype, dtype).astype(wide.numpy)
    if op in ("absmax", "abssum"):
        values = np.abs(values)
    combine = combiner(op, nan_propagate=statement.nan_propagate)
    if op in ("any", "all"):
        values = values != 0
    axis = 1 + statement.axis
    if values.shape[axis] == 0:
        shape = (*values.shape[:axis], *values.shape[axis + 1 :])
        result = np.full(shape, filled(identity(op, dtype), dtype), values.dtype)
    else:
        result = combine.reduce(values, axis=axis, dtype=values.dtype)
    result = reshaped(run, result, target.extents)
    if not statement.clear:
        old = cast(read_box(run, frame, target, mask), target.buffer.dtype, dtype).astype(wide.numpy)
        result = combine(old != 0 if op in ("any", "all") else old, result)
    result = np.asarray(result).astype(wide.numpy)
    write_box(run, frame, target, cast(cast(result, wide, dtype), dtype, target.buffer.dtype), mask)


def scan(run: Run, frame: Frame, statement: Scan, mask: Mask) -> None:
    """``dst = op.accumulate(src, axis)``; float32 between the elements of narrower floats, each output rounded once."""
    source, target = box_of(run, frame, statement.src, mask), box_of(run, frame, statement.dst, mask)
    dtype = reduction_dtype(source.buffer.dtype, target.buffer.dtype)
    wide = arithmetic.wide_dtype(dtype)
    values = cast(read_box(run, frame, source, mask), source.buffer.dtype, dtype).astype(wide.numpy)
    axis = 1 + statement.axis
    if statement.reverse:
        values = np.flip(values, axis)
    result = combiner(statement.op, nan_propagate=False).accumulate(values, axis=axis, dtype=values.dtype)
    if statement.reverse:
        result = np.flip(result, axis)
    result = cast(cast(np.asarray(result), wide, dtype), dtype, target.buffer.dtype)
    write_box(run, frame, target, reshaped(run, result, target.extents), mask)


def reducer_init(run: Run, frame: Frame, statement: ReducerInit, mask: Mask) -> None:
    """``buffer[...] = identity of op``."""
    target = whole_box(run, frame, statement.buffer)
    dtype = statement.buffer.dtype
    write_box(run, frame, target, np.broadcast_to(filled(identity(statement.op, dtype), dtype), (1, *target.extents)), mask)


_ATOMIC: Final[dict[str, Callable[[Array, Array, DType], Array]]] = {
    "add": lambda old, new, dtype: arithmetic.binary("add", old, new, dtype),
    "sub": lambda old, new, dtype: arithmetic.binary("sub", old, new, dtype),
    "mul": lambda old, new, dtype: arithmetic.binary("mul", old, new, dtype),  # of reducers, on machines with lanes
    "max": lambda old, new, dtype: arithmetic.binary("max", old, new, dtype),
    "min": lambda old, new, dtype: arithmetic.binary("min", old, new, dtype),
    "and": lambda old, new, dtype: arithmetic.binary("bitand", old, new, dtype),
    "or": lambda old, new, dtype: arithmetic.binary("bitor", old, new, dtype),
    "xor": lambda old, new, dtype: arithmetic.binary("bitxor", old, new, dtype),
    "exchange": lambda old, new, dtype: new,
    "store": lambda old, new, dtype: new,
}


def atomic_combine(op: str, old: Array, new: Array, dtype: DType) -> Array:
    """What an atomic operation leaves where ``old`` was."""
    return _ATOMIC[op](old, new, dtype)


def atomic_tile(run: Run, frame: Frame, statement: AtomicTile, mask: Mask) -> None:
    """``dst[p] = op(dst[p], src[p])`` for every element; the points of a frame one after the other."""
    source, target = box_of(run, frame, statement.src, mask), box_of(run, frame, statement.dst, mask)
    dtype = target.buffer.dtype
    values = cast(read_box(run, frame, source, mask), source.buffer.dtype, dtype)
    values = reshaped(run, values, target.extents, _lanes(dtype))
    if frame.count > 1:
        raise InternalError("AtomicTile over several points at once")
    old = read_box(run, frame, target, mask, reports_undefined=statement.op not in ("store", "exchange"))
    write_box(run, frame, target, atomic_combine(statement.op, old, values, dtype), mask)


def run_tile_operation(run: Run, frame: Frame, statement: Stmt, mask: Mask) -> None:
    """Dispatch over the tile operations."""
    match statement:
        case Copy() | Transpose():
            copy(run, frame, statement, mask)
        case Fill():
            fill(run, frame, statement, mask)
        case Gemm():
            gemm(run, frame, statement, mask)
        case Reduce():
            reduce(run, frame, statement, mask)
        case Scan():
            scan(run, frame, statement, mask)
        case AtomicTile():
            atomic_tile(run, frame, statement, mask)
        case ReducerInit():
            reducer_init(run, frame, statement, mask)
        case _:
            raise InternalError(f"{type(statement).__name__} is no tile operation")
