"""Expressions and regions of the tile IR as text.

In: the expressions of one statement, and the names of variables and buffers. Out: one line of text for each, and
lines ``e1 = let(...)`` to stand before the statement. A ``let`` names a part of an expression: one that is large and occurs
more than once, or one that would make a line too long. So the text is linear in the number of distinct nodes whatever the
expressions share, and never nested more deeply than Python's own parser accepts.

What is named depends on the structure alone, not on which nodes are shared, so text that was parsed prints as the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from zellige.ir.expr import (
    INT32,
    Binary,
    Buffer,
    Cast,
    Compare,
    Const,
    Expr,
    ExprNode,
    Load,
    Math,
    Region,
    Reinterpret,
    Select,
    Unary,
    Var,
)
from zellige.ir.syntax import ATOM, BITOR, COMPARISON, COMPARISONS, CONDITIONAL, INFIX, OR, PREFIX, UNARY, literal, quoted

SHARED_SIZE: Final = 8
"""Nodes from which on a part that occurs more than once in a statement is named."""
LINE_SIZE: Final = 40
"""Nodes that an expression on one line has at most."""

Naming = Callable[[Any], str]
"""The name of a variable or buffer."""


def constant(node: Const) -> tuple[str, int]:
    """A constant as text, and how strongly it binds. int32, float32 and bool are bare, others a call of their dtype."""
    value, dtype = node.value, node.dtype.name
    bare = literal(value)
    kind = {"int32": int, "float32": float, "bool": bool}.get(dtype)
    if type(value) is not kind:
        return f"{dtype}({bare})", ATOM
    return bare, UNARY if bare.startswith("-") else ATOM


class ExpressionPrinter:
    """Prints the expressions of one statement; ``let`` names a part and returns the name."""

    def __init__(self, name: Naming, let: Callable[[str], str]) -> None:
        self._name = name
        self._let = let
        self._texts: dict[int, tuple[str, int]] = {}  # text and binding strength, by id of the node

    def prepare(self, roots: Sequence[Expr]) -> None:
        """Lays out the expressions that will be asked for by :meth:`text`, and names their parts."""
        nodes: list[ExprNode] = []  # one of each structure, operands first
        operands: list[tuple[int, ...]] = []
        uses: list[int] = []
        number: dict[Any, int] = {}  # of a structure
        known: dict[int, int] = {}  # of a node, by id
        pending: list[tuple[Any, bool]] = [(root, False) for root in reversed(roots)]
        while pending:
            node, is_ready = pending.pop()
            if id(node) in known:
                continue
            below = _operands(node)
            if not is_ready and below:
                pending.append((node, True))
                pending.extend((child, False) for child in reversed(below) if id(child) not in known)
                continue
            numbers = tuple(known[id(child)] for child in below)
            structure = (_key(node), numbers)
            found = number.get(structure)
            if found is None:
                found = number[structure] = len(nodes)
                nodes.append(node)
                operands.append(numbers)
                uses.append(0)
                for child in numbers:
                    uses[child] += 1
            known[id(node)] = found
        for root in roots:
            uses[known[id(root)]] += 1
        texts = self._layout(nodes, operands, uses)
        self._texts.update((key, texts[position]) for key, position in known.items())

    def _layout(self, nodes: list[ExprNode], operands: list[tuple[int, ...]], uses: list[int]) -> list[tuple[str, int]]:
        texts: list[tuple[str, int]] = []
        sizes: list[int] = []
        for position, node in enumerate(nodes):
            below = operands[position]
            size = 1 + sum(sizes[child] for child in below)
            while size > LINE_SIZE:
                largest = max(below, key=sizes.__getitem__)
                if sizes[largest] == 1:
                    break
                size -= below.count(largest) * (sizes[largest] - 1)
                texts[largest] = self._let(texts[largest][0]), ATOM
                sizes[largest] = 1
            text = self._one(node, [texts[child] for child in below])
            if size >= SHARED_SIZE and uses[position] > 1:
                text, size = (self._let(text[0]), ATOM), 1
            texts.append(text)
            sizes.append(size)
        return texts

    def text(self, expr: Expr, strength: int = CONDITIONAL) -> str:
        """The text of a prepared expression, in parentheses where it binds less strongly than ``strength``."""
        return _bound(self._texts[id(expr)], strength)

    def region(self, region: Region) -> str:
        """The text of a region whose offsets and extents are prepared: ``A[i, 0:+n, :]``."""
        return f"{self._name(region.buffer)}[{', '.join(self._dimensions(region)) or '()'}]"

    def _dimensions(self, region: Region) -> list[str]:
        shown: list[str] = []
        for offset, extent, whole in zip(region.offsets, region.extents, region.buffer.shape):
            starts_at_zero = is_integer(offset, 0)
            if starts_at_zero and extent == whole:
                shown.append(":")
            elif is_integer(extent, 1):
                shown.append(self.text(offset))
            else:
                shown.append(f"{'' if starts_at_zero else self.text(offset)}:+{self.text(extent, UNARY)}")
        return shown

    def element(self, buffer: Buffer, indices: Sequence[Expr]) -> str:
        """``A[i, j]`` of prepared indices."""
        return f"{self._name(buffer)}[{', '.join(map(self.text, indices)) or '()'}]"

    def _one(self, node: ExprNode, below: list[tuple[str, int]]) -> tuple[str, int]:
        match node:
            case Const():
                return constant(node)
            case Var():
                return self._name(node), ATOM
            case Load():
                return f"{self._name(node.buffer)}[{_arguments(below) or '()'}]", ATOM
            case Unary():
                if node.op == "neg" and isinstance(node.value, Const):  # -5 is a constant
                    return f"neg({below[0][0]})", ATOM
                sign, strength = PREFIX[node.op]
                return sign + _bound(below[0], strength), strength
            case Binary():
                if node.op not in INFIX:
                    return f"{node.op}({_arguments(below)})", ATOM
                sign, strength = INFIX[node.op]
                return f"{_bound(below[0], strength)} {sign} {_bound(below[1], strength + 1)}", strength
            case Compare():
                return f"{_bound(below[0], BITOR)} {COMPARISONS[node.op]} {_bound(below[1], BITOR)}", COMPARISON
            case Select():
                return f"{_bound(below[1], OR)} if {_bound(below[0], OR)} else {_bound(below[2], CONDITIONAL)}", CONDITIONAL
            case Cast():
                rounding = "" if node.rounding == "nearest_even" else f", rounding={quoted(node.rounding)}"
                return f"cast({below[0][0]}, {node.dtype.name}{rounding}{', saturate=True' if node.saturate else ''})", ATOM
            case Reinterpret():
                return f"reinterpret({below[0][0]}, {node.dtype.name})", ATOM
            case Math():
                precision = "" if node.precision == "default" else f", precision={quoted(node.precision)}"
                return f"{node.function}({_arguments(below)}{precision})", ATOM
            case _:
                raise TypeError(f"{type(node).__name__} is not an expression")


def region_expressions(region: Region) -> Iterator[Expr]:
    """The expressions of a region that its text shows."""
    for offset, extent, whole in zip(region.offsets, region.extents, region.buffer.shape):
        starts_at_zero = is_integer(offset, 0)
        is_whole = starts_at_zero and extent == whole
        if not is_whole and not (starts_at_zero and not is_integer(extent, 1)):
            yield offset
        if not is_whole and not is_integer(extent, 1):
            yield extent


def is_integer(expr: Expr, value: int) -> bool:
    """Whether ``expr`` is the int32 constant ``value``."""
    return isinstance(expr, Const) and expr.dtype == INT32 and type(expr.value) is int and expr.value == value


def _bound(text: tuple[str, int], strength: int) -> str:
    return text[0] if text[1] >= strength else f"({text[0]})"


def _arguments(below: list[tuple[str, int]]) -> str:
    return ", ".join(text for text, _ in below)


def _operands(node: ExprNode) -> list[Any]:
    found: list[Any] = []
    for name in node.CHILDREN:
        child = getattr(node, name)
        if isinstance(child, tuple):
            found.extend(child)
        else:
            found.append(child)
    return found


def _key(node: ExprNode) -> Any:
    """What tells nodes with the same operands apart."""
    match node:
        case Var():
            return id(node)
        case Load():
            return id(node.buffer)
        case Const():
            return node.dtype.name, repr(node.value)
        case Unary() | Binary() | Compare():
            return type(node), node.op
        case _:
            return (type(node), *(getattr(node, name) for name in node.ATTRIBUTES))


def expression_text(expr: Expr) -> str:
    """An expression as one line for a message: names as the author wrote them, ``...`` for what would make it too long."""
    printer = ExpressionPrinter(lambda named: named.name, lambda text: "...")
    printer.prepare([expr])
    return printer.text(expr)
