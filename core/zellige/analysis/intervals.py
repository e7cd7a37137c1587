"""The range of an integer expression, from the ranges of its variables.

In: an expression and the closed intervals of variables. Out: a closed interval of Python ints, whose ends are None where nothing is
known. The arithmetic of :func:`interval` is that of unbounded integers; :func:`interval_of_value` knows that each operation wraps at its
type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from zellige.dtypes import DType
from zellige.ir.expr import Binary, Cast, Const, Expr, ExprNode, Select, Unary, Var
from zellige.ir.traverse import children
from zellige.records import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """``low <= x <= high``; None is no bound."""

    low: int | None = None
    high: int | None = None

    @property
    def is_bounded(self) -> bool:
        return self.low is not None and self.high is not None


ANY: Final = Interval()


def interval(expr: Expr, ranges: Mapping[Var, Interval], memo: dict[ExprNode, Interval] | None = None) -> Interval:
    """The interval of ``expr``; iterative, so that long sums are fine. Results are kept in ``memo``, which is of the same ranges."""
    done = {} if memo is None else memo
    return _walked(expr, lambda node, operands: ranges.get(node, ANY) if isinstance(node, Var) else _evaluated(node, operands), done)


def interval_of_value(expr: Expr, range_of: Callable[[Var], Interval], memo: dict[ExprNode, Interval]) -> Interval:
    """The interval of the value that the language gives ``expr``: an operation that may leave its type wraps, and is any number of it.

    ``range_of`` gives what is known of a variable, :data:`ANY` for nothing. Results are kept in ``memo``. Floats have no interval.
    """

    def evaluated(node: ExprNode, operands: list[Interval]) -> Interval:
        whole = interval_of_type(node.dtype)  # type: ignore[attr-defined]
        if isinstance(node, Var):
            return _cut(range_of(node), whole)
        found = operands[0] if isinstance(node, Cast) and not node.value.dtype.is_float else _evaluated(node, operands)
        return found if _is_within(found, whole) else whole

    return _walked(expr, evaluated, memo)


def interval_of_type(dtype: DType) -> Interval:
    """All values of an integer or bool type, :data:`ANY` for other types."""
    if dtype.lanes != 1 or not (dtype.is_integer or dtype.is_bool):
        return ANY
    return Interval(0, 1) if dtype.is_bool else Interval(int(dtype.min), int(dtype.max))


def _cut(found: Interval, whole: Interval) -> Interval:
    """What is known of a number, where it says less than the type does by the type."""
    low = whole.low if found.low is None or (whole.low is not None and found.low < whole.low) else found.low
    high = whole.high if found.high is None or (whole.high is not None and found.high > whole.high) else found.high
    return Interval(low, high)


def _is_within(found: Interval, whole: Interval) -> bool:
    if found.low is None or found.high is None or whole.low is None or whole.high is None:
        return False
    return whole.low <= found.low and found.high <= whole.high


def _walked(expr: Expr, evaluated: Callable[[ExprNode, list[Interval]], Interval], done: dict[ExprNode, Interval]) -> Interval:
    pending: list[ExprNode] = [expr]
    while pending:
        node = pending[-1]
        if node in done:
            pending.pop()
            continue
        operands = [c for c in children(node) if isinstance(c, ExprNode)]
        waiting = [o for o in operands if o not in done]
        if waiting:
            pending.extend(waiting)
            continue
        pending.pop()
        done[node] = evaluated(node, [done[o] for o in operands])
    return done[expr]


def _evaluated(node: ExprNode, operands: list[Interval]) -> Interval:
    match node:
        case Const(value=bool() | int()):
            return Interval(int(node.value), int(node.value))
        case Unary(op="neg"):
            return Interval(_negated(operands[0].high), _negated(operands[0].low))
        case Binary():
            return _binary(node.op, operands[0], operands[1])
        case Select():
            return _union(operands[1], operands[2])
        case Cast() if node.dtype.is_integer and node.value.dtype.is_integer and node.dtype.bits >= node.value.dtype.bits:
            return operands[0]
        case _:
            return ANY


def _negated(value: int | None) -> int | None:
    return None if value is None else -value


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _union(a: Interval, b: Interval) -> Interval:
    low = None if a.low is None or b.low is None else min(a.low, b.low)
    high = None if a.high is None or b.high is None else max(a.high, b.high)
    return Interval(low, high)


def _corners(a: Interval, b: Interval) -> list[tuple[int, int]]:
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return []
    return [(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]


def _natural(a: Interval) -> tuple[int, int] | None:
    """The ends of an interval that is bounded and has no negative number."""
    return (a.low, a.high) if a.low is not None and a.low >= 0 and a.high is not None else None


def _binary(op: str, a: Interval, b: Interval) -> Interval:
    corners = _corners(a, b)
    match op:
        case "add":
            return Interval(_sum(a.low, b.low), _sum(a.high, b.high))
        case "sub":
            return Interval(_sum(a.low, _negated(b.high)), _sum(a.high, _negated(b.low)))
        case "mul" if corners:
            values = [x * y for x, y in corners]
            return Interval(min(values), max(values))
        case "floordiv" if corners and b.low is not None and b.low > 0:
            values = [x // y for x, y in corners]
            return Interval(min(values), max(values))
        case "floormod" if b.low is not None and b.low > 0 and b.high is not None:
            if a.low is not None and a.high is not None and a.low >= 0 and a.high < b.low:
                return a
            return Interval(0, b.high - 1)
        case "truncdiv" if a.low is not None and a.low >= 0 and corners and b.low is not None and b.low > 0:
            values = [x // y for x, y in corners]
            return Interval(min(values), max(values))
        case "truncmod" if a.low is not None and a.low >= 0 and b.low is not None and b.low > 0 and b.high is not None:
            return a if a.high is not None and a.high < b.low else Interval(0, b.high - 1)
        case "bitand" if b.low is not None and b.low >= 0:
            return Interval(0, b.high)
        case "shr" | "shl" if (ends := _natural(a)) and (counts := _natural(b)) and counts[1] < 64:
            if op == "shr":
                return Interval(ends[0] >> counts[1], ends[1] >> counts[0])
            return Interval(ends[0] << counts[0], ends[1] << counts[1])
        case "bitxor" | "bitor" if (left := _natural(a)) and (right := _natural(b)):
            return Interval(0, (1 << max(left[1].bit_length(), right[1].bit_length())) - 1)
        case "min" | "min_nan":
            highs = [h for h in (a.high, b.high) if h is not None]
            low = None if a.low is None or b.low is None else min(a.low, b.low)
            return Interval(low, min(highs) if highs else None)
        case "max" | "max_nan":
            lows = [x for x in (a.low, b.low) if x is not None]
            high = None if a.high is None or b.high is None else max(a.high, b.high)
            return Interval(max(lows) if lows else None, high)
        case _:
            return ANY
