"""Layouts to look at: grids of text, bank maps, and SVG drawings.

In: a layout onto a tile, or a memory layout of one, and where to cut tiles of more than two dimensions. Out: text, one line a row, or an
SVG document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

import numpy as np

from zellige.diagnostics import catalogue
from zellige.layouts.banks import Banks
from zellige.layouts.build import OFFSET
from zellige.layouts.layout import Array, Layout

CELL_WIDTH, CELL_HEIGHT = 58, 22  # of the drawing, in pixels

Grid = list[list[str]]


def holders_grid(layout: Layout, at: Mapping[str, int] | None = None) -> Grid:
    """For each element of the tile the inputs that hold it: ``l3 r1`` is register 1 of lane 3, ``+7`` that seven more hold it too.

    Of the inputs each is shown by its first letter, in the order lane, others, register. "-" is an element that none holds. ``at`` fixes
    coordinates; E320 for a tile of more than two dimensions that are not fixed.
    """
    fixed = at or {}
    rows, columns = _shape({name: size for name, size in layout.output_sizes.items() if name not in fixed})
    cells: list[list[list[str]]] = [[[] for _ in range(columns)] for _ in range(rows)]
    names = list(layout.input_sizes)
    shown = sorted(names, key=lambda name: (name == "register", name != "lane"))
    letters = _letters(shown)
    points = [array.reshape(-1) for array in np.indices(tuple(layout.input_sizes.values()))]
    table = {name: np.broadcast_to(array, tuple(layout.input_sizes.values())).reshape(-1) for name, array in layout.table().items()}
    inside = np.ones(points[0].shape if points else (1,), bool)
    for name, value in fixed.items():
        inside &= table.pop(name) == value
    images = list(table.values())
    first = images[0] if len(images) == 2 else np.zeros_like(images[0])
    for position in np.flatnonzero(inside):
        text = " ".join(f"{letters[name]}{points[names.index(name)][position]}" for name in shown if layout.input_sizes[name] > 1)
        cells[first[position]][images[-1][position]].append(text or "*")
    return [[_cell(holders) for holders in row] for row in cells]


def offsets_grid(memory: Layout, at: Mapping[str, int] | None = None) -> Grid:
    """The offset of each element of a tile in memory; ``at`` as for :func:`holders_grid`."""
    return [[str(value) for value in row] for row in _offsets(memory, at or {})]


def banks_grid(memory: Layout, banks: Banks, *, bits_per_element: int, at: Mapping[str, int] | None = None) -> Grid:
    """The bank in which each element of a tile begins."""
    words = _offsets(memory, at or {}) * bits_per_element // (8 * banks.width)
    return [[str(value) for value in row] for row in words % banks.count]


def text_of(grid: Grid, *, rows: str = "", columns: str = "") -> str:
    """A grid as text with row and column numbers; the names of the dimensions stand in the corner."""
    heads = [str(n) for n in range(len(grid[0]))]
    widths = [max(len(cell) for cell in column) for column in zip(heads, *grid)]
    corner = f"{rows}\\{columns}" if rows or columns else ""
    left = max(len(corner), len(str(len(grid) - 1)))
    lines = [f"{corner:<{left}} | " + "  ".join(f"{head:>{width}}" for head, width in zip(heads, widths))]
    lines.append("-" * left + "-+-" + "-" * (sum(widths) + 2 * (len(widths) - 1)))
    for number, row in enumerate(grid):
        lines.append(f"{number:>{left}} | " + "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths)))
    return "\n".join(lines)


def describe(layout: Layout, banks: Banks | None = None, *, bits_per_element: int = 32) -> str:
    """The text of a layout: its digits, then a grid of holders, or of offsets (of banks where they are given) for one of memory."""
    names = list(layout.output_sizes)
    if names == [OFFSET]:
        sides = list(layout.input_sizes)
        grid = offsets_grid(layout) if banks is None else banks_grid(layout, banks, bits_per_element=bits_per_element)
    else:
        sides = names
        grid = holders_grid(layout)
    return f"{layout}\n{text_of(grid, rows=sides[0] if len(sides) == 2 else '', columns=sides[-1])}"


def svg_of(grid: Grid, *, title: str = "") -> str:
    """A grid as an SVG document: cells of one holder (the text before the first blank) share a colour."""
    kinds: dict[str, int] = {}
    for row in grid:
        for cell in row:
            kinds.setdefault(cell.split(" ")[0], len(kinds))
    top = CELL_HEIGHT if title else 0
    width, height = len(grid[0]) * CELL_WIDTH, len(grid) * CELL_HEIGHT + top
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="monospace" font-size="11">',
        f'<text x="4" y="15">{escape(title)}</text>' if title else "",
    ]
    for number, row in enumerate(grid):
        for position, cell in enumerate(row):
            hue = kinds[cell.split(" ")[0]] * 137 % 360  # neighbouring numbers get far hues (the golden angle)
            x, y = position * CELL_WIDTH, number * CELL_HEIGHT + top
            parts.append(
                f'<rect x="{x}" y="{y}" width="{CELL_WIDTH}" height="{CELL_HEIGHT}" fill="hsl({hue},65%,82%)" stroke="#777"/>'
                f'<text x="{x + CELL_WIDTH // 2}" y="{y + 15}" text-anchor="middle">{escape(cell)}</text>'
            )
    return "\n".join([*filter(None, parts), "</svg>", ""])


def _shape(sizes: Mapping[str, int]) -> tuple[int, int]:
    extents = list(sizes.values())
    if not 1 <= len(extents) <= 2:
        raise catalogue.E320.error(operation="a drawing", reason=f"a tile of {len(extents)} dimensions; take a slice of one or two")
    return (1, extents[0]) if len(extents) == 1 else (extents[0], extents[1])


def _offsets(memory: Layout, at: Mapping[str, int]) -> Array:
    shape = _shape({name: size for name, size in memory.input_sizes.items() if name not in at})
    place: tuple[int | slice, ...] = tuple(at.get(name, slice(None)) for name in memory.input_sizes)
    table = np.broadcast_to(memory.table()[OFFSET], tuple(memory.input_sizes.values()))
    return np.asarray(table[place], np.int64).reshape(-1, shape[1])


def _letters(names: Sequence[str]) -> dict[str, str]:
    """The shortest beginnings of names that tell them apart."""

    def beginning(name: str) -> str:
        others = [other for other in names if other != name]
        return next((name[:n] for n in range(1, len(name)) if not any(other.startswith(name[:n]) for other in others)), name)

    return {name: beginning(name) for name in names}


def _cell(holders: Sequence[str]) -> str:
    if not holders:
        return "-"
    return holders[0] if len(holders) == 1 else f"{holders[0]} +{len(holders) - 1}"
