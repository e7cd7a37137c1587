"""Scalar operations of the IR by name, constants, and changes of places in turn: what a machine that is played by NumPy needs.

In: expressions; names of operations, arrays of an element type. Out: the words that name an expression's operation
(:func:`instruction_of`); arrays. Callers run this under ``np.errstate(all="ignore")``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, get_args

import numpy as np

from zellige.dtypes import DType, dtype as as_dtype
from zellige.elements.arithmetic import binary, compare, math_function, unary
from zellige.elements.conversion import FLOAT64, Array, cast, reinterpret
from zellige.ir.expr import Binary, BinaryOp, Cast, Compare, CompareOp, Expr, Math, Reinterpret, Select, Unary, UnaryOp
from zellige.ir.functions import FUNCTIONS

_UNARY: Final = frozenset(get_args(UnaryOp))
_COMPARE: Final = frozenset(get_args(CompareOp))

OPERATIONS: Final = frozenset((*FUNCTIONS, *_UNARY, *_COMPARE, *get_args(BinaryOp)))
"""The names that :func:`operate` takes: no two sorts of operations share one."""


def operation_of(node: Expr) -> tuple[str, DType] | None:
    """The name of a node's operation and the type of its operands; None for what computes nothing with operands of one type."""
    match node:
        case Math():
            return node.function, node.args[0].dtype
        case Unary():
            return node.op, node.value.dtype
        case Binary() | Compare():
            return node.op, node.left.dtype
        case _:
            return None


def instruction_of(node: Expr) -> tuple[str, ...] | None:
    """The words of a node's operation, such as ("add", "int32"), ("cast", "float32", "float16", "nearest_even", "saturate"), ("select",):
    what :func:`execute` takes. None for variables, constants, loads, and for casts that draw numbers."""
    match node:
        case Select():
            return ("select",)
        case Cast(rounding="stochastic"):
            return None
        case Cast():
            return ("cast", node.value.dtype.name, node.dtype.name, node.rounding, *(("saturate",) if node.saturate else ()))
        case Reinterpret():
            return ("reinterpret", node.value.dtype.name, node.dtype.name)
    found = operation_of(node)
    return None if found is None else (found[0], found[1].name)


def execute(words: Sequence[str], operands: Sequence[Array]) -> Array:
    """The operation that :func:`instruction_of` names, on its operands, as the IR means it."""
    name, *rest = words
    match name:
        case "select":
            return np.where(operands[0], operands[1], operands[2])
        case "cast":
            rounding: Any = rest[2]
            return cast(operands[0], as_dtype(rest[0]), as_dtype(rest[1]), rounding, saturate=rest[3:] == ["saturate"])
        case "reinterpret":
            return reinterpret(operands[0], as_dtype(rest[0]), as_dtype(rest[1]))
        case _:
            return operate(name, operands, as_dtype(rest[0]))


def operate(name: str, operands: Sequence[Array], dtype: DType) -> Array:
    """The operation ``name`` of :data:`OPERATIONS` on operands of ``dtype``, with the meaning of the IR (docs/tile-ir.md)."""
    operation: Any = name
    if name in FUNCTIONS:
        return math_function(name, tuple(operands), dtype)
    if name in _UNARY:
        return unary(operation, operands[0], dtype)
    if name in _COMPARE:
        return compare(operation, operands[0], operands[1], dtype)
    return binary(operation, operands[0], operands[1], dtype)


def constant(value: bool | int | float, dtype: DType) -> Array:
    """A number as a value of a scalar type: integers wrap, floats round once."""
    if dtype.is_bool:
        return np.asarray(bool(value))
    if dtype.is_integer:
        return np.array(int(value) & 0xFFFF_FFFF_FFFF_FFFF, np.uint64).astype(np.int64).astype(dtype.numpy)
    return cast(np.array(float(value), np.float64), FLOAT64, dtype)


def rounds(positions: Array) -> Iterator[Array]:
    """Groups of points with distinct positions: the first at each position, then the second, and so on."""
    order = np.argsort(positions, kind="stable")
    ordered = positions[order]
    start = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.arange(0)
    rank = np.arange(len(ordered)) - np.repeat(start, np.diff(np.r_[start, len(ordered)]))
    by_rank = order[np.argsort(rank, kind="stable")]
    yield from np.split(by_rank, np.cumsum(np.bincount(rank))[:-1]) if len(ordered) else ()


def change_in_turn(name: str, cells: Array, places: tuple[Array, ...], values: Array, dtype: DType) -> Array:
    """Change ``cells[places]`` by each of ``values`` in turn, each change rounded; what each place held before its turn.

    ``name`` is an operation of two operands, or ``exchange``, ``store`` (both leave the value) or ``load`` (changes nothing).
    """
    before = np.empty(len(values), cells.dtype)
    for chosen in rounds(np.ravel_multi_index(places, cells.shape)):
        here = tuple(place[chosen] for place in places)
        before[chosen] = held = cells[here]
        if name in ("exchange", "store"):
            cells[here] = values[chosen]
        elif name != "load":
            cells[here] = operate(name, (held, values[chosen]), dtype)
    return before
