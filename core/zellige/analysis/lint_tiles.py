"""E295: tiles that lie at another place than the blocks and loops around them count.

In: a verified kernel; what it reads, with the ranges of the variables at each place. Out: warnings, silent where it is not sure:

* a loop or the grid has as many steps as a tensor has tiles along a dimension, and each step goes on by one element instead of a tile,
  so that the end of the tensor is never read: ``A[by * 64, k]`` where ``A[by * 64, k * 32]`` is meant;
* the product of rows that one block index counts with columns that another counts is written to the rows of the other, which is another
  block's place, or outside: ``C[bx * 64, by * 64]`` behind ``T.Kernel(columns, rows) as (bx, by)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zellige.analysis.lint_coverage import Names, Write, line_of
from zellige.diagnostics import Diagnostic, Span, catalogue
from zellige.ir.expr import Buffer, Expr, Region, Var, constant_value
from zellige.ir.stmt import Bind, Copy, Gemm, Kernel, Launch, StmtNode, is_whole
from zellige.ir.traverse import walk

_STEP_HINT = "a tile begins at the number of the step times its length: {variable} * {tile}"
_SWAP_HINT = "the tile belongs to the rows of {rows} and the columns of {columns}: exchange the two in the place that is written"


@dataclass(frozen=True, slots=True)
class Creeping:
    """Steps of one element: ``axis`` of the tensor, the variable that counts, the tile's length there, how many steps, where they end."""

    axis: int
    variable: str
    tile: int
    steps: int
    stop: int
    span: Span | None


def creeping(reads: Sequence[Write], shape: Sequence[int]) -> Creeping | None:
    """What every read of a tensor of that shape does along some dimension: as many steps as there are tiles, of one element each."""
    for axis, size in enumerate(shape):
        found = [_creeping_along(read, axis, size) for read in reads]
        if found and all(found):
            return found[0]
    return None


