"""The instruction set: the shape of its product, its instructions, the assembler and the decoder.

In: the text of a program. Out: the bytes that the machine loads. A vendor replaces the assembler by a call of the vendor's own.

A program has one instruction a line, ``opcode.suffix operand ...``; what follows " ; " is a comment. ``%x`` is a register, ``@x`` a tile of
memory, ``1:int32`` a constant. A register holds one value, within ``map`` one a point. Instructions in BLOCKS reach to their ``end``.
:mod:`zellige_template.machine` lists the operands of each, a method an instruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zellige.diagnostics import InternalError

PRODUCT: Final = (16, 16, 16)
"""m, n and k of the product instruction: the shape that the planner cuts products into. Change it, and ``zellige explain`` shows it."""

PRODUCT_TYPES: Final = (("float32", "float32"), ("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32"), ("uint8", "int32"))
"""What the product instruction multiplies, and what it adds up in."""

LOCAL_BYTES: Final = 4 << 20
"""The memory beside the processor, which holds the tiles of a block."""

BLOCKS: Final = frozenset(("launch", "map", "loop", "if"))
MOVES: Final = frozenset(("input", "tensor", "alloc", "view", "set", "op", "load", "change", "dma", "wait", "product"))
OPCODES: Final = BLOCKS | MOVES | {"check", "same", "print", "else", "end", "leave"}


@dataclass(frozen=True, slots=True)
class Instruction:
    """``suffixes`` of the opcode, ``operands``; ``body`` and ``otherwise`` of a block."""

    opcode: str
    suffixes: tuple[str, ...]
    operands: tuple[str, ...]
    body: tuple[Instruction, ...] = ()
    otherwise: tuple[Instruction, ...] = ()


def assemble(text: str) -> bytes:
    """The program without comments, with ``halt`` behind it. InternalError for an unknown instruction, the fault of this backend."""
    lines = [code for line in text.splitlines() if (code := line.split(" ; ")[0].strip())]
    unknown = [line for line in lines if line.split(" ")[0].partition(".")[0] not in OPCODES]
    if unknown:
        raise InternalError(f"the program has an unknown instruction: {unknown[0]}")
    return "\n".join((*lines, "halt")).encode()


def decode(code: bytes) -> tuple[Instruction, ...]:
    """The instructions of an assembled program, nested. Raises InternalError for one that was cut short."""
    stack: list[tuple[list[str], list[list[Instruction]]]] = [([], [[]])]
    lines = code.decode().split("\n")
    open_blocks = sum(line.split(" ")[0].partition(".")[0] in BLOCKS for line in lines) - lines.count("end")
    if lines.pop() != "halt" or open_blocks:
        raise InternalError("the program is cut short: its last instructions are missing")
    for line in lines:
        words = line.split(" ")
        opcode, *suffixes = words[0].split(".")
        if opcode == "else":
            stack[-1][1].append([])
        elif opcode in BLOCKS:
            stack.append((words, [[]]))
        else:
            bodies: list[list[Instruction]] = []
            if opcode == "end":
                words, bodies = stack.pop()
                opcode, *suffixes = words[0].split(".")
            stack[-1][1][-1].append(Instruction(opcode, tuple(suffixes), tuple(words[1:]), *(tuple(body) for body in bodies)))
    return tuple(stack[0][1][0])
