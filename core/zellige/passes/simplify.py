"""The pass ``simplify``: constants folded, and expressions replaced by smaller ones that give the same bits.

In: a well-formed kernel. Out: one with the same meaning, bit for bit: integers wrap, so only what holds modulo 2**bits is
used; of floats only ``x * 1``, ``x / 1``, ``x - 0.0`` and ``x + -0.0``. Conditions that are constant leave the branch they choose,
loops that run nothing go. Written for index arithmetic; constants move to the right, all else stays in the author's order.
"""

from __future__ import annotations

from typing import Any, Final

from zellige.ir.arithmetic import wrap, wrapped
from zellige.ir.expr import Binary, BinaryOp, Cast, Compare, CompareOp, Const, Expr, Select, Unary, constant_value
from zellige.ir.stmt import Assert, Assume, For, If, Kernel, Stmt
from zellige.ir.traverse import rebuilt, rewrite
from zellige.passes.folding import fold, truth
from zellige.records import dataclass

_COMMUTATIVE: Final = frozenset(("add", "mul", "min", "max", "min_nan", "max_nan", "bitand", "bitor", "bitxor"))
_ASSOCIATIVE: Final = frozenset(("mul", "min", "max", "min_nan", "max_nan", "bitand", "bitor", "bitxor"))
"""Operators of integers that may regroup; add and sub do so together."""
_IDEMPOTENT: Final = frozenset(("min", "max", "min_nan", "max_nan", "bitand", "bitor"))
_NEUTRAL: Final[dict[BinaryOp, int]] = {
    "add": 0, "sub": 0, "mul": 1, "floordiv": 1, "truncdiv": 1, "bitor": 0, "bitxor": 0, "bitand": -1, "shl": 0, "shr": 0,
}  # fmt: skip
"""``x op value`` is x."""
_ABSORBING: Final[dict[BinaryOp, int]] = {"mul": 0, "bitand": 0, "bitor": -1}
"""``x op value`` is the value."""
_FLOAT_NEUTRAL: Final[dict[BinaryOp, str]] = {"mul": "1.0", "truediv": "1.0", "sub": "0.0", "add": "-0.0"}
_OPPOSITE: Final[dict[CompareOp, CompareOp]] = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Simplify:
    """The pass as an object; it has no options."""

    @property
    def name(self) -> str:
        return "simplify"

    def __call__(self, kernel: Kernel) -> Kernel:
        return rewrite(kernel, _visit)


simplify: Final = Simplify()
"""The pass."""


def simplified(expr: Expr) -> Expr:
    """One expression, simplified."""
    result: Expr = rewrite(expr, _visit)
    return result


def _visit(node: Any) -> Any:
    """A smaller node of the same meaning; operands are simplified already."""
    match node:
        case Unary() | Binary() | Compare() | Select() | Cast():
            found: Expr | None = node
            while found is not None:
                node = found
                found = fold(node) or _smaller(node)
            return node
        case If() | For() | Assert() | Assume():
            return _statement(node)
        case _:
            return node


def _smaller(node: Expr) -> Expr | None:
    if node.dtype.lanes != 1:
        return None
    match node:
        case Unary():
            return _unary(node)
        case Binary():
            if node.left.dtype.is_bool:
                return _logic(node)
            return _integers(node) if node.left.dtype.is_integer else _floats(node)
        case Compare() if node.left.dtype.is_integer and node.left == node.right:
            return _constant(node.op in ("eq", "le", "ge"), node)
        case Select():
            chosen = truth(node.condition)
            if chosen is None:
                return node.then if node.then == node.otherwise else None
            return node.then if chosen else node.otherwise
        case Cast():
            return _cast(node)
        case _:
            return None


def _constant(value: bool | int, like: Expr) -> Const:
    return Const(value=value, dtype=like.dtype, span=like.span)


def _unary(node: Unary) -> Expr | None:
    match node.op, node.value:
        case _, Unary(op=inner) as operand if inner == node.op:
            return operand.value
        case "not", Compare() as test if test.left.dtype.is_integer or test.op in ("eq", "ne"):
            return rebuilt(test, op=_OPPOSITE[test.op])
        case _:
            return None


