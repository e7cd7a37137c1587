"""Conversions, roundings and variants of arithmetic with a stated precision."""

from __future__ import annotations

from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.dtypes import DType
from zellige.frontend import arithmetic
from zellige.frontend.values import Scalar, here
from zellige.frontend.vectors import Vector, apply as lane_by_lane, is_vector, lanes_of
from zellige.ir.expr import Cast, Expr, Reinterpret, Rounding
from zellige.language.directed import Direction, directed
from zellige.language.elementwise import call
from zellige.language.keywords import without
from zellige.language.stochastic import stochastic
from zellige.language.tensors import any_type, element_type
from zellige.language.words import repacked

_ROUNDINGS: Final[dict[str, Rounding]] = {
    "": "nearest_even", "rn": "nearest_even", "rz": "toward_zero", "rm": "down", "rd": "down", "rp": "up", "ru": "up",
}  # fmt: skip
_FAST_TYPES: Final = ("float16", "bfloat16", "tfloat32", "float32", "float64")
_DIRECTIONS: Final[dict[str, Direction]] = {"rz": "toward_zero", "rd": "down", "ru": "up"}


@without("span")
def cast(value: Any, dtype: Any, round: str = "", sat: bool | None = None, rbits: Any = None) -> Any:
    """``value`` converted to ``dtype``. ``round``: rn (nearest even), rz, rm (down), rp (up); ``sat=True`` clamps to the finite values.

    ``round="rs"`` rounds float32 up or down by chance: the low bits of the integer ``rbits`` decide (each lane of a vector by its own
    ``rbits``, or all by one), and the result is clamped. E217: dtype; E230: ``rbits``; E248: ``round``, ``sat``, or types that rs lacks.
    """
    if isinstance(value, (str, DType)) and isinstance(dtype, Scalar):
        hint = 'the value comes first and its new type behind it, as in T.cast(x, "float16")'
        raise catalogue.E217.error(here(), given=arithmetic.describe(dtype), suggestion="", hint=hint)
    wanted = element_type(dtype)
    target = wanted.scalar
    if wanted.lanes > 1:  # as many lanes, or a number in all of them
        value = Vector.of(lanes_of(value, wanted.lanes))
    if round not in (*_ROUNDINGS, "rs"):
        raise catalogue.E248.error(here(), reason=f"Invalid round {round!r} of T.cast")
    if sat is not None and not isinstance(sat, bool):
        raise catalogue.E248.error(here(), reason=f"Invalid sat of T.cast: it is True or False, not {arithmetic.describe(sat)}")
    if (round == "rs") != (rbits is not None):
        need = "rbits is required" if rbits is None else "rbits is only valid"
        raise catalogue.E248.error(here(), reason=f'{need} with round="rs" of T.cast')
    if round == "rs":
        if is_vector(value):
            return lane_by_lane(lambda lane, bits: stochastic(lane, target, sat, bits), value, rbits)
        return stochastic(value, target, sat, rbits)
    rounding = _ROUNDINGS[round]
    if is_vector(value):
        return lane_by_lane(lambda lane: _converted(lane, target, rounding, sat), value)
    return _converted(value, target, rounding, sat)


def _converted(value: Any, target: DType, rounding: Rounding, sat: bool | None) -> Scalar:
    expr = arithmetic.as_expr(value, here())
    if rounding == "nearest_even" and not sat:
        return Scalar(arithmetic.cast(expr, target, here()))
    return Scalar(Cast(value=expr, dtype=target, rounding=rounding, saturate=bool(sat), span=here()))


@without("span")
def Cast_(dtype: Any, value: Any) -> Any:
    """As :func:`cast`, dtype first."""
    return cast(value, dtype)


