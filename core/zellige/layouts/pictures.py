"""Where the elements of one tile of a program live, to print and to draw.

In: a tile's name and extents, its layout in registers or in memory, and what was found about its accesses. Out: a :class:`TilePicture`, as
text with grids cut to what fits a screen, or as SVG documents of the whole tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zellige.layouts.banks import Banks
from zellige.layouts.build import OFFSET
from zellige.layouts.draw import Grid, banks_grid, holders_grid, offsets_grid, svg_of, text_of
from zellige.layouts.layout import Layout

SHOWN_ROWS: Final = 16
SHOWN_COLUMNS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TilePicture:
    """``layout`` maps (register, lane, warp) to the tile's dimensions, or those to an offset in elements; it may reach beyond ``shape``.

    ``place`` says in words where the tile is, ``banks`` those of its memory where it has some, ``remarks`` what else was found, a line
    each. None as a layout: the place is not one map (a copy in every lane).
    """

    name: str
    dtype: str
    bits: int
    shape: tuple[int, ...]
    place: str
    layout: Layout | None
    banks: Banks | None = None
    remarks: tuple[str, ...] = ()

    @property
    def is_memory(self) -> bool:
        """Whether the layout gives offsets."""
        return self.layout is not None and list(self.layout.output_sizes) == [OFFSET]

    @property
    def title(self) -> str:
        """Name, extents, type and place."""
        extents = " x ".join(map(str, self.shape)) or "1"
        return f"{self.name}: {extents} of {self.dtype} in {self.place}"

    def grids(self) -> dict[str, Grid]:
        """What there is to see: "holders", or "offsets" and where there are banks "banks". Of more than two dimensions the last two, at the
        beginning of the others."""
        if self.layout is None:
            return {}
        names = list(self.layout.input_sizes if self.is_memory else self.layout.output_sizes)
        at = dict.fromkeys(names[:-2], 0)
        if not self.is_memory:
            return {"holders": self._cut(holders_grid(self.layout, at))}
        found = {"offsets": self._cut(offsets_grid(self.layout, at))}
        if self.banks is not None:
            found["banks"] = self._cut(banks_grid(self.layout, self.banks, bits_per_element=self.bits, at=at))
        return found

    def _cut(self, grid: Grid) -> Grid:
        """Without what lies beyond the tile."""
        rows, columns = (self.shape[-2] if len(self.shape) > 1 else 1), (self.shape[-1] if self.shape else 1)
        return [row[:columns] for row in grid[:rows]]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield self.title
        if self.layout is not None:
            yield f"  {self.layout}"
        for remark in self.remarks:
            yield f"  {remark}"
        for what, grid in self.grids().items():
            rows, columns = len(grid), len(grid[0]) if grid else 0
            part = [row[:SHOWN_COLUMNS] for row in grid[:SHOWN_ROWS]]
            is_all = rows <= SHOWN_ROWS and columns <= SHOWN_COLUMNS
            yield f"  {what}:" if is_all else f"  {what}, {len(part)} of {rows} rows and {len(part[0])} of {columns} columns:"
            for line in text_of(part).splitlines():
                yield f"    {line}"

    def svg(self) -> dict[str, str]:
        """An SVG document of the whole tile for each of :meth:`grids`."""
        return {what: svg_of(grid, title=f"{self.title}: {what}") for what, grid in self.grids().items()}
