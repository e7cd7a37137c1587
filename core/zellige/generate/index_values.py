"""Kernels of index arithmetic: numbers of every integer type, near the ends of the types too, as indices, bounds, conditions and offsets.

In: a source of choices. Out: a :class:`Program` of integers, so that every backend has the same bits. Integers wrap at the width of their
type, whether they are data or indices; an element outside of its buffer reads as the safe value and is not stored.

The names of the text: X data of int32, Y data of int64, A and B inputs, S a tile of the block, D the block's row of what is stored to, C
results, n a small scalar and w a wild one, bx the block, i the point or the turn of a loop, q values with names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from zellige.dtypes import dtype as as_dtype
from zellige.elements.conversion import Array
from zellige.generate.choices import Choices, Picker
from zellige.generate.program import Program
from zellige.ir.parser import parse_kernel

_POINTS: Final = 16
_SIZE: Final = 40
_BLOCKS: Final = 2
_TYPES: Final = ("int32", "int32", "int32", "int32", "int64", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
_OPERATIONS: Final = (
    "+", "-", "*", "+", "-", "*", "//", "%", "truncdiv", "truncmod", "<<", ">>", "&", "|", "^", "min", "max", "select", "cast", "neg", "~",
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class _Writer:
    """The lines of the body so far. ``names`` are those of int32 that may be used here, ``point`` the one that differs between points."""

    picker: Picker
    names: tuple[str, ...] = ("n", "bx", "w")
    point: str = ""
    lines: list[str] = field(default_factory=list)
    indent: int = 2
    rows: int = 0
    made: int = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def name(self, stem: str) -> str:
        self.made += 1
        return f"{stem}{self.made}"

    @contextmanager
    def inside(self, head: str, point: str = "") -> Iterator[None]:
        """A body under ``head``, in which ``point`` differs from turn to turn."""
        kept = self.names, self.point
        self.line(head)
        self.indent += 1
        self.point = point or self.point
        yield
        self.indent -= 1
        self.names, self.point = kept

    # ---- numbers ----

    def number(self, dtype: str, depth: int) -> str:
        """An expression of an integer type."""
        picker = self.picker
        if depth <= 0 or picker.chance(25):
            return self._atom(dtype)
        kind = picker.some(_OPERATIONS)
        left = self.number(dtype, depth - 1)
        match kind:
            case "//" | "%" | "truncdiv" | "truncmod":
                right = self._constant(dtype, picker.some((2, 3, 7, 8, 16, 40, -1, -3, 0))) if picker.chance(75) else self._atom(dtype)
                return f"(({left}) {kind} {right})" if kind in ("//", "%") else f"{kind}({left}, {right})"
            case "<<" | ">>":
                return f"(({left}) {kind} {self._constant(dtype, picker.some((1, 2, 3, 0, 7, 31)))})"
            case "min" | "max":
                return f"{kind}({left}, {self.number(dtype, depth - 1)})"
            case "select":
                return f"(({left}) if {self.condition(depth - 1)} else ({self.number(dtype, depth - 1)}))"
            case "cast":
                other = picker.some(_TYPES)
                return f"cast({self.number(other, depth - 1)}, {dtype})" if other != dtype else left
            case "neg":
                return f"({self._constant(dtype, 0)} - ({left}))"
            case "~":
                return f"(~({left}))"
            case "*" if picker.chance(60):
                return f"(({left}) * {self._constant(dtype, picker.some((2, 3, -2, -1, 4, 8, 40, 65536, 1 << 20, 1 << 30)))})"
            case _:
                return f"(({left}) {kind} ({self.number(dtype, depth - 1)}))"

    def _constant(self, dtype: str, value: int) -> str:
        t = as_dtype(dtype)
        value = max(int(t.min), min(int(t.max), value))
        return str(value) if dtype == "int32" else f"{dtype}({value})"

    def _atom(self, dtype: str) -> str:
        picker = self.picker
        kind = picker.weighted(((25, "point"), (25, "name"), (25, "data"), (12, "small"), (6, "end"), (7, "other")))
        places = (self.point,) if self.point else self.names
        match kind:
            case "small":
                return self._constant(dtype, picker.integer(0, 12) - 3)
            case "end":
                t = as_dtype(dtype)
                end = picker.some((int(t.max), int(t.min), int(t.max) - 3, int(t.min) + 2))
                return self._constant(dtype, end)
            case "point":
                text = picker.some(places)
            case "name":
                text = picker.some(self.names)
            case "data":
                text = f"X[{picker.some((*places, str(picker.integer(0, 15))))}]"
            case _:
                text = f"Y[{picker.some((*places, str(picker.integer(0, 15))))}]"
                return text if dtype == "int64" else f"cast({text}, {dtype})"
        return text if dtype == "int32" else f"cast({text}, {dtype})"

    def index(self, depth: int = 2) -> str:
        """A number of any type."""
        return self.number(self.picker.some(_TYPES), depth)

    def condition(self, depth: int = 1) -> str:
        dtype = self.picker.some(_TYPES)
        op = self.picker.some(("<", "<=", ">", ">=", "==", "!="))
        text = f"(({self.number(dtype, depth)}) {op} ({self.number(dtype, depth)}))"
        return f"({text} {self.picker.some(('and', 'or'))} {self.condition(0)})" if self.picker.chance(15) else text

    def element(self) -> str:
        """An element at an index, maybe outside."""
        match self.picker.some(("A", "B", "S", "D")):
            case "B":
                return f"B[{self.index()}, {self.index(1)}]"
            case "D":
                return f"D[bx, {self.index()}]"
            case name:
                return f"{name}[{self.index()}]"

    def value(self) -> str:
        """An int64."""
        match self.picker.some(("element", "element", "number", "condition")):
            case "element":
                return f"cast({self.element()}, int64)"
            case "number":
                return f"cast({self.index(3)}, int64)"
            case _:
                return f"(int64({self.picker.integer(0, 9)}) if {self.condition(2)} else int64(-1))"


def index_values_program(choices: Choices) -> Program:
    """A program of one launch without lanes."""
    picker = Picker(choices)
    writer = _Writer(picker=picker)
    writer.line(f'S = alloc(({_SIZE},), int32, "shared")')
    with writer.inside(f"for i in parallel({_SIZE}):"):
        writer.line("S[i] = A[i] + bx")
    for _ in range(4 + picker.integer(0, 8)):
        _step(writer)
    writer.line(f"copy(S[:], D[bx, {_SIZE}:+{_SIZE}])")
    head = (
        "# tile-ir 1.0\n"
        f"def k(X: tensor(({_POINTS},), int32), Y: tensor(({_POINTS},), int64), A: tensor(({_SIZE},), int32), B: tensor((5, 8), int32), "
        f"n: scalar(int32), w: scalar(int32), D: tensor(({_BLOCKS}, {2 * _SIZE}), int32), "
        f"C: tensor(({max(1, writer.rows)}, {_BLOCKS}, {_POINTS}), int64)):\n"
        f"    with launch({_BLOCKS}, threads=(32,)) as (bx,):\n"
    )
    kernel = parse_kernel(head + "\n".join(writer.lines) + "\n")
    arguments = (
        wild_data(picker, "int32"), wild_data(picker, "int64"), counted(7, _SIZE), counted(5, 5, 8), picker.integer(0, 9),
        picker.some((0, 5, 1 << 30, -(1 << 31), (1 << 31) - 1, -7, 1 << 16)), counted(3, _BLOCKS, 2 * _SIZE),
        np.zeros((max(1, writer.rows), _BLOCKS, _POINTS), np.int64),
    )  # fmt: skip
    return Program(kernel=kernel, arguments=arguments)


def wild_data(picker: Picker, dtype: str) -> Array:
    """Small numbers, numbers near the ends of the type, and numbers whose multiples wrap to small ones."""
    t = as_dtype(dtype)
    wide = 1 << t.bits
    values = []
    for _ in range(_POINTS):
        small = picker.integer(0, 60) - 10
        part = wide // picker.some((2, 4, 8)) + small
        values.append(picker.weighted(((50, small), (15, int(t.max) - small), (15, int(t.min) + small), (20, part))))
    wrapped = [(value + wide // 2) % wide - wide // 2 for value in values]
    return np.array(wrapped, t.numpy)


def counted(step: int, *shape: int) -> Array:
    """Numbers from 1 to 101 in a fixed order."""
    found: Array = (np.arange(math.prod(shape)) * step % 101 + 1).astype(np.int32).reshape(shape)
    return found


def _step(w: _Writer) -> None:
    w.picker.weighted((
        (30, _points), (12, _turns), (10, _name), (10, _copy_in), (10, _copy_out), (6, _part), (6, _fill), (10, _branch), (8, _loop),
    ))(w)  # fmt: skip


def _points(w: _Writer) -> None:
    """A value of each point, in a Map or in a loop."""
    head = w.picker.some(("parallel", "parallel", "serial", "unrolled", "vectorised"))
    axis = w.name("i")
    with w.inside(f"for {axis} in {head}({_POINTS}):", axis):
        w.line(f"C[{w.rows}, bx, {axis}] = {w.value()}")
    w.rows += 1


def _turns(w: _Writer) -> None:
    """Stores at indices that may be outside, one after the other."""
    axis = w.name("i")
    with w.inside(f"for {axis} in serial({_POINTS}):", axis):
        target = f"D[bx, min({w.index()}, {{last}})]" if w.picker.chance(20) else "D[bx, {index}]"
        if w.picker.chance(50):
            target = "S[{index}]"
        if "{last}" in target:
            target = "D[bx, {index}]"
        w.line(f"{target.format(index=w.index())} = {w.number('int32', 2)}")


def _name(w: _Writer) -> None:
    name = w.name("q")
    w.line(f"{name}: int32 = {w.number('int32', 2)}")
    w.names = (*w.names, name)


def _copy_in(w: _Writer) -> None:
    extent = w.picker.some((4, 1, 7, 16))
    source = f"A[{w.index()}:+{extent}]" if w.picker.chance(60) else f"B[{w.index(1)}, {w.index(1)}:+{extent}]"
    w.line(f"copy({source}, S[{w.index()}:+{extent}])")


def _copy_out(w: _Writer) -> None:
    extent = w.picker.some((4, 1, 7, 16))
    w.line(f"copy(S[{w.index()}:+{extent}], D[bx, {w.index()}:+{extent}])")


def _part(w: _Writer) -> None:
    """A copy of an extent that is known only then."""
    name = w.name("e")
    w.line(f"{name}: int32 = ({w.number('int32', 2)}) % 6")
    w.line(f"copy(A[{w.index()}:+{name}], S[{w.index()}:+{name}])")


def _fill(w: _Writer) -> None:
    w.line(f"fill(S[{w.index()}:+{w.picker.integer(1, 5)}], {w.number('int32', 2)})")


def _branch(w: _Writer) -> None:
    """What is known of an index under a condition on it."""
    number = w.number("int32", 2)
    low, high = w.picker.some((0, -3, 1)), w.picker.some((_SIZE, _SIZE - 1, 8, 1 << 20))
    with w.inside(f"if ({number}) >= {low} and ({number}) < {high}:"):
        w.line(f"D[bx, {number}] = A[{number}]")
        w.line(f"C[{w.rows}, bx, 0] = cast(S[({number}) + {w.picker.integer(0, 4)}], int64)")
    w.rows += 1


def _loop(w: _Writer) -> None:
    """A loop between numbers that are known only then."""
    axis, begin, end = w.name("i"), w.name("b"), w.name("e")
    w.line(f"{begin}: int32 = max(min({w.number('int32', 2)}, 9), -9)")
    w.line(f"{end}: int32 = max(min({w.number('int32', 2)}, 9), -9)")
    step = w.picker.some(("", "", ", 2", ", -1", ", 3"))
    with w.inside(f"for {axis} in serial({begin}, {end}{step}):", axis):
        w.line(f"S[{axis} + {w.picker.integer(0, 12)}] = {w.element()}")
