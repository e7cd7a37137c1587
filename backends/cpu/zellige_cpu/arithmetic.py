"""Unary, binary and comparison operators on registers, each as :class:`zellige.ir.expr.Binary` and its siblings define it.

In: registers of one dtype (:mod:`zellige_cpu.types` says how each is held), scalars or vectors. Out: a register of the result's dtype.
Floats below 32 bits and tfloat32 compute in float32 and round once an operation; integers wrap; nothing traps.
"""

from __future__ import annotations

from zellige.diagnostics import InternalError
from zellige.dtypes import DType
from zellige.ir.expr import BinaryOp, CompareOp, UnaryOp
from zellige_cpu.leaf import convert
from zellige_cpu.text import Function
from zellige_cpu.types import ELEMENT_BITS, compute_dtype, register_type
from zellige_cpu.values import Value, constant

FAST_FLAGS = "reassoc nsz arcp contract afn"
"""LLVM's permissions where the user asked for fast arithmetic; NaN and infinity keep their meaning."""


def number(dtype: DType, value: bool | int | float, lanes: int = 1) -> Value:
    """A constant of ``dtype`` as a register."""
    return convert.constant_of(dtype, value, lanes)


def wide(fn: Function, value: Value, dtype: DType) -> Value:
    """A float in the type that its arithmetic is done in."""
    return convert.cast(fn, value, dtype, compute_dtype(dtype))


def narrow(fn: Function, value: Value, dtype: DType) -> Value:
    """The result of arithmetic, rounded to ``dtype``."""
    return convert.cast(fn, value, compute_dtype(dtype), dtype)


def normalised(fn: Function, value: Value, dtype: DType) -> Value:
    """An integer result brought back into the range of a dtype that is narrower than its register."""
    if dtype.bits != 4:
        return value
    if dtype.kind == "int":
        four = constant("i8", 4, value.lanes)
        return fn.binary("ashr", fn.binary("shl", value, four), four)
    return fn.binary("and", value, constant("i8", 15, value.lanes))


def unary(fn: Function, op: UnaryOp, value: Value, dtype: DType) -> Value:
    """Emits not, invert or neg of a value of ``dtype``."""
    match op:
        case "not":
            return fn.binary("xor", value, constant("i1", True, value.lanes))
        case "invert":
            return normalised(fn, fn.binary("xor", value, constant(value.element, -1, value.lanes)), dtype)
        case "neg":
            if dtype.is_float:
                return narrow(fn, fn.negate(wide(fn, value, dtype)), dtype)
            return normalised(fn, fn.binary("sub", constant(value.element, 0, value.lanes), value), dtype)
        case _:
            raise InternalError(f"the operator {op} reached the emitter")


def binary(fn: Function, op: BinaryOp, left: Value, right: Value, dtype: DType, *, divisor: int | None = None, flags: str = "") -> Value:
    """``left op right``; ``divisor`` is the right side's value where it is a constant integer, ``flags`` LLVM's for floats."""
    left, right = fn.match(left, right)
    if op == "and" or op == "or":
        return fn.binary(op, left, right)
    if dtype.is_float:
        return narrow(fn, _float(fn, op, wide(fn, left, dtype), wide(fn, right, dtype), flags), dtype)
    if dtype.is_bool:
        return _boolean(fn, op, left, right)
    return normalised(fn, _integer(fn, op, left, right, dtype, divisor), dtype)


_FLOAT_WORDS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "truediv": "fdiv"}
_FLOAT_INTRINSICS = {"min": "llvm.minnum", "max": "llvm.maxnum", "min_nan": "llvm.minimum", "max_nan": "llvm.maximum"}


