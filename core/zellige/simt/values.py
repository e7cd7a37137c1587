"""The values of index expressions where some variables are known: numbers, or one a lane, or one a lane and sample.

In: an expression and arrays for variables. Out: its value with NumPy's broadcasting, None where it reads memory or a variable that is not
known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from zellige.interp.expressions import operation
from zellige.ir.expr import Expr, Load, Var
from zellige.ir.traverse import children, operands_first


def value_of(expr: Expr, known: Mapping[Var, Any]) -> Any:
    """The value of ``expr``; None where it is not known."""
    done: dict[int, Any] = {}
    for node in operands_first(expr):
        done[id(node)] = _one(node, [done[id(child)] for child in children(node)], known)
    return done[id(expr)]


def _one(node: Any, operands: list[Any], known: Mapping[Var, Any]) -> Any:
    if isinstance(node, Var):
        value = known.get(node)
        return None if value is None else np.asarray(value).astype(node.dtype.numpy)
    if isinstance(node, Load) or any(value is None for value in operands):
        return None
    apply = operation(node, None)
    return None if apply is None else apply(*operands)
