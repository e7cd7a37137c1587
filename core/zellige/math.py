"""Arithmetic of sizes on the host, as kernel authors use it to choose tiles. In and out: Python integers."""

from __future__ import annotations

import operator
from typing import Any

from zellige.diagnostics import catalogue


def cdiv(a: int, b: int) -> int:
    """``a / b`` rounded up, for every sign; ZeroDivisionError for ``b`` of 0. E205: no integers."""
    quotient: int = -(-_whole(a) // _whole(b))
    return quotient


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least ``n``; 1 for ``n`` below 1. E205: no integer; E105: a size known only at run time."""
    number = _whole(n)
    if not isinstance(number, int):
        raise catalogue.E105.error(given=f"{number.described}, whose next power of two is asked for,")
    return 1 << max(number - 1, 0).bit_length()


def _whole(value: Any) -> Any:
    """A Python int. A size that is known only at run time stays what it is, for Python's operators. E205: no integer."""
    constant = getattr(value, "constant", value)
    if constant is None and value is not None:
        return value
    try:
        return operator.index(constant)
    except TypeError:
        raise catalogue.E205.error(given=f"{type(value).__name__} {value!r}") from None
