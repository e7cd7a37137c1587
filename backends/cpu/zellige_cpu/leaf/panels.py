"""Matrices of the tile product brought into the accumulator's type: a converted copy, and panels with k outermost.

In: a stored :class:`Matrix` and addresses. Out: code in the function under construction that fills 64-byte aligned scratch memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from zellige.dtypes import DType
from zellige_cpu.leaf.convert import cast
from zellige_cpu.text import Function, Value, constant, vector_constant, zero
from zellige_cpu.types import element_bytes, memory_type, register_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Row-major elements in a tile, ``stride`` elements from row to row."""

    rows: int
    columns: int
    stride: int
    dtype: DType


def lane_mask(lanes: int, count: int) -> Value:
    """A mask of the first ``count`` lanes."""
    return vector_constant("i1", [lane < count for lane in range(lanes)])


def load_lanes(fn: Function, address: Value, source: DType, target: DType, lanes: int, mask: Value | None = None) -> Value:
    """Adjacent elements of a tile as ``target``; zeros where the mask does not hold."""
    kind, size = memory_type(source), element_bytes(source)
    raw = fn.load(address, kind, lanes, align=size) if mask is None else fn.masked_load(address, mask, zero(kind, lanes), align=size)
    if source.is_bool:
        raw = fn.convert("trunc", raw, "i1")
    return cast(fn, raw, source, target)


def _scaled(fn: Function, index: Value, bytes_each: int) -> Value:
    return fn.binary("mul", index, constant("i64", bytes_each))


def emit_converted_copy(fn: Function, matrix: Matrix, source: Value, target: Value, dtype: DType, stride: int, lanes: int) -> None:
    """The matrix as ``dtype`` with ``stride`` elements from row to row, a multiple of ``lanes``; rows are padded with zeros."""
    size, target_size = element_bytes(matrix.dtype), element_bytes(dtype)
    whole, rest = divmod(matrix.columns, lanes)
    with fn.loop(constant("i64", 0), constant("i64", matrix.rows)) as rows:
        row = fn.offset(source, _scaled(fn, rows.index, matrix.stride * size))
        target_row = fn.offset(target, _scaled(fn, rows.index, stride * target_size))
        if whole:
            with fn.loop(constant("i64", 0), constant("i64", whole)) as columns:
                value = load_lanes(fn, fn.offset(row, _scaled(fn, columns.index, lanes * size)), matrix.dtype, dtype, lanes)
                fn.store(value, fn.offset(target_row, _scaled(fn, columns.index, lanes * target_size)), align=lanes * target_size)
        if rest:
            value = load_lanes(fn, fn.offset(row, whole * lanes * size), matrix.dtype, dtype, lanes, lane_mask(lanes, rest))
            fn.store(value, fn.offset(target_row, whole * lanes * target_size), align=lanes * target_size)


def emit_panels(
    fn: Function, matrix: Matrix, source: Value, target: Value, dtype: DType, lanes: int, width: int, *, is_transposed: bool
) -> None:
    """Panels of ``width`` columns, each [k][width] dense; the last has as many vectors of ``lanes`` as its columns need, zero padded.

    The matrix is k by n, or n by k when ``is_transposed``.
    """
    n = matrix.rows if is_transposed else matrix.columns
    panels, rest = divmod(n, width)
    k = matrix.columns if is_transposed else matrix.rows
    size, target_size = element_bytes(matrix.dtype), element_bytes(dtype)
    column_step = matrix.stride * size if is_transposed else size
    emit = _emit_transposed_panel if is_transposed else _emit_panel
    if panels:
        with fn.loop(constant("i64", 0), constant("i64", panels)) as loop:
            first = fn.offset(source, _scaled(fn, loop.index, width * column_step))
            emit(fn, matrix, first, fn.offset(target, _scaled(fn, loop.index, width * k * target_size)), dtype, lanes, width)
    if rest:
        first = fn.offset(source, panels * width * column_step)
        emit(fn, matrix, first, fn.offset(target, panels * width * k * target_size), dtype, lanes, rest)


