"""The planner: from a kernel and the capabilities of a target to a plan with the reason of every decision.

In: a verified kernel and capabilities. Out: a :class:`~zellige.plan.nodes.PlannedKernel`. Raises CompileError E301 (tiles do not fit),
E302 (too many lanes) and E303 (an operation that would read what it has written); everything else is planned, conservatively where it is
not understood.

The order of passes for a launch, each a module::

    guards (iterations) -> separate (operands) -> lane_points (each lane's own) -> legalise (products) -> spaces -> choices -> roles
        -> streams -> channels (depths that fit: place) -> weave -> overlap -> in flight -> spread (clusters) -> stores -> allocations
        -> classes -> split -> launch order;
    once more as a loop over tiles where blocks may stay (persistent)

Products and their order of k are chosen first, from the kernel and the target alone: stages, roles and depths never change a bit of the
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zellige.diagnostics import CompileError, catalogue
from zellige.ir.expr import constant_value
from zellige.ir.stmt import For, Kernel, Launch, Stmt
from zellige.passes.guarded_returns import with_structured_returns
from zellige.plan.ahead import tell
from zellige.plan.allocations import with_allocations_first
from zellige.plan.by_hand import schedule_by_hand
from zellige.plan.capabilities import Ask, Machine
from zellige.plan.choices import choose, with_edge
from zellige.plan.classes import has_masks, split_classes
from zellige.plan.context import Context, Programs
from zellige.plan.launch import plan_order
from zellige.plan.nodes import Choice, Decision, PlannedKernel, PlannedLaunch, PlanStmt, Resolved, Role, Tiles, Token
from zellige.plan.persistent import QUESTION as TILES_OF_A_BLOCK, has_stores_beside, is_written_so, over_tiles, why_not_better, why_one_tile
from zellige.plan.place import Excess, too_large
from zellige.plan.roles import BLOCK, copies_ahead, pipelined_loops, why_one_role
from zellige.plan.split import split_loops
from zellige.plan.stores import with_deferred_stores
from zellige.plugin.contract import Capabilities


def plan(kernel: Kernel, capabilities: Capabilities, ask: Ask | None = None) -> PlannedKernel:
    """The plan of ``kernel`` for the target that ``capabilities`` describe. ``ask`` asks its backend what fits an operation."""
    launches = tuple(plan_launch(kernel, launch, capabilities, ask) for launch in kernel.launches)
    return PlannedKernel(kernel=kernel, target=capabilities.target, launches=launches)


def plan_launch(kernel: Kernel, launch: Launch, capabilities: Capabilities, ask: Ask | None = None) -> PlannedLaunch:
    """The plan of one launch of ``kernel``, as :func:`plan` makes it."""
    machine = Machine(capabilities=capabilities, ask=ask)
    _check_lanes(launch, machine)
    made = _planned(kernel, launch, machine)
    return made if launch.lane_vars or is_written_so(launch) else _of_blocks_that_stay(kernel, launch, machine, made)


def _of_blocks_that_stay(kernel: Kernel, launch: Launch, machine: Machine, made: PlannedLaunch) -> PlannedLaunch:
    """The plan of a launch whose blocks take tile after tile, where that is better than ``made``, in which each has its own."""
    if len(made.roles) < 2 and not has_stores_beside(machine):
        return made  # of one role that waits for all it starts nothing would run beside the tile before
    structured = with_structured_returns(launch)
    candidate = f"blocks that stay, {machine.capabilities.threads} at most, each in a loop over tiles"
    reason = why_one_tile(structured, made, machine)
    if reason is None:
        looping, tiles = over_tiles(structured, made.order, machine.capabilities.threads)
        try:
            many = _planned(kernel, looping, machine, tiles)
        except CompileError as refused:
            if refused.diagnostics[0].backend:
                raise  # a hook that fails, or answers what cannot be, is no reason for a plan
            told = refused.diagnostics[0].message.partition("\n")[0]
            reason = "their tiles do not fit" if refused.code == catalogue.E301.id else f"the loop is refused ({refused.code}: {told})"
        else:
            reason = why_not_better(made, many)
            if reason is None:
                return many
    decision = Decision(question=TILES_OF_A_BLOCK, chosen="one", because=reason, rejected=((candidate, reason),))
    return replace(made, decisions=(*made.decisions, decision))


def _planned(kernel: Kernel, launch: Launch, machine: Machine, tiles: Tiles | None = None) -> PlannedLaunch:
    """The plan of a launch as it stands. ``tiles``: it is a loop over those."""
    context = Context.of(kernel, launch, machine)
    choices = choose(context.facts, context.legal.products, context.spaces, context.scopes, context.machine, context.decisions)
    _tell_schedules(context)
    programs = _programs(context, choices) or _in_one_role(context)
    programs, cluster = _with_clusters(context, programs) if tiles is None and programs.channels else (programs, None)
    roles = with_deferred_stores(context.facts, programs.roles, programs.channels, context.stores)
    if context.machine.style != "ordered" and not context.facts.is_lane_code:  # else it is the launch's own body
        roles = with_allocations_first(roles, programs.channels)
    roles, resolved, choices = _by_classes(context, roles, choices)
    roles, full, choices = _split(context, roles, choices)
    order = plan_order(context.facts, context.legal.products, choices, context.machine, context.decisions, tiles, cluster)
    return PlannedLaunch(
        launch=context.legal.launch, roles=roles, full_loops=full, channels=programs.channels, placements=programs.placements,
        choices=choices, resolved=resolved, order=order, decisions=context.decisions.all(),
    )  # fmt: skip


def _check_lanes(launch: Launch, machine: Machine) -> None:
    limit = machine.capabilities.block_lanes
    if not launch.lane_vars or not launch.threads or not limit:
        return
    threads = 1
    for extent in launch.threads:
        value = constant_value(extent)
        if value is None:
            return
        threads *= int(value)
    if threads > limit:
        raise catalogue.E302.error(launch.span, threads=threads, target=machine.name, limit=limit)


def _programs(context: Context, choices: Sequence[Choice]) -> Programs | None:
    """The programs of several roles or of one that runs ahead of itself; None where one role runs the launch as written."""
    question = "which roles does a block have?"
    reason = why_one_role(context.facts)
    style = context.machine.style
    if reason is not None:
        context.decisions.take(question, "one", reason, topic="roles")
        return None
    match style:
        case "ordered":
            context.decisions.take(question, "one", _why_in_order(context.machine), topic="style")
            _tell_in_order(context, choices)
            return None
        case "software":
            from zellige.plan.software import software  # what makes roles run beside each other is loaded for machines that do so

            return software(context)
        case "specialised":
            from zellige.plan.specialised import specialised

            return specialised(context)
        case "queues":
            from zellige.plan.queues import queues

            return queues(context)


def _with_clusters(context: Context, programs: Programs) -> tuple[Programs, tuple[int, ...] | None]:
    from zellige.plan.spread import with_clusters  # of a plan with channels

    return with_clusters(context, programs)


def _why_in_order(machine: Machine) -> str:
    """Why a machine does one thing after the other."""
    if not any(path.is_asynchronous for path in machine.capabilities.copies):
        return "no copy of the target runs beside the block"
    return "the target has nothing that one role waits for its asynchronous copies with"


def _tell_in_order(context: Context, choices: Sequence[Choice]) -> None:
    """Says of the copies of loops with stages how they overlap on a machine that does one thing after the other; those of operands that a
    product packs are told with their product."""
    packed = {at.buffer for choice in choices for at in choice.layouts if at.ahead is not None}
    for copy, instead in copies_ahead(context.facts, context.spaces, context.machine)[1]:
        if copy.dst.buffer.root not in packed and not isinstance(instead, str):
            tell(instead, context.decisions)


def _in_one_role(context: Context) -> Programs:
    """The launch as written, in one role, with a version of each tile; products that run beside it are waited for where they are
    used."""
    body: tuple[Stmt | PlanStmt, ...] = context.legal.launch.body
    runs_beside = any(p.unit is not None and context.machine.is_asynchronous(p.unit) for p in context.legal.products.values())
    if runs_beside and not context.facts.is_lane_code:
        body = context.in_flight(body, Token(name="product", engine=context.product_engine()))
    context.owners.clear()
    placed = context.placed({}, frozenset())
    if isinstance(placed, Excess) and context.give_up_stores(placed.space):
        placed = context.placed({}, frozenset())
    if isinstance(placed, Excess):
        raise too_large(placed, context.facts, context.machine.name)
    return Programs(roles=(Role(name=BLOCK, engine=context.machine.main_engine, body=body),), placements=placed)


def _tell_schedules(context: Context) -> None:
    """Says of every schedule by hand whether it is followed."""
    how = {
        "ordered": "as far as there is a choice: copies are interleaved with products, and statements keep the order of the program",
        "software": "yes",
        "specialised": "its stages give the versions of each tile",
        "queues": "its stages give the versions of each tile",
    }[context.machine.style]
    for loop in pipelined_loops(context.facts.launch.body):
        by_hand = schedule_by_hand(context.facts, loop)
        question = "is the author's schedule of the loop followed?"
        if isinstance(by_hand, str):
            context.decisions.take(question, "no", by_hand, where=loop.span)
        elif by_hand is not None:
            context.decisions.take(question, how, "it keeps every dependence", where=loop.span)


def _by_classes(
    context: Context, roles: tuple[Role, ...], choices: tuple[Choice, ...]
) -> tuple[tuple[Role, ...], tuple[Resolved, ...], tuple[Choice, ...]]:
    """Loops split where their masks hold for all points, on machines that run a role's loops as they stand."""
    if context.machine.style == "ordered" or context.facts.is_lane_code or not has_masks(context.facts):
        return roles, (), choices
    made: list[Role] = []
    resolved: list[Resolved] = []
    for role in roles:
        answer = split_classes(context.facts, role.body)
        resolved.extend(answer.resolved)
        made.append(replace(role, body=answer.body) if answer.loops else role)
    for span in dict.fromkeys(one.stands_for.span for one in resolved):
        context.decisions.take(
            "is the mask tested?", "only in the iterations whose points it divides",
            "in the others it has one answer for all points, known before: the loop is split there, and no bit changes",
            rejected=(("in every iteration", "each point would be compared to find the same answer"),), where=span,
        )  # fmt: skip
    by_operation = {id(choice.operation): choice for choice in choices}
    added = tuple(
        replace(by_operation[id(one.stands_for)], operation=one.operation) for one in resolved if id(one.stands_for) in by_operation
    )
    return tuple(made), tuple(resolved), choices + added


