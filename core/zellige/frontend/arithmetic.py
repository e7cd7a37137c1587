"""Builds typed expressions from operands as a Python author writes them: promotion, casts, constant folding of literals.

In: :class:`~zellige.frontend.values.Scalar`, Python numbers. Out: IR expressions whose operands agree in dtype.
The rules: a Python int is an int32 (wider where it does not fit) but takes the dtype of a float that holds it, a Python float is a
float32 but takes float64 (so float16 * 0.5 is float32: the value is rounded once, where it is stored); bool promotes to the other side;
of two integers the wider wins, unsigned where the widths are equal; a float wins over an integer; of two floats the wider, float32 for
float16 with bfloat16 and for two different floats of 8 bits or fewer. A number written where it is stored must fit there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import numpy as np

from zellige.diagnostics import Span, catalogue
from zellige.diagnostics.suggest import closest
from zellige.dtypes import DType, UnknownDType, dtype, known_names
from zellige.ir.arithmetic import INTEGER_OPS, compare as compare_numbers, exact
from zellige.ir.expr import (
    BOOL,
    INT32,
    INT64,
    Binary,
    BinaryOp,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expr,
    ExprNode,
    Math,
    Select,
    Unary,
    UnaryOp,
    Var,
    const,
)
from zellige.ir.traverse import rebuilt

FLOAT32: Final = dtype("float32")

_BITWISE: Final = frozenset(("bitand", "bitor", "bitxor"))
_SHOWN_BITS: Final = 512  # of an integer that a message writes out
_PLAIN: Final = frozenset((bool, int, float))
_PRODUCTS: Final = 16  # the largest constant exponent that becomes a product


def common_dtype(left: DType, right: DType) -> DType:
    """The dtype in which two operands meet."""
    if left == right:
        return left
    if left.lanes != right.lanes and 1 not in (left.lanes, right.lanes):
        raise ValueError(f"{left} and {right} have different lane counts")
    lanes = max(left.lanes, right.lanes)
    a, b = left.scalar, right.scalar
    if a.is_bool or b.is_bool:
        winner = b if a.is_bool else a
    elif a.is_float or b.is_float:
        if a.is_float and b.is_float:
            winner = _common_float(a, b)
        else:
            winner = a if a.is_float else b
    elif a.bits != b.bits:
        winner = a if a.bits > b.bits else b
    else:
        winner = a if a.kind == "uint" else b
    return winner.with_lanes(lanes)


def _common_float(a: DType, b: DType) -> DType:
    if a == b:
        return a
    if a.bits == b.bits == 32:
        return FLOAT32
    if a.bits == b.bits or max(a.bits, b.bits) <= 8:
        return FLOAT32
    return a if a.bits > b.bits else b


def literal_dtype(value: bool | int | float, span: Span | None = None) -> DType:
    """The dtype of a Python number by itself: bool, int32 (int64, uint64 where it does not fit), float32."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, float):
        return FLOAT32
    for name in ("int32", "int64", "uint64"):
        candidate = dtype(name)
        if candidate.min <= value <= candidate.max:
            return candidate
    raise catalogue.E201.error(span, value=_text(value))


def literal(value: bool | int | float, target: DType, span: Span | None = None) -> Expr:
    """A Python number as a constant of ``target``, or of its own dtype where it does not fit, so that it promotes: an integer beside
    float16 that float16 cannot hold is a float32, as a Python float beside it is."""
    if target.is_float:
        if not _is_a_float(value):
            _refuse_number(value, target if target.scalar.bits > FLOAT32.bits else FLOAT32, span)
        is_too_large = math.isfinite(value) and target.scalar.bits < FLOAT32.bits and not _holds(target.scalar, value)
        return const(float(value), FLOAT32.with_lanes(target.lanes) if is_too_large else target, span)
    if target.is_bool:
        return (
            const(bool(value), target, span)
            if isinstance(value, bool) or value in (0, 1)
            else const(value, literal_dtype(value, span), span)
        )
    if isinstance(value, float):
        return const(value, FLOAT32, span)
    whole = int(value)
    if target.kind == "handle":
        return const(whole, literal_dtype(whole, span), span)
    scalar = target.scalar
    if not scalar.min <= whole <= scalar.max:
        own = literal_dtype(whole, span)
        if own.bits > scalar.bits or own.kind != scalar.kind:
            return const(whole, own, span)
    return const(whole, target, span)


