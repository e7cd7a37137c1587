"""What the rules of several statements share: words, values and the variables that take them, operators on element types.

In: a piece of a statement and the :class:`Context`. Out: diagnostics in the context (invariants 3, 18, 20 and 31).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, get_args

from zellige.dtypes import DType
from zellige.ir.expr import Expr, ExprNode, Var
from zellige.ir.stmt import ReduceOp, Stmt
from zellige.ir.verifier.context import Context
from zellige.ir.verifier.expressions import check, place, same

REDUCE_OPS: Final = frozenset(get_args(ReduceOp))
_BITWISE: Final = frozenset(("bitand", "bitor", "bitxor", "and", "or", "xor"))
_NUMBER: Final = frozenset(("int", "uint", "float"))
_BITS: Final = frozenset(("int", "uint", "bool"))


def check_word(context: Context, statement: Stmt, word: object, words: frozenset[Any], what: str) -> bool:
    """Invariant 31: a word of a field is one of those that its type lists. Says whether it is."""
    if word in words:
        return True
    context.report(31, statement.span, f"{word!r} is not {what}")
    return False


def check_value(context: Context, value: Expr, wanted: DType, what: str) -> None:
    """Invariant 18: a value has the dtype of what takes it; checks the value itself too."""
    check(context, value)
    if isinstance(value, ExprNode) and not same(value.dtype, wanted):
        context.report(18, place(value), f"{what} is {wanted} but the value is {value.dtype}")


def check_kind(context: Context, var: Var, kinds: Sequence[str], what: str) -> None:
    """Invariant 3: a variable is of one of these kinds."""
    if var.kind not in kinds:
        context.report(3, var.span, f"{what} {var.label} is a {var.kind} variable, not {' or '.join(kinds)}")


def check_result(context: Context, var: Var, wanted: DType | None, what: str) -> None:
    """Invariants 3 and 18 of a variable that a statement gives its result; declares it."""
    check_kind(context, var, ("value", "mutable"), what)
    if wanted is not None and not same(var.dtype, wanted):
        context.report(18, var.span, f"{what} {var.label} is {var.dtype} but its value is {wanted}")
    context.declare(var, "variable")


def check_operator(context: Context, s: Stmt, op: str, words: frozenset[Any], what: str, dtype: DType) -> None:
    """Invariants 31 and 20: an operator exists and is defined for the dtype."""
    if not check_word(context, s, op, words, what):
        return
    if op in ("any", "all"):
        kinds = _NUMBER | _BITS
    else:
        kinds = _BITS if op in _BITWISE else _NUMBER
    if dtype.kind not in kinds:
        context.report(20, s.span, f"{op} is not defined for {dtype}")