def _creeping_along(read: Write, axis: int, size: int) -> Creeping | None:
    line = line_of(read, axis)
    if line is None or line.extent < 2 or len(line.terms) != 1 or line.start != 0:
        return None
    (term,) = line.terms
    variable = term.factor[0] if len(term.factor) == 1 else None
    is_each_tile = term.step == 1 and term.count > 1 and term.count == -(-size // line.extent)
    if not is_each_tile or not isinstance(variable, Var) or line.stop >= size:
        return None
    return Creeping(axis, variable.label, line.extent, term.count, line.stop, read.span)


def told_creeping(buffer: Buffer, found: Creeping) -> Diagnostic:
    """The warning of one tensor."""
    what = (
        f"{found.variable} counts the {found.steps} tiles of {found.tile} elements of {buffer.label} along dimension {found.axis}, and is "
        f"the place of the first element: only [0:{found.stop}] is read"
    )
    hint = _STEP_HINT.format(variable=found.variable, tile=found.tile)
    return catalogue.E295.diagnose(found.span, what=what, hint=hint, severity="warning")


# ---- products at another block's place


def exchanged(kernel: Kernel) -> Iterator[Diagnostic]:
    """One warning for each statement that writes a product to rows that its columns count, and to columns that its rows count."""
    for launch in kernel.launches:
        if len(launch.grid_vars) > 1:
            yield from _Products(launch).warnings()


class _Products:
    """Which block indices count the rows and the columns of what products make in a launch."""

    def __init__(self, launch: Launch) -> None:
        self._names = Names(launch.grid_vars)
        self._statements = [node for node in walk(launch) if isinstance(node, StmtNode)]
        for statement in self._statements:
            if isinstance(statement, Bind):
                self._names.note(statement, {})

    def warnings(self) -> Iterator[Diagnostic]:
        sides = self._sides()
        for statement in self._statements:
            if not isinstance(statement, Copy) or statement.dst.buffer.space != "global" or statement.src.buffer.root not in sides:
                continue
            rows, columns = sides[statement.src.buffer.root]
            places = self._places(statement.dst)
            if places is None or rows is None or columns is None or not rows or not columns or rows & columns:
                continue
            if places == (columns, rows):
                yield self._told(statement, rows, columns)

    def _told(self, statement: Copy, rows: frozenset[Var], columns: frozenset[Var]) -> Diagnostic:
        of_rows, of_columns = (", ".join(sorted(var.label for var in side)) for side in (rows, columns))
        name, tile = statement.dst.buffer.label, statement.src.buffer.root.label
        what = f"the rows of {tile} belong to {of_rows} and its columns to {of_columns}, and {name} takes it at the rows of {of_columns}"
        hint = _SWAP_HINT.format(rows=of_rows, columns=of_columns)
        return catalogue.E295.diagnose(statement.span, what=what, hint=hint, severity="warning")

    def _sides(self) -> dict[Buffer, tuple[frozenset[Var] | None, frozenset[Var] | None]]:
        """Of each tile that products add to, and of tiles that are copied from those, the indices of its rows and of its columns; None
        where several products or copies do not agree."""
        loaded = self._loaded()
        made: dict[Buffer, tuple[frozenset[Var] | None, frozenset[Var] | None]] = {}
        for statement in self._statements:
            if isinstance(statement, Gemm):
                a, b = loaded.get(statement.a.buffer.root), loaded.get(statement.b.buffer.root)
                rows = None if a is None else a[1 if statement.transpose_a else 0]
                columns = None if b is None else b[0 if statement.transpose_b else 1]
                _agree(made, statement.c.buffer.root, rows, columns)
        for statement in self._statements:
            if isinstance(statement, Copy) and statement.dst.buffer.space != "global" and statement.src.buffer.root in made:
                if _is_whole(statement.src) and _is_whole(statement.dst):
                    _agree(made, statement.dst.buffer.root, *made[statement.src.buffer.root])
        return made

    def _loaded(self) -> dict[Buffer, tuple[frozenset[Var], frozenset[Var]]]:
        """The block indices along the two dimensions of tiles that copies from tensors fill, the same in every copy."""
        found: dict[Buffer, tuple[frozenset[Var], frozenset[Var]]] = {}
        unsure: set[Buffer] = set()
        for statement in self._statements:
            for region in statement.writes():
                places = None
                if isinstance(statement, Copy) and statement.src.buffer.space == "global" and _is_whole(region):
                    places = self._places(statement.src)
                if places is None or found.setdefault(region.buffer.root, places) != places:
                    unsure.add(region.buffer.root)
        return {buffer: places for buffer, places in found.items() if buffer not in unsure}

    def _places(self, region: Region) -> tuple[frozenset[Var], frozenset[Var]] | None:
        """The block indices in the offsets of the two dimensions along which a region extends; None where those are not two."""
        long = [offset for offset, extent in zip(region.offsets, region.extents) if constant_value(extent) != 1]
        return (self._counting(long[0]), self._counting(long[1])) if len(long) == 2 else None

    def _counting(self, offset: Expr) -> frozenset[Var]:
        form = self._names.form(offset, {})
        atoms = [atom for factor in form.terms for atom in factor]
        return frozenset(node for atom in atoms for node in walk(atom) if isinstance(node, Var) and node in self._names.grid)


def _agree(
    made: dict[Buffer, tuple[frozenset[Var] | None, frozenset[Var] | None]],
    tile: Buffer,
    rows: frozenset[Var] | None,
    columns: frozenset[Var] | None,
) -> None:
    known: Mapping[Buffer, tuple[frozenset[Var] | None, frozenset[Var] | None]] = made
    before = known.get(tile, (rows, columns))
    made[tile] = (rows if before[0] == rows else None, columns if before[1] == columns else None)


def _is_whole(region: Region) -> bool:
    """Whether a region is a whole tile of two dimensions."""
    return len(region.extents) == 2 and is_whole(region)
