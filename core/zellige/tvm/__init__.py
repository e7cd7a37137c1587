"""``from zellige import tvm``: what programs of kernels take from the compiler below TileLang, under the names it has there.

Targets (``tvm.target.Target``), element types (``tvm.DataType``), the language's expressions (``tvm.tirx``, also ``tvm.tir``) and the base
of all errors (``tvm.TVMError``). Nothing of that compiler is here: its intermediate representation and its passes are AttributeErrors,
so that a program which imports the name for these few things, or for nothing, runs.
"""

from __future__ import annotations

from typing import Any

from zellige.diagnostics import ZelligeError as TVMError
from zellige.dtypes import dtype as DataType
from zellige.tvm import error, target, tirx

tir = tirx

__all__ = ["DataType", "TVMError", "error", "target", "tir", "tirx"]


def __getattr__(name: str) -> Any:
    raise AttributeError(f"zellige has no tvm.{name}: it does not build on that compiler; kernels need zellige.language alone")
