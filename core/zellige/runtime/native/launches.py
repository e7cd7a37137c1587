"""The table of launches: how the launching code hands packed arguments to a driver.

In: what a backend says (:class:`~zellige.plugin.native.NativeLaunch`), where arguments lie among the packed words. Out: a
:class:`LaunchTable` in memory of its own, to which contexts are added as code is loaded there; None for a launch that the launching
code (:mod:`zellige.runtime.native.launching`) does not know.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

from zellige.ir.expr import Binary, Cast, Const, Expr, ExprNode, Var
from zellige.ir.traverse import children
from zellige.plugin.native import LoadedCode, NativeLaunch, NativeMade, NativeStep
from zellige.runtime.native import layout
from zellige.runtime.native.layout import Code, Context, Form, Given, Launching, Made, Passed, Step
from zellige.runtime.native.table import Words

_JOINS: Final = {
    "add": Code.ADD, "sub": Code.SUBTRACT, "mul": Code.MULTIPLY, "floordiv": Code.DIVIDE, "floormod": Code.MODULO,
    "min": Code.LEAST, "max": Code.GREATEST,
}  # fmt: skip


class LaunchTable:
    """The table in memory. ``address`` is what the head of the arguments' table names; the object must outlive the functions that use
    it."""

    def __init__(self, words: Sequence[int]) -> None:
        self._block = (ctypes.c_int64 * len(words))(*words)
        self.address = ctypes.addressof(self._block)
        self._known = 0

    def note(self, loaded: Sequence[LoadedCode]) -> None:
        """Add the contexts that are new; those beyond the room stay with Python. A record is written before it is counted."""
        for code in loaded[self._known : layout.MOST_CONTEXTS]:
            first = Launching.WORDS + self._known * Context.WORDS
            self._block[first + Context.CONTEXT] = code.context
            self._block[first + Context.DEVICE] = code.device
            self._block[first + Context.IS_ENTERED] = int(code.is_shared)
            for place, handle in enumerate(code.handles):
                self._block[first + Context.HANDLES + place] = handle
            self._known += 1
            self._block[Launching.CONTEXTS] = self._known


def launch_table(described: NativeLaunch, words: Words, stream: int) -> LaunchTable | None:
    """The table; ``stream`` is the address of the function by which the tensors' framework tells its stream."""
    if not stream or len(described.steps) > layout.MOST_STEPS:
        return None
    steps_at = Launching.WORDS + layout.MOST_CONTEXTS * Context.WORDS
    behind = steps_at + len(described.steps) * Step.WORDS
    records: list[int] = []
    tail: list[int] = []
    for step in described.steps:
        program = _program(step.grid, words)
        passed = _passed(step, words)
        if program is None or passed is None:
            return None
        record = [0] * Step.WORDS
        record[Step.THREADS_X], record[Step.THREADS_Y], record[Step.THREADS_Z] = step.threads
        record[Step.SHARED_BYTES] = step.shared_bytes
        record[Step.PROGRAM_AT], record[Step.PROGRAM_LENGTH] = behind + len(tail), len(program) // 2
        tail += program
        record[Step.PASSED_AT], record[Step.PASSED] = behind + len(tail), len(step.parameters)
        tail += passed
        records += record
    made_at = behind + len(tail)
    if len(described.made) > layout.MOST_MADE:
        return None
    programs: list[int] = []
    for made in described.made:
        entry = _made(made, words, made_at + len(described.made) * Made.WORDS + len(programs))
        if entry is None:
            return None
        tail += entry[0]
        programs += entry[1]
    tail += programs
    head = [0] * steps_at
    head[Launching.MADE], head[Launching.MADE_AT] = len(described.made), made_at
    head[Launching.APART], head[Launching.APART_AT] = len(described.apart), behind + len(tail)
    tail += [place for pair in described.apart for place in pair]
    functions = described.functions
    head[Launching.START], head[Launching.CURRENT] = functions.start, functions.current
    head[Launching.ENTER], head[Launching.LEAVE] = functions.enter, functions.leave
    head[Launching.STREAM], head[Launching.DEVICE_TYPE] = stream, described.device_type
    head[Launching.STEPS], head[Launching.STEPS_AT] = len(described.steps), steps_at
    head[Launching.MOST_X], head[Launching.MOST_Y], head[Launching.MOST_Z] = described.most_blocks
    return LaunchTable([*head, *records, *tail])


def _passed(step: NativeStep, words: Words) -> list[int] | None:
    """The records of a launch's parameters; None for one whose bits are not those of its word."""
    if len(step.parameters) > layout.MOST_PASSED:
        return None
    starts = {"tensor": 0, "scalar": len(words.tensors), "size": len(words.tensors) + len(words.scalars), "made": 0}
    records: list[int] = []
    for kind, place in step.parameters:
        record = [0] * Passed.WORDS
        record[Passed.WORD] = starts[kind] + place
        if kind == "scalar" and words.scalars[place].var.dtype.is_float:
            name = words.scalars[place].var.dtype.name
            if name not in ("float32", "float64"):
                return None
            record[Passed.FORM] = Form.SINGLE if name == "float32" else Form.PLAIN
        elif kind == "made":
            record[Passed.FORM] = Form.MADE
        records += record
    return records


def _made(made: NativeMade, words: Words, program_at: int) -> tuple[list[int], list[int]] | None:
    """The record of what a function of the driver makes, and its program, which begins at a word of the table."""
    program = _program(made.values, words)
    if program is None or len(made.arguments) > layout.MOST_MADE_ARGUMENTS:
        return None
    record = [0] * Made.WORDS
    record[Made.FUNCTION], record[Made.TENSOR] = made.function, made.tensor
    record[Made.PROGRAM_AT], record[Made.PROGRAM_LENGTH] = program_at, len(program) // 2
    record[Made.VALUES], record[Made.POSITIVE] = len(made.values), made.positive
    for place, (kind, number) in enumerate(made.arguments):
        form = {"number": Given.NUMBER, "tensor": Given.WORD, "result": Given.RESULT, "list": Given.LIST}[kind]
        first = Made.ARGUMENTS_AT + 2 * place
        record[first], record[first + 1] = form, made.tensor if kind == "tensor" else number
    return record, program


def _program(grid: Sequence[Expr], words: Words) -> list[int] | None:
    """The instructions that leave the values of ``grid``; None for an operation without an instruction, or too deep an expression."""
    made: list[int] = []
    depth = deepest = 0
    for expr in grid:
        pending: list[tuple[Any, bool]] = [(expr, False)]
        while pending:
            node, is_ready = pending.pop()
            match node:
                case Const(value=bool() | int()):
                    made += [Code.NUMBER, int(node.value)]
                    depth += 1
                case Var() if node in words.value and not node.dtype.is_float:
                    made += [Code.WORD, words.value[node]]
                    depth += 1
                case Binary() if node.op in _JOINS and is_ready:
                    made += [_JOINS[node.op], 0]
                    depth -= 1
                case Binary() if node.op in _JOINS:
                    pending.append((node, True))
                    pending.extend((child, False) for child in reversed(list(children(node))) if isinstance(child, ExprNode))
                case Cast() if node.dtype.is_integer:
                    pending.append((node.value, False))
                case _:
                    return None
            deepest = max(deepest, depth)
            if deepest > layout.MOST_DEPTH or len(made) > 2 * _LONGEST:
                return None
    return made


_LONGEST: Final = 256
"""Instructions of a program; a shared sub-expression is computed each time it occurs."""
