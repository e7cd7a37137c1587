"""How operands of instructions are laid out: the few patterns that the families share.

In: extents and numbers of lanes. Out: layouts. Inputs are (register, lane, ...), a register holding one element; outputs are the operand's
indices.
"""

from __future__ import annotations

from zellige.layouts import Layout, mixed
from zellige_intrinsics.specification import ELEMENT

M, N, K = "m", "n", "k"


def vector(name: str, count: int, others: tuple[str, ...] = ()) -> Layout:
    """The elements of one vector register along ``name``; ``others`` are dimensions of one point."""
    return mixed({"register": [(count, {name: 1})]}, {name: count, **dict.fromkeys(others, 1)})


def pieces_by_pointer(name: str, lanes: int, elements: int) -> Layout:
    """Each lane moves ``elements`` that follow each other; the pieces are numbered by lane."""
    return mixed({ELEMENT: [(elements, {name: 1})], "lane": [(lanes, {name: elements})]}, {name: lanes * elements})


def dense(name: str, count: int) -> Layout:
    """Memory without gaps."""
    return mixed({name: [(count, {"offset": 1})]}, {"offset": count})
