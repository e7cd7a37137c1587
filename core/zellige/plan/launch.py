"""How the grid of a launch is walked: panels for the caches, cells taken together by a worker, persistent blocks.

In: the facts of a launch, its products and a machine. Out: a :class:`~zellige.plan.nodes.LaunchPlan` with its decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import ceil, prod
from typing import Final

from zellige.ir.expr import Var, constant_value
from zellige.ir.stmt import Copy, Gemm, NamedHint, RasterHint
from zellige.plan.capabilities import Machine
from zellige.plan.draft import Decisions
from zellige.plan.facts import LaunchFacts, statements_in
from zellige.plan.nodes import Choice, LaunchPlan, Tiles
from zellige.plan.persistent import QUESTION, is_written_so
from zellige.plan.products import Product
from zellige.plan.split_sums import tell_splits

SIDE = 128
"""Rows and columns of a product below which a worker of an ordered machine takes several cells at once: packing is paid once for all of
them."""


SHARED: Final = 8
"""Cells of a worker that share an operand which it packs for itself: packing then costs a few hundredths of the product."""

BESIDE: Final = 2
"""Cells that a worker takes at once where all cells of the launch share what is packed: each step of the operand that they have in common
comes from the outer caches once for all of them. With more of them, their other operands are so much that these come from memory for each
cell anew: with 8 instead of 2 a product of 2048 was slower (float32, processor with 512 KiB and a share of a last level)."""

GROUPS: Final = 16
"""Groups of cells that each worker should have at least, so that none waits long for the others, even where one loses its core for a
while."""


def plan_order(
    facts: LaunchFacts, products: dict[int, Product], choices: Sequence[Choice], machine: Machine, decisions: Decisions,
    tiles: Tiles | None = None, cluster: tuple[int, ...] | None = None,
) -> LaunchPlan:  # fmt: skip
    """The walk over the grid: as hinted, and coarser where a cell's product is small. ``tiles``: the launch is a loop over those;
    ``cluster``: blocks share what they copy in clusters of this shape."""
    launch = facts.launch
    hint = next((h for h in launch.hints if isinstance(h, RasterHint)), None)
    is_persistent = is_written_so(launch)
    if hint is not None:
        decisions.take(
            "in which order do blocks run?", f"panels of {hint.panel} blocks by {hint.order}",
            "the kernel asks for it (T.use_swizzle), and the result does not depend on it",
        )  # fmt: skip
    if is_persistent and tiles is None:
        decisions.take(QUESTION, "all that its persistent loop names", "the kernel is written so (T.Persistent)")
    if tiles is not None:
        decisions.take(
            QUESTION, f"as many as there are for {tiles.workers} blocks that stay",
            "the roles that copy go on to the next tile while the others still work on this one, so the ends of tiles are hidden",
            rejected=(("one", "each block would begin with empty slots, and end with its stores alone"),), topic="tiles",
        )  # fmt: skip
    coarsen: tuple[int, ...] = ()
    if machine.style == "ordered" and not launch.lane_vars:
        coarsen = _coarsening(facts, products, choices, machine, decisions)
    is_joined = any(s.scope == "cluster" for s in machine.capabilities.synchronisation)
    if launch.cluster is not None:
        decisions.take(
            "do blocks form clusters?", f"{launch.cluster}" if is_joined else "no",
            "the kernel asks for it" if is_joined else "the target has nothing that joins blocks, and the result does not depend on it",
        )  # fmt: skip
    for named in launch.hints:
        if isinstance(named, NamedHint):
            decisions.take(
                f"is the hint {named.name} used?",
                "it is handed to the target",
                "it does not change the result; a target that does not know it passes over it",
            )
    splits, workspace_bytes = tell_splits(facts.kernel, launch, machine, decisions)
    panel = hint.panel if hint is not None else 1
    from_last: Var | None = None
    if hint is None and machine.has_true_lanes and not launch.lane_vars and not is_persistent and cluster is None:
        panel = _panel(facts, products, machine, decisions)
        from zellige.plan.lengths import longest_first  # of machines of lanes

        if panel == 1 and (found := longest_first(facts, machine, decisions)) is not None:
            from_last, panel = found
    return LaunchPlan(
        order=hint.order if hint is not None else "row",
        panel=panel,
        coarsen=coarsen,
        is_persistent=is_persistent,
        tiles=tiles,
        splits=splits,
        workspace_bytes=workspace_bytes,
        from_last=from_last,
        cluster=cluster or (launch.cluster if is_joined else None),
    )


def _panel(facts: LaunchFacts, products: dict[int, Product], machine: Machine, decisions: Decisions) -> int:
    """Blocks of the second grid axis that run side by side, so that those at work at one time read the fewest rows of the operands.

    W workers on a panel of g blocks read g tiles of rows and ceil(W / g) of columns: the sum of both in elements of k is least for the g
    returned. 1 where blocks are no products side by side, or all run at once.
    """
    launch, workers = facts.launch, machine.capabilities.threads
    if len(launch.grid_vars) < 2 or workers < 2:
        return 1
    sides = _sides(facts, products)
    columns, rows = (sides.get(var) for var in launch.grid_vars[:2])
    if not columns or not rows:
        return 1
    known = [constant_value(extent) for extent in launch.grid[:2]]
    if None not in known and int(known[0] or 0) * int(known[1] or 0) <= workers:
        return 1
    most = min(workers, int(known[1])) if known[1] is not None else workers
    read = {g: g * rows + ceil(workers / g) * columns for g in range(1, max(1, most) + 1)}
    best = min(read, key=lambda g: (read[g], g))
    if best == 1:
        return 1
    decisions.take(
        "in which order do blocks run?", f"panels of {best} blocks along {launch.grid_vars[1].name}",
        f"the {workers} blocks at work then read {read[best]} rows and columns of the operands a step, the fewest there are",
        rejected=(("one row of blocks after the other", f"they would read {read[1]}"),),
    )  # fmt: skip
    return best


def _coarsening(
    facts: LaunchFacts, products: dict[int, Product], choices: Sequence[Choice], machine: Machine, decisions: Decisions
) -> tuple[int, ...]:
    """Cells along each grid variable that a worker takes together; empty where one is right."""
    sides = _sides(facts, products)
    factors = []
    for var in facts.launch.grid_vars:
        side = sides.get(var)
        factors.append(1 if side is None or side <= 0 or side >= SIDE else ceil(SIDE / side))
    because = f"a cell's product is smaller than {SIDE} x {SIDE}: operands packed for one cell serve its neighbours"
    merged = next((c for c in choices if c.is_merged and isinstance(c.operation, Gemm)), None)
    shared = None if merged is None else _shared(facts, merged, machine, factors)
    if merged is not None and shared is not None:
        common = "what one cell has packed" if _is_packed_by_workers(merged) else "what comes into the caches for one cell"
        factors, because = shared, f"{common} serves the others, and enough groups are left for all workers"
    if all(f == 1 for f in factors):
        return ()
    named = " x ".join(f"{f} along {v.name}" for v, f in zip(facts.launch.grid_vars, factors))
    decisions.take(
        "how many cells of the grid does a worker take at once?", named, because,
        rejected=(("one cell", "operands that neighbours have in common would be packed or fetched again for each"),),
    )  # fmt: skip
    return tuple(factors)


def _is_packed_by_workers(merged: Choice) -> bool:
    """Whether each worker packs an operand for its own cells."""
    return any(at.is_direct and at.kept == "worker" for at in merged.layouts)


def _shared(facts: LaunchFacts, merged: Choice, machine: Machine, factors: Sequence[int]) -> list[int] | None:
    """Larger factors for a grid of constant size whose products pack their operands from tensors: along a variable on which only one
    operand depends the other one is the same. None where there is nothing to share, as in a grid without cells."""
    extents = [constant_value(e) for e in facts.launch.grid]
    if any(e is None or e == 0 for e in extents):
        return None
    sizes = [int(e) for e in extents if e is not None]
    tiles = [at.buffer for at in merged.layouts if at.is_direct]
    copies = [s for s in statements_in(facts.launch.body) if isinstance(s, Copy) and s.dst.buffer in tiles]
    depends = [[any(facts.scope.mentions(o, frozenset((v,))) for o in c.src.offsets) for c in copies] for v in facts.launch.grid_vars]
    sharing = [number for number, uses in enumerate(depends) if any(uses) and not all(uses)]
    if not sharing:
        return None
    cells = SHARED if _is_packed_by_workers(merged) else BESIDE
    wanted = [f * (cells if n == sharing[-1] else cells // 2) if n in sharing else f for n, f in enumerate(factors)]
    threads = max(1, machine.capabilities.threads)
    fewest = min(GROUPS * threads, prod(sizes))
    evenest = _evenness(sizes, [1] * len(sizes), threads)
    # halving along the first variables first keeps together the cells that share the operand packed last
    steps = [sorted({max(1, min(w, size) >> s) for s in range(4)}, reverse=True) for w, size in zip(wanted, sizes)]
    for chosen in product(*reversed(steps)):
        found = list(reversed(chosen))
        if _groups(sizes, found) >= fewest and _evenness(sizes, found, threads) >= 0.9 * evenest:
            return found
    return None


def _groups(sizes: Sequence[int], factors: Sequence[int]) -> int:
    return prod(-(-size // factor) for size, factor in zip(sizes, factors))


def _evenness(sizes: Sequence[int], factors: Sequence[int], threads: int) -> float:
    """The part of the time in which all workers work, if all groups take as long as a full one."""
    rounds = -(-_groups(sizes, factors) // threads)
    return prod(sizes) / (threads * rounds * prod(factors))


def _sides(facts: LaunchFacts, products: dict[int, Product]) -> dict[Var, int]:
    """Of each grid variable by which a copy of a product's result moves, how far one cell moves it."""
    results = {p.gemm.c.buffer.root for p in products.values()}
    found: dict[Var, int] = {}
    for statement in statements_in(facts.launch.body):
        if not isinstance(statement, Copy) or statement.src.buffer.root not in results or statement.dst.buffer.root.space != "global":
            continue
        for offset, extent in zip(statement.dst.offsets, statement.dst.extents):
            form = facts.scope.form(offset)
            size = constant_value(extent)
            for var in facts.launch.grid_vars:
                parts = form.split(var)
                if parts is None or size is None or size == 1:
                    continue
                factor = parts[0].constant
                if factor == size:
                    found[var] = int(size)
    return found
