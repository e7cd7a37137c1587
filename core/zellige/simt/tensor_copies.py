"""Copies of boxes: one lane asks the copy engine, which brings whole slabs of a tile and tells a barrier.

In: a copy with its boxes and the context. Out: its statements. Parts of a box outside the tensor arrive as zeros, so that no lane tests
anything; the barrier counts the bytes of whole boxes. Of what blocks of a cluster share, each asks for its part of the rows, which comes to
all of them.
"""

from __future__ import annotations

from zellige.diagnostics import InternalError
from zellige.ir.expr import INT32, Binary, Cast, Expr, Var
from zellige.ir.stmt import Copy
from zellige.simt import elements
from zellige.simt.context import Context
from zellige.simt.distribution import added, number, times
from zellige.simt.engine_tiles import Boxes
from zellige.simt.homes import SharedHome
from zellige.simt.ir import TensorCopy


def emit(ctx: Context, copy: Copy, boxes: Boxes) -> None:
    """The boxes of a copy to the slot at hand, which complete on the barrier of that slot."""
    root = copy.dst.buffer.root
    home = ctx.homes.get(root)
    channel = next((c for c in ctx.channels if any(b.root is root for b in c.buffers)), None)
    state = ctx.channels[channel] if channel is not None else None
    if not isinstance(home, SharedHome) or state is None or state.barriers is None:
        raise InternalError(f"the boxes for {root.name} have no barrier to complete on")
    origin = tuple(ctx.value("from", elements.coordinate(ctx, o)) for o in copy.src.offsets)
    first: Expr = number(0)
    if boxes.peers > 1:
        place = ctx.value("peer", Binary(op="truncmod", left=_as_number(boxes.along), right=number(boxes.peers)))
        rows = boxes.box.box[boxes.row_dimension]
        moved = added((origin[boxes.row_dimension], times(place, rows)))
        origin = (*origin[: boxes.row_dimension], moved, *origin[boxes.row_dimension + 1 :])
        first = times(place, home.slab_elements // boxes.peers)
    for slab in range(boxes.slabs):
        last = origin[-1] if slab == 0 else Binary(op="add", left=origin[-1], right=number(slab * home.slab))
        at = added((first, number(slab * home.slab_elements)))
        if home.slots > 1:
            at = added((Binary(op="mul", left=state.acquired_slot, right=number(home.slot_elements)), at))
        asked = TensorCopy(
            box=boxes.box, origin=(*origin[:-1], last), memory=home.memory, memory_index=at, barriers=state.barriers.full,
            index=state.acquired_slot, peers=boxes.peers, span=copy.span,
        )  # fmt: skip
        with ctx.when(ctx.asking_lane, copy.span):
            ctx.code.emit(asked)


def _as_number(var: Var | None) -> Expr:
    assert var is not None, "blocks lie along an axis of the grid"
    return var if var.dtype == INT32 else Cast(value=var, dtype=INT32)
