"""Whether what a plan promises of its operations and of its grid can be kept without a change of any bit.

In: a planned launch. Out: problems. Iterations are merged only where one product of them all adds the same terms to each element in the
same order as their products in turn, unrounded between: fresh operands, no clearing, one place for the sum, a sum of 32 bits or more.
An operand is packed from its tensor only where nobody else uses its tile and nobody writes the tensor; a product's steps do the work of a
fill or a copy only where nothing uses the result between, and never where they are issued and waited for. (Whether results that are said
to be unread are read is seen when the plan runs.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import copysign

from zellige.ir.expr import Buffer, Var, constant_value
from zellige.ir.stmt import Alloc, Copy, Fill, For, Gemm, Stmt, is_whole
from zellige.ir.traverse import walk
from zellige.plan.checks.problem import Problems
from zellige.plan.facts import statements_in
from zellige.plan.nodes import Choice, Issue, PlannedLaunch

CHOICES = 15
"""The number in the list of :mod:`zellige.plan.check`."""


def check_choices(planned: PlannedLaunch, problems: Problems) -> None:
    """Merged iterations, and cells of the grid that one worker takes."""
    issued = {id(s.operation) for role in planned.roles for statement in role.body for s in walk(statement) if isinstance(s, Issue)}
    for choice in planned.choices:
        if choice.merge < 1:
            problems.add(CHOICES, f"a choice merges {choice.merge} iterations")
        elif choice.merge > 1 or choice.is_merged:
            reason = _why_not_merged(planned, choice)
            if reason is not None:
                problems.add(CHOICES, f"{choice.merge} iterations of a product are merged, and {reason}", span=choice.operation.span)
        if choice.fill is not None or choice.out is not None or any(at.is_direct for at in choice.layouts):
            for reason in _broken_promises(planned, choice):
                problems.add(CHOICES, reason, span=choice.operation.span)
            if id(choice.operation) in issued:
                reason = "steps of a product that is issued, to be waited for, are said to do the work of a fill or of a copy"
                problems.add(CHOICES, reason, span=choice.operation.span)
    _check_grid(planned, problems)


def _broken_promises(planned: PlannedLaunch, choice: Choice) -> Iterator[str]:
    """What is said of the operands and of the result of a product, and does not hold."""
    gemm = choice.operation
    if not isinstance(gemm, Gemm):
        yield "tiles are said not to be stored for what is no product"
        return
    statements = list(statements_in(planned.launch.body))
    place = {id(s): number for number, s in enumerate(statements)}
    for layout in choice.layouts:
        if layout.is_direct:
            yield from _why_not_direct(layout.buffer, gemm, statements)
    if choice.fill is None and choice.out is None:
        return
    result = gemm.c.buffer.root
    loop = next((s for s in statements if isinstance(s, For) and any(inner is gemm for inner in s.body)), None)
    within = {id(s) for s in statements_in((loop,))} if loop is not None else set()
    others = [s for s in _users(result, statements) if id(s) not in within]
    if loop is None or any(s is not gemm for s in _users(result, statements) if id(s) in within):
        yield f"steps of a loop fill or store {result.name}, and the loop does more with it than multiply"
        return
    if not is_whole(gemm.c):
        yield f"steps of a loop fill or store {result.name}, and each makes a part of it"
        return
    for what, statement, is_before in (("filled", choice.fill, True), ("stored", choice.out, False)):
        if statement is None:
            continue
        if id(statement) not in place or not _moves_all(statement, result, is_before):
            yield f"{result.name} is said to be {what} by a statement that does not do it"
            continue
        if not _are_beside(planned.launch.body, statement, loop):
            yield f"{result.name} is {what} by a step of a loop that does not run once for each time that it is to be {what}"
            continue
        low, high = sorted((place[id(statement)], place[id(loop)]))
        if (place[id(statement)] < place[id(loop)]) is not is_before or any(low < place[id(s)] < high for s in others):
            yield f"{result.name} is {what} by a step of the loop, and something uses it between"
        elif is_before and not _is_zero(statement):
            yield f"{result.name} begins at zero in the first step, and it is filled with something else"
        elif not is_before and any(place[id(s)] > high for s in others):
            yield f"{result.name} is stored by the last step, and something uses its tile later"


def _moves_all(statement: Stmt, result: Buffer, is_fill: bool) -> bool:
    """Whether it fills the whole result, or copies it as a whole."""
    if is_fill:
        return isinstance(statement, Fill) and statement.dst.buffer is result and is_whole(statement.dst)
    return isinstance(statement, Copy) and statement.src.buffer is result and is_whole(statement.src)


def _are_beside(body: Sequence[Stmt], one: Stmt, other: Stmt) -> bool:
    """Whether two statements stand in the same body, so that each runs as often as the other."""
    bodies = [body]
    bodies += [getattr(s, name) for s in statements_in(body, into_maps=False) for name in type(s).BODIES]
    return any({id(one), id(other)} <= {id(s) for s in inner} for inner in bodies)


def _is_zero(statement: Stmt) -> bool:
    value = constant_value(statement.value) if isinstance(statement, Fill) else None
    return value == 0 and copysign(1, value) > 0


def _why_not_direct(tile: Buffer, gemm: Gemm, statements: list[Stmt]) -> Iterator[str]:
    users = _users(tile, statements)
    copies = [s for s in users if isinstance(s, Copy) and s.dst.buffer.root is tile]
    if len(copies) != 1 or len(users) != 2 or users[-1] is not gemm:
        yield f"{tile.name} is not stored, and not only one copy and one product use it"
        return
    source = copies[0].src.buffer.root
    if source.space != "global" or any(r.buffer.root is source for s in statements for r in s.writes()):
        yield f"{tile.name} is read late from {source.name}, which the launch writes"


def _users(root: Buffer, statements: list[Stmt]) -> list[Stmt]:
    return [s for s in statements if any(r.buffer.root is root for r in (*s.reads(), *s.writes())) and not isinstance(s, Alloc)]


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
