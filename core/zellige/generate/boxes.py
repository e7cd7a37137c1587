"""Kernels of regions: copies, fills, transpositions and sums of boxes that begin before their buffer, behind it or far beyond all numbers
of 32 bits, that have no element, more than their buffer or, by a number known only then, fewer than none, and that overlap, through views
too.

In: a source of choices. Out: a :class:`Program` of integers, so that every backend has the same bits.

The names of the text: X data of int32, Y data of int64, A and B inputs, E an input of M rows, which may be none, S and T tiles of the
block, V, H and G views of S, A and T, D the block's rows of what is stored to, n a small scalar, w a wild one, l a wild one of int64, bx
the block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from zellige.generate.choices import Choices, Picker
from zellige.generate.index_values import counted, wild_data
from zellige.generate.program import Program
from zellige.ir.parser import parse_kernel

_BLOCKS: Final = 2
_SIZE: Final = 40
_LINES: Final = ("A", "S", "D", "G")
_MATRICES: Final = ("B", "T", "V", "E", "H", "F")
_WRITTEN: Final = ("S", "D", "G", "T", "V", "F")
_ENDS: Final = ((1 << 31) - 1, -(1 << 31), (1 << 31) - 3, 2 - (1 << 31))
_WIDE_ENDS: Final = ((1 << 63) - 1, -(1 << 63), (1 << 32) + 3, -(1 << 32), 1 << 31, (1 << 62) + 1)
_WIDE_OFFSETS: Final = tuple(f"uint64({(1 << 64) - 2})" if end == 1 << 31 else f"int64({end})" for end in _WIDE_ENDS)
_SCALARS: Final = (
    "n", "w", "l", "n - 4", "w + 3", "w * 8", "l * int64(16)", "bx * w", "M - n", "l + int64(5)", "cast(w, int64) * l",
)  # fmt: skip

_HEAD: Final = f"""\
# tile-ir 1.0
@sizes(M=int32)
def k(X: tensor((16,), int32), Y: tensor((16,), int64), A: tensor(({_SIZE},), int32), B: tensor((5, 8), int32), E: tensor((M, 6), int32), \
n: scalar(int32), w: scalar(int32), l: scalar(int64), D: tensor(({_BLOCKS}, 2, {_SIZE}), int32)):
    with launch({_BLOCKS}, threads=(32,)) as (bx,):
        S = alloc(({_SIZE},), int32, "shared")
        T = alloc((6, 8), int32, "shared")
        F = alloc((8, 8), int32, "fragment")
        V = view(S, (5, 8), int32)
        G = view(T, (48,), int32)
        H = view(A, (8, 5), int32)
        copy(A[:], S[:])
        fill(F[:, :], 3)
        for i, j in parallel(6, 8):
            T[i, j] = i * 8 + j + bx
"""
_TAIL: Final = f"""\
        copy(S[:], D[bx, 1, :])
        for i, j in parallel(6, 8):
            D[bx, 0, i * 8 + j] = D[bx, 0, i * 8 + j] + T[i, j]
        for i, j in parallel(8, 8):
            if i * 8 + j < {_SIZE}:
                D[bx, 0, i * 8 + j] = D[bx, 0, i * 8 + j] * 3 + F[i, j]
