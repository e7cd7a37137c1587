"""The language: what the vendor's C++ calls a kernel, its lanes, barriers, atomics and instructions.

In: nodes of thread-level programs. Out: text for :mod:`zellige.simt.printer`; types, conversions and mathematics come from
:class:`~zellige.simt.spelling.PlainSpelling`. A vendor replaces the words by those of the vendor's language, and overrides ``helper`` for
what the language does better than plain C++ (:mod:`zellige.simt.functions`), such as conversions of float16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zellige.diagnostics import Span
from zellige.ir.expr import Var
from zellige.ir.stmt import Assert, Atomic, Barrier, Print, Shuffle, Vote
from zellige.simt.ir import LANE, THREAD, WARP, AsyncCopy, CommitCopies, Function, Product, Registers, WaitCopies
from zellige.simt.printer import Printer
from zellige.simt.spelling import PlainSpelling
from zellige.simt.words import type_of
from zellige_template_simt.machine import SHARED_ALIGNMENT

PLACES = {THREAD: "thread_in_block()", LANE: "lane_in_warp()", WARP: "warp_in_block()"}


class TemplateSpelling(PlainSpelling):
    """``sites`` are the places of the kernel that assert or print, in the order of the numbers that the text gives them."""

    def __init__(self, target: str, *, is_fast: bool = False) -> None:
        super().__init__(target, is_fast=is_fast)
        self.sites: list[Span | None] = []

    def signature(self, function: Function, params: Sequence[str]) -> str:
        return f'extern "C" kernel_of({function.threads}) void {function.name}({", ".join(params)})'

    def shared(self, printer: Printer, function: Function) -> str:
        return f"alignas({SHARED_ALIGNMENT}) block_memory unsigned char shared[{function.shared_bytes}];"

    def special(self, var: Var, function: Function) -> str:
        return PLACES.get(var) or f"block_index({function.grid_vars.index(var)})"

    def shuffle(self, printer: Printer, node: Shuffle, value: str, operand: str) -> str:
        return f"lane_{node.mode}({value}, {operand}, {node.width})"

    def vote(self, printer: Printer, node: Vote, predicate: str) -> str:
        if node.scope not in ("warp", "block") or (node.scope == "block" and node.mode == "ballot"):
            raise self.refuse(f"a vote of the {node.scope}", node.span)
        return f"({type_of(node.result.dtype)}){node.scope}_{node.mode}({predicate})"

    def statement(self, printer: Printer, statement: Any) -> str:
        match statement:
            case Barrier(scope="block" | "warp" as scope):
                return f"{scope}_barrier();"
            case Barrier():
                raise self.refuse_scope("a barrier", statement.scope, statement.span)
            case Atomic():
                return self._atomic(printer, statement)
            case Product(form=form, a=a, b=b, c=c):
                return f"{form.name}({', '.join(self._registers(printer, operand) for operand in (c, a, b))});"
            case AsyncCopy():
                target = f"shared + {printer.shared_offset(statement.target, statement.target_index)}"
                source = printer.address(statement.source, statement.source_index)
                valid = "true" if statement.is_valid is None else printer.value(statement.is_valid)  # zeros where it is False
                return f"copy_async<{statement.size}>({target}, {source}, {valid});"
            case CommitCopies():
                return "copy_async_commit();"
            case WaitCopies(leave=leave):
                return f"copy_async_wait<{leave}>();"
            case Print(value=value):
                shown = "" if value is None else f", {printer.value(value)}"  # type: ignore[arg-type]
                return f"report({self._site(statement.span)}{shown});"
            case Assert(condition=condition):
                return f"if (!({printer.value(condition)})) {{ fail({self._site(statement.span)}); return; }}"
            case _:
                raise self.refuse(type(statement).__name__, getattr(statement, "span", None))

    def _site(self, span: Span | None) -> int:
        """The number of a place: the same one however often its statement is printed."""
        if span not in self.sites:
            self.sites.append(span)
        return self.sites.index(span)

    def _registers(self, printer: Printer, registers: Registers) -> str:
        """The address of consecutive registers of a lane."""
        return f"{printer.name(registers.buffer.root)} + {printer.value(registers.start)}"

    def _atomic(self, printer: Printer, node: Atomic) -> str:
        if node.order != "relaxed":
            raise self.refuse(f"atomics of the order {node.order}", node.span)
        given = "" if node.value is None else f", {printer.value(node.value)}"
        text = f"atomic_{node.op}_{node.buffer.dtype}({printer.address(node.buffer, node.indices[0])}{given});"
        return text if node.result is None else f"{printer.declared(node.result)}{printer.name(node.result)} = {text}"
