"""Expressions of thread-level programs over the lanes of a warp at once.

In: an expression and the warp with its active lanes. Out: an array with one value, or one a lane (a vector's lanes are a last axis).
An expression becomes a list of steps, operands first, so that neither depth nor sharing costs anything. The side of a Select that no lane
chose touches nothing: loads under a condition are steps of their own with the mask of the lanes that reach them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zellige.interp.expressions import constant, operation
from zellige.ir.expr import INT32, INT64, Binary, Compare, Const, Expr, Load, Select, Var, constant_value
from zellige.ir.traverse import children, operands_first

if TYPE_CHECKING:
    from zellige.simt.simulate.compile import Compiler
    from zellige.simt.simulate.warp import Warp

Array = Any
Step = tuple[Callable[..., Any], tuple[int, ...]]
Evaluation = Callable[["Warp", Any], Any]
"""Of a warp and a mask (a bool a lane): the value."""


def evaluation(compiler: Compiler, expr: Expr) -> Evaluation:
    """What evaluates ``expr``."""
    if isinstance(expr, Const):
        value = constant(expr)
        return lambda warp, mask: value
    if isinstance(expr, Var):
        slot = compiler.slot(expr)
        return lambda warp, mask: warp.values[slot]
    steps = tuple(_Order(compiler).steps(expr))

    def run(warp: Warp, mask: Any) -> Any:
        results: list[Any] = [mask]
        add = results.append
        for apply, operands in steps:
            add(apply(warp, *[results[i] for i in operands]))
        return results[-1]

    return run


class _Order:
    """Puts one expression into steps. Result 0 is the mask that the whole is evaluated under; a mask of None is no lane."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._steps: list[Step] = []
        self._done: dict[tuple[int, int], int] = {}
        self._loads: dict[int, bool] = {}

    def steps(self, expr: Expr) -> list[Step]:
        self._find_loads(expr)
        pending: list[tuple[Any, int, int, tuple[int, ...]]] = [(expr, 0, 0, ())]
        while pending:
            node, mask, phase, given = pending.pop()
            if phase == 0 and self._key(node, mask) in self._done:
                continue
            if isinstance(node, Select) or (isinstance(node, Binary) and node.op in ("and", "or") and self._loads[id(node.right)]):
                self._conditional(node, mask, phase, given, pending)
            elif phase == 0:
                pending.append((node, mask, 1, ()))
                pending.extend((child, mask, 0, ()) for child in children(node))
            else:
                self._done[self._key(node, mask)] = self._plain(node, mask)
        if len(self._steps) != self._done[self._key(expr, 0)]:
            last = self._done[self._key(expr, 0)]
            self._add(lambda warp, value: value, last)
        return self._steps

    def _key(self, node: Any, mask: int) -> tuple[int, int]:
        return id(node), mask if self._loads[id(node)] else 0

    def _at(self, node: Any, mask: int) -> int:
        return self._done[self._key(node, mask)]

    def _add(self, apply: Callable[..., Any], *operands: int) -> int:
        self._steps.append((apply, operands))
        return len(self._steps)

    def _conditional(self, node: Any, mask: int, phase: int, given: tuple[int, ...], pending: list[Any]) -> None:
        first = node.condition if isinstance(node, Select) else node.left
        if phase == 0:
            pending.append((node, mask, 1, ()))
            pending.append((first, mask, 0, ()))
            return
        if phase == 1:
            masks = (mask, mask)
            if self._loads[id(node)]:
                decided = self._at(first, mask)
                is_or = isinstance(node, Binary) and node.op == "or"
                masks = (
                    self._add(_without if is_or else _within, mask, decided),
                    self._add(_without, mask, decided) if isinstance(node, Select) else mask,
                )
            pending.append((node, mask, 2, masks))
            if isinstance(node, Select):
                pending.extend([(node.then, masks[0], 0, ()), (node.otherwise, masks[1], 0, ())])
            else:
                pending.append((node.right, masks[0], 0, ()))
            return
        decided = self._at(first, mask)
        if isinstance(node, Select):
            parts = self._at(node.then, given[0]), self._at(node.otherwise, given[1])
            spreads = node.condition.dtype.lanes < node.dtype.lanes
            self._done[self._key(node, mask)] = self._add(_chosen_vector if spreads else _chosen, decided, *parts)
        else:
            apply = np.logical_and if node.op == "and" else np.logical_or
            self._done[self._key(node, mask)] = self._add(lambda warp, x, y: apply(x, y), decided, self._at(node.right, given[0]))

    def _plain(self, node: Any, mask: int) -> int:
        if isinstance(node, Var):
            slot = self._compiler.slot(node)
            return self._add(lambda warp: warp.values[slot])
        if isinstance(node, Load):
            return self._add(self._compiler.load(node), mask, self._at(node.indices[0], mask))
        quick = _direct(node)
        if quick is not None:
            return self._add(quick, *(self._at(child, mask) for child in children(node)))
        apply = operation(node, self._compiler.random)
        assert apply is not None
        if isinstance(node, Const):
            value = apply()
            return self._add(lambda warp: value)
        return self._add(lambda warp, *operands: apply(*operands), *(self._at(child, mask) for child in children(node)))

    def _find_loads(self, expr: Expr) -> None:
        for node in operands_first(expr):
            self._loads[id(node)] = isinstance(node, Load) or any(self._loads[id(child)] for child in children(node))


_PLAIN: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor,
}  # fmt: skip
_COMPARE: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


def _direct(node: Any) -> Callable[..., Any] | None:
    """What NumPy does by itself just as the node means, without the tests and conversions of the general way: arithmetic on indices is
    most of what a program does."""
    if isinstance(node, Binary) and node.dtype.is_bool and node.op in ("and", "or"):
        logical = np.logical_and if node.op == "and" else np.logical_or
        return lambda warp, x, y: logical(x, y)
    if isinstance(node, Compare) and node.left.dtype in (INT32, INT64):
        compare = _COMPARE[node.op]
        return lambda warp, x, y: compare(x, y)
    if not isinstance(node, Binary) or node.dtype not in (INT32, INT64):
        return None
    if node.op in _PLAIN:
        plain = _PLAIN[node.op]
        return lambda warp, x, y: plain(x, y)
    by = constant_value(node.right)
    if by is None:
        return None
    if node.op in ("shl", "shr") and 0 <= by < node.dtype.bits:
        shift = np.left_shift if node.op == "shl" else np.right_shift
        return lambda warp, x, y: shift(x, y)
    if by <= 0:
        return None
    match node.op:
        case "truncmod":
            return lambda warp, x, y: np.fmod(x, y)
        case "truncdiv":
            return lambda warp, x, y: np.floor_divide(x - np.fmod(x, y), y)
        case "floormod":
            return lambda warp, x, y: np.remainder(x, y)
        case "floordiv":
            return lambda warp, x, y: np.floor_divide(x, y)
        case _:
            return None


def _within(warp: Warp, mask: Any, condition: Array) -> Any:
    if mask is None:
        return None
    if condition.ndim == 0:
        return mask if condition else None
    both = mask & condition
    return both if both.any() else None


def _without(warp: Warp, mask: Any, condition: Array) -> Any:
    return _within(warp, mask, np.logical_not(condition))


def _chosen(warp: Warp, condition: Array, then: Array, otherwise: Array) -> Array:
    if condition.ndim == 0:
        return then if condition else otherwise
    return np.where(condition, then, otherwise)


def _chosen_vector(warp: Warp, condition: Array, then: Array, otherwise: Array) -> Array:
    if condition.ndim == 0:
        return then if condition else otherwise
    return np.where(condition[..., None], then, otherwise)