def stored(value: Any, target: DType, span: Span | None = None, *, is_cast: bool = False) -> Expr:
    """What a place of dtype ``target`` takes: the value cast to it. E254 for a Python number that the dtype cannot hold.

    A Python number with a fraction is no integer, but is cut toward zero, as a run-time float is, where the author casts it.
    """
    number = python_number(value)
    if number is not None and not target.is_bool and not (_holds(target.scalar, number) and (is_cast or _is_kept(target, number))):
        _refuse_number(number, target, span)
    return cast(as_expr(value, span, target), target, span)


def _refuse_number(number: float, target: DType, span: Span | None) -> NoReturn:
    """E254: a number that is none of the dtype's."""
    low, high = target.scalar.min, target.scalar.max
    fault = "exceeds maximum of" if number > high else "is below minimum of" if number < low else "is not a value of"
    raise catalogue.E254.error(span, value=_text(number), fault=fault, dtype=target.scalar, least=_short(low), greatest=_short(high))


def _text(number: float) -> str:
    """A number as a message shows it. Python refuses to write integers of thousands of digits out."""
    if isinstance(number, int) and number.bit_length() > _SHOWN_BITS:
        return f"{'-' if number < 0 else ''}0x{abs(number) >> (number.bit_length() - 16):x}... ({number.bit_length()} bits)"
    return str(number)


def _is_a_float(number: float) -> bool:
    """Whether a number is within the range of Python's floats."""
    try:
        float(number)
    except OverflowError:  # an int beyond every float
        return False
    return True


