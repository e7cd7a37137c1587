"""Vectors of a tile's elements read from memory, and squares of them transposed in registers.

In: addresses in the function under construction. Out: registers.
"""

from __future__ import annotations

from zellige.dtypes import DType
from zellige_cpu.leaf.convert import cast
from zellige_cpu.text import Function
from zellige_cpu.types import element_bytes, memory_type
from zellige_cpu.values import Value, vector_constant, zero


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
