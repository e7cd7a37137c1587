"""``tvm.tirx``: the names of the language as programs take them from the compiler below TileLang, and constants of a given type.

In: a name of :mod:`zellige.language`. Out: that name's object; ``const`` is the typed constant, not the sizes of ``T.const``.
"""

from __future__ import annotations

from typing import Any

from zellige import language
from zellige.language.dtypes import type_name


def const(value: bool | int | float, dtype: Any = "int32") -> Any:
    """A number of an element type. E254: it does not fit."""
    return type_name(dtype)(value)


def __getattr__(name: str) -> Any:
    return getattr(language, name)
