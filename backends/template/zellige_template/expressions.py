"""Scalar expressions as vector instructions: the part of lowering that knows no tiles.

In: an expression. Out: the operand that names its value; instructions are appended to a :class:`Writer`. Within ``map`` the same
instructions work on one value a point. A vendor replaces the spelling: what is one line here is one line there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from zellige.diagnostics import Span, catalogue
from zellige.dtypes import DType
from zellige.elements.operations import operation_of
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

    def values(self, exprs: Sequence[ir.Expr]) -> list[str]:
        return [self.value(expr) for expr in exprs]

    def value(self, expr: ir.Expr) -> str:
        """The operand with the value of ``expr``."""
        done: dict[int, str] = {}
        for node in operands_first(expr):
            match node:
                case ir.Var():
                    done[id(node)] = self.register(node)
                case ir.Const():
                    done[id(node)] = f"{json.dumps(node.value)}:{node.dtype}"
                case _:
                    opcode, tiles = self._opcode(node)
                    done[id(node)] = f"%{len(self.lines)}"
                    self.line(opcode, done[id(node)], *tiles, *(done[id(child)] for child in children(node)))
        return done[id(expr)]

    def _opcode(self, node: ir.Expr) -> tuple[str, Iterable[str]]:
        """The instruction of a node, and the tile that it reads."""
        match node:
            case ir.Load():
                return "load", (self.tile(node.buffer),)
            case ir.Select():  # both sides are computed: a load outside of its tile touches nothing
                return "select", ()
            case ir.Cast(rounding="stochastic"):
                raise self.refuse("stochastic rounding", node.span)
            case ir.Cast() | ir.Reinterpret() if not has_storage(node.dtype):
                raise self.refuse(f"values of {node.dtype}", node.span)
            case ir.Cast():
                return f"cvt.{node.value.dtype}.{node.dtype}.{node.rounding}{'.saturate' if node.saturate else ''}", ()
            case ir.Reinterpret():
                return f"bits.{node.value.dtype}.{node.dtype}", ()
        operation = operation_of(node)
        if operation is None:
            raise self.refuse(type(node).__name__, node.span)
        return "op.{}.{}".format(*operation), ()
