"""Invariants 1 and 4 to 12: expressions, regions and buffers.

In: nodes and the :class:`Context`. Out: diagnostics in the context. A node that has been checked is not checked again while the
scope that it was checked in is open, so expressions that share parts cost what they have in distinct nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, get_args

from zellige.diagnostics import Span
from zellige.dtypes import DType
from zellige.ir.expr import (
    Binary,
    Buffer,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expr,
    ExprNode,
    Load,
    Math,
    Precision,
    Region,
    Reinterpret,
    Rounding,
    Select,
    Unary,
    Var,
    VarKind,
    constant_value,
)
from zellige.ir.functions import FUNCTIONS
from zellige.ir.verifier.context import Context
from zellige.ir.verifier.plain import has_right_values

ON_CHIP: Final = frozenset(("shared", "fragment", "local", "var"))
"""The spaces of core that are not global: their buffers have constant extents."""

_NUMBER: Final = frozenset(("int", "uint", "float"))
_INTEGER: Final = frozenset(("int", "uint"))
_BITS: Final = frozenset(("int", "uint", "bool"))
_BINARY_KINDS: Final[dict[str, frozenset[str]]] = {
    **dict.fromkeys(("add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max", "min_nan", "max_nan"), _NUMBER),
    **dict.fromkeys(("shl", "shr"), _INTEGER),
    **dict.fromkeys(("bitand", "bitor", "bitxor"), _BITS),
    **dict.fromkeys(("and", "or"), frozenset(("bool",))),
    "truediv": frozenset(("float",)),
}
_UNARY_KINDS: Final = {"neg": _NUMBER, "invert": _INTEGER, "not": frozenset(("bool",))}
_OPERAND_KINDS: Final = {"float": frozenset(("float",)), "integer": _INTEGER, "number": _NUMBER}
_VAR_KINDS: Final = frozenset(get_args(VarKind))
_COMPARE_OPS: Final = frozenset(get_args(CompareOp))
_ROUNDINGS: Final = frozenset(get_args(Rounding))
_PRECISIONS: Final = frozenset(get_args(Precision))


def same(left: DType, right: DType) -> bool:
    """Equality of dtypes, fast for the interned ones."""
    return left is right or left == right


def place(expr: Any) -> Span | None:
    """Where an expression stands. A variable's own span is that of its declaration, so a use of it has none."""
    return None if isinstance(expr, Var) else getattr(expr, "span", None)


def check(context: Context, *roots: Expr) -> None:
    """Checks expressions and everything under them."""
    pending: list[Any] = list(reversed(roots))
    verified, mark = context.verified, context.mark_verified
    while pending:
        node = pending.pop()
        if id(node) in verified:
            continue
        mark(id(node))
        rule = _RULES.get(type(node))
        if rule is None:
            context.report(31, None, f"{type(node).__name__} is not an expression")
            continue
        if not isinstance(node.dtype, DType):
            context.report(31, place(node), f"dtype of {type(node).__name__.lower()} is {node.dtype!r}, not an element type")
            continue
        rule(context, node)
        for name in node.CHILDREN:
            child = getattr(node, name)
            if isinstance(child, tuple):
                pending.extend(child)
            else:
                pending.append(child)


def check_condition(context: Context, condition: Expr, what: str) -> None:
    """Checks an expression that decides something: a scalar bool."""
    check(context, condition)
    if isinstance(condition, ExprNode) and condition.dtype.name != "bool":
        context.report(8, place(condition), f"{what} is {condition.dtype}, not bool")


def check_indices(context: Context, buffer: Buffer, indices: tuple[Expr, ...], node: Any) -> None:
    """Checks the place of one element: the buffer, and as many scalar integer indices as it has dimensions."""
    check_buffer(context, buffer, node.span)
    if len(indices) != len(buffer.shape):
        context.report(9, node.span, f"{buffer.label} has {len(buffer.shape)} dimensions but {len(indices)} indices")
    for index in indices:
        _integer(context, index, f"an index of {buffer.label}", 9)


