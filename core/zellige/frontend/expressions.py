"""Expressions with Python's meaning; where an operand is known only when the kernel runs, the operators make tile IR.

``and``, ``or``, ``not``, comparisons and ``in`` decide while compiling where they can, and otherwise evaluate both sides
(:mod:`zellige.frontend.apart`): a side that only computes becomes part of the expression, a side that does more (a macro that stores, a
name that is given) is put under an If. ``x if c else y`` does so in :mod:`zellige.frontend.choices`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from zellige.diagnostics import Span, catalogue
from zellige.diagnostics.suggest import closest
from zellige.diagnostics.warn import warn
from zellige.frontend import arithmetic, vectors
from zellige.frontend.apart import alternatives, names_given, nothing, splice
from zellige.frontend.evaluator import evaluate, evaluates
from zellige.frontend.junctions import are_numbers, condition_of, junction
from zellige.frontend.parameters import PendingTensor
from zellige.frontend.scopes import Frame, Hidden, Pending
from zellige.frontend.values import (
    LaneWise,
    NamedVariable,
    Scalar,
    Tile,
    TileRegion,
    Variable,
    bind,
    declare,
    is_volatile,
    taken,
)
from zellige.ir.expr import BOOL, Const, Expr
from zellige.ir.stmt import Bind, If, Stmt

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.BitAnd: operator.and_,
    ast.MatMult: operator.matmul,
}

_IN_PLACE: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.iadd,
    ast.Sub: operator.isub,
    ast.Mult: operator.imul,
    ast.Div: operator.itruediv,
    ast.FloorDiv: operator.ifloordiv,
    ast.Mod: operator.imod,
    ast.Pow: operator.ipow,
    ast.LShift: operator.ilshift,
    ast.RShift: operator.irshift,
    ast.BitOr: operator.ior,
    ast.BitXor: operator.ixor,
    ast.BitAnd: operator.iand,
    ast.MatMult: operator.imatmul,
}

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


def run_time(value: Any) -> bool:
    """Whether a value is a number known only when the kernel runs."""
    return isinstance(value, Scalar) and not isinstance(value.expr, Const)


def plain(value: Any) -> Any:
    """A constant scalar as the Python number it holds; anything else as it is."""
    return value.expr.value if isinstance(value, Scalar) and isinstance(value.expr, Const) else value


def settled(value: Any) -> Any:
    """The value that a name or a container keeps: what later statements cannot change."""
    if isinstance(value, vectors.Vector):
        return value.named("value")
    return bind("value", value, label="...") if isinstance(value, Scalar) and is_volatile(value) else value


_PRODUCT_HINT = "tiles are multiplied by T.gemm(A, B, C), which adds the product to C"
_ELEMENTS_HINT = "tiles are computed element by element: for i in T.Parallel(n): C[i] = A[i] + B[i]"


def apply_binary(op: ast.operator, left: Any, right: Any, *, in_place: bool = False) -> Any:
    """``left op right``, in place where Python's objects do so. E202: a whole tile is no number."""
    for operand in (left, right):
        if isinstance(operand, Tile) or getattr(operand, "is_group", False):
            hint = _PRODUCT_HINT if isinstance(op, ast.MatMult) else _ELEMENTS_HINT if isinstance(operand, Tile) else None
            raise catalogue.E202.error(given=operand.described, hint=hint)
    return (_IN_PLACE if in_place else _BINARY)[type(op)](left, right)


@evaluates(ast.Constant)
def _constant(frame: Frame, node: ast.Constant) -> Any:
    return node.value


@evaluates(ast.Name)
def _name(frame: Frame, node: ast.Name) -> Any:
    value = frame.locals.get(node.id, frame)
    if value is frame or isinstance(value, (Pending, Hidden)):
        frame.here(node)
        value = frame.lookup(node.id)
    return value.resolved or value if isinstance(value, PendingTensor) else value


@evaluates(ast.Attribute)
def _attribute(frame: Frame, node: ast.Attribute) -> Any:
    owner = evaluate(frame, node.value)
    frame.here(node)
    return attribute(frame, owner, node.attr)


def attribute(frame: Frame, owner: Any, name: str) -> Any:
    """``owner.name``; E117 with the closest existing name where there is none."""
    try:
        return getattr(owner, name)
    except AttributeError as error:
        described = getattr(owner, "described", None)
        words = described if isinstance(described, str) else getattr(owner, "__name__", None) or f"a {type(owner).__name__}"
        message = str(error)
        says_no_more = "has no attribute" in message or message == name
        instead = "check the spelling; dir(...) lists what an object has" if says_no_more else message
        public = [known for known in dir(owner) if not known.startswith("_")]
        suggestion = closest(name, public) if says_no_more or "did you mean" in message else ""  # else the message says it better
        raise catalogue.E117.error(frame.builder.span, owner=words, name=name, suggestion=suggestion, instead=instead) from error


