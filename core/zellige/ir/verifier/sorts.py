"""Invariant 31, the part about nodes: every field holds nodes of the sort that it asks for.

In: a statement, or a kernel for its parameters and launches, and the :class:`Context`. Out: whether all its nodes are of the right sort,
so that the other rules may look into them, and a diagnostic for each that is not. Nodes under expressions are checked with these.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from zellige.ir.expr import Buffer, ExprNode, Node, Region, Var
from zellige.ir.stmt import For, Hint, Kernel, Launch, LayoutHint, NamedHint, Print, SafeValue, ScalarParam, Stmt
from zellige.ir.verifier.context import Context
from zellige.ir.verifier.plain import has_right_values

_VARIABLES: Final = frozenset(("var", "result", "axes"))
_REGIONS: Final = frozenset(("src", "dst", "a", "b", "c", "scale_a", "scale_b", "metadata", "inputs", "outputs"))
_OPTIONAL: Final = frozenset(("result", "value", "scale_a", "scale_b", "metadata"))
_WORDS: Final[dict[type, str]] = {
    Var: "a variable",
    Region: "a region",
    ExprNode: "an expression",
    Node: "an expression or a region",
    Buffer: "a buffer",
}


def _sort(owner: type, field: str) -> type:
    if field in _VARIABLES:
        return Var
    if field in _REGIONS:
        return Region
    return Node if owner is Print else ExprNode


_PLACES: Final[dict[type, tuple[tuple[str, type], ...]]] = {
    owner: tuple((field, _sort(owner, field)) for field in owner.CHILDREN) for owner in get_args(Stmt)
}


def has_right_heads(context: Context, kernel: Kernel) -> bool:
    """Whether parameters and launches hold variables, buffers and expressions where those belong."""
    before = len(context.diagnostics)
    has_right_values(context, kernel, "the kernel", kernel.span)
    for param in kernel.params:
        if isinstance(param, ScalarParam):
            _are(context, (param.var,), Var, "a scalar parameter")
        else:
            buffer = getattr(param, "buffer", None)
            _are(context, (buffer,), Buffer, "a tensor parameter")
            if isinstance(buffer, Buffer):
                has_right_values(context, buffer, f"parameter {buffer.label}", buffer.span)
    for launch in kernel.launches:
        if not isinstance(launch, Launch):
            continue
        for one in (launch, *launch.hints):
            has_right_values(context, one, f"a {type(one).__name__}", launch.span)
        _are(context, (*launch.grid_vars, *launch.lane_vars), Var, "a grid or lane variable")
        _are(context, (*launch.grid, *(launch.threads or ())), ExprNode, "an extent of the grid or the threads")
        for kinds, nodes, what in (((SafeValue,), launch.safe_values, "a safe value"), (get_args(Hint), launch.hints, "a hint")):
            for node in nodes:
                if not isinstance(node, kinds):
                    context.report(31, launch.span, f"{what} of the launch is {type(node).__name__}")
        _are(context, tuple(safe.value for safe in launch.safe_values if isinstance(safe, SafeValue)), ExprNode, "a safe value")
        for named in (*launch.safe_values, *launch.hints):
            if isinstance(named, (SafeValue, LayoutHint)) or (isinstance(named, NamedHint) and named.buffer is not None):
                _are(context, (named.buffer,), Buffer, "what a hint names")
            if isinstance(named, LayoutHint):
                _are(context, named.axes, Var, "a layout variable")
                _are(context, (*named.forward, *(() if named.lane is None else (named.lane,))), ExprNode, "a coordinate of a layout")
    return len(context.diagnostics) == before


def _are(context: Context, nodes: tuple[Any, ...], sort: type, what: str) -> None:
    for node in nodes:
        if not isinstance(node, sort):
            context.report(31, None, f"{what} is not {_WORDS[sort]} but {type(node).__name__}")
        elif isinstance(node, Var):
            has_right_values(context, node, f"variable {node.label}", node.span)


def has_right_nodes(context: Context, statement: Stmt) -> bool:
    """Whether it is a statement and every node of it, nested statements apart, is of the sort that its place asks for."""
    if not isinstance(statement, Stmt):
        context.report(31, None, f"{type(statement).__name__} is not a statement")
        return False
    is_right = True
    hints: Any = getattr(getattr(statement, "kind", statement), "hints", ())
    if not isinstance(hints, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in hints):
        context.report(31, statement.span, f"the hints of {type(statement).__name__.lower()} are not pairs of a name and a value")
        is_right = False
    if not isinstance(getattr(statement, "buffer", None), (Buffer, type(None))):
        context.report(31, statement.span, f"the buffer of {type(statement).__name__.lower()} is not a buffer")
        is_right = False
    for field, sort in _PLACES.get(type(statement), ()):
        value: Any = getattr(statement, field)
        if value is None and field in _OPTIONAL:
            continue
        entries = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(entry, sort) for entry in entries):
            context.report(31, statement.span, f"{field} of {type(statement).__name__.lower()} is not {_WORDS[sort]}")
            is_right = False
        elif sort is Var:
            is_right &= all(has_right_values(context, entry, f"variable {entry.label}", statement.span) for entry in entries)
    word = type(statement).__name__.lower()
    is_right &= has_right_values(context, statement, word, statement.span)
    if isinstance(statement, For):
        is_right &= has_right_values(context, statement.kind, f"the {type(statement.kind).__name__.lower()} loop", statement.span)
    return is_right