def check_region(context: Context, region: Region) -> None:
    """Checks a region: its buffer, one integer offset and extent for each dimension."""
    if not context.mark_verified(id(region)):
        return
    buffer = region.buffer
    if not has_right_values(context, region, f"a region of {buffer.label}", region.span):
        return
    check_buffer(context, buffer, region.span)
    check(context, *region.offsets, *region.extents)
    if not len(region.offsets) == len(region.extents) == len(buffer.shape):
        counts = f"{len(region.offsets)} offsets and {len(region.extents)} extents"
        context.report(10, region.span, f"{buffer.label} has {len(buffer.shape)} dimensions but its region has {counts}")
    for offset in region.offsets:
        _integer(context, offset, f"an offset of a region of {buffer.label}", 10)
    for extent in region.extents:
        _integer(context, extent, f"an extent of a region of {buffer.label}", 10)
        value = constant_value(extent)
        if value is not None and value < 0:
            context.report(11, place(extent) or region.span, f"an extent of a region of {buffer.label} is {value}")


def check_buffer(context: Context, buffer: Buffer, span: Span | None) -> None:
    """Checks the use of a buffer: in scope or, for a view, its storage in scope and the view as such right."""
    if id(buffer) in context.visible:
        return
    if buffer.alias is None:
        context.report(1, span, f"buffer {buffer.label} is used where it is not allocated")
    elif context.mark_verified(id(buffer)):
        _view(context, buffer, span)


def check_declaration(context: Context, buffer: Buffer, *, is_parameter: bool) -> None:
    """Checks extents and strides of a buffer at its declaration."""
    if not has_right_values(context, buffer, buffer.label, buffer.span):
        return
    check(context, *buffer.shape, *(buffer.strides or ()))
    if buffer.strides is not None and len(buffer.strides) != len(buffer.shape):
        context.report(11, buffer.span, f"{buffer.label} has {len(buffer.shape)} dimensions but {len(buffer.strides)} strides")
    outer, context.span = context.span, buffer.span or context.span
    for stride in buffer.strides or ():
        _integer(context, stride, f"a stride of {buffer.label}", 11)
    least = 0 if is_parameter else 1
    for extent in buffer.shape:
        _integer(context, extent, f"an extent of {buffer.label}", 11)
        value = constant_value(extent)
        if value is None and buffer.space in ON_CHIP:
            context.report(11, place(extent) or buffer.span, f"an extent of {buffer.label} ({buffer.space}) is not a constant")
        if value is not None and value < least:
            context.report(11, place(extent) or buffer.span, f"an extent of {buffer.label} is {value}")
    context.span = outer


def constant_size(buffer: Buffer) -> int | None:
    """The stored bits of a buffer, None where an extent is symbolic."""
    size = buffer.dtype.storage_bits
    for extent in buffer.shape:
        value = constant_value(extent)
        if value is None:
            return None
        size *= int(value)
    return size


def _view(context: Context, view: Buffer, use: Span | None) -> None:
    span = view.span or use
    seen = {id(view)}
    root = view
    while root.alias is not None:
        root = root.alias
        if id(root) in seen:
            context.report(12, span, f"{view.name} is a view of itself")
            return
        seen.add(id(root))
    target = view.alias
    assert target is not None
    check_buffer(context, target, span)
    check_declaration(context, view, is_parameter=True)
    if view.strides is not None or target.strides is not None:
        context.report(12, span, f"{view.name} is a view of {target.name}, and both must be dense")
    if view.space != target.space:
        context.report(12, span, f"{view.name} is in the space {view.space} but the buffer under it, {target.name}, in {target.space}")
    own, whole = constant_size(view), constant_size(target)
    if own is not None and whole is not None and own != whole:
        context.report(12, span, f"{view.name} has {own} bits but the buffer under it, {target.name}, has {whole}")


def _integer(context: Context, expr: Any, what: str, invariant: int) -> None:
    if not isinstance(expr, ExprNode):
        return  # reported by the walk
    dtype: DType = expr.dtype  # type: ignore[attr-defined]
    if dtype.kind not in _INTEGER or dtype.lanes != 1:
        context.report(invariant, place(expr), f"{what} is {dtype}, not an integer")


def _const(context: Context, node: Const) -> None:
    value, dtype = node.value, node.dtype
    if dtype.is_float:
        fits = type(value) is float
    elif dtype.is_bool:
        fits = type(value) is bool
    else:
        fits = type(value) is int and (dtype.kind == "handle" or dtype.min <= value <= dtype.max)
    if not fits:
        context.report(4, node.span, f"{value!r} is not a value of {dtype}")