@evaluates(ast.Subscript)
def _subscript(frame: Frame, node: ast.Subscript) -> Any:
    owner = evaluate(frame, node.value)
    position = index_value(frame, node.slice)
    span = frame.here(node)
    try:
        found = item(owner, position)
        return frame.trace.remember(found) if type(owner) is list and isinstance(position, slice) else found
    except (TypeError, IndexError, KeyError) as error:
        refuse_run_time_index(owner, position, span)
        refuse_elements(owner, node, span, error)
        raise


def refuse_elements(owner: Any, node: ast.Subscript, span: Span, error: Exception | None = None) -> None:
    """E110 for an element of a number."""
    if isinstance(owner, Scalar) and not hasattr(type(owner), "__getitem__"):
        what = ast.unparse(node.value)
        raise catalogue.E110.error(
            span, kind="TypeError", message=f"{what} is a number of type {owner.dtype} and has no elements",
            hint=f"leave out the index, or declare {what} as a tensor or a tile",
        ) from error


def item(owner: Any, position: Any) -> Any:
    """``owner[position]``; of a tile the element itself, whose value is taken where it is used or kept."""
    if isinstance(owner, PendingTensor):
        owner = owner.tile()
    return owner.at(position) if isinstance(owner, (Tile, Variable, NamedVariable)) else owner[position]


def refuse_run_time_index(owner: Any, position: Any, span: Span | None) -> None:
    """E105 where an object of Python is indexed by a value that is known only when the kernel runs."""
    parts = position if isinstance(position, tuple) else (position,)
    ends = [part for p in parts for part in ((p.start, p.stop, p.step) if isinstance(p, slice) else (p,))]
    is_container = hasattr(type(owner), "__getitem__") and not isinstance(owner, (Tile, TileRegion, Scalar))
    if is_container and any(run_time(part) for part in ends):
        hint = "pass it to the kernel as a tensor: only tiles and tensors take an index known at run time"
        if isinstance(owner, (list, tuple)) and any(isinstance(part, Tile) for part in owner):
            hint = "loop over the container itself (for tile in tiles), or use one tile with a dimension more: tile[i, :]"
        elif isinstance(owner, (list, tuple)):
            hint = f"loop over it while compiling (for i, value in enumerate(values)), or {hint}"
        raise catalogue.E105.error(span, given=f"the index of a {type(owner).__name__}", hint=hint) from None


def index_value(frame: Frame, node: ast.expr) -> Any:
    """What stands between the brackets; run-time values in it stay expressions."""
    if isinstance(node, ast.Tuple):
        return tuple(all_kept(frame, list(_index_items(frame, node.elts))))
    return plain(evaluate(frame, node))


def _index_items(frame: Frame, nodes: list[ast.expr]) -> Iterator[tuple[Any, Mark]]:
    for node in nodes:
        if isinstance(node, ast.Starred):
            for value in evaluate(frame, node.value):
                yield value, frame.builder.mark()
        else:
            yield plain(evaluate(frame, node)), frame.builder.mark()


@evaluates(ast.Slice)
def _slice(frame: Frame, node: ast.Slice) -> slice:
    parts = [None if part is None else plain(evaluate(frame, part)) for part in (node.lower, node.upper, node.step)]
    return slice(*parts)


@evaluates(ast.BinOp)
def _binary(frame: Frame, node: ast.BinOp) -> Any:
    chain: list[ast.BinOp] = []  # a sum of thousands of terms nests to the left
    at: ast.expr = node
    while isinstance(at, ast.BinOp):
        chain.append(at)
        at = at.left
    left = evaluate(frame, at)
    for step in reversed(chain):
        mark = frame.builder.mark()
        right = evaluate(frame, step.right)
        left = kept(frame, left, mark)
        frame.here(step)
        left = apply_binary(step.op, left, right)
        if type(left) is list:
            frame.trace.remember(left)
    return left


Mark = tuple[list[Stmt], int] | None


def kept(frame: Frame, value: Any, mark: Mark) -> Any:
    """An operand whose value must be taken before what the next operand did since ``mark``."""
    return taken(value, mark) if isinstance(value, (Scalar, LaneWise)) and frame.builder.changed_since(mark) else value


def all_kept(frame: Frame, values: list[tuple[Any, Mark]]) -> list[Any]:
    """Operands, each with the mark of when it was evaluated, as they were then."""
    # the last one first: what is inserted there does not move the other marks
    return [kept(frame, value, mark) for value, mark in reversed(values)][::-1]


