"""How operands of products are packed on a machine that works in order, as pictures.

In: a planned launch. Out: a :class:`~zellige.layouts.pictures.TilePicture` for each operand in rows or panels: the offset of every element
of what one product takes at once, in elements of the type that it is stored in. Headers before panels are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from zellige.ir.expr import constant_value
from zellige.ir.stmt import Gemm
from zellige.layouts import Layout, blocked, row_major
from zellige.layouts.pictures import TilePicture
from zellige.plan.nodes import Choice, OperandLayout, PlannedLaunch

PACKED = ("rows", "panels")


def packed_operands(launch: PlannedLaunch) -> Iterator[TilePicture]:
    """Of every product of the launch, a then b."""
    for choice in launch.choices:
        if isinstance(choice.operation, Gemm):
            for at in choice.layouts:
                if at.operand in ("a", "b") and at.kind in PACKED:
                    picture = _picture(choice, choice.operation, at)
                    if picture is not None:
                        yield picture


def _picture(choice: Choice, gemm: Gemm, at: OperandLayout) -> TilePicture | None:
    region, is_turned = (gemm.a, gemm.transpose_a) if at.operand == "a" else (gemm.b, gemm.transpose_b)
    extents = [constant_value(e) for e in region.extents[-2:]]
    if not all(isinstance(e, int) and e > 0 for e in extents):
        return None
    height, width = (int(e or 0) for e in (reversed(extents) if is_turned else extents))
    dtype = at.dtype or region.buffer.dtype
    if at.operand == "a":
        layout, shape = row_major({"row": height, "k": width * choice.merge}), (height, width * choice.merge)
        place = "rows"
    else:
        panel, words = (*at.parameters, 1)[:2]
        shape = height * choice.merge, width
        layout, place = _panels(*shape, panel, words), f"panels of {panel} columns"
        place += f", {words} steps of k side by side" if words > 1 else ""
    source = f", packed straight from what is copied to {region.buffer.name}" if at.is_direct else ""
    return TilePicture(
        name=region.buffer.name, dtype=dtype.name, bits=max(8, dtype.storage_bits), shape=shape, place=place + source, layout=layout,
        remarks=(f"operand {at.operand} of the product",) if choice.merge == 1 else (f"operand {at.operand} of {choice.merge} iterations",),
    )  # fmt: skip


def _panels(depth: int, width: int, panel: int, words: int) -> Layout:
    """b: panels of ``panel`` columns one behind the other, in each ``words`` successive rows side by side."""
    rows, columns = -(-depth // words) * words, -(-width // panel) * panel
    order = [("column", columns // panel), ("k", rows // words), ("column", panel), ("k", words)]
    return blocked({"k": rows, "column": columns}, order)
