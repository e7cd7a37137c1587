"""Blocks that stay: as many as run at once, each of which takes tile after tile of the grid in a loop.

In: a launch and its plan with a block a tile. Out: the launch as a loop over tiles (:func:`over_tiles`), with a record of which of its
variables stand for the grid's, or the reason why a block takes one tile (:func:`why_one_tile`, :func:`why_not_better`).

A tile's end then runs beside the beginning of the next: the roles of a block repeat the loop, and those that copy go on to the next tile
while others still store this one. Blocks are independent, so it changes no bit which of them one worker takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

from zellige.ir.expr import INT32, INT64, Binary, BinaryOp, Compare, Const, Expr, Node, Var, constant_value
from zellige.ir.folding import index_as
from zellige.ir.naming import unused_name
from zellige.ir.stmt import Assume, Atomic, AtomicTile, Bind, Copy, Dialect, For, Launch, Persistent, RasterHint, Return, Stmt, While
from zellige.ir.traverse import rebuilt, substitute, walk
from zellige.plan.capabilities import Machine
from zellige.plan.facts import statements_in
from zellige.plan.nodes import Issue, LaunchPlan, PlannedLaunch, Tiles

QUESTION: Final = "how many tiles does a block take?"


def is_written_so(launch: Launch) -> bool:
    """Whether the author loops over tiles (T.Persistent)."""
    return any(isinstance(s, For) and isinstance(s.kind, Persistent) for s in statements_in(launch.body))


def why_one_tile(launch: Launch, made: PlannedLaunch, machine: Machine) -> str | None:
    """The reason why a block of the launch, whose plan with a block a tile is ``made``, takes one tile; None where it may take several."""
    workers = machine.capabilities.threads
    if not machine.capabilities.is_persistent:
        return "the target starts a block for each tile and does not say that blocks which stay would pay"
    if workers < 1:
        return "how many blocks the target runs at once is not known"
    if launch.cluster is not None or made.order.cluster is not None:
        return "blocks of the grid form clusters"
    if made.order.from_last is not None:
        return f"loops are longer where {made.order.from_last.name} is larger, and shares made beforehand would be uneven"
    known = [constant_value(extent) for extent in launch.grid]
    if None not in known and prod(int(extent or 0) for extent in known) <= workers:
        return f"all blocks run at once: there are no more than {workers}"
    return _why_blocks_meet(launch)


def _why_blocks_meet(launch: Launch) -> str | None:
    own = set(launch.grid_vars)
    if any(isinstance(node, Var) and node in own for safe in launch.safe_values for node in walk(safe)):
        return "what elements outside a tensor read as depends on the block"
    for statement in statements_in(launch.body):
        match statement:
            case Return():
                return "a return out of a loop ends a block, and a worker has others"
            case Atomic() | AtomicTile() | While() | Dialect():
                return "a block may wait for others, or meet them at atomic operations, in the order in which they begin"
            case _:
                pass
    return None


def has_stores_beside(machine: Machine) -> bool:
    """Whether a copy to tensors may end beside what its role does next."""
    stores = (path for path in machine.capabilities.copies if path.destination == machine.tensor_space)
    return machine.style == "software" and any(path.is_asynchronous for path in stores)


def why_not_better(one: PlannedLaunch, many: PlannedLaunch) -> str | None:
    """Why the plan ``many`` of blocks that take several tiles is not taken instead of ``one``; None where it is."""
    if len(many.roles) < len(one.roles):
        return "the roles of a block could not go on to the next tile"
    if len(many.roles) < 2 and not any(_ends_late(node) for role in many.roles for node in walk(role)):
        return "its block has one role, and none of its stores could end beside the next tile"
    before = {buffer: channel.depth for channel in one.channels for buffer in channel.buffers}
    for channel in many.channels:
        for buffer in channel.buffers:
            if channel.depth < before.get(buffer, 1):
                return f"{buffer.name} would have {channel.depth} versions instead of {before[buffer]}"
    return None


def _ends_late(node: Node) -> bool:
    return isinstance(node, Issue) and isinstance(node.operation, Copy) and node.operation.dst.buffer.root.space == "global"


def over_tiles(launch: Launch, order: LaunchPlan, workers: int) -> tuple[Launch, Tiles]:
    """``launch`` with at most ``workers`` blocks, which loop over all tiles in the order that ``order`` gives the grid."""
    taken = {node.name for node in walk(launch) if isinstance(node, Var)}
    known = [constant_value(extent) for extent in launch.grid]
    is_small = None not in known and prod(int(extent or 0) for extent in known) + workers < 1 << 31
    dtype = INT32 if is_small else INT64
    worker = Var(name=unused_name("worker", taken), dtype=INT32, kind="grid")
    tile = Var(name=unused_name("tile", taken), dtype=dtype, kind="loop")
    extents = [index_as(extent, dtype) for extent in launch.grid]
    total = extents[0]
    for extent in extents[1:]:
        total = _binary("mul", total, extent)
    blocks = tuple(Var(name=var.name, dtype=var.dtype, kind="value") for var in launch.grid_vars)
    panel = order.panel if len(launch.grid) > 1 else 1
    places, before = _in_panels(tile, extents, order, taken) if panel > 1 else (_in_turn(tile, extents), [])
    places = [index_as(place, var.dtype) for place, var in zip(places, blocks)]
    bound: list[Stmt] = [*before, *(Bind(var=var, value=place, span=launch.span) for var, place in zip(blocks, places))]
    limits = [Compare(op="lt", left=var, right=index_as(extent, var.dtype)) for var, extent in zip(blocks, launch.grid)]
    bound += [Assume(condition=condition, span=launch.span) for condition in limits]  # what is proven of the grid's variables, of these
    renamed: Mapping[Var, Var] = dict(zip(launch.grid_vars, blocks))
    body = tuple(substitute(statement, renamed) for statement in launch.body)
    loop = For(
        var=tile, start=index_as(worker, dtype), stop=total, step=Const(value=workers, dtype=dtype), kind=Persistent(),
        body=(*bound, *body), span=launch.span,
    )  # fmt: skip
    made = rebuilt(
        launch, grid_vars=(worker,), grid=(index_as(_binary("min", total, Const(value=workers, dtype=dtype)), INT32),), body=(loop,),
        hints=tuple(hint for hint in launch.hints if not isinstance(hint, RasterHint)),
    )  # fmt: skip
    return made, Tiles(workers=workers, tile=tile, blocks=blocks, grid=launch.grid, panel=panel, order=order.order)


def _in_turn(tile: Expr, extents: Sequence[Expr]) -> list[Expr]:
    """The coordinates of a tile, the first axis fastest."""
    places: list[Expr] = []
    rest = tile
    for extent in extents[:-1]:
        places.append(_binary("floormod", rest, extent))
        rest = _binary("floordiv", rest, extent)
    return [*places, rest]


def _in_panels(tile: Expr, extents: Sequence[Expr], order: LaunchPlan, taken: set[str]) -> tuple[list[Expr], list[Stmt]]:
    """The coordinates of a tile where panels of some blocks along one of the first two axes follow each other, and what they need
    before."""
    across, along = (0, 1) if order.order == "row" else (1, 0)
    before: list[Stmt] = []

    def named(name: str, value: Expr) -> Expr:
        var = Var(name=unused_name(name, taken), dtype=value.dtype, kind="value")
        before.append(Bind(var=var, value=value))
        return var

    plane = _binary("mul", extents[0], extents[1])
    place = tile if len(extents) == 2 else named("in_plane", _binary("floormod", tile, plane))
    width = Const(value=order.panel, dtype=tile.dtype)
    size = _binary("mul", extents[across], width)
    first = named("first", _binary("mul", _binary("floordiv", place, size), width))
    rest = named("in_panel", _binary("floormod", place, size))
    height = named("height", _binary("min", width, _binary("sub", extents[along], first)))
    found = {across: _binary("floordiv", rest, height), along: _binary("add", first, _binary("floormod", rest, height))}
    others = _in_turn(_binary("floordiv", tile, plane), extents[2:]) if len(extents) > 2 else []
    return [found[0], found[1], *others], before


_FOLDED: Final[Mapping[str, object]] = {"mul": int.__mul__, "sub": int.__sub__, "min": min, "floordiv": int.__floordiv__}


def _binary(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    if isinstance(left, Const) and isinstance(right, Const) and op in _FOLDED and (op != "floordiv" or right.value):
        return Const(value=_FOLDED[op](int(left.value), int(right.value)), dtype=left.dtype)  # type: ignore[operator]
    if op == "mul" and isinstance(left, Const):
        left, right = right, left
    return Binary(op=op, left=left, right=right)