def _split(
    context: Context, roles: tuple[Role, ...], choices: tuple[Choice, ...]
) -> tuple[tuple[Role, ...], tuple[For, ...], tuple[Choice, ...]]:
    """Loops split where only their last iterations need tests, on machines whose copies do not do them for nothing."""
    if context.machine.style == "ordered" or context.facts.is_lane_code:
        return roles, (), choices
    paying = {id(c.operation): c.tested for c in choices if c.tested and not _is_free(context, c)}
    made: list[Role] = []
    full: list[For] = []
    partial: frozenset[int] = frozenset()
    for role in roles:
        answer = split_loops(role.body, paying, context.scopes)
        full.extend(answer.full)
        partial |= answer.partial
        made.append(replace(role, body=answer.body) if answer.full else role)
    for loop in full:
        context.decisions.take(
            f"are copies in the loop over {loop.var.name} tested?", "only in a tail",
            "its last iterations alone can leave the tensors: the loop is split there",
            rejected=(("in every iteration", "all others are proven full"),), where=loop.span,
        )  # fmt: skip
    return tuple(made), tuple(full), tuple(with_edge(c, partial) for c in choices)


def _is_free(context: Context, choice: Choice) -> bool:
    return any(p.mechanism == choice.mechanism and p.fills_out_of_bounds for p in context.machine.capabilities.copies)
