"""Words and number types of the C family, which printers, functions and spellings share.

In: dtypes. Out: the names of the types that hold their values. Narrow floats (16 bits and fewer) are carried as their bits in unsigned
integers.
"""

from __future__ import annotations

from typing import Final

from zellige.dtypes import DType

C_INTEGERS: Final = {
    8: ("signed char", "unsigned char"),
    16: ("short", "unsigned short"),
    32: ("int", "unsigned int"),
    64: ("long long", "unsigned long long"),
}
"""C names of (signed, unsigned) integers by width in bits."""

_WORDS = (
    "auto bool break case catch char class const continue default delete do double else enum explicit extern false float for goto if "
    "inline int long new operator private protected public register return short signed sizeof static struct switch template this throw "
    "true try typedef typename union unsigned using virtual void volatile while main asm and or not xor near far min max"
)

RESERVED: Final = frozenset(_WORDS.split())
"""Words of the languages that no variable may be called."""


def is_narrow(t: DType) -> bool:
    """Whether values of a float dtype are carried as their bits."""
    return t.is_float and t.bits <= 16


def type_of(t: DType) -> str:
    """The type that holds a value, an element or a wide access (``wide<bytes>``)."""
    if t.lanes > 1:
        return f"wide{t.lanes * max(1, t.scalar.bytes)}"
    if t.is_bool:
        return "bool"
    if t.name in ("float32", "tfloat32"):
        return "float"
    if t.name == "float64":
        return "double"
    width = max(8, 1 << (t.bits - 1).bit_length())
    return C_INTEGERS[width][0 if t.is_integer and t.is_signed else 1]