def _float(fn: Function, op: str, left: Value, right: Value, flags: str) -> Value:
    if op in _FLOAT_WORDS:
        return fn.binary(f"{_FLOAT_WORDS[op]} {flags}".rstrip(), left, right)
    if op in _FLOAT_INTRINSICS:
        return fn.intrinsic(_FLOAT_INTRINSICS[op], left, right)
    if op == "truncdiv":
        return fn.intrinsic("llvm.trunc", fn.binary("fdiv", left, right))
    if op in ("floordiv", "floormod", "truncmod"):
        remainder = fn.binary("frem", left, right)
        return remainder if op == "truncmod" else _floor_float(fn, op, left, right, remainder)
    raise InternalError(f"the operation {op} of floats reached the emitter")


def _floor_float(fn: Function, op: str, left: Value, right: Value, remainder: Value) -> Value:
    """``np.floor_divide`` and ``np.remainder``, given C's remainder of the two."""
    zero = constant(left.element, 0.0, left.lanes)
    one = constant(left.element, 1.0, left.lanes)
    has_remainder = fn.compare("une", remainder, zero)
    differs = fn.binary("xor", fn.compare("olt", right, zero), fn.compare("olt", remainder, zero))
    adjust = fn.binary("and", has_remainder, differs)
    if op == "floormod":
        shifted = fn.select(adjust, fn.binary("fadd", remainder, right), remainder)
        return fn.select(has_remainder, shifted, fn.intrinsic("llvm.copysign", zero, right))
    plain = fn.binary("fdiv", left, right)
    quotient = fn.binary("fdiv", fn.binary("fsub", left, remainder), right)
    quotient = fn.select(adjust, fn.binary("fsub", quotient, one), quotient)
    floor = fn.intrinsic("llvm.floor", quotient)
    is_low = fn.compare("ogt", fn.binary("fsub", quotient, floor), constant(left.element, 0.5, left.lanes))
    floor = fn.select(is_low, fn.binary("fadd", floor, one), floor)
    result = fn.select(fn.compare("une", quotient, zero), floor, fn.intrinsic("llvm.copysign", zero, plain))
    return fn.select(fn.compare("oeq", right, zero), plain, result)


_BOOLEAN_WORDS = {
    "bitand": "and", "mul": "and", "min": "and", "min_nan": "and",
    "bitor": "or", "add": "or", "max": "or", "max_nan": "or", "bitxor": "xor",
}  # fmt: skip


def _boolean(fn: Function, op: str, left: Value, right: Value) -> Value:
    if op not in _BOOLEAN_WORDS:
        raise InternalError(f"the operation {op} of bool reached the emitter")
    return fn.binary(_BOOLEAN_WORDS[op], left, right)


_INTEGER_WORDS = {"add": "add", "sub": "sub", "mul": "mul", "bitand": "and", "bitor": "or", "bitxor": "xor"}


def _integer(fn: Function, op: str, left: Value, right: Value, dtype: DType, divisor: int | None) -> Value:
    if op in _INTEGER_WORDS:
        return fn.binary(_INTEGER_WORDS[op], left, right)
    if op in ("min", "max", "min_nan", "max_nan"):
        return fn.intrinsic(f"llvm.{'s' if dtype.is_signed else 'u'}{op[:3]}", left, right)
    if op in ("shl", "shr"):
        return _shift(fn, op, left, right, dtype)
    if op in ("floordiv", "floormod", "truncdiv", "truncmod"):
        if dtype.is_signed:
            return divide_signed(fn, op, left, right, divisor, lowest=int(dtype.min))
        return _divide_unsigned(fn, op, left, right, divisor)
    raise InternalError(f"the operation {op} of {dtype} reached the emitter")


def _shift(fn: Function, op: str, left: Value, right: Value, dtype: DType) -> Value:
    element, lanes = left.element, left.lanes
    is_inside = fn.compare("ult", right, constant(element, dtype.bits, lanes))
    if op == "shr" and dtype.is_signed:
        return fn.binary("ashr", left, fn.select(is_inside, right, constant(element, dtype.bits - 1, lanes)))
    count = fn.select(is_inside, right, constant(element, 0, lanes))
    shifted = fn.binary("shl" if op == "shl" else "lshr", left, count)
    return fn.select(is_inside, shifted, constant(element, 0, lanes))


