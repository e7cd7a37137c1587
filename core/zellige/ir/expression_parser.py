"""Expressions and regions of the tile IR from Python's syntax nodes.

In: a syntax node and the names in scope. Out: an expression whose nodes have spans in the text. Works on a stack of its
own, so that the depth of an expression is limited only by Python's parser.
"""

from __future__ import annotations

import ast
from typing import Any, Final, TypeAlias, cast, get_args

from zellige.diagnostics import Span
from zellige.dtypes import DType, dtype
from zellige.ir.expr import (
    INT32,
    Binary,
    BinaryOp,
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
    UnaryOp,
    Var,
)
from zellige.ir.functions import FUNCTIONS
from zellige.ir.syntax import BINARY_CALLS
from zellige.ir.text_source import TextSource, is_number

Named: TypeAlias = "Var | Buffer | ExprNode"
"""What a name can stand for: a variable, a buffer, or a part of an expression (``let``)."""

_OPERATORS: Final[dict[type[ast.operator], BinaryOp]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "floormod",
    ast.LShift: "shl", ast.RShift: "shr", ast.BitAnd: "bitand", ast.BitOr: "bitor", ast.BitXor: "bitxor",
}  # fmt: skip
_COMPARISONS: Final[dict[type[ast.cmpop], CompareOp]] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
_PREFIXES: Final[dict[type[ast.unaryop], UnaryOp]] = {ast.USub: "neg", ast.Not: "not", ast.Invert: "invert"}
_BARE: Final[dict[type, DType]] = {int: INT32, float: dtype("float32"), bool: dtype("bool")}


class Scopes:
    """The names in scope, body by body."""

    def __init__(self, source: TextSource) -> None:
        self._source = source
        self._names: dict[str, Named] = {}
        self._open: list[list[str]] = [[]]

    def open(self) -> None:
        self._open.append([])

    def close(self) -> None:
        for name in self._open.pop():
            del self._names[name]

    def declare(self, name: str, named: Named, place: Any) -> None:
        if name in self._names:
            raise self._source.error(place, f"{name} is in scope already: a name is not declared over another")
        self._names[name] = named
        self._open[-1].append(name)

    def buffer(self, node: ast.expr) -> Buffer:
        found = self._names.get(self._source.name(node, "a buffer"))
        if not isinstance(found, Buffer):
            raise self._source.error(node, f"{ast.unparse(node)} is not a buffer in scope")
        return found

    def value(self, node: ast.Name) -> Any:
        found = self._names.get(node.id)
        if found is None:
            raise self._source.error(node, f"{node.id} is not declared in this scope")
        if isinstance(found, Buffer):
            raise self._source.error(node, f"{node.id} is a buffer: an element of it is needed, as in {node.id}[i]")
        return found

    def variable(self, node: ast.Name) -> Var:
        found = self.value(node)
        if not isinstance(found, Var):
            raise self._source.error(node, f"{node.id} names a part of an expression, not a variable")
        return found