@without("span")
def reinterpret(value: Any, dtype: Any) -> Any:
    """The same bits as another dtype; the order (dtype, value) of older code is accepted. E249 for another number of bits.

    Of vectors the lanes follow each other, the lowest bits first: a uint32 is a float16x2 and the other way round.
    """
    if isinstance(value, (str, DType)):
        value, dtype = dtype, value
    target = any_type(dtype)
    if is_vector(value) or target.lanes > 1:
        lanes = lanes_of(value)
        given = arithmetic.as_expr(lanes[0], here()).dtype
        if len(lanes) * given.storage_bits != target.storage_bits:
            raise catalogue.E249.error(here(), old=given.with_lanes(len(lanes)), new=target)
        found = repacked([arithmetic.as_expr(lane, here()) for lane in lanes], target.scalar)
        return Scalar(found[0]) if target.lanes == 1 else Vector.of(found)
    expr = arithmetic.as_expr(value, here())
    if expr.dtype.storage_bits != target.storage_bits:
        raise catalogue.E249.error(here(), old=expr.dtype, new=target)
    return Scalar(expr if expr.dtype == target else Reinterpret(value=expr, dtype=target, span=here()))


def _rounded(operation: str, mode: str, nearest: Any, *operands: Any) -> Any:
    """One IEEE operation: the nearest value by ``nearest()``, or the one in a direction. E248: mode; E402: directions of narrow floats."""
    if mode != "rn" and (not isinstance(mode, str) or mode not in _DIRECTIONS):
        raise catalogue.E248.error(here(), reason=f"Invalid rounding mode {mode!r} of T.{operation}")
    if mode == "rn":
        return nearest()
    if any(is_vector(o) for o in operands):
        return lane_by_lane(lambda *lanes: _rounded(operation, mode, nearest, *lanes), *operands)
    exprs = [arithmetic.cast(e, arithmetic.FLOAT32, here()) if not e.dtype.is_float else e for e in arithmetic.meet_all(operands, here())]
    if exprs[0].dtype.name not in ("float32", "float64"):
        hint = "the default rn rounds to nearest even; cast the operands to float32 first"
        raise catalogue.E402.error(here(), name=f"T.{operation} of {exprs[0].dtype} with rounding {mode}", hint=hint)
    return Scalar(directed(operation, exprs, _DIRECTIONS[mode]))


def _binary(op: Any, x: Any, y: Any) -> Any:
    if is_vector(x) or is_vector(y):
        return lane_by_lane(lambda a, b: _binary(op, a, b), x, y)
    a, b = arithmetic.meet(x, y, here())
    if not a.dtype.is_float:
        a, b = arithmetic.cast(a, arithmetic.FLOAT32, here()), arithmetic.cast(b, arithmetic.FLOAT32, here())
    return Scalar(arithmetic.binary(op, a, b, here()))


def ieee_add(x: Any, y: Any, rounding_mode: str = "rn") -> Any:
    """``x + y`` rounded once: rn (nearest even), rz, ru, rd. E248: mode; E402: 8- and 16-bit floats other than to the nearest."""
    return _rounded("ieee_add", rounding_mode, lambda: _binary("add", x, y), x, y)


def ieee_sub(x: Any, y: Any, rounding_mode: str = "rn") -> Any:
    """``x - y`` rounded once, as :func:`ieee_add`."""
    return _rounded("ieee_sub", rounding_mode, lambda: _binary("sub", x, y), x, y)


def ieee_mul(x: Any, y: Any, rounding_mode: str = "rn") -> Any:
    """``x * y`` rounded once, as :func:`ieee_add`."""
    return _rounded("ieee_mul", rounding_mode, lambda: _binary("mul", x, y), x, y)


def ieee_fdiv(x: Any, y: Any, rounding_mode: str = "rn") -> Any:
    """``x / y`` rounded once, as :func:`ieee_add`."""
    return _rounded("ieee_fdiv", rounding_mode, lambda: _binary("truediv", x, y), x, y)


def ieee_fmaf(x: Any, y: Any, z: Any, rounding_mode: str = "rn") -> Any:
    """``x * y + z`` rounded once, as :func:`ieee_add`."""
    return _rounded("ieee_fmaf", rounding_mode, lambda: call("fma", x, y, z, precision="ieee"), x, y, z)