def _var(context: Context, node: Var) -> None:
    if id(node) not in context.visible:
        context.report(1, None, f"variable {node.name} is used where it has no value")
    if node.kind not in _VAR_KINDS:
        context.report(31, node.span, f"{node.kind!r} is not a kind of variable")


def _load(context: Context, node: Load) -> None:
    check_indices(context, node.buffer, node.indices, node)


def _defined(context: Context, node: Any, what: str, dtype: DType, kinds: Iterable[str]) -> None:
    if dtype.kind not in kinds:
        context.report(6, node.span, f"{what} is not defined for {dtype}")


def _unary(context: Context, node: Unary) -> None:
    if node.op not in _UNARY_KINDS:
        context.report(31, node.span, f"{node.op!r} is not a unary operator")
    else:
        _defined(context, node, node.op, node.value.dtype, _UNARY_KINDS[node.op])


def _binary(context: Context, node: Binary) -> None:
    left, right = node.left.dtype, node.right.dtype
    kinds = _BINARY_KINDS.get(node.op)
    if kinds is None:
        context.report(31, node.span, f"{node.op!r} is not a binary operator")
    elif not same(left, right):
        context.report(5, node.span, f"the operands of {node.op} are {left} and {right}")
    elif left.kind not in kinds:
        _defined(context, node, node.op, left, kinds)


def _compare(context: Context, node: Compare) -> None:
    left, right = node.left.dtype, node.right.dtype
    if node.op not in _COMPARE_OPS:
        context.report(31, node.span, f"{node.op!r} is not a comparison")
    elif not same(left, right):
        context.report(5, node.span, f"the operands of {node.op} are {left} and {right}")
    elif left.kind == "handle" and node.op not in ("eq", "ne"):
        _defined(context, node, node.op, left, ())


def _select(context: Context, node: Select) -> None:
    condition, then, otherwise = node.condition.dtype, node.then.dtype, node.otherwise.dtype
    if not condition.is_bool or condition.lanes not in (1, then.lanes):
        context.report(8, place(node.condition) or node.span, f"the condition of a selection is {condition}, not bool")
    if not same(then, otherwise):
        context.report(5, node.span, f"the sides of a selection are {then} and {otherwise}")


def _cast(context: Context, node: Cast) -> None:
    source, target = node.value.dtype, node.dtype
    handles = [d for d in (source, target) if d.kind == "handle"]
    if source.lanes not in (1, target.lanes) or (handles and not same(source, target)):
        context.report(6, node.span, f"{source} cannot be cast to {target}")
    if node.rounding not in _ROUNDINGS:
        context.report(31, node.span, f"{node.rounding!r} is not a rounding")


def _width(dtype: DType) -> int:
    return (8 if dtype.is_bool else dtype.bits) * dtype.lanes


def _reinterpret(context: Context, node: Reinterpret) -> None:
    source, target = node.value.dtype, node.dtype
    if _width(source) != _width(target):
        context.report(6, node.span, f"{source} has {_width(source)} bits and cannot be reinterpreted as {target} of {_width(target)}")


def _math(context: Context, node: Math) -> None:
    function = FUNCTIONS.get(node.function)
    if function is None:
        context.report(7, node.span, f"{node.function!r} is not a function of the tile IR")
        return
    if len(node.args) != function.arity:
        context.report(7, node.span, f"{node.function} takes {function.arity} operands, not {len(node.args)}")
        return
    if node.precision not in _PRECISIONS:
        context.report(31, node.span, f"{node.precision!r} is not a precision")
    operand = node.args[0].dtype
    for other in node.args[1:]:
        if not same(operand, other.dtype):
            context.report(5, node.span, f"the operands of {node.function} are {operand} and {other.dtype}")
            return
    _defined(context, node, node.function, operand, _OPERAND_KINDS[function.operands])
    result = function.result_dtype(operand.scalar).with_lanes(operand.lanes)
    if not same(result, node.dtype):
        context.report(6, node.span, f"{node.function} of {operand} is {result}, not {node.dtype}")


_RULES: Final[dict[type, Callable[[Context, Any], None]]] = {
    Const: _const,
    Var: _var,
    Load: _load,
    Unary: _unary,
    Binary: _binary,
    Compare: _compare,
    Select: _select,
    Cast: _cast,
    Math: _math,
    Reinterpret: _reinterpret,
}
