"""Integer arithmetic: division in its forms, bits, and the dot product of four bytes. Of Python ints the results are Python ints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.frontend import arithmetic
from zellige.frontend.regions import place_of, store
from zellige.frontend.values import Element, Scalar, Tile, here
from zellige.frontend.vectors import apply as lane_by_lane, is_vector
from zellige.ir.expr import INT32, BinaryOp, Const, Expr, Load, Var, const
from zellige.ir.traverse import walk
from zellige.language.elementwise import call, is_number
from zellige.language.keywords import without

_BYTES: Final = ("int8", "uint8")


def _nonzero(divisor: Any) -> None:
    if is_number(divisor) and divisor == 0:
        raise catalogue.E231.error(here())


@without("dtype", "span")
def ceildiv(lhs: Any, rhs: Any) -> Any:
    """``lhs / rhs`` rounded up, for every sign; of Python ints a Python int. E231: a constant 0 as divisor."""
    _nonzero(rhs)
    if is_number(lhs) and is_number(rhs):
        return -((-lhs) // rhs)
    if is_vector(lhs) or is_vector(rhs):
        return lane_by_lane(ceildiv, lhs, rhs)
    span = here()
    x, y = arithmetic.meet(lhs, rhs, span)
    if _is_positive(y) and _is_index(x):
        above = arithmetic.binary("add", x, arithmetic.binary("sub", y, 1, span), span)
        return Scalar(arithmetic.binary("floordiv", above, y, span))
    # no sum of the operands: x + y - 1 and -x leave the type at its ends
    quotient = arithmetic.binary("floordiv", x, y, span)
    rest = arithmetic.compare("ne", arithmetic.binary("floormod", x, y, span), 0, span)
    return Scalar(arithmetic.binary("add", quotient, arithmetic.cast(rest, x.dtype, span), span))


def _is_positive(divisor: Expr) -> bool:
    """Whether a divisor is known to be above 0: a constant, or a size."""
    if isinstance(divisor, Const):
        return divisor.value > 0
    return isinstance(divisor, Var) and divisor.kind == "size"


def _is_index(dividend: Expr) -> bool:
    """Whether a value is made of sizes, block and loop indices and constants alone, which stay far from the ends of their type."""
    kinds = (node.kind if isinstance(node, Var) else "" for node in walk(dividend) if isinstance(node, (Var, Load)))
    return all(kind in ("size", "grid", "lane", "loop") for kind in kinds)


cdiv = ceildiv


def _division(op: BinaryOp, fold: Callable[[Any, Any], Any], doc: str) -> Callable[..., Any]:
    @without("dtype", "span")
    def apply(a: Any, b: Any) -> Any:
        _nonzero(b)
        if is_number(a) and is_number(b):
            return fold(a, b)
        if is_vector(a) or is_vector(b):
            return lane_by_lane(apply, a, b)
        return Scalar(arithmetic.binary(op, a, b, here()))

    apply.__name__ = apply.__qualname__ = op
    apply.__doc__ = f"{doc} Of Python ints a Python int. E231: a constant 0 as divisor."
    return apply


def _truncated(a: Any, b: Any) -> Any:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


floordiv = _division("floordiv", lambda a, b: a // b, "``a // b``, toward minus infinity.")
floormod = _division("floormod", lambda a, b: a % b, "``a % b``, with the sign of b.")
truncdiv = _division("truncdiv", _truncated, "``a / b`` toward zero.")
truncmod = _division("truncmod", lambda a, b: a - _truncated(a, b) * b, "The remainder of the division toward zero, with the sign of a.")


def align_up(x: Any, y: Any) -> Any:
    """The smallest multiple of ``y`` that is not below ``x``. E231: a constant 0."""
    return ceildiv(x, y) * y


def _operator(name: str, op: BinaryOp, fold: Callable[[Any, Any], Any], sign: str) -> Callable[..., Any]:
    @without("dtype", "span")
    def apply(x: Any, y: Any) -> Any:
        if is_number(x) and is_number(y):
            if isinstance(x, float) or isinstance(y, float):
                raise catalogue.E204.error(here(), operation=sign, dtype="float")
            return fold(x, y)
        if is_vector(x) or is_vector(y):
            return lane_by_lane(apply, x, y)
        return Scalar(arithmetic.binary(op, x, y, here()))

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``x {sign} y``. E204 for floats."
    return apply


shift_left = _operator("shift_left", "shl", lambda x, y: x << y, "<<")
shift_right = _operator("shift_right", "shr", lambda x, y: x >> y, ">>")
bitwise_and = _operator("bitwise_and", "bitand", lambda x, y: x & y, "&")
bitwise_or = _operator("bitwise_or", "bitor", lambda x, y: x | y, "|")
bitwise_xor = _operator("bitwise_xor", "bitxor", lambda x, y: x ^ y, "^")


@without("dtype", "span")
def bitwise_not(x: Any) -> Any:
    """``~x``. E204 for floats."""
    if is_vector(x):
        return lane_by_lane(bitwise_not, x)
    if isinstance(x, float):
        raise catalogue.E204.error(here(), operation="~", dtype="float")
    return ~x if is_number(x) else Scalar(arithmetic.unary("invert", x, here()))


@without("dtype", "span")
def Not(a: Any) -> Any:
    """``not a``: a bool. Of a vector, lane by lane. E202 for a whole tile."""
    if is_number(a):
        return not a
    if is_vector(a):
        return lane_by_lane(Not, a)
    return Scalar(arithmetic.unary("not", a, here()))


@without("dtype", "span")
def clz(x: Any) -> Any:
    """The number of leading zero bits (int32). E230: not an integer."""
    return call("clz", x)


@without("dtype", "span")
def popcount(x: Any) -> Any:
    """The number of one bits (int32). E230: not an integer."""
    return call("popcount", x)


def ffs(value: Any) -> Scalar:
    """The position of the lowest one bit, counted from 1; 0 where there is none (int32). E230: not an integer."""
    expr = arithmetic.as_expr(value, here())
    if not expr.dtype.is_integer:
        raise catalogue.E230.error(here(), function="T.__ffs", dtype=expr.dtype)
    lowest = Scalar(expr) & -Scalar(expr)
    bits = Scalar(const(expr.dtype.bits, INT32))
    return Scalar(arithmetic.select(Scalar(expr) == 0, 0, bits - call("clz", lowest), here()))


_DP4A: Final = "dp4a requires four int8 elements from each start and an int32 sum, or the unsigned ones: T.dp4a(A[i, k], B[j, k], C[i, j])"


def dp4a(A: Any, B: Any, C: Any) -> None:
    """``C += dot`` of four adjacent int8 elements from A and B on, in int32. Operands: start elements or tiles. E258 for others."""
    places = [_start(place, kinds) for place, kinds in ((A, _BYTES), (B, _BYTES), (C, ("int32", "uint32")))]
    a, b, c = places
    if a.dtype != b.dtype or (a.dtype.kind == "uint") != (c.dtype.kind == "uint"):
        given = f"{a.dtype}, {b.dtype} and {c.dtype}"
        wanted = "int8, int8 and int32 operands, or the unsigned ones"
        raise catalogue.E258.error(here(), operation="T.dp4a", wanted=wanted, given=given, hint=_DP4A)

    def lane(place: Element, offset: int) -> Scalar:
        last = arithmetic.binary("add", place.indices[-1], offset, here())
        load = Load(buffer=place.buffer, indices=(*place.indices[:-1], last), span=here())
        return Scalar(arithmetic.cast(load, c.dtype, here()))

    total: Any = c
    for offset in range(4):
        total = total + lane(a, offset) * lane(b, offset)
    store(c, total)


def _start(value: Any, wanted: tuple[str, ...]) -> Element:
    place = place_of(value)
    if isinstance(place, Tile):
        place = Element(Load(buffer=place.node, indices=(const(0, INT32),) * place.ndim, span=here()))
    if not isinstance(place, Element) or place.dtype.name not in wanted:
        raise catalogue.E258.error(
            here(), operation="T.dp4a", wanted=f"a start element of {' or '.join(wanted)}", given=arithmetic.describe(value), hint=_DP4A
        )
    return place