def _emit_panel(fn: Function, matrix: Matrix, source: Value, target: Value, dtype: DType, lanes: int, columns: int) -> None:
    """Each row's stretch of ``columns`` elements, converted."""
    size, target_size = element_bytes(matrix.dtype), element_bytes(dtype)
    vectors, rest = -(-columns // lanes), columns % lanes
    with fn.loop(constant("i64", 0), constant("i64", matrix.rows)) as rows:
        row = fn.offset(source, _scaled(fn, rows.index, matrix.stride * size))
        target_row = fn.offset(target, _scaled(fn, rows.index, vectors * lanes * target_size))
        for v in range(vectors):
            mask = lane_mask(lanes, rest) if rest and v == vectors - 1 else None
            value = load_lanes(fn, fn.offset(row, v * lanes * size), matrix.dtype, dtype, lanes, mask)
            fn.store(value, fn.offset(target_row, v * lanes * target_size), align=lanes * target_size)


def _emit_transposed_panel(fn: Function, matrix: Matrix, source: Value, target: Value, dtype: DType, lanes: int, columns: int) -> None:
    """Squares of ``lanes`` stored rows by ``lanes`` of k through registers; what is left of k or of the rows element by element."""
    size, target_size = element_bytes(matrix.dtype), element_bytes(dtype)
    vectors, squares = -(-columns // lanes), columns // lanes
    step = vectors * lanes * target_size  # from one k to the next
    depth, rest = divmod(matrix.columns, lanes)
    if squares and depth:
        name = _square(fn, matrix, dtype, lanes, step)
        with fn.loop(constant("i64", 0), constant("i64", squares)) as across:
            first = fn.offset(source, _scaled(fn, across.index, lanes * matrix.stride * size))
            place = fn.offset(target, _scaled(fn, across.index, lanes * target_size))
            with fn.loop(constant("i64", 0), constant("i64", depth)) as down:
                fn.call(
                    name, fn.offset(first, _scaled(fn, down.index, lanes * size)), fn.offset(place, _scaled(fn, down.index, lanes * step))
                )
    if squares and rest:
        _emit_elements(fn, matrix, source, target, dtype, range(squares * lanes), range(depth * lanes, matrix.columns), step)
    if columns % lanes:
        padding = fn.offset(target, squares * lanes * target_size)
        with fn.loop(constant("i64", 0), constant("i64", matrix.columns)) as down:
            fn.store(zero(register_type(dtype), lanes), fn.offset(padding, _scaled(fn, down.index, step)), align=lanes * target_size)
        _emit_elements(fn, matrix, source, target, dtype, range(squares * lanes, columns), range(matrix.columns), step)


def _emit_elements(
    fn: Function, matrix: Matrix, source: Value, target: Value, dtype: DType, rows: range, columns: range, step: int
) -> None:
    size, target_size = element_bytes(matrix.dtype), element_bytes(dtype)
    with fn.loop(constant("i64", rows.start), constant("i64", rows.stop)) as across:
        row = fn.offset(source, _scaled(fn, across.index, matrix.stride * size))
        place = fn.offset(target, _scaled(fn, across.index, target_size))
        with fn.loop(constant("i64", columns.start), constant("i64", columns.stop)) as down:
            value = load_lanes(fn, fn.offset(row, _scaled(fn, down.index, size)), matrix.dtype, dtype, 1)
            fn.store(value, fn.offset(place, _scaled(fn, down.index, step)), align=target_size)


def _square(fn: Function, matrix: Matrix, dtype: DType, lanes: int, step: int) -> str:
    """The function ``void (ptr source, ptr target)`` that converts and transposes ``lanes`` by ``lanes`` elements."""
    name = f"square_{matrix.dtype}_{dtype}_{matrix.stride}_{step}_x{lanes}"
    if fn.module.has_function(name):
        return name
    leaf = fn.module.function(name, "void", [("source", "ptr"), ("target", "ptr")], inline=False)
    source, target = leaf.params
    size, target_size = element_bytes(matrix.dtype), element_bytes(dtype)
    rows = [load_lanes(leaf, leaf.offset(source, i * matrix.stride * size), matrix.dtype, dtype, lanes) for i in range(lanes)]
    for i, column in enumerate(transposed(leaf, rows)):
        leaf.store(column, leaf.offset(target, i * step), align=lanes * target_size)
    return name


def transposed(fn: Function, rows: list[Value]) -> list[Value]:
    """The transposition of as many vectors as each has lanes, a power of two: one exchange of halves for each bit of the index."""
    lanes = len(rows)
    distance = lanes // 2
    while distance:
        low = [lane if not lane & distance else lanes + lane - distance for lane in range(lanes)]
        high = [lane + distance if not lane & distance else lanes + lane for lane in range(lanes)]
        result = list(rows)
        for i in range(lanes):
            if not i & distance:
                result[i] = fn.shuffle(rows[i], rows[i + distance], low)
                result[i + distance] = fn.shuffle(rows[i], rows[i + distance], high)
        rows = result
        distance //= 2
    return rows