"""


@dataclass(slots=True, kw_only=True)
class _Writer:
    """The lines of the body so far, and how many names were made."""

    picker: Picker
    lines: list[str] = field(default_factory=list)
    indent: int = 2
    made: int = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def name(self, value: str) -> str:
        """A variable of int32 with the value."""
        self.made += 1
        self.line(f"e{self.made}: int32 = {value}")
        return f"e{self.made}"

    def offset(self) -> str:
        """Where a region begins: mostly near the buffer."""
        picker = self.picker
        small = picker.integer(0, 13) - 6
        match picker.weighted(((30, "small"), (20, "sum"), (8, "size"), (10, "end"), (8, "wide"), (10, "data"), (14, "scalar"))):
            case "small":
                return str(small)
            case "sum":
                return f"bx * {picker.some((8, 3, -2, 40))} + {small}"
            case "size":
                return f"{picker.some((_SIZE, _SIZE - 1, 5, 8, _SIZE + 1))}"
            case "end":
                return str(picker.some(_ENDS))
            case "wide":
                return picker.some(_WIDE_OFFSETS)
            case "data":
                name, place = picker.some("XY"), picker.integer(0, 15)
                element, narrow = f"{name}[{place}]", picker.some(("uint8", "uint32", "uint64"))
                times, more = ("8", "bx") if name == "X" else ("int64(8)", "cast(bx, int64)")
                return picker.some((element, f"{element} * {times}", f"{element} + {more}", f"cast({element}, {narrow})"))
            case _:
                return picker.some(_SCALARS)

    def extent(self) -> str:
        """How long a region is: a number, or one known only then, which may be below 0."""
        picker = self.picker
        if picker.chance(70):
            return str(picker.some((1, 2, 3, 4, 5, 7, 8, 0, _SIZE, 64)))
        return self.name(picker.some(("n - 3", "X[0] % 9 - 2", "max(min(w, 9), -9)", "M", "M - 2", "bx * 3", "n % 3")))

    def region(self, name: str, extents: tuple[str, ...]) -> str:
        """A box of a buffer; one of fewer dimensions than the buffer has 1 in those before."""
        offsets = [self.offset() if self.picker.chance(75) else "0" for _ in extents]
        inner = [f"{offset}:+{extent}" for offset, extent in zip(offsets, extents)]
        if name == "D":
            inner = ["bx", *(["1"] if len(inner) == 1 else []), *inner]
        return f"{name}[{', '.join(inner)}]"


def boxes_program(choices: Choices) -> Program:
    """A program of one launch without lanes."""
    picker = Picker(choices)
    writer = _Writer(picker=picker)
    for _ in range(3 + picker.integer(0, 6)):
        if picker.chance(15):
            writer.line(f"for k in serial({picker.some(('2', 'n % 4', '0', 'n - 4'))}):")
            writer.indent = 3
            _step(writer)
            writer.indent = 2
        else:
            _step(writer)
    kernel = parse_kernel(_HEAD + "\n".join(writer.lines) + "\n" + _TAIL)
    rows = picker.some((5, 1, 0, 7))
    arguments = (
        wild_data(picker, "int32"), wild_data(picker, "int64"), counted(7, _SIZE), counted(5, 5, 8), counted(11, rows, 6),
        picker.integer(0, 9), picker.some((0, 5, 1 << 30, -(1 << 31), (1 << 31) - 1, -7, 1 << 16)),
        picker.some((0, 3, -2, *_WIDE_ENDS)), np.zeros((_BLOCKS, 2, _SIZE), np.int32),
    )  # fmt: skip
    return Program(kernel=kernel, arguments=arguments)


def _step(w: _Writer) -> None:
    w.picker.weighted(((30, _line), (30, _matrix), (12, _fill), (12, _overlap), (8, _transpose), (8, _sum), (8, _added), (10, _points)))(w)


def _line(w: _Writer) -> None:
    """Elements of one dimension."""
    extent = w.extent()
    target = w.picker.some([name for name in _LINES if name in _WRITTEN])
    w.line(f"copy({w.region(w.picker.some(_LINES), (extent,))}, {w.region(target, (extent,))})")


def _matrix(w: _Writer) -> None:
    """Elements of two dimensions."""
    extents = (w.extent(), w.extent())
    target = w.picker.some([name for name in (*_MATRICES, "D") if name in _WRITTEN])
    w.line(f"copy({w.region(w.picker.some(_MATRICES), extents)}, {w.region(target, extents)})")


def _fill(w: _Writer) -> None:
    if w.picker.chance(50):
        w.line(f"fill({w.region(w.picker.some(('S', 'G', 'D')), (w.extent(),))}, {w.picker.integer(0, 9)})")
    else:
        w.line(f"fill({w.region(w.picker.some(('T', 'V', 'F')), (w.extent(), w.extent()))}, bx + {w.picker.integer(0, 9)})")


def _overlap(w: _Writer) -> None:
    """What is read and what is written have elements in common."""
    if w.picker.chance(50):
        extent = w.extent()
        w.line(f"copy({w.region('S', (extent,))}, {w.region('S', (extent,))})")
    else:
        extents = (w.extent(), w.extent())
        source, target = w.picker.some((("V", "V"), ("T", "T"), ("F", "F")))
        w.line(f"copy({w.region(source, extents)}, {w.region(target, extents)})")


def _transpose(w: _Writer) -> None:
    rows, columns = w.picker.some(("2", "3", "5", "0")), w.picker.some(("2", "3", "7"))
    target = w.picker.some(("T", "V", "F"))
    source = w.picker.some([name for name in ("B", "H", "E", "T", "V", "F") if name != target])
    w.line(f"transpose({w.region(source, (rows, columns))}, {w.region(target, (columns, rows))})")


def _sum(w: _Writer) -> None:
    rows, columns = w.picker.some(("2", "5", "1")), w.picker.some(("3", "8", "1"))
    op = w.picker.some(("sum", "max", "bitxor"))
    w.line(f'reduce("{op}", {w.region(w.picker.some(_MATRICES), (rows, columns))}, {w.region("S", (rows,))}, axis=1)')


def _added(w: _Writer) -> None:
    """A tile added to a tensor."""
    extent = w.picker.some(("4", "1", "9"))
    w.line(f'atomic_tile("add", {w.region(w.picker.some(("S", "G", "A")), (extent,))}, {w.region("D", (extent,))})')


def _points(w: _Writer) -> None:
    """Elements through views, where the point may have none."""
    name = w.picker.some(("V", "H", "T", "F", "E"))
    first, second = w.offset(), w.offset()
    w.line("for i, j in parallel(2, 4):")
    w.line(f"    D[bx, 0, i * 4 + j] = D[bx, 0, i * 4 + j] + {name}[{_shifted('i', first)}, {_shifted('j', second)}]")


def _shifted(axis: str, offset: str) -> str:
    """An offset and an axis as one index, in the type of the offset."""
    is_wide = any(word in offset for word in ("Y", "l", "int64", "cast"))
    return f"cast({offset}, int64) + cast({axis}, int64)" if is_wide else f"{offset} + {axis}"
