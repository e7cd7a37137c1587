"""Whether what a plan promises of its operations and of its grid can be kept without a change of any bit.

In: a planned launch. Out: problems. Iterations are merged only where one product of them all adds the same terms to each element in the
same order as their products in turn, unrounded between: fresh operands, no clearing, one place for the sum, a sum of 32 bits or more.
"""

from __future__ import annotations

from zellige.ir.expr import Var, constant_value
from zellige.ir.stmt import Alloc, Copy, For, Gemm
from zellige.ir.traverse import walk
from zellige.plan.checks.problem import Problems
from zellige.plan.facts import is_whole, statements_in
from zellige.plan.nodes import Choice, PlannedLaunch

CHOICES = 15
"""The number in the list of :mod:`zellige.plan.check`."""


def check_choices(planned: PlannedLaunch, problems: Problems) -> None:
    """Merged iterations, and cells of the grid that one worker takes."""
    for choice in planned.choices:
        if choice.merge < 1:
            problems.add(CHOICES, f"a choice merges {choice.merge} iterations")
        elif choice.merge > 1:
            reason = _why_not_merged(planned, choice)
            if reason is not None:
                problems.add(CHOICES, f"{choice.merge} iterations of a product are merged, and {reason}", span=choice.operation.span)
    _check_grid(planned, problems)


def _check_grid(planned: PlannedLaunch, problems: Problems) -> None:
    order, launch = planned.order, planned.launch
    if order.panel < 1:
        problems.add(CHOICES, f"the grid is walked in panels of {order.panel} blocks")
    if not order.coarsen:
        return
    if len(order.coarsen) != len(launch.grid_vars) or any(factor < 1 for factor in order.coarsen):
        problems.add(CHOICES, f"cells are taken by {order.coarsen}, and the grid has {len(launch.grid_vars)} dimensions")
    if launch.lane_vars:
        problems.add(CHOICES, "a worker takes several blocks whose author programs the lanes")


def _why_not_merged(planned: PlannedLaunch, choice: Choice) -> str | None:
    gemm = choice.operation
    loops = [s for s in statements_in(planned.launch.body) if isinstance(s, For) and any(inner is gemm for inner in s.body)]
    if not isinstance(gemm, Gemm) or not loops:
        return "it is no product in a loop"
    loop, operands = loops[0], {gemm.a.buffer.root, gemm.b.buffer.root}
    if gemm.c.buffer.dtype.is_float and gemm.c.buffer.dtype.bits < 32:
        return f"{gemm.c.buffer.name} is rounded to {gemm.c.buffer.dtype} after each"
    if constant_value(gemm.clear) is not False:
        return "it clears its result"
    if any(node is loop.var or (isinstance(node, Var) and node.is_mutable) for offset in gemm.c.offsets for node in walk(offset)):
        return "each adds to another place"
    if gemm.scale_a is not None or gemm.scale_b is not None or gemm.metadata is not None:
        return "its operands have scales or are sparse"
    fresh = set()
    for statement in loop.body[: loop.body.index(gemm)]:
        if isinstance(statement, Copy) and statement.src.buffer.root.space == "global" and is_whole(statement.dst):
            fresh.add(statement.dst.buffer.root)
    others = [s for s in loop.body if s is not gemm and not isinstance(s, Alloc)]
    if any(not isinstance(s, Copy) or s.dst.buffer.root not in operands for s in others) or fresh != operands:
        return "the loop does more than copy its operands afresh"
    return None
