"""Scalar expressions as vector instructions: the part of lowering that knows no tiles.

In: an expression. Out: the operand that names its value; instructions are appended to a :class:`Writer`. Within ``map`` the same
instructions work on one value a point. A vendor replaces the spelling: what is one line here is one line there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from zellige.diagnostics import Span, catalogue
from zellige.dtypes import DType
from zellige.ir import expr as ir
from zellige.ir.traverse import children
from zellige.plan.nodes import Channel
from zellige_template.arithmetic import OPERATIONS


def has_storage(dtype: DType) -> bool:
    """Whether the machine keeps elements of this type: whole bytes, and none of the formats that NumPy cannot round to."""
    return dtype.lanes == 1 and (dtype.is_bool or dtype.bits >= 8) and dtype.name not in ("tfloat32", "float8_e8m0fnu")


class Writer:
    """The text of a program while it is written, with the names of its registers and tiles.

    ``lags`` says which slot the statement at hand means by the buffers of a channel, where it is not the one acquired last.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self.lines: list[str] = []
        self.spans: list[Span | None] = []
        self.channels: dict[ir.Buffer, Channel] = {}
        self.lags: dict[Channel, int] = {}
        self._names: dict[ir.Var | ir.Buffer, str] = {}
        self._depth = 0

    def line(self, *words: object, note: str = "") -> None:
        """One instruction."""
        code = "  " * self._depth + " ".join(map(str, words))
        self.lines.append(f"{code} ; {note}" if note else code)

    def open(self, *words: object) -> None:
        """An instruction with a body, which reaches to :meth:`close`."""
        self.line(*words)
        self._depth += 1

    def close(self, word: str = "end") -> None:
        self._depth -= 1
        self.line(word)
        self._depth += word == "else"

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

    def access(self, buffer: ir.Buffer) -> str:
        """A tile as an operand: of a channel's buffer, with the slot that the statement means."""
        channel = self.channels.get(buffer.root)
        if channel is None:
            return self.tile(buffer)
        return f"{self.tile(buffer)}:got{self.lags[channel]}" if channel in self.lags else f"{self.tile(buffer)}:acquired"

    def values(self, exprs: Sequence[ir.Expr]) -> list[str]:
        return [self.value(expr) for expr in exprs]

    def value(self, expr: ir.Expr) -> str:
        """The operand with the value of ``expr``. Each node is computed once, its operands before it, without recursion."""
        done: dict[int, str] = {}
        pending: list[tuple[ir.Expr, bool]] = [(expr, False)]
        while pending:
            node, is_ready = pending.pop()
            if id(node) in done:
                continue
            if isinstance(node, ir.Var):
                done[id(node)] = self.register(node)
            elif isinstance(node, ir.Const):
                done[id(node)] = f"{json.dumps(node.value)}:{node.dtype}"
            elif is_ready:
                opcode, tiles = self._opcode(node)
                done[id(node)] = f"%{len(self.lines)}"
                self.line(opcode, done[id(node)], *tiles, *(done[id(child)] for child in children(node)))
            else:
                pending.append((node, True))
                pending.extend((child, False) for child in children(node))  # type: ignore[misc]
        return done[id(expr)]

    def _opcode(self, node: ir.Expr) -> tuple[str, Iterable[str]]:
        """The instruction of a node, and the tile that it reads."""
        match node:
            case ir.Load():
                return "load", (self.access(node.buffer),)
            case ir.Select():  # both sides are computed: a load outside of its tile touches nothing
                return "select", ()
            case ir.Cast() | ir.Reinterpret() if not has_storage(node.dtype):
                raise self.refuse(f"values of {node.dtype}", node.span)
            case ir.Cast(rounding=rounding) if rounding != "nearest_even" and node.dtype.is_float:
                raise self.refuse(f"rounding {rounding}", node.span)
            case ir.Cast():
                return f"cvt.{node.value.dtype}.{node.dtype}{'.saturate' if node.saturate else ''}", ()
            case ir.Reinterpret():
                return f"bits.{node.dtype}", ()
            case ir.Math(function=name) if name not in OPERATIONS:
                raise self.refuse(name, node.span)
            case ir.Math():
                return f"op.{node.function}.{node.args[0].dtype}", ()
            case ir.Unary():
                return f"op.{node.op}.{node.value.dtype}", ()
            case ir.Binary() | ir.Compare():
                return f"op.{node.op}.{node.left.dtype}", ()
            case _:
                raise self.refuse(type(node).__name__, node.span)
