"""Numbers to check a launch with: sizes, scalars, and blocks of its grid.

In: a kernel and one of its launches. Out: samples, the same ones every time. Sizes are taken around small multiples of what the launch
divides them by (one less, equal, one more), so that loops run never, once, a few times, and more often than a channel is deep, with full
and with partial last iterations. A size that the launch assumes something of is also taken up to the constants that it is compared with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

import numpy as np

from zellige.elements.conversion import Array
from zellige.ir.expr import Binary, Compare, Const, Node, Var
from zellige.ir.stmt import Assume, Kernel, Launch, ScalarParam, TensorParam
from zellige.ir.traverse import walk
from zellige.plan.checks.values import answer

_LARGEST_TILE: Final = 512
_SHORT_TRIPS: Final = (1, 3, 0, 2, 4, 5)
"""Trip counts of the samples that follow the first, which runs loops long enough to fill and drain every channel."""


def sizes_of(kernel: Kernel, launch: Launch) -> list[Var]:
    """The symbolic sizes, in order of appearance."""
    found: dict[Var, None] = {}
    roots: list[Node] = [extent for param in kernel.params if isinstance(param, TensorParam) for extent in param.buffer.shape]
    roots += [stride for param in kernel.params if isinstance(param, TensorParam) for stride in param.buffer.strides or ()]
    for root in [*roots, launch]:
        for node in walk(root):
            if isinstance(node, Var) and node.kind == "size":
                found.setdefault(node)
    return list(found)


def _divisors(launch: Launch, var: Var) -> list[int]:
    """The constants that the launch divides something with ``var`` by: the extents of the tiles that the size is cut into."""
    found: set[int] = set()
    for node in walk(launch):
        if isinstance(node, Binary) and node.op in ("floordiv", "truncdiv") and isinstance(node.right, Const):
            if any(below is var for below in walk(node.left)):
                found.add(int(node.right.value))
    return sorted(value for value in found if value > 0)


def _tiles(launch: Launch) -> list[int]:
    """Integer constants of the launch that may be extents of tiles."""
    values = {
        int(node.value)
        for node in walk(launch)
        if isinstance(node, Const) and node.dtype.is_integer and 2 <= int(node.value) <= _LARGEST_TILE
    }
    return sorted(values) or [4]


def _assumed(launch: Launch, var: Var) -> list[int]:
    """The constants that what the launch assumes compares the size with."""
    found: set[int] = set()
    for statement in walk(launch):
        if not isinstance(statement, Assume):
            continue
        for node in walk(statement.condition):
            if isinstance(node, Compare) and any(side is var for side in (node.left, node.right)):
                found.update(int(side.value) for side in (node.left, node.right) if isinstance(side, Const))
    return sorted(value for value in found if value > 0)


def parameter_samples(kernel: Kernel, launch: Launch, *, count: int, seed: int, deepest: int) -> Iterator[dict[Var, Array]]:
    """Values of sizes and scalar parameters; one sample where nothing is open. ``deepest`` is the depth of the deepest channel."""
    sizes = sizes_of(kernel, launch)
    scalars = [param.var for param in kernel.params if isinstance(param, ScalarParam) and param.var not in sizes]
    tiles = {var: _divisors(launch, var) or _tiles(launch) for var in sizes}
    assumed = {var: _assumed(launch, var) for var in sizes}
    choose = np.random.default_rng(seed)
    for index in range(count if sizes or scalars else 1):
        trips = _SHORT_TRIPS[index // 2 % len(_SHORT_TRIPS)] if index % 2 else deepest + 3
        values: dict[Var, Array] = {}
        for position, var in enumerate(sizes):
            tile = tiles[var][int(choose.integers(len(tiles[var])))]
            # a long loop beside short ones and a short one beside long ones
            repeats = trips if index % 4 < 2 or position == index // 4 % len(sizes) else int(choose.integers(1, 4))
            size = max(0, tile * repeats + int(choose.integers(-1, 2)) * int(choose.integers(2)))
            if assumed[var] and index % 3 != 2:  # near and below what the kernel names, since most other sizes may contradict it
                named = assumed[var][int(choose.integers(len(assumed[var])))]
                size = int(choose.integers(1, min(named + 1, 2 * tile) + 1))
            values[var] = np.asarray(np.int64(size)).astype(var.dtype.numpy)
        for var in scalars:
            values[var] = answer(var.dtype, "scalar", seed, index, var.name)
        yield values


def cells(grid: list[int]) -> list[tuple[int, ...]]:
    """The corners of the grid and its middle; none of an empty grid."""
    if any(extent <= 0 for extent in grid):
        return []
    corners = itertools.product(*({0, extent - 1} for extent in grid[:3]))
    found = [(*corner, *(0,) * (len(grid) - 3)) for corner in sorted(corners)]
    middle = tuple(extent // 2 for extent in grid)
    return found if middle in found else [*found, middle]
