"""Arithmetic of sizes on the host, as kernel authors use it to choose tiles. In and out: Python integers."""

from __future__ import annotations


def cdiv(a: int, b: int) -> int:
    """``a / b`` rounded up, for every sign; ZeroDivisionError for ``b`` of 0."""
    return -(-a // b)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least ``n``; 1 for ``n`` below 1."""
    return 1 << max(n - 1, 0).bit_length()