def is_fresh(value: Any, source: ast.expr | None) -> bool:
    """Whether ``value`` is a variable that the call ``source`` just made: it is kept as the variable that it is."""
    return vectors.is_variable(value) and isinstance(source, ast.Call)


def escaping(value: Any, source: ast.expr | None) -> Any:
    """The value of the expression ``source`` as an object of Python, which outlives the expression, keeps it."""
    return value if is_fresh(value, source) else taken(value)


@evaluates(ast.UnaryOp)
def _unary(frame: Frame, node: ast.UnaryOp) -> Any:
    value = evaluate(frame, node.operand)
    span = frame.here(node)
    if isinstance(value, (Tile, TileRegion)):
        code = catalogue.E104 if isinstance(node.op, ast.Not) else catalogue.E202
        raise code.error(span, given=value.described)
    if isinstance(node.op, ast.Not):
        return negation(frame, value)
    if isinstance(node.op, ast.USub):
        return -value
    if isinstance(node.op, ast.UAdd):
        return +value
    return ~value


def negation(frame: Frame, value: Any) -> Any:
    """``not value``."""
    value = condition_of(value)
    return Scalar(arithmetic.unary("not", value, frame.builder.span)) if run_time(value) else not plain(value)


@evaluates(ast.BoolOp)
def _boolean(frame: Frame, node: ast.BoolOp) -> Any:
    return joined_values(frame, node, node.values)


def joined_values(frame: Frame, node: ast.BoolOp, operands: Sequence[ast.expr]) -> Any:
    """``a and b and c`` or ``a or b or c`` of some operands of ``node``."""
    is_and = isinstance(node.op, ast.And)
    value = evaluate(frame, operands[0])
    for following in operands[1:]:
        value = combine(frame, is_and, value, partial(evaluate, frame, following), node, names_given(following))
        if not run_time(value) and bool(plain(value)) != is_and:
            return value
    return value


def combine(
    frame: Frame, is_and: bool, left: Any, right: Callable[[], Any], node: ast.expr, names: Sequence[str] = ()
) -> Any:
    """``left and right`` or ``left or right``; the right side is evaluated where the left does not decide. ``names``: those it gives."""
    if not run_time(left):
        frame.here(node)
        return right() if bool(plain(left)) == is_and else left
    value, statements = alternatives(frame, names, right, nothing)[0]
    span = frame.here(node)
    if all(isinstance(s, Bind) for s in statements):
        splice(frame, statements)
        return junction(is_and, left, value, span)
    dtype, first, second = BOOL, arithmetic.truth(left, span), arithmetic.truth(value, span)
    if are_numbers(left, value):
        first, second = arithmetic.meet(left, value, span)
        dtype = first.dtype
    variable = declare("condition" if dtype.is_bool else "value", dtype, Scalar(first))
    decided = arithmetic.truth(left if dtype.is_bool else variable, span)
    with frame.builder.body() as body:
        body.extend(statements)
        variable.assign(Scalar(second))
    guard: Expr = decided if is_and else arithmetic.unary("not", Scalar(decided), span)
    frame.builder.emit(If(condition=guard, then=tuple(body), span=span))
    return variable.value()


def constantly(value: Any) -> Callable[[], Any]:
    """A function of no arguments that gives ``value``: a right side that is evaluated already."""
    return lambda: value


@evaluates(ast.Compare)
def _comparison(frame: Frame, node: ast.Compare) -> Any:
    left = evaluate(frame, node.left)
    for middle in node.comparators[:-1]:
        _warn_of_precedence(frame, middle)
    return _comparison_from(frame, node, 0, left)


def _comparison_from(frame: Frame, node: ast.Compare, position: int, left: Any) -> Any:
    """The comparison number ``position`` of a chain and, where it does not decide, those that follow; ``left`` is its left side."""
    mark = frame.builder.mark()
    right = evaluate(frame, node.comparators[position])
    left = kept(frame, left, mark)
    frame.here(node)
    outcome = compare(frame, node.ops[position], left, right)
    if position + 1 == len(node.ops):
        return outcome
    following = partial(_comparison_from, frame, node, position + 1, right)
    return combine(frame, True, outcome, following, node, names_given(*node.comparators[position + 1 :]))


def _warn_of_precedence(frame: Frame, middle: ast.expr) -> None:
    """E166 for ``i < n & j < m``, which Python reads as ``i < (n & j) < m``."""
    if isinstance(middle, ast.BinOp) and isinstance(middle.op, (ast.BitAnd, ast.BitOr)) and not frame.text.is_parenthesised(middle):
        sign = "&" if isinstance(middle.op, ast.BitAnd) else "|"
        warn(catalogue.E166.diagnose(frame.here(middle), severity="warning", sign=sign, operand=ast.unparse(middle)))


