"""The functions of :data:`zellige.ir.functions.FUNCTIONS`, for every dtype they take and any number of lanes.

In: registers of one dtype. Out: a register of the function's result dtype. Floats below 32 bits are computed in float32 and rounded once.
In float32 the frequent functions are vector code (:mod:`zellige_cpu.leaf.elementary`, :mod:`zellige_cpu.leaf.trigonometric`); the
others, and those of float64 that are not an instruction, call the C library for each lane. ``precision`` "ieee" and "fast" give the
same as "default": the operations that IEEE 754 rounds correctly (fma, division, square root, rounding to an integer) are so always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from zellige.diagnostics import InternalError
from zellige.dtypes import DType
from zellige.ir.expr import Precision
from zellige.ir.functions import FUNCTIONS
from zellige_cpu.leaf import elementary
from zellige_cpu.leaf.convert import cast
from zellige_cpu.leaf.formats import float_format
from zellige_cpu.leaf.lane import Lane
from zellige_cpu.leaf.library import call_each
from zellige_cpu.leaf.trigonometric import sine
from zellige_cpu.text import Function
from zellige_cpu.types import compute_dtype
from zellige_cpu.values import FALSE, Value, constant

_INFINITY: Final = float("inf")
_SCALE: Final = "float8_e8m0fnu"  # a power of two without sign


def call(fn: Function, name: str, args: Sequence[Value], dtype: DType, precision: Precision = "default") -> Value:
    """``name(*args)`` for operands of ``dtype``; the result has :meth:`zellige.ir.functions.Function.result_dtype`."""
    spec = FUNCTIONS.get(name)
    if spec is None or len(args) != spec.arity:
        raise InternalError(f"no math function {name} of {len(args)} operands")
    lanes = [Lane(fn, a) for a in args]
    if name == "abs":
        return _absolute(lanes[0], dtype).value
    if spec.operands == "integer" and dtype.is_integer:
        return _INTEGER[name](lanes, dtype).value
    if spec.operands == "integer" or not dtype.is_float:
        raise InternalError(f"{name} does not take {dtype}")
    if name == "nextafter":
        return _next_after(lanes[0], lanes[1], dtype).value
    if name == "copysign" and dtype.bits <= 16 and not dtype.is_unsigned_zero and dtype.name != _SCALE:
        sign = float_format(dtype).sign_mask
        return ((lanes[0] & ~sign) | (lanes[1] & sign)).value
    compute = compute_dtype(dtype)
    wide = [Lane(fn, cast(fn, a, dtype, compute)) for a in args]
    result = _float(wide, name)
    if spec.result == "bool":
        return result.value
    return cast(fn, result.value, compute, dtype)


def is_formula(name: str, dtype: DType) -> bool:
    """Whether the function is straight-line code in registers, rather than a call or a loop."""
    if not dtype.is_float:
        return name == "abs"
    if name in _DIRECT or name in ("abs", "nextafter", "ldexp"):
        return True
    return dtype.bits <= 32 and name in _VECTOR_FLOAT and name not in _CALLED


# -- floats ----------------------------------------------------------------------------------------------------------------


def _float(args: list[Lane], name: str) -> Lane:
    """A function of float32 or float64 lanes: in place where it is an instruction or two, else by a function made once a module."""
    if name in _DIRECT:
        return _DIRECT[name](*args)
    fn, first = args[0].fn, args[0].value
    if name == "ldexp":
        formula: Callable[..., Lane] | None = _ldexp
    else:
        formula = (_VECTOR_FLOAT if first.element == "float" else _VECTOR_DOUBLE).get(name)
    if formula is None:
        return Lane(fn, call_each(fn, name, [a.value for a in args]))
    leaf_name = f"math_{name}_{first.element}_x{first.lanes}"
    if not fn.module.has_function(leaf_name):
        # formulas with a branch or a call are long: LLVM compiles them once, the others go where they are used
        inline = None if name in _CALLED else True
        leaf = fn.module.function(leaf_name, first.type, [(f"x{i}", a.value.type) for i, a in enumerate(args)], inline=inline)
        leaf.ret(formula(*[Lane(leaf, p) for p in leaf.params]).value)
    return Lane(fn, fn.call(leaf_name, *[a.value for a in args]))


def _sigmoid_double(x: Lane) -> Lane:
    small = Lane(x.fn, call_each(x.fn, "exp", [(-x.magnitude).value]))
    return (x < 0.0).select(small, 1.0) / (small + 1.0)


def _exp10_double(x: Lane) -> Lane:
    return Lane(x.fn, call_each(x.fn, "pow", [x.const(10.0).value, x.value]))


def _ldexp(x: Lane, y: Lane) -> Lane:
    """``x * 2**int(y)`` rounded once. A power beyond the type's range is taken in up to three steps.

    Upward no step rounds. Downward a first step is taken only where the rest is below 2**(1 - bias), and it leaves room for
    all digits: if it meets a subnormal number all the same, the result is zero.
    """
    kind, bias, digits = ("i32", 127, 23) if x.value.element == "float" else ("i64", 1023, 52)
    limit = 4.0 * bias
    bounded = (y > limit).select(limit, (y < -limit).select(-limit, y))
    left = y.is_nan.select(0.0, bounded).convert("fptosi", kind)
    result = x
    for _ in range(2):
        part = (left < 1 - bias).select(2 + digits - bias, (left > bias).select(left.const(bias), 0))
        result = result * ((part + bias) << digits).to_float()
        left = left - part
    left = left.call("llvm.smax", 1 - bias).call("llvm.smin", bias)
    return result * ((left + bias) << digits).to_float()


_CALLED: Final = ("sin", "cos", "pow")
_DIRECT: Final[dict[str, Callable[..., Lane]]] = {
    "sqrt": lambda x: x.call("llvm.sqrt"),
    "rsqrt": lambda x: 1.0 / x.call("llvm.sqrt"),
    "rcp": lambda x: 1.0 / x,
    "floor": lambda x: x.call("llvm.floor"),
    "ceil": lambda x: x.call("llvm.ceil"),
    "trunc": lambda x: x.call("llvm.trunc"),
    "round": lambda x: x.call("llvm.roundeven"),
    "isnan": lambda x: x.is_nan,
    "isinf": lambda x: x.magnitude.equals(_INFINITY),
    "isfinite": lambda x: x.magnitude < _INFINITY,
    "copysign": lambda x, y: x.call("llvm.copysign", y),
    "fma": lambda x, y, z: x.fma(y, z),
}

_VECTOR_FLOAT: Final[dict[str, Callable[..., Lane]]] = {
    "exp": elementary.exp,
    "exp2": elementary.exp2,
    "exp10": elementary.exp10,
    "expm1": elementary.expm1,
    "log": elementary.log,
    "log2": elementary.log2,
    "log10": elementary.log10,
    "log1p": elementary.log1p,
    "tanh": elementary.tanh,
    "sigmoid": elementary.sigmoid,
    "erf": elementary.erf,
    "pow": elementary.power,
    "sin": lambda x: sine(x, "sin"),
    "cos": lambda x: sine(x, "cos"),
}

_VECTOR_DOUBLE: Final[dict[str, Callable[..., Lane]]] = {"sigmoid": _sigmoid_double, "exp10": _exp10_double}


def _next_after(x: Lane, y: Lane, dtype: DType) -> Lane:
    """The neighbour of x in its own type, toward y."""
    fn = x.fn
    kind = f"i{x.bits}"
    code = x.to_bits() if x.is_float else x
    target = y.to_bits() if x.is_float else y
    compute = compute_dtype(dtype)
    a, b = (Lane(fn, cast(fn, v.value, dtype, compute)) for v in (x, y))
    unit = 1 << 13 if dtype.name == "tfloat32" else 1
    sign_bit = 0 if dtype.name == _SCALE else 1 << (dtype.bits - 1)
    grows = (a < b) ^ (a < 0.0)
    moved = code + grows.select(code.const(unit), -unit)
    if dtype.is_unsigned_zero:  # between the smallest negative number and zero lies no negative zero, whose code is NaN
        moved = moved.equals(sign_bit).select(0, moved)
    least = (b < 0.0).select(code.const(sign_bit | unit), unit)
    moved = a.equals(0.0).select(least, moved)
    moved = a.equals(b).select(target, moved)
    moved = b.is_nan.select(target, moved)
    moved = a.is_nan.select(code, moved)
    return Lane(fn, fn.bitcast(moved.value, x.value.element)) if kind != x.value.element else moved


# -- integers --------------------------------------------------------------------------------------------------------------


def _absolute(x: Lane, dtype: DType) -> Lane:
    if dtype.kind == "int":
        result = Lane(x.fn, x.fn.intrinsic("llvm.abs", x.value, FALSE))
        return (result << 4).shift_right_signed(4) if dtype.bits == 4 else result
    if not dtype.is_float or dtype.name == _SCALE:
        return x  # no negative values
    if dtype.bits >= 32:
        return x.magnitude
    form = float_format(dtype)
    size = x & form.magnitude_mask
    return x.equals(form.sign_mask).select(x, size) if form.is_unsigned_zero else size


def _digits(x: Lane, dtype: DType) -> Lane:
    """The bits of a 4-bit integer without its extension; any other integer itself."""
    return x & 15 if dtype.bits == 4 else x


def _popcount(args: list[Lane], dtype: DType) -> Lane:
    return _digits(args[0], dtype).call("llvm.ctpop").resize("i32")


def _leading_zeros(args: list[Lane], dtype: DType) -> Lane:
    x = _digits(args[0], dtype)
    count = Lane(x.fn, x.fn.intrinsic("llvm.ctlz", x.value, FALSE)).resize("i32")
    return count - 4 if dtype.bits == 4 else count


def _integer_power(args: list[Lane], dtype: DType) -> Lane:
    base, exponent = args
    fn, lanes = base.fn, base.value.lanes
    name = f"powi_{dtype.name}_x{lanes}"
    if not fn.module.has_function(name):
        leaf = fn.module.function(name, base.value.type, [("x", base.value.type), ("y", exponent.value.type)], inline=False)
        leaf.ret(_power_loop(Lane(leaf, leaf.params[0]), Lane(leaf, leaf.params[1]), dtype).value)
    return Lane(fn, fn.call(name, base.value, exponent.value))


def _power_loop(x: Lane, y: Lane, dtype: DType) -> Lane:
    """By repeated squaring, in as many rounds as an exponent has bits; wrapping."""
    fn = x.fn
    with fn.loop(constant("i32", 0), constant("i32", dtype.bits)) as loop:
        result, square, rest = (Lane(fn, loop.carry(v.value)) for v in (x.const(1), x, y))
        loop.update(result.value, (rest & 1).differs(0).select(result * square, result).value)
        loop.update(square.value, (square * square).value)
        loop.update(rest.value, (rest >> 1).value)
    power = Lane(fn, loop.final(result.value))
    if dtype.bits == 4:
        power = (power << 4).shift_right_signed(4) if dtype.is_signed else power & 15
    if not dtype.is_signed:
        return power
    odd = (y & 1).differs(0)
    inverse = x.equals(1).select(x, x.equals(-1).select(odd.select(x, 1), 0))
    return (y < 0).select(inverse, power)


_INTEGER: Final[dict[str, Callable[[list[Lane], DType], Lane]]] = {
    "powi": _integer_power,
    "popcount": _popcount,
    "clz": _leading_zeros,
}
