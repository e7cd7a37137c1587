"""Accesses of a tile by a loop that is longer than the tile.

In: a verified kernel. Out: E287, a warning, silent where it is not sure: a T.Parallel whose axis, used as an index as it is, runs over the
end of an on-chip tile. What lies beyond is read as the safe value and not written, which a kernel can mean only under a condition on it.
"""

from __future__ import annotations

from collections.abc import Iterator

from zellige.diagnostics import Diagnostic, catalogue
from zellige.ir.expr import Buffer, Const, Expr, Load, Node, Select, Var
from zellige.ir.stmt import If, Kernel, Map, Store
from zellige.ir.traverse import children, walk, walk_into


def overrun_tiles(kernel: Kernel) -> Iterator[Diagnostic]:
    """E287, once a tile."""
    reported: set[Buffer] = set()
    for launch in kernel.launches:
        for loop in walk(launch):
            if not isinstance(loop, Map):
                continue
            counts = {axis: int(e.value) for axis, e in zip(loop.axes, loop.extents) if isinstance(e, Const)}
            for node in _unconditional(loop):
                if not isinstance(node, (Load, Store)) or node.buffer in reported or node.buffer.root.space == "global":
                    continue
                found = _overrun(node.buffer, node.indices, counts)
                if found is not None:
                    reported.add(node.buffer)
                    axis, count, size = found
                    yield catalogue.E287.diagnose(
                        node.span or loop.span, name=node.buffer.label, axis=axis.label, count=count, size=size, severity="warning"
                    )


def _overrun(buffer: Buffer, indices: tuple[Expr, ...], counts: dict[Var, int]) -> tuple[Var, int, int] | None:
    for index, size in zip(indices, buffer.shape):
        if isinstance(index, Var) and isinstance(size, Const) and counts.get(index, 0) > size.value:
            return index, counts[index], int(size.value)
    return None


def _unconditional(loop: Map) -> Iterator[Node]:
    """Everything in the body that happens at every point: what stands under a condition is left out."""
    return walk_into(loop.body, lambda node: () if isinstance(node, (If, Select)) else children(node))
