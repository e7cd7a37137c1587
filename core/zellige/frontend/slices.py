"""Indices and slices of one dimension, and shapes as messages write them. In: what an author wrote in ``[]``. Out: expressions."""

from __future__ import annotations

from typing import Any

from zellige.diagnostics import Span, catalogue
from zellige.frontend import arithmetic
from zellige.frontend.operators import Operators
from zellige.ir.expr import INT32, Binary, Buffer, Const, Expr, Var, const


def shape_text(shape: tuple[Expr, ...]) -> str:
    """A shape for messages: ``(128, M)``."""
    names = [str(e.value) if isinstance(e, Const) else e.name if isinstance(e, Var) else "..." for e in shape]
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
        raise catalogue.E209.error(span, name=buffer.name)
    start = const(0, INT32, span) if item.start is None else from_end(item.start, size, span)
    stop = size if item.stop is None else from_end(item.stop, size, span)
    return start, difference(stop, start, span)


def difference(stop: Expr, start: Expr, span: Span | None) -> Expr:
    """``stop - start`` with the common case ``x + n - x`` folded, so that extents stay constants where the author wrote them so."""

    def split(e: Expr) -> tuple[Expr | None, int]:
        if isinstance(e, Const):
            return None, int(e.value)
        if isinstance(e, Binary) and e.op == "add" and isinstance(e.right, Const):
            return e.left, int(e.right.value)
        if isinstance(e, Binary) and e.op == "add" and isinstance(e.left, Const):
            return e.right, int(e.left.value)
        return e, 0

    (a, m), (b, n) = split(stop), split(start)
    if a == b:
        return const(m - n, INT32, span)
    # (i + 1) * n - i * n
    if isinstance(stop, Binary) and isinstance(start, Binary) and stop.op == start.op == "mul":
        for x, y in ((stop.left, stop.right), (stop.right, stop.left)):
            for u, v in ((start.left, start.right), (start.right, start.left)):
                if isinstance(y, Const) and y == v:
                    (p, m), (q, n) = split(x), split(u)
                    if p == q:
                        return const((m - n) * int(y.value), INT32, span)
    return arithmetic.binary("sub", stop, start, span)
