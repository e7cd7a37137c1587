"""``tvm.tirx``: the names of the language as programs take them from the compiler below TileLang, constants of a given type, and variables.

In: a name of :mod:`zellige.language`. Out: that name's object; ``const`` is the typed constant, not the sizes of ``T.const``; ``Var`` is a
variable of no kernel, for expressions that are only looked at; what it is used in is a ``Call`` or ``PrimExpr``, as every run-time value.
"""

from __future__ import annotations

from typing import Any

from zellige import language
from zellige.dtypes import dtype as as_dtype
from zellige.frontend.values import Scalar
from zellige.ir import expr
from zellige.language.dtypes import type_name

PrimExpr = Scalar
Call = Scalar


def const(value: bool | int | float, dtype: Any = "int32") -> Any:
    """A number of an element type. E254: it does not fit."""
    return type_name(dtype)(value)


def IntImm(dtype: Any, value: int) -> Any:
    """As :func:`const`, with the type first."""
    return const(value, dtype)


def Var(name: str, dtype: Any = "int32") -> Scalar:
    """A variable with a name and an element type. No kernel gives it a value: the verifier refuses one that uses it."""
    return Scalar(expr.Var(name=name, dtype=as_dtype(dtype), kind="value"))


def __getattr__(name: str) -> Any:
    return getattr(language, name)
