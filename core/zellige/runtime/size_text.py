"""A size expression as a user wrote it, for messages: ``M``, ``128``, ``(M + 63) // 64``.

In: an expression of sizes. Out: one line of text. It leaves out types; the exact text form of programs is :mod:`zellige.ir.printer`'s.
"""

from __future__ import annotations

from typing import Final

from zellige.ir.expr import Binary, Cast, Const, Expr, Unary, Var
from zellige.ir.traverse import children, operands_first

_INFIX: Final[dict[str, str]] = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "floordiv": "//",
    "floormod": "%",
    "shl": "<<",
    "shr": ">>",
    "bitand": "&",
    "bitor": "|",
    "bitxor": "^",
}
_PREFIX: Final[dict[str, str]] = {"neg": "-", "invert": "~", "not": "not "}


def size_text(expr: Expr) -> str:
    """``expr`` in Python's notation, nested operations in parentheses."""
    if isinstance(expr, Const):
        return str(expr.value)
    done: dict[int, str] = {}
    for node in operands_first(expr):
        operands = list(children(node))
        texts = [done[id(child)] for child in operands]
        wrapped = [f"({text})" if isinstance(child, (Binary, Unary)) else text for child, text in zip(operands, texts)]
        match node:
            case Const():
                done[id(node)] = str(node.value)
            case Var():
                done[id(node)] = node.name
            case Cast():
                done[id(node)] = texts[0]
            case Unary():
                done[id(node)] = f"{_PREFIX[node.op]}{wrapped[0]}"
            case Binary() if node.op in _INFIX:
                done[id(node)] = f"{wrapped[0]} {_INFIX[node.op]} {wrapped[1]}"
            case _:
                name = getattr(node, "op", None) or getattr(node, "function", None) or type(node).__name__.lower()
                done[id(node)] = f"{name}({', '.join(texts)})"
    return done[id(expr)]