def ieee_frcp(x: Any, rounding_mode: str = "rn") -> Any:
    """``1 / x`` rounded once, as :func:`ieee_add`."""
    return _rounded("ieee_frcp", rounding_mode, lambda: call("rcp", x, precision="ieee"), x)


def ieee_fsqrt(x: Any, rounding_mode: str = "rn") -> Any:
    """The square root rounded once, as :func:`ieee_add`."""
    return _rounded("ieee_fsqrt", rounding_mode, lambda: call("sqrt", x, precision="ieee"), x)


def ieee_frsqrt(x: Any) -> Any:
    """``1 / sqrt(x)`` rounded once to nearest even."""
    return call("rsqrt", x, precision="ieee")


def fma(x: Any, y: Any, z: Any) -> Any:
    """``x * y + z`` rounded once."""
    return call("fma", x, y, z)


def fmul(x: Any, y: Any) -> Any:
    """``x * y``."""
    return _binary("mul", x, y)


def fast_rcp(x: Any) -> Any:
    """``1 / x``, approximate where the target has a faster form."""
    return call("rcp", x, precision="fast")


def fast(function: str) -> Any:
    """The approximate form of a unary function, where the target has a faster one."""

    def apply(x: Any) -> Any:
        given = None if isinstance(x, (bool, int, float)) else x.dtype.scalar if is_vector(x) else arithmetic.as_expr(x, here()).dtype
        if given is not None and given.name not in _FAST_TYPES:
            hint = f"T.__{function} only supports floating-point inputs, but got {given}: cast it, or T.{function} takes it as float32"
            raise catalogue.E204.error(here(), operation=f"T.__{function}", dtype=given, hint=hint)
        return call(function, x, precision="fast")

    apply.__name__ = apply.__qualname__ = f"__{function}"
    apply.__doc__ = f"{function} of a float of 16 bits or more, approximate where the target has a faster form. E204: other types."
    return apply


FAST: Final = {f"__{name}": fast(name) for name in ("exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos", "tan")}
"""The approximate functions, by name."""

_TIES_TO_EVEN: Final = ("ties-to-even", "tie-to-even")
_TIES_AWAY: Final = ("ties-away-from-zero", "tie-away-from-zero")


@without("dtype", "span")
def round(x: Any, rounding_mode: str = "ties-to-even") -> Any:
    """The nearest integer; ties to even, or away from zero for ``ties-away-from-zero``. E248 for another mode."""
    if rounding_mode in _TIES_TO_EVEN:
        return call("round", x)
    if rounding_mode not in _TIES_AWAY:
        raise catalogue.E248.error(here(), reason=f"Invalid rounding mode {rounding_mode!r} of T.round")
    if is_vector(x):
        return lane_by_lane(lambda lane: round(lane, rounding_mode), x)
    value = arithmetic.as_expr(x, here())
    narrow = value.dtype if value.dtype.is_float else arithmetic.FLOAT32
    wide = arithmetic.FLOAT32 if narrow.bits < 32 else narrow  # a half more than a narrow float may not be one
    exact: Expr = arithmetic.cast(value, wide, here())
    magnitude = call("abs", Scalar(exact))
    whole = call("floor", magnitude)
    up = Scalar(arithmetic.select(magnitude - whole >= 0.5, whole + 1, whole, here()))
    return Scalar(arithmetic.cast(call("copysign", up, Scalar(exact)).expr, narrow, here()))


@without("dtype", "span")
def nearbyint(x: Any) -> Any:
    """The nearest integer, ties to even."""
    return call("round", x)


@without("dtype", "span")
def likely(cond: Any) -> Any:
    """The condition itself: a hint that it mostly holds. E202, E104: no condition."""
    if not is_vector(cond):
        arithmetic.truth(cond, here())
    return cond
