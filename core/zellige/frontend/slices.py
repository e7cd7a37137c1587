"""Indices and slices of one dimension, and shapes as messages write them. In: what an author wrote in ``[]``. Out: expressions."""

from __future__ import annotations

from typing import Any

from zellige.analysis.forms import ZERO, Division, Form, form_of
from zellige.diagnostics import Span, catalogue
from zellige.frontend import arithmetic
from zellige.frontend.operators import Operators
from zellige.ir.expr import INT32, Buffer, Const, Expr, Var, const


def shape_text(shape: tuple[Expr, ...]) -> str:
    """A shape for messages: ``(128, M)``."""
    names = [str(e.value) if isinstance(e, Const) else e.label if isinstance(e, Var) else "..." for e in shape]
    return "(" + ", ".join(names) + ("," if len(names) == 1 else "") + ")"


def from_end(item: Any, size: Expr, span: Span | None) -> Expr:
    """An index into a dimension of ``size``: a negative constant counts from the end."""
    expr = arithmetic.index(item, span)
    if isinstance(expr, Const) and expr.value < 0:
        return arithmetic.binary("add", size, expr, span)
    return expr


def slice_extent(item: slice, size: Expr, buffer: Buffer, span: Span | None) -> tuple[Expr, Expr]:
    """The offset and the extent of a slice of a dimension of ``size``. E209: it has a step."""
    if item.step is not None and (isinstance(item.step, Operators) or item.step != 1):
        raise catalogue.E209.error(span, name=buffer.label)
    start = const(0, INT32, span) if item.start is None else from_end(item.start, size, span)
    stop = size if item.stop is None else from_end(item.stop, size, span)
    return start, difference(stop, start, span)


def difference(stop: Expr, start: Expr, span: Span | None) -> Expr:
    """``stop - start``; a constant wherever the two differ by one, so that extents stay constants where the author wrote them so."""
    memo: dict[Expr, Form] = {}
    end, begin = (form_of(e, definition=lambda _: None, divide=_undivided, memo=memo) for e in (stop, start))
    gap = (end - begin).constant
    if gap is None or not -(2**31) <= gap < 2**31:
        return arithmetic.binary("sub", stop, start, span)
    return const(gap, INT32, span)


def _undivided(dividend: Form, divisor: int) -> Division:
    """Quotients are atoms: nothing is known here of the ranges of variables."""
    return Division(whole=ZERO, rest=dividend, is_reduced=False)
