"""Simplification on request, as programs written for TileLang write it.

In: a kernel, or a function that returns one. Out: the kernel without the tensors that it does not mention, which its calls then do not
pass. Nothing else is left to do: every kernel is simplified on its way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from zellige.frontend.primfunc import PrimFunc
from zellige.passes.unused_parameters import without_unused_tensors

__all__ = ["apply_simplify", "simplify_prim_func"]

P = ParamSpec("P")
Program = TypeVar("Program")


def simplify_prim_func(build: Callable[P, Program]) -> Callable[P, Program]:
    """``build``, a function that returns a kernel, with :func:`apply_simplify` on what it returns."""

    @functools.wraps(build)
    def simplified(*args: P.args, **named: P.kwargs) -> Program:
        return apply_simplify(build(*args, **named))

    return simplified


def apply_simplify(program: Program, inline_let: bool = False) -> Program:
    """The kernel without the tensor parameters that it does not mention, those apart that alone give a size it needs.

    ``inline_let`` says nothing here: a name of the source is a name, not an operation.
    """
    return cast(Program, program.over(without_unused_tensors(program.kernel))) if isinstance(program, PrimFunc) else program