def compare(frame: Frame, op: ast.cmpop, left: Any, right: Any) -> Any:
    """One comparison; ``in`` looks for a run-time value among the elements."""
    if isinstance(op, (ast.In, ast.NotIn)):
        found = _contains(frame, left, right)
        return negation(frame, found) if isinstance(op, ast.NotIn) else found
    if not isinstance(op, (ast.Is, ast.IsNot)):
        _refuse_tiles(op, left, right)
        if any(isinstance(side, TileRegion) for side in (left, right)) and all(_is_value(side) for side in (left, right)):
            return vectors.apply(_COMPARE[type(op)], left, right)
    return _COMPARE[type(op)](left, right)


def _is_value(side: Any) -> bool:
    return isinstance(side, (Scalar, LaneWise, bool, int, float))


def _refuse_tiles(op: ast.cmpop, left: Any, right: Any) -> None:
    """E202: a whole tile is compared with nothing but what is no tile and no number, to which it is not equal."""
    is_equality = isinstance(op, (ast.Eq, ast.NotEq))
    for value, other in ((left, right), (right, left)):
        if isinstance(value, Tile) and not (
            is_equality and not isinstance(other, (Scalar, Tile, TileRegion, bool, int, float))
        ):
            hint = "compare elements, in a loop such as `for i in T.Parallel(n):`; T.if_then_else chooses by them"
            if is_equality and isinstance(other, Tile):
                hint += "; `is` tells whether both are one tile"
            raise catalogue.E202.error(given=value.described, hint=hint)


def _contains(frame: Frame, item: Any, container: Any) -> Any:
    if isinstance(container, (Tile, TileRegion, Scalar)):
        raise catalogue.E106.error(frame.builder.span, given=container.described)
    if vectors.is_vector(item) and isinstance(container, (list, tuple)) and any(_is_value(c) and c is not item for c in container):
        raise catalogue.E104.error(frame.builder.span, given=f"a comparison of {item.described}")
    if not run_time(item) and not (isinstance(container, (list, tuple)) and any(run_time(c) for c in container)):
        return plain(item) in container
    span = frame.builder.span
    found: Any = False
    for candidate in container:
        same = item == candidate
        if isinstance(same, LaneWise):
            same = bool(same)  # E104
        if not run_time(same):
            if same is True:
                return True
            continue
        found = same if found is False else Scalar(arithmetic.binary("or", found, same, span))
    return found


# ---- displays


def _items(frame: Frame, nodes: list[ast.expr]) -> list[Any]:
    """The elements of a display; each keeps the value it has now."""
    values: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            values.extend(evaluate(frame, node.value))
            continue
        value = evaluate(frame, node)
        if isinstance(value, (Scalar, vectors.Vector)) and not is_fresh(value, node):
            frame.here(node)
            value = settled(value)
        values.append(value)
    return values


@evaluates(ast.Tuple)
def _tuple(frame: Frame, node: ast.Tuple) -> tuple[Any, ...]:
    return tuple(_items(frame, node.elts))


@evaluates(ast.List)
def _list(frame: Frame, node: ast.List) -> Any:
    return frame.trace.remember(_items(frame, node.elts))


@evaluates(ast.Set)
def _set(frame: Frame, node: ast.Set) -> Any:
    return frame.trace.remember(set(_items(frame, node.elts)))


@evaluates(ast.Dict)
def _dict(frame: Frame, node: ast.Dict) -> Any:
    result: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values):
        if key is None:
            spread = evaluate(frame, value)
            if not hasattr(type(spread), "keys"):
                raise TypeError(f"{type(spread).__name__!r} object is not a mapping")
            result.update(spread)
        else:
            name = plain(evaluate(frame, key))
            result[name] = _items(frame, [value])[0]
    return frame.trace.remember(result)


# ---- text


@evaluates(ast.JoinedStr)
def _joined(frame: Frame, node: ast.JoinedStr) -> str:
    return "".join(str(evaluate(frame, part)) for part in node.values)


_CONVERSIONS: dict[str, Callable[[object], str]] = {"s": str, "r": repr, "a": ascii}


@evaluates(ast.FormattedValue)
def _formatted(frame: Frame, node: ast.FormattedValue) -> str:
    value = plain(evaluate(frame, node.value))
    if isinstance(value, Scalar):
        warn(catalogue.E137.diagnose(frame.here(node), severity="warning", what="an f-string"))
    if isinstance(value, (Scalar, Tile, TileRegion)):
        value = value.described
    if node.conversion != -1:
        value = _CONVERSIONS[chr(node.conversion)](value)
    specification = "" if node.format_spec is None else str(evaluate(frame, node.format_spec))
    frame.here(node)
    return format(value, specification)