def _logic(node: Binary) -> Expr | None:
    left, right = truth(node.left), truth(node.right)
    match node.op:
        case "and" | "bitand":
            decides = False
        case "or" | "bitor":
            decides = True
        case _:
            return None
    if left is decides or right is decides:
        return _constant(decides, node)
    if left is not None:
        return node.right
    if right is not None or node.left == node.right:
        return node.left
    return None


def _floats(node: Binary) -> Expr | None:
    neutral = _FLOAT_NEUTRAL.get(node.op)
    if neutral is not None and isinstance(node.right, Const) and repr(node.right.value) == neutral and not node.dtype.is_unsigned_zero:
        return node.left
    return None


def _integers(node: Binary) -> Expr | None:
    op, left, right = node.op, node.left, node.right
    if isinstance(left, Const) and not isinstance(right, Const) and op in _COMMUTATIVE:
        return rebuilt(node, left=right, right=left)
    value = constant_value(right)
    if value is not None:
        return _with_constant(node, int(value))
    if left == right:
        if op in _IDEMPOTENT:
            return left
        if op in ("sub", "bitxor", "floormod", "truncmod"):
            return _constant(0, node)
    if constant_value(left) == 0 and op in ("floordiv", "floormod", "truncdiv", "truncmod", "shl", "shr"):
        return _constant(0, node)
    return None


def _with_constant(node: Binary, value: int) -> Expr | None:
    op, left, dtype = node.op, node.left, node.dtype
    if op in _NEUTRAL and value == wrap(_NEUTRAL[op], dtype):
        return left
    if op in _ABSORBING and value == wrap(_ABSORBING[op], dtype):
        return _constant(value, node)
    if op in ("floormod", "truncmod") and value in (0, 1):
        return _constant(0, node)
    if not isinstance(left, Binary) or not isinstance(left.right, Const):
        return None
    inner = int(left.right.value)
    if op in ("add", "sub") and left.op in ("add", "sub"):
        return _sum(node, left.left, (inner if left.op == "add" else -inner) + (value if op == "add" else -value))
    if left.op == op and op in _ASSOCIATIVE:
        return rebuilt(node, left=left.left, right=Const(value=wrapped(op, inner, value, dtype), dtype=dtype, span=node.right.span))
    if left.op == op == "floordiv" and inner > 0 and value > 0 and inner * value <= dtype.max:
        return rebuilt(node, left=left.left, right=Const(value=inner * value, dtype=dtype, span=node.right.span))
    if left.op == op == "floormod" and inner > 0 and value > 0 and inner % value == 0:
        return rebuilt(node, left=left.left)
    return None


def _sum(node: Binary, left: Expr, total: int) -> Expr:
    """``left + total``, with a subtraction where that shows a smaller number."""
    value, opposite = wrap(total, node.dtype), wrap(-total, node.dtype)
    if value == 0:
        return left
    if value < 0 < opposite or 0 < opposite < value:
        return rebuilt(node, op="sub", left=left, right=Const(value=opposite, dtype=node.dtype, span=node.right.span))
    return rebuilt(node, op="add", left=left, right=Const(value=value, dtype=node.dtype, span=node.right.span))


def _cast(node: Cast) -> Expr | None:
    operand, target = node.value, node.dtype
    if operand.dtype == target and not node.saturate:
        return operand
    if not isinstance(operand, Cast) or not all(d.is_integer for d in (target, operand.dtype, operand.value.dtype)):
        return None
    # each conversion keeps the value modulo 2**bits, so the one between does not matter unless it is narrower
    return rebuilt(node, value=operand.value) if operand.dtype.bits >= target.bits and operand.dtype.lanes == 1 else None


def _statement(node: Stmt) -> Stmt | tuple[Stmt, ...]:
    match node:
        case If():
            chosen = truth(node.condition)
            if chosen is not None:
                return node.then if chosen else node.otherwise
            return node if node.then or node.otherwise else ()
        case For():
            start, stop, step = constant_value(node.start), constant_value(node.stop), constant_value(node.step)
            if start is None or stop is None or step is None:
                return node
            runs = int(step) != 0 and range(int(start), int(stop), int(step))  # a step of 0 has an assertion before it
            return node if runs else ()
        case Assert() | Assume():
            return () if truth(node.condition) else node
        case _:
            return node
