"""Whether the blocks of a launch that stay take each tile of the kernel's grid exactly once.

In: a launch of the kernel with its plan, and numbers for sizes. Out: problems, and in words what was not looked at. What each worker's
loop counts, and the grid's coordinates that it makes of that, are computed for every worker and compared with the grid.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from zellige.ir.stmt import Assume, Bind, For, Launch, Persistent
from zellige.ir.traverse import same_structure
from zellige.plan.checks.problem import Problems
from zellige.plan.facts import statements_in
from zellige.plan.nodes import PlannedLaunch

if TYPE_CHECKING:
    from zellige.plan.checks.programs import Machine  # with the interpreter, which a compilation does without

TILES = 17
"""The number in the list of :mod:`zellige.plan.check`."""

MOST = 1 << 12
"""Tiles of a grid that are counted, which takes some milliseconds; of a larger one a note says that they were not."""


def check_tiles(launch: Launch, planned: PlannedLaunch, problems: Problems) -> None:
    """What can be seen without numbers: the record is about the kernel's grid and about a loop of the launch."""
    tiles = planned.order.tiles
    if tiles is None:
        if len(launch.grid) != len(planned.launch.grid):
            had = f"{len(launch.grid)} dimensions and the plan's {len(planned.launch.grid)}"
            problems.add(TILES, f"the kernel's grid has {had}, without a record why")
        return
    same = [one is other or same_structure(one, other) for one, other in zip(tiles.grid, launch.grid)]
    if len(tiles.grid) != len(launch.grid) or not all(same):
        problems.add(TILES, "the tiles that workers take are those of another grid than the kernel's")
    if len(tiles.blocks) != len(launch.grid_vars):
        problems.add(TILES, f"a tile has {len(tiles.blocks)} coordinates and the grid {len(launch.grid_vars)} dimensions")
    if loop_of(planned) is None:
        problems.add(TILES, "no loop of the launch counts the tiles that its workers take")
    if not planned.order.is_persistent:
        problems.add(TILES, "workers take several tiles, and the plan does not call them persistent")


def loop_of(planned: PlannedLaunch) -> For | None:
    """The loop over tiles: all that the launch does stands in it."""
    tiles, body = planned.order.tiles, planned.launch.body
    loops = [s for s in body if isinstance(s, For) and tiles is not None and s.var is tiles.tile and isinstance(s.kind, Persistent)]
    return loops[0] if len(loops) == 1 else None


def check_tiles_taken(planned: PlannedLaunch, outer: Machine, problems: Problems) -> str:
    """With the sizes that ``outer`` has: every tile is taken by one worker, once. In words what was too much to look at; else empty."""
    tiles, loop = planned.order.tiles, loop_of(planned)
    if tiles is None or loop is None:
        return ""
    grid = [max(0, outer.integer(extent)) for extent in tiles.grid]
    workers = [max(0, outer.integer(extent)) for extent in planned.launch.grid]
    if len(workers) != 1 or workers[0] > tiles.workers:
        problems.add(TILES, f"the launch has {' x '.join(map(str, workers))} workers and at most {tiles.workers} are wanted")
        return ""
    if prod(grid) > MOST:
        return f"which worker takes which tile was not looked at for a grid of {prod(grid)} tiles, only for grids up to {MOST}"
    wanted = Counter(product(*(range(extent) for extent in grid)))
    taken: Counter[tuple[int, ...]] = Counter()
    before = dict(outer.values)
    for worker in range(workers[0]):
        outer.set_loop(planned.launch.grid_vars[0], worker)
        start, stop, step = (outer.integer(bound) for bound in (loop.start, loop.stop, loop.step))
        for value in range(start, stop, step) if step > 0 else ():
            outer.set_loop(loop.var, value)
            taken[_coordinates(planned, loop, outer)] += 1
    outer.values.clear()
    outer.values.update(before)
    if missing := wanted - taken:
        problems.add(TILES, f"{missing.total()} of {wanted.total()} tiles are taken by no worker, the first of them {min(missing)}")
    if twice := taken - wanted:
        problems.add(TILES, f"{twice.total()} tiles are taken once too often or are none, the first of them {min(twice)}")
    return ""


def _coordinates(planned: PlannedLaunch, loop: For, machine: Machine) -> tuple[int, ...]:
    """What the loop's iteration makes of its number."""
    tiles = planned.order.tiles
    assert tiles is not None
    left = set(tiles.blocks)
    for statement in statements_in(loop.body):
        if not left:
            break
        if isinstance(statement, Bind):
            machine.values[statement.var] = machine.evaluate(statement.value)
            left.discard(statement.var)
        elif not isinstance(statement, Assume):
            break
    return tuple(int(machine.values[var]) if var not in left else -1 for var in tiles.blocks)
