"""Scalar expressions as vector instructions: the part of lowering that knows no tiles.

In: an expression. Out: the operand that names its value; instructions are appended to a :class:`Writer`. Within ``map`` the same
instructions work on one value a point. A vendor replaces the spelling: what is one line here is one line there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from zellige.diagnostics import Span, catalogue
from zellige.dtypes import DType
from zellige.elements.operations import instruction_of
from zellige.ir import expr as ir
from zellige.ir.traverse import children, operands_first


def has_storage(dtype: DType) -> bool:
    """Whether the machine keeps elements of this type: whole bytes."""
    return dtype.lanes == 1 and (dtype.is_bool or dtype.bits >= 8)


class Writer:
    """The text of a program while it is written, with the names of its registers and tiles."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.lines: list[str] = []
        self.spans: list[Span | None] = []
        self.outside: dict[ir.Buffer, str] = {}
        """What is read outside of a tile, where that is not 0."""
        self._names: dict[ir.Var | ir.Buffer, str] = {}
        self._depth = 0

    def line(self, *words: object, note: str = "") -> None:
        """One instruction."""
        code = "  " * (self._depth - (words[0] == "else")) + " ".join(map(str, words))
        self.lines.append(f"{code} ; {note}" if note else code)

    @contextmanager
    def block(self, *words: object) -> Iterator[None]:
        """An instruction with a body."""
        self.line(*words)
        self._depth += 1
        yield
        self._depth -= 1
        self.line("end")

    def site(self, span: Span | None) -> int:
        """The number of a place of the kernel, for errors while it runs."""
        self.spans.append(span)
        return len(self.spans) - 1

    def refuse(self, what: str, span: Span | None) -> Exception:
        """The error for what the machine does not have. Never compute something near what was asked for."""
        return catalogue.E410.error(span, target=self.target, operation=what)

    def register(self, var: ir.Var) -> str:
        return self._names.setdefault(var, f"%{var.name}_{len(self._names)}")

    def tile(self, buffer: ir.Buffer) -> str:
        if not has_storage(buffer.dtype):
            raise self.refuse(f"elements of {buffer.dtype} in memory", buffer.span)
        return self._names.setdefault(buffer, f"@{buffer.name}_{len(self._names)}")

    def source(self, buffer: ir.Buffer) -> tuple[str, str]:
        """A tile that is read, and what lies outside of it."""
        return self.tile(buffer), self.outside.get(buffer, f"0:{buffer.dtype}")

    def values(self, exprs: Sequence[ir.Expr]) -> list[str]:
        return [self.value(expr) for expr in exprs]

    def axes(self, variables: Sequence[ir.Var], extents: Sequence[ir.Expr]) -> list[object]:
        """Register, type and extent of each axis."""
        return [word for var, end in zip(variables, self.values(extents)) for word in (self.register(var), var.dtype, end)]

    def value(self, expr: ir.Expr) -> str:
        """The operand with the value of ``expr``."""
        done: dict[int, str] = {}
        for node in operands_first(expr):
            match node:
                case ir.Var():
                    done[id(node)] = self.register(node)
                case ir.Const():
                    done[id(node)] = f"{json.dumps(node.value)}:{node.dtype}"
                case _:  # both sides of a select are computed: a load outside of its tile touches nothing
                    done[id(node)] = f"%{len(self.lines)}"
                    self.line(*self._instruction(node, done[id(node)]), *(done[id(child)] for child in children(node)))
        return done[id(expr)]

    def _instruction(self, node: ir.Expr, result: str) -> tuple[str, ...]:
        """The instruction of a node up to its operands."""
        if isinstance(node, ir.Load):
            return "load", result, *self.source(node.buffer)
        if isinstance(node, (ir.Cast, ir.Reinterpret)) and not has_storage(node.dtype):
            raise self.refuse(f"values of {node.dtype}", node.span)
        words = instruction_of(node)
        if words is None:
            raise self.refuse("stochastic rounding" if isinstance(node, ir.Cast) else type(node).__name__, node.span)
        return ".".join(("op", *words)), result