class ExpressionParser:
    """Turns syntax nodes into expressions and regions."""

    def __init__(self, source: TextSource, scopes: Scopes) -> None:
        self._source = source
        self._scopes = scopes

    def expression(self, root: ast.expr) -> Expr:
        values: list[Expr] = []
        pending: list[tuple[ast.expr, int]] = [(root, -1)]
        while pending:
            node, count = pending.pop()
            if count < 0:
                operands = self._operands(node)
                pending.append((node, len(operands)))
                pending.extend((operand, -1) for operand in reversed(operands))
                continue
            below = values[len(values) - count :]
            del values[len(values) - count :]
            values.append(self._one(node, below))
        return values[0]

    def expressions(self, node: ast.expr) -> tuple[Expr, ...]:
        """A tuple of expressions."""
        return tuple(self.expression(item) for item in self._source.items(node))

    def element(self, node: ast.expr) -> tuple[Buffer, tuple[Expr, ...]]:
        """``B[i, j]``: the buffer and the indices."""
        if not isinstance(node, ast.Subscript):
            raise self._source.error(node, "an element of a buffer is needed here, as in B[i, j]")
        return self._scopes.buffer(node.value), tuple(self.expression(index) for index in _indices(node))

    def region(self, node: ast.expr) -> Region:
        """``B[i, 0:+n, :]``: a region, one item for each dimension."""
        if not isinstance(node, ast.Subscript):
            raise self._source.error(node, "a region of a buffer is needed here, as in B[i, 0:+n, :]")
        buffer = self._scopes.buffer(node.value)
        items = _indices(node)
        if len(items) != buffer.rank:
            raise self._source.error(node, f"{buffer.name} has {buffer.rank} dimensions but {len(items)} are given")
        offsets: list[Expr] = []
        extents: list[Expr] = []
        for item, whole in zip(items, buffer.shape):
            span = self._source.span(item)
            match item:
                case ast.Slice(lower=lower, upper=upper, step=None):
                    offsets.append(_integer(0, span) if lower is None else self.expression(lower))
                    match upper:
                        case None if lower is None:
                            extents.append(whole)
                        case ast.UnaryOp(op=ast.UAdd(), operand=extent):
                            extents.append(self.expression(extent))
                        case _:
                            raise self._source.error(item, "write start:+extent, or : for the whole dimension")
                case ast.Slice():
                    raise self._source.error(item, "a region has no step: write start:+extent")
                case _:
                    offsets.append(self.expression(item))
                    extents.append(_integer(1, span))
        return Region(buffer=buffer, offsets=tuple(offsets), extents=tuple(extents), span=self._source.span(node))

    def _operands(self, node: ast.expr) -> list[ast.expr]:
        match node:
            case ast.Constant() | ast.Name():
                return []
            case ast.UnaryOp(op=ast.USub(), operand=operand) if is_number(operand):
                return []
            case ast.UnaryOp() if type(node.op) in _PREFIXES:
                return [node.operand]
            case ast.BinOp() if type(node.op) in _OPERATORS:
                return [node.left, node.right]
            case ast.BoolOp():
                return node.values
            case ast.Compare() if type(node.ops[0]) in _COMPARISONS:
                if len(node.ops) != 1:
                    raise self._source.error(node, "comparisons are not chained in the tile IR: join two by `and`")
                return [node.left, node.comparators[0]]
            case ast.IfExp():
                return [node.test, node.body, node.orelse]
            case ast.Subscript():
                return _indices(node)
            case ast.Call():
                return self._call_operands(node)
            case _:
                raise self._source.error(node, f"{type(node).__name__} is not an expression of the tile IR")

    def _call_operands(self, node: ast.Call) -> list[ast.expr]:
        name, call = self._source.call(node, "an expression")
        if name in ("cast", "reinterpret"):
            return self._source.positional(call, 2)[:1]
        if name == "neg":
            return self._source.positional(call, 1)
        if name in BINARY_CALLS:
            return self._source.positional(call, 2)
        if name in FUNCTIONS:
            return self._source.positional(call, FUNCTIONS[name].arity)
        self._source.dtype(call.func)  # float16(1.5): a constant
        return []

    def _one(self, node: ast.expr, below: list[Expr]) -> Expr:
        span = self._source.span(node)
        match node:
            case ast.Constant() | ast.UnaryOp(op=ast.USub()) if not below:
                return self._constant(self._source.literal(node), node, span)
            case ast.Name(id="nan" | "inf"):
                return self._constant(float(node.id), node, span)
            case ast.Name():
                return cast(Expr, self._scopes.value(node))
            case ast.UnaryOp():
                return Unary(op=_PREFIXES[type(node.op)], value=below[0], span=span)
            case ast.BinOp():
                return Binary(op=_OPERATORS[type(node.op)], left=below[0], right=below[1], span=span)
            case ast.BoolOp():
                joined = below[0]
                for operand in below[1:]:
                    joined = Binary(op="and" if isinstance(node.op, ast.And) else "or", left=joined, right=operand, span=span)
                return joined
            case ast.Compare():
                return Compare(op=_COMPARISONS[type(node.ops[0])], left=below[0], right=below[1], span=span)
            case ast.IfExp():
                return Select(condition=below[0], then=below[1], otherwise=below[2], span=span)
            case ast.Subscript():
                return Load(buffer=self._scopes.buffer(node.value), indices=tuple(below), span=span)
            case ast.Call():
                return self._call(node, below, span)
            case _:
                raise self._source.error(node, f"{type(node).__name__} is not an expression of the tile IR")

    def _constant(self, value: Any, node: ast.expr, span: Span) -> Const:
        found = _BARE.get(type(value))
        if found is None:
            raise self._source.error(node, f"{value!r} is not a number")
        return Const(value=value, dtype=found, span=span)

    def _call(self, call: ast.Call, below: list[Expr], span: Span) -> Expr:
        source = self._source
        name = source.name(call.func, "a function")
        if name == "cast":
            given = source.keywords(call, "rounding", "saturate")
            rounding: Any = source.typed(given["rounding"], "str") if "rounding" in given else "nearest_even"
            saturate = source.typed(given["saturate"], "bool") if "saturate" in given else False
            self._word(rounding, get_args(Rounding), given.get("rounding", call))
            return Cast(value=below[0], dtype=source.dtype(call.args[1]), rounding=rounding, saturate=saturate, span=span)
        if name in FUNCTIONS:
            given = source.keywords(call, "precision")
            precision: Any = source.typed(given["precision"], "str") if "precision" in given else "default"
            self._word(precision, get_args(Precision), given.get("precision", call))
            operand = below[0].dtype
            result = FUNCTIONS[name].result_dtype(operand.scalar).with_lanes(operand.lanes)
            return Math(function=name, args=tuple(below), dtype=result, precision=precision, span=span)
        source.keywords(call)
        if name == "reinterpret":
            return Reinterpret(value=below[0], dtype=source.dtype(call.args[1]), span=span)
        if name == "neg":
            return Unary(op="neg", value=below[0], span=span)
        if name in BINARY_CALLS:
            return Binary(op=name, left=below[0], right=below[1], span=span)
        (argument,) = source.positional(call, 1)
        value = source.literal(argument)
        if type(value) not in _BARE:
            raise source.error(argument, "a number is needed here")
        return Const(value=value, dtype=source.dtype(call.func), span=span)

    def _word(self, word: str, words: tuple[str, ...], place: ast.expr) -> None:
        if word not in words:
            raise self._source.error(place, f"{word!r} is none of {', '.join(words)}")


def _integer(value: int, span: Span) -> Const:
    return Const(value=value, dtype=INT32, span=span)


def _indices(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