def _divide_unsigned(fn: Function, op: str, left: Value, right: Value, divisor: int | None) -> Value:
    word = "udiv" if op.endswith("div") else "urem"
    if divisor:
        return fn.binary(word, left, right)
    zero, one = constant(left.element, 0, left.lanes), constant(left.element, 1, left.lanes)
    is_zero = fn.compare("eq", right, zero)
    return fn.select(is_zero, zero, fn.binary(word, left, fn.select(is_zero, one, right)))


def divide_signed(fn: Function, op: str, left: Value, right: Value, divisor: int | None, *, lowest: int | None = None) -> Value:
    """Quotient or remainder; 0 where the divisor is 0 or the quotient overflows.

    ``divisor`` is the right side's value where it is a constant, ``lowest`` the dtype's smallest value.
    """
    element, lanes = left.element, left.lanes
    zero, one = constant(element, 0, lanes), constant(element, 1, lanes)
    if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0 and op.startswith("floor"):
        if op == "floordiv":
            return fn.binary("ashr", left, constant(element, divisor.bit_length() - 1, lanes))
        return fn.binary("and", left, constant(element, divisor - 1, lanes))
    is_undefined: Value | None = None
    if divisor is None or divisor == 0:
        is_undefined = fn.compare("eq", right, zero)
    if divisor is None or divisor == -1:
        least = constant(element, -(1 << (ELEMENT_BITS[element] - 1)) if lowest is None else lowest, lanes)
        overflow = fn.binary("and", fn.compare("eq", left, least), fn.compare("eq", right, constant(element, -1, lanes)))
        is_undefined = overflow if is_undefined is None else fn.binary("or", is_undefined, overflow)
    safe = right if is_undefined is None else fn.select(is_undefined, one, right)
    result = _divide_safe(fn, op, left, safe)
    return result if is_undefined is None else fn.select(is_undefined, zero, result)


def _divide_safe(fn: Function, op: str, left: Value, right: Value) -> Value:
    if op.startswith("trunc"):
        return fn.binary("sdiv" if op == "truncdiv" else "srem", left, right)
    zero = constant(left.element, 0, left.lanes)
    quotient = fn.binary("sdiv", left, right)
    remainder = fn.binary("sub", left, fn.binary("mul", quotient, right))
    differs = fn.compare("slt", fn.binary("xor", remainder, right), zero)
    adjust = fn.binary("and", differs, fn.compare("ne", remainder, zero))
    if op == "floordiv":
        return fn.binary("add", quotient, fn.convert("sext", adjust, left.element))
    return fn.select(adjust, fn.binary("add", remainder, right), remainder)


_ORDERED = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}


def compare(fn: Function, op: CompareOp, left: Value, right: Value, dtype: DType) -> Value:
    """``left op right`` of two operands of ``dtype``, as i1 lanes."""
    left, right = fn.match(left, right)
    if dtype.is_float:
        return fn.compare(_ORDERED[op], wide(fn, left, dtype), wide(fn, right, dtype))
    if op in ("eq", "ne"):
        return fn.compare(op, left, right)
    return fn.compare(("s" if dtype.kind == "int" else "u") + op, left, right)


def reinterpret(fn: Function, value: Value, source: DType, target: DType) -> Value:
    """The same bits as another dtype of the same width."""
    if source.is_bool:
        value = fn.convert("zext", value, "i8")
    if target.is_bool:
        return fn.compare("ne", value, constant("i8", 0, value.lanes)) if value.element == "i8" else value
    bits = fn.bitcast(value, register_type(target))
    return normalised(fn, bits, target) if target.is_integer or source.is_integer else bits


def absolute(fn: Function, value: Value, dtype: DType) -> Value:
    """The magnitude; an integer's minimum stays as it is."""
    if dtype.is_float:
        return narrow(fn, fn.intrinsic("llvm.fabs", wide(fn, value, dtype)), dtype)
    if not dtype.is_signed:
        return value
    return normalised(fn, fn.intrinsic("llvm.abs", value, constant("i1", False)), dtype)

