"""How the warps of a block share the elements of a product.

In: the extents of a product, the form that executes it, the warps and the author's policy. Out: :class:`WarpTiling` and the distribution
of the accumulator that follows from it.
"""

from __future__ import annotations

from zellige.ir.stmt import GemmPolicy
from zellige.records import dataclass
from zellige.simt.distribution import Digit, Distribution
from zellige.simt.ir import ProductForm


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpTiling:
    """``rows`` x ``columns`` warps, or groups of warps where the form is one of groups; each holds ``row_tiles`` x ``column_tiles`` blocks
    of the form, next to each other. Warp ``w`` stands in row ``w % rows`` and column ``w // rows``; warps beyond repeat the work of
    others."""

    form: ProductForm
    rows: int
    columns: int
    row_tiles: int
    column_tiles: int
    copies: int = 1

    @property
    def accumulator(self) -> Distribution:
        """Where the elements of c are: registers count the form's own, then the tiles of a row, then rows."""
        form = self.form
        digits: list[Digit] = list(form.c_layout.digits)
        registers = form.c_layout.registers
        tiles = (
            ("register", registers, self.column_tiles, 1, form.n),
            ("register", registers * self.column_tiles, self.row_tiles, 0, form.m),
            ("warp", form.warps, self.rows, 0, form.m * self.row_tiles),
            ("warp", form.warps * self.rows, self.columns, 1, form.n * self.column_tiles),
        )
        for source, divisor, radix, dimension, stride in tiles:
            digits.append(Digit(source=source, divisor=divisor, radix=radix, dimension=dimension, stride=stride))  # type: ignore[arg-type]
        if self.copies > 1:
            digits.append(Digit(source="warp", divisor=self.rows * self.columns, radix=self.copies, dimension=None))
        return Distribution(shape=(self.rows * self.row_tiles * form.m, self.columns * self.column_tiles * form.n), digits=tuple(digits))


def tile_warps(form: ProductForm, m: int, n: int, warps: int, policy: GemmPolicy) -> WarpTiling:
    """The sharing with the least work wasted and then the least operand traffic, of equals one that ends with the tile; a policy other than
    square decides the direction."""
    best: tuple[tuple[float, float, int, int], WarpTiling] | None = None
    m_tiles, n_tiles = -(-m // form.m), -(-n // form.n)
    for used in (d for d in range(warps, 0, -1) if warps % d == 0):
        for rows in (d for d in range(1, used + 1) if used % d == 0):
            columns = used // rows
            row_tiles, column_tiles = -(-m_tiles // rows), -(-n_tiles // columns)
            wasted = row_tiles * rows * column_tiles * columns * (warps // used) / (m_tiles * n_tiles)
            against = 0.0
            if policy == "full_row":
                against = columns
            elif policy == "full_col":
                against = rows
            traffic = row_tiles * form.m + column_tiles * form.n
            tiling = WarpTiling(form=form, rows=rows, columns=columns, row_tiles=row_tiles, column_tiles=column_tiles, copies=warps // used)
            beyond = (rows * row_tiles != m_tiles) + (columns * column_tiles != n_tiles)
            score = (against if wasted <= 2 else against + 100, round(wasted, 3) * traffic, beyond, -rows)
            if best is None or score < best[0]:
                best = (score, tiling)
    assert best is not None
    return best[1]