def _short(value: float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _holds(target: DType, number: float) -> bool:
    """Whether a number written in the source is one of ``target``, apart from rounding."""
    if not _is_a_float(number):
        return False
    if target.is_integer:
        return math.isfinite(number) and target.min <= int(number) <= target.max
    if not target.is_float or target.bits == 64:
        return True
    if not math.isfinite(number):
        return target.bits > 8 or (target.has_inf if math.isinf(number) else target.bits == 8)
    if number < 0 <= target.min:
        return False
    ulp = 2.0 ** (math.frexp(target.max)[1] - 1 - target.mantissa)
    return abs(number) < target.max + ulp / 2  # a number just above the largest one rounds down to it


def _is_kept(target: DType, number: float) -> bool:
    """Whether an integer keeps all of a number that it holds."""
    return not target.is_integer or number == int(number)


def as_expr(value: Any, span: Span | None = None, hint: DType | None = None) -> Expr:
    """An expression from a Scalar, an expression or a Python number (of dtype ``hint`` where it fits); E202 for anything else."""
    expr = getattr(value, "expr", value)
    if isinstance(expr, ExprNode):
        return expr  # type: ignore[return-value]
    number = python_number(value)
    if number is None:
        instead = "T.extract_lane(vector, 0) is one of its lanes" if _lane_count(value) > 1 else None
        raise catalogue.E202.error(span, given=describe(value), hint=instead)
    return literal(number, hint if hint is not None else literal_dtype(number, span), span)


def _lane_count(value: Any) -> int:
    """How many lanes a value has, one where it is no vector."""
    given = getattr(value, "dtype", None)
    return given.lanes if isinstance(given, DType) and hasattr(type(value), "lanes") else 1


def python_number(value: Any) -> bool | int | float | None:
    """The number that Python, NumPy, a member of an IntEnum or a tensor of no dimensions gives; None for anything else."""
    if isinstance(value, (bool, int, float)):
        return value if type(value) in _PLAIN else int(value) if isinstance(value, int) else float(value)
    item = getattr(value, "item", None)  # NumPy scalars
    if item is not None and getattr(value, "shape", None) == ():
        number = item()
        if isinstance(number, (bool, int, float)):
            return number
    return None


def whole_number(value: Any) -> int | None:
    """The Python int that a whole number known while compiling is; None for a bool and for anything else."""
    number = python_number(getattr(value, "constant", value))
    return number if type(number) is int else None


def _as_index(expr: Expr, value: Any) -> str:
    """How a value that is no index is named: a number by its text, anything else by its element type and what it is."""
    if isinstance(value, (bool, int, float, np.generic)):
        return str(value)
    described = describe(value)
    return described if str(expr.dtype) in described.split() else f"{expr.dtype} {described}"


def describe(value: Any) -> str:
    """What a value is, in the user's words."""
    words = getattr(value, "described", None)
    if isinstance(words, str):
        return words
    if value is None:
        return "None"
    return f"{type(value).__name__} {value!r}" if len(repr(value)) < 40 else f"a {type(value).__name__}"


def type_of(value: Any, span: Span | None = None, *, hint: str | None = None) -> DType:
    """``value`` as an element type. E217: it is none."""
    try:
        return dtype(value)
    except UnknownDType as error:
        raise catalogue.E217.error(span, given=repr(value), suggestion=closest(value, known_names()), hint=hint) from error


def cast(expr: Expr, target: DType, span: Span | None = None) -> Expr:
    """``expr`` as ``target``: itself where it is that already, a constant where its value is exact there, a Cast otherwise."""
    if expr.dtype == target:
        return expr
    if "handle" in (expr.dtype.kind, target.kind):
        raise catalogue.E204.error(span or expr.span, operation="a conversion between it and numbers", dtype="handle")
    if isinstance(expr, Const):
        folded = _cast_constant(expr.value, target)
        if folded is not None:
            return const(folded, target, span or expr.span)
    return Cast(value=expr, dtype=target, span=span or expr.span)


def widened(expr: Expr) -> Expr:
    """An expression of int32 computed in int64, as far as it is made of integer arithmetic and choices, so that nothing in it wraps."""
    if expr.dtype not in (INT32, INT64):
        return expr
    wide: dict[int, Expr] = {}
    pending: list[tuple[Expr, bool]] = [(expr, False)]
    while pending:
        node, is_ready = pending.pop()
        if id(node) in wide:
            continue
        parts = _integer_parts(node)
        if is_ready:
            wide[id(node)] = _with_parts(node, {name: wide[id(part)] for name, part in parts.items()})
        elif parts:
            pending.append((node, True))
            pending.extend((part, False) for part in parts.values())
        else:
            wide[id(node)] = cast(node, INT64)
    return wide[id(expr)]


def _integer_parts(node: Expr) -> dict[str, Expr]:
    """The operands of integer arithmetic, by the names of their fields; none for what is no arithmetic."""
    match node:
        case Binary(left=left, right=right) if node.dtype == left.dtype == right.dtype and node.dtype in (INT32, INT64):
            return {"left": left, "right": right}
        case Unary(value=value) if node.dtype in (INT32, INT64):
            return {"value": value}
        case Select(then=then, otherwise=otherwise) if node.dtype in (INT32, INT64):
            return {"then": then, "otherwise": otherwise}
        case Cast(value=value) if (node.dtype, value.dtype) == (INT64, INT32):
            return {"value": value}
        case _:
            return {}


def _with_parts(node: Expr, parts: dict[str, Expr]) -> Expr:
    if isinstance(node, Cast):
        return parts["value"]
    same = all(getattr(node, name) is part for name, part in parts.items())
    return node if same else rebuilt(node, **parts)


def _cast_constant(value: bool | int | float, target: DType) -> bool | int | float | None:
    """``value`` in ``target`` where no rounding, wrapping or saturation takes place; None elsewhere."""
    if target.lanes != 1 or target.kind == "handle":
        return None
    if target.is_bool:
        return bool(value) if value == value else None
    if target.is_integer:
        if isinstance(value, float) and (not math.isfinite(value) or value != int(value)):
            return None
        return int(value) if target.min <= value <= target.max else None
    if target.bits >= 32 and target.mantissa >= 23:
        if isinstance(value, int) and abs(value) > 1 << 24:
            return None
        if target.bits == 32 and isinstance(value, float) and math.isfinite(value) and not _is_float32(value):
            return None
        return float(value)
    return None


def _is_float32(value: float) -> bool:
    import numpy as np

    with np.errstate(over="ignore"):
        return float(np.float32(value)) == value


def meet(left: Any, right: Any, span: Span | None) -> tuple[Expr, Expr]:
    """Both operands in their common dtype."""
    a = as_expr(left, span, _hint(left, right))
    b = as_expr(right, span, _hint(right, left))
    try:
        target = common_dtype(a.dtype, b.dtype)
    except ValueError:
        raise catalogue.E203.error(span, left=a.dtype, right=b.dtype) from None
    return cast(a, target, span), cast(b, target, span)


def meet_all(values: Sequence[Any], span: Span | None) -> list[Expr]:
    """The operands of a function in their common dtype."""
    exprs = [as_expr(v, span, next((h for o in values if (h := _hint(v, o)) is not None), None)) for v in values]
    target = exprs[0].dtype
    for expr in exprs[1:]:
        try:
            target = common_dtype(target, expr.dtype)
        except ValueError:
            raise catalogue.E203.error(span, left=target, right=expr.dtype) from None
    return [cast(e, target, span) for e in exprs]


def _hint(value: Any, other: Any) -> DType | None:
    """The dtype that a literal takes from the other operand; None where it keeps its own."""
    number = python_number(value)
    if number is None or isinstance(number, bool):
        return None
    other_dtype = getattr(getattr(other, "expr", other), "dtype", None)
    if not isinstance(other_dtype, DType) or not other_dtype.is_float:
        return None
    return other_dtype if isinstance(number, int) or other_dtype.bits == 64 else None


def binary(op: BinaryOp, left: Any, right: Any, span: Span | None = None) -> Expr:
    """``left op right`` with promotion; integer constants fold where the result fits, x + 0, x * 1 and the like of integers give x."""
    if op in ("and", "or"):
        return Binary(op=op, left=truth(left, span), right=truth(right, span), span=span)
    a, b = meet(left, right, span)
    if a.dtype.kind == "handle":
        raise catalogue.E204.error(span, operation="arithmetic", dtype=a.dtype)
    if a.dtype.is_bool and op not in _BITWISE:
        a, b = cast(a, INT32, span), cast(b, INT32, span)
    if op == "truediv" and not a.dtype.is_float:
        a, b = cast(a, FLOAT32, span), cast(b, FLOAT32, span)
    if a.dtype.is_float and (op in _BITWISE or op in ("shl", "shr")):
        raise catalogue.E204.error(span, operation=_WORDS[op], dtype=a.dtype)
    if a.dtype.is_integer:
        if isinstance(b, Const):
            _check_meaning(op, int(b.value), b.dtype, span)
        folded = _fold(op, a, b)
        if folded is not None:
            return const(folded, a.dtype, span)
        simple = _identity(op, a, b)
        if simple is not None:
            return simple
    return Binary(op=op, left=a, right=b, span=span)


_WORDS: Final = {"bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>"}
_DIVISIONS: Final = ("floordiv", "floormod", "truncdiv", "truncmod")


def _check_meaning(op: BinaryOp, right: int, dtype: DType, span: Span | None) -> None:
    """E231: a division by the constant 0; E288: a shift by a constant that is no number of a bit."""
    if op in _DIVISIONS and right == 0:
        raise catalogue.E231.error(span)
    if op in ("shl", "shr") and not 0 <= right < dtype.bits:
        raise catalogue.E288.error(span, value=right, dtype=dtype, bits=dtype.bits)


def _fold(op: BinaryOp, a: Expr, b: Expr) -> int | None:
    if not (isinstance(a, Const) and isinstance(b, Const)) or op not in INTEGER_OPS:
        return None
    left, right = int(a.value), int(b.value)
    value = exact(op, left, right)
    return value if a.dtype.min <= value <= a.dtype.max else None


def _identity(op: str, a: Expr, b: Expr) -> Expr | None:
    right = b.value if isinstance(b, Const) else None
    left = a.value if isinstance(a, Const) else None
    if (right == 0 and op in ("add", "sub", "shl", "shr", "bitor", "bitxor")) or (right == 1 and op in ("mul", "floordiv", "truncdiv")):
        return a
    if (left == 0 and op in ("add", "bitor", "bitxor")) or (left == 1 and op == "mul"):
        return b
    return None


def compare(op: CompareOp, left: Any, right: Any, span: Span | None = None) -> Expr:
    """``left op right`` as bool, operands promoted; a constant where both are integer constants."""
    a, b = meet(left, right, span)
    if a.dtype.kind == "handle" and op not in ("eq", "ne"):
        raise catalogue.E204.error(span, operation="an order", dtype=a.dtype)
    if isinstance(a, Const) and isinstance(b, Const) and not a.dtype.is_float and a.dtype.lanes == 1:
        return const(compare_numbers(op, a.value, b.value), BOOL, span)
    return Compare(op=op, left=a, right=b, span=span)


def truth(value: Any, span: Span | None = None) -> Expr:
    """``value`` as a condition: itself where it is a bool, ``value != 0`` otherwise. E104 for vectors, E204 for an address."""
    if _lane_count(value) > 1:
        bool(value)  # E104
    expr = as_expr(getattr(value, "as_condition", value), span)
    if expr.dtype.kind == "handle":
        raise catalogue.E204.error(span, operation="a condition", dtype=expr.dtype)
    if expr.dtype.is_bool:
        return expr
    if isinstance(expr, Const):
        return const(bool(expr.value), BOOL, span)
    zero = const(0.0 if expr.dtype.is_float else 0, expr.dtype, span)
    return Compare(op="ne", left=expr, right=zero, span=span)


def unary(op: UnaryOp, value: Any, span: Span | None = None) -> Expr:
    """``op value`` for neg, not and invert; a constant where the operand is one and its value fits. E204 for other dtypes."""
    expr = truth(value, span) if op == "not" else as_expr(value, span)
    if op == "neg" and expr.dtype.kind == "handle":
        raise catalogue.E204.error(span, operation="arithmetic", dtype=expr.dtype)
    if op == "neg" and expr.dtype.is_bool:
        expr = cast(expr, INT32, span)
    if op == "neg" and isinstance(expr, Const) and (expr.dtype.is_float or -expr.value >= expr.dtype.min):
        if expr.dtype.is_float or -expr.value <= expr.dtype.max:
            return const(-expr.value, expr.dtype, span)
    if op == "invert" and expr.dtype.is_bool:
        op = "not"
    if op == "invert" and not expr.dtype.is_integer:
        raise catalogue.E204.error(span, operation="~", dtype=expr.dtype)
    return Unary(op=op, value=expr, span=span)


def absolute(value: Any, span: Span | None = None) -> Expr:
    """``abs(value)``; of a condition an int32, as Python's."""
    expr = as_expr(value, span)
    if expr.dtype.is_bool:
        return cast(expr, INT32, span)
    if expr.dtype.kind == "handle":
        raise catalogue.E204.error(span, operation="arithmetic", dtype=expr.dtype)
    return Math(function="abs", args=(expr,), dtype=expr.dtype, span=span)


def select(condition: Any, then: Any, otherwise: Any, span: Span | None = None) -> Expr:
    """``then if condition else otherwise`` with the two sides promoted; the side itself where the condition is a constant."""
    a, b = meet(then, otherwise, span)
    test = truth(condition, span)
    if isinstance(test, Const):
        return a if test.value else b
    return Select(condition=test, then=a, otherwise=b, span=span)


def power(base: Any, exponent: Any, span: Span | None = None) -> Expr:
    """``base ** exponent``: a product where the exponent is a small Python int (in float32 and rounded once for floats below 32 bits)."""
    a, b = meet(base, exponent, span)
    number = python_number(exponent)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _PRODUCTS:
        if a.dtype.is_integer:
            return Math(function="powi", args=(a, b), dtype=a.dtype, span=span)
        if not a.dtype.is_float:
            a, b = cast(a, FLOAT32, span), cast(b, FLOAT32, span)
        return Math(function="pow", args=(a, b), dtype=a.dtype, span=span)
    wide = FLOAT32.with_lanes(a.dtype.lanes) if a.dtype.is_float and a.dtype.bits < 32 else a.dtype
    square = cast(a, wide, span)
    result: Expr | None = None
    for bit in reversed(f"{number:b}"):
        if bit == "1":
            result = square if result is None else binary("mul", result, square, span)
        square = binary("mul", square, square, span)
    return const(1, a.dtype, span) if result is None else cast(result, a.dtype, span)


def index(value: Any, span: Span | None = None) -> Expr:
    """An integer expression for an index, extent or offset (int32 where a literal fits); E205 for a float."""
    expr = as_expr(value, span)
    if expr.dtype.is_bool:
        return cast(expr, INT32, span)
    if not expr.dtype.is_integer or expr.dtype.lanes != 1:
        raise catalogue.E205.error(span, given=_as_index(expr, value))
    return expr if expr.dtype.bits >= 32 or isinstance(expr, Var) else cast(expr, INT64 if expr.dtype.bits == 64 else INT32, span)
