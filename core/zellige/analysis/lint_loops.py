"""A mistake with the loop over the steps of a sum that no rule of the language forbids.

In: a verified kernel. Out: warnings, silent where it is not sure: E293, a tile that every iteration of a loop sets anew before its product
adds to it, that nothing in the loop uses, and that is copied after it, which is the product of the last step alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from zellige.diagnostics import Diagnostic, catalogue
from zellige.ir.expr import Buffer, Const
from zellige.ir.stmt import Copy, Fill, For, Gemm, Kernel, Launch, StmtNode
from zellige.ir.traverse import walk


def sums_begun_anew(kernel: Kernel) -> Iterator[Diagnostic]:
    """E293, once a tile, at the statement that sets it."""
    for launch in kernel.launches:
        reported: set[Buffer] = set()
        for loop in walk(launch):
            if not isinstance(loop, For) or _runs_once(loop):
                continue
            for tile, beginning in _begun_in(loop):
                if tile not in reported and _is_used_after(launch, loop, tile):
                    reported.add(tile)
                    yield catalogue.E293.diagnose(beginning.span, name=tile.label, severity="warning")


def _runs_once(loop: For) -> bool:
    bounds = (loop.start, loop.stop, loop.step)
    values = [int(bound.value) for bound in bounds if isinstance(bound, Const)]
    return len(values) == 3 and bool(values[2]) and len(range(*values)) <= 1


def _begun_in(loop: For) -> Iterator[tuple[Buffer, StmtNode]]:
    """The tiles that the iterations of a loop set, add one product to and do nothing else with; each with what sets it."""
    for product in loop.body:
        if not isinstance(product, Gemm) or product.c.buffer.root.space == "global":
            continue
        tile = product.c.buffer.root
        touching = [s for part in loop.body for s in walk(part) if isinstance(s, StmtNode) and _touches(s, tile)]
        if isinstance(product.clear, Const) and product.clear.value and touching == [product]:
            yield tile, product
        elif len(touching) == 2 and touching[1] is product and isinstance(touching[0], Fill) and touching[0] in loop.body:
            yield tile, touching[0]


def _touches(statement: StmtNode, tile: Buffer) -> bool:
    return any(region.buffer.root is tile for region in (*statement.reads(), *statement.writes()))


def _is_used_after(launch: Launch, loop: For, tile: Buffer) -> bool:
    """Whether a copy outside of the loop takes the tile."""
    within = {id(node) for node in walk(loop)}
    return any(isinstance(n, Copy) and n.src.buffer.root is tile and id(n) not in within for n in walk(launch))
