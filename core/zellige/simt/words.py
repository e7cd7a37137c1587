"""Words and number types of the C family, which printers, functions and spellings share.

In: dtypes. Out: the names of the types that hold their values. Narrow floats (16 bits and fewer) are carried as their bits in unsigned
integers.
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from typing import Final

from zellige.dtypes import DType

C_INTEGERS: Final = {
    8: ("signed char", "unsigned char"),
    16: ("short", "unsigned short"),
    32: ("int", "unsigned int"),
    64: ("long long", "unsigned long long"),
}
"""C names of (signed, unsigned) integers by width in bits."""

_DECLARED: Final = re.compile(r"#\s*define\s+(\w+)|\btypedef\b[^;]*?(\w+);|\bstruct\s+(?:\w+\([^)]*\)\s+)?(\w+)")

_WORDS = (
    # C++ up to C++23 with its other spellings of operators
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class co_await "
    "co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do "
    "double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace "
    "new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict "
    "return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try "
    "typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq "
    # macros that compilers of the family define without a header, and what their programs are linked with
    "CHAR_BIT DBL_MAX DBL_MIN EOF FLT_MAX FLT_MIN INFINITY INT_MAX INT_MIN LLONG_MAX LLONG_MIN LONG_MAX LONG_MIN NAN NDEBUG "
    "NULL SHRT_MAX SHRT_MIN UCHAR_MAX UINT_MAX ULLONG_MAX ULONG_MAX USHRT_MAX assert defined errno linux main near far min "
    "max offsetof stderr stdin stdout unix va_arg va_copy va_end va_start "
)

RESERVED: Final = frozenset(_WORDS.split())
"""Words of the languages that no variable may be called; :func:`is_reserved` knows the others."""


def is_reserved(name: str) -> bool:
    """Whether the languages keep a name for themselves: a word of theirs, or one that begins as those that compilers add."""
    return name in RESERVED or name.startswith("__") or (name[:1] == "_" and name[1:2].isupper())


def is_among(name: str, names: frozenset[str]) -> bool:
    """Whether a name is one of ``names``, of which those with a ``*`` are patterns of a shell (``acme[A-Z]*``)."""
    found = _patterns(names)
    return name in names or (found is not None and found.match(name) is not None)


@lru_cache(16)
def _patterns(names: frozenset[str]) -> re.Pattern[str] | None:
    patterns = [translate(name) for name in sorted(names) if "*" in name]
    return re.compile("|".join(patterns)) if patterns else None


def declared_in(text: str) -> frozenset[str]:
    """The macros and types that a stretch of C declares."""
    return frozenset(filter(None, (word for found in _DECLARED.findall(text) for word in found)))


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
