"""The facts of sums, products and reductions: operations whose order the tile IR leaves open.

In: the facts of the operands and how many of them meet. Out: the fact of the result. Exact where every partial result is a multiple of one
power of two that the accumulator's type holds; else the error of the worst order (Higham, section 3.1), counted for both backends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zellige.dtypes import DType
from zellige.generate.expression_facts import abs_max, conversion_fact
from zellige.generate.facts import (
    ANY,
    DOWN,
    NAN,
    UP,
    Fact,
    Unbounded,
    full_range,
    gamma,
    holds_exactly,
    interval,
    joined,
    least_exponent,
    mixed,
    rounded,
)
from zellige.interp.tile_operations import accumulator_dtype
from zellige.ir.reductions import identity, reduction_dtype

_LOGICAL: Final = frozenset(("any", "all"))
_BITWISE: Final = frozenset(("bitand", "bitor", "bitxor", "and", "or", "xor"))
_ORDERED: Final = frozenset(("max", "min", "absmax"))


def sum_fact(term: Fact, count: int, dtype: DType) -> Fact:
    """The sum of at most ``count`` values of ``term`` in any order, accumulated in ``dtype``."""
    low, high = min(0.0, count * term.low), max(0.0, count * term.high)
    size = count * (abs_max(term) + term.error)
    moved = count * term.error
    if holds_exactly(dtype, size, term.quantum):
        return Fact(low=low, high=high, quantum=term.quantum, error=moved, special=mixed(term), is_zero_open=True)
    if size > float(dtype.max) / 2:
        raise Unbounded(f"a sum near the largest of {dtype}")
    slack = gamma(count, dtype) * size
    return Fact(
        low=low - slack,
        high=high + slack,
        quantum=least_exponent(dtype),
        error=moved + 2 * slack,
        special=mixed(term),
        is_zero_open=True,
    )


def product_fact(factor: Fact, count: int, dtype: DType) -> Fact:
    """The product of at most ``count`` values of ``factor`` in any order, in ``dtype``."""
    base = max(abs_max(factor) + factor.error, 1.0)
    size = base**count if count < 4000 and base < 1e4 and count * (base - 1) < 600 else float("inf")
    quantum = min(0, factor.quantum) * count
    is_exact = holds_exactly(dtype, size, quantum)
    if not is_exact and (size > float(dtype.max) / 2 or factor.is_special):
        raise Unbounded(f"a product near the largest of {dtype}, or of infinities")
    slack = 0.0 if is_exact else 2 * (gamma(count, dtype) * size + count * 2.0 ** least_exponent(dtype) * size)
    moved = count * factor.error * size
    low = 0.0 if factor.low >= 0 else -size
    if factor.is_special and not factor.is_exact:
        raise Unbounded("a product of infinities and values that differ between backends")
    return Fact(low=low - slack, high=size + slack, quantum=quantum, error=slack + moved, special=mixed(factor), is_zero_open=True)


def reduction_fact(op: str, source: Fact, source_dtype: DType, old: Fact | None, target_dtype: DType, count: int) -> Fact:
    """The fact of a Reduce or Scan of ``count`` elements; ``old`` is what the target holds where it takes part."""
    dtype = reduction_dtype(source_dtype, target_dtype)
    if op in _LOGICAL:
        if not source.is_exact or (old is not None and not old.is_exact):
            raise Unbounded("the truth of values that differ between backends")
        return Fact(low=0, high=1)
    value = conversion_fact(source, source_dtype, dtype)
    parts = [value] if old is None else [value, conversion_fact(old, target_dtype, dtype)]
    if op in ("absmax", "abssum"):
        parts[0] = magnitude_fact(value, dtype)
    if op in _ORDERED:
        result = replace(joined(parts), is_zero_open=True)
        if count == 0 or (dtype.is_float and result.is_special):  # a maximum of NaN alone, or of nothing
            result = joined([result, _identity_fact(op, dtype)])
    elif op in _BITWISE:
        result = full_range(dtype)
    elif not dtype.is_float:
        result = _integer_total(op, parts, count, dtype)
    elif op == "prod":
        result = product_fact(joined([*parts, Fact(low=1, high=1)]), count + len(parts) - 1, dtype)
    else:
        result = sum_fact(joined([*parts, Fact(low=0, high=0, quantum=parts[0].quantum)]), count + len(parts) - 1, dtype)
    return conversion_fact(result, dtype, target_dtype)


def _identity_fact(op: str, dtype: DType) -> Fact:
    value = identity(op, dtype)
    if dtype.is_float and abs(float(value)) == float("inf"):
        return Fact(low=0.0, high=0.0, special=UP | DOWN)
    return Fact(low=value, high=value, quantum=-2000)


def magnitude_fact(x: Fact, dtype: DType) -> Fact:
    """The absolute value."""
    size = abs_max(x)
    if not dtype.is_float:
        return interval(dtype, 0, int(size))
    return replace(x, low=0.0, high=size, special=(x.special & NAN) | (UP if x.special & (UP | DOWN) else 0))


def _integer_total(op: str, parts: list[Fact], count: int, dtype: DType) -> Fact:
    if op == "prod":
        return full_range(dtype)
    total = count + len(parts) - 1
    value = joined(parts)
    return interval(dtype, min(0, total * int(value.low)), max(0, total * int(value.high)))


def gemm_fact(a: Fact, b: Fact, old: Fact | None, dtypes: tuple[DType, DType, DType], depth: int) -> Fact:
    """``op(a) @ op(b)`` with ``depth`` products an element, added to ``old`` unless that is None."""
    c = dtypes[2]
    if c.is_integer:
        largest = depth * int(abs_max(a)) * int(abs_max(b)) + (0 if old is None else int(abs_max(old)))
        return interval(c, -largest, largest)
    dtype = accumulator_dtype(*dtypes)
    parts = [conversion_fact(x, t, dtype) for x, t in zip((a, b), dtypes)]
    x, y = parts
    is_special = x.is_special or y.is_special or (old is not None and old.is_special)
    error = abs_max(x) * y.error + abs_max(y) * x.error + x.error * y.error
    if is_special and (error or (old is not None and old.error)):
        raise Unbounded("a product of infinities and values that differ between backends")
    term_size, quantum = (abs_max(x) + x.error) * (abs_max(y) + y.error), x.quantum + y.quantum
    size, error = depth * term_size, depth * error
    if old is not None:
        before = conversion_fact(old, c, dtype)
        size, error, quantum = size + abs_max(before) + before.error, error + before.error, min(quantum, before.quantum)
    slack = 0.0
    if not holds_exactly(dtype, size, quantum):
        if size > float(dtype.max) / 2:
            raise Unbounded(f"a product near the largest of {dtype}")
        slack = gamma(depth + 2, dtype) * size + (depth + 2) * 2.0 ** least_exponent(dtype)
        quantum = least_exponent(dtype)
    result = Fact(
        low=-size - slack, high=size + slack, quantum=quantum, error=error + 2 * slack, special=ANY * is_special, is_zero_open=True
    )
    return conversion_fact(result, dtype, c)


def update_fact(op: str, old: Fact, value: Fact, dtype: DType, count: int) -> Fact:
    """What an element holds after at most ``count`` atomic or reducer updates by ``value``, in any order, each rounded or not."""
    match op:
        case "add" | "sub" | "sum" | "abssum":
            value = magnitude_fact(value, dtype) if op == "abssum" else value
            if op == "sub":
                value = replace(value, low=-value.high, high=-value.low)
            if dtype.is_float:
                start = joined([value, Fact(low=0, high=0, quantum=value.quantum)])
                return _summed(old, start, count, dtype)
            low, high = old.low + min(0, count * value.low), old.high + max(0, count * value.high)
            return interval(dtype, int(low), int(high))
        case "max" | "min" | "absmax":
            value = magnitude_fact(value, dtype) if op == "absmax" else value
            return replace(joined([old, value]), is_zero_open=True)
        case "any" | "all":
            if not value.is_exact or not old.is_exact:
                raise Unbounded("the truth of values that differ between backends")
            return joined([old, Fact(low=0, high=1)])
        case "exchange" | "store" | "load":
            return joined([old, value])
        case "prod" if dtype.is_float:
            return product_fact(joined([old, value, Fact(low=1, high=1)]), count + 1, dtype)
        case _:
            return full_range(dtype)


def _summed(old: Fact, value: Fact, count: int, dtype: DType) -> Fact:
    total = sum_fact(value, count, dtype)
    size = abs_max(old) + old.error + count * (abs_max(value) + value.error)
    quantum = min(old.quantum, value.quantum)
    low, high, error = old.low + total.low, old.high + total.high, old.error + total.error
    fact = Fact(low=low, high=high, quantum=quantum, error=error, special=mixed(old, value), is_zero_open=True)
    if holds_exactly(dtype, size, quantum):
        return fact
    if size > float(dtype.max) / 2:
        raise Unbounded(f"a sum near the largest of {dtype}")
    return rounded(replace(fact, error=error + 2 * gamma(count + 1, dtype) * size), dtype)
