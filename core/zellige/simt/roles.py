"""Blocks of several roles: each role is the program of some of the block's warps.

In: a launch of several roles. Out: its function: the barriers of the channels are made, the warps part by their number, and each role runs
its body with lanes counted from its own first. Roles that compute come first, so that their warps keep the block's numbers.

Where the branches part is uniform in a warp, since the number of a warp is; inside a role a barrier joins the role's lanes only. A role
that asks for boxes and nothing else is run by one of its lanes. Budgets of registers are taken as the role begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zellige.ir.expr import Binary, Buffer, Compare, Expr, Load, Var
from zellige.ir.stmt import Alloc, Assume, Barrier, Bind, Copy, For, Gemm, If, Serial, StmtNode, Unrolled
from zellige.ir.traverse import rebuilt, rewrite, substitute, walk
from zellige.plan.nodes import Channel, Issue, PlannedLaunch, Role, Token
from zellige.records import dataclass
from zellige.simt import box_stores, channels, control, role_channels, turns
from zellige.simt.code import Code, with_barriers
from zellige.simt.context import ChannelBarriers, Context
from zellige.simt.distribution import number
from zellige.simt.engine_tiles import EngineTiles, NotLowered, engine_tiles, held_digits, is_held
from zellige.simt.ir import THREAD, WARP, BoxMap, Budget, Comment, Fence, Function, NamedBarrier, TensorCopy, WaitBarrier
from zellige.simt.products import sizes
from zellige.simt.solve import Solution, Solver
from zellige.simt.statements import statements_of

if TYPE_CHECKING:
    from zellige.simt.lower import LaunchLowering
    from zellige.simt.warps import WarpTiling

_STRUCTURE = (Alloc, Assume, Bind, For, If)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A role with the warps that run it: ``lanes`` in all, from warp ``first`` of the block on; ``number`` of its barrier."""

    role: Role
    first: int
    lanes: int
    number: int
    is_one_lane: bool
    solution: Solution
    tilings: dict[int, Any]


def _async_products(part: _Part) -> Iterator[tuple[Gemm, WarpTiling]]:
    """The asynchronous products of a role with their tilings, in the order of the program."""
    for statement in statements_of(part.role.body, into_maps=True):
        tiling = part.tilings.get(id(statement))
        if isinstance(statement, Gemm) and tiling is not None and tiling.form.is_asynchronous:
            yield statement, tiling


def _check_held(lowering: LaunchLowering, parts: Sequence[_Part]) -> None:
    """That operands and versions in registers are held as products take them, and as moves can make them."""
    for part in parts:
        for statement, tiling in _async_products(part):
            if not is_held(statement):
                continue
            root = statement.a.buffer.root
            held = part.solution.distributions.get(root)
            _, _, depth = sizes(statement)
            if root.dtype != tiling.form.a or held is None or held.digits != held_digits(tiling, depth):
                raise NotLowered(f"{root.name} is not held as the product takes it")
    for channel in lowering.planned.channels:
        if channel.scope == "role" and channel.depth != channels.VERSIONS and any(b.root.space == "fragment" for b in channel.buffers):
            raise NotLowered(f"{channel.name} has {channel.depth} versions in registers")


def lower_roles(lowering: LaunchLowering) -> Function:
    """The function of a launch of several roles. Raises NotLowered."""
    planned, machine = lowering.planned, lowering.machine
    tiles = _checked_tiles(planned, lowering)
    parts = _parts(lowering, tiles)
    _check_held(lowering, parts)
    threads = sum(part.lanes for part in parts)
    shared = {buffer: why for part in parts for buffer, why in part.solution.shared.items()}
    base = lowering.context(Solution(), {}, threads, has_lanes=False)
    params = lowering.parameters(base)
    lowering.shared_tiles(base, shared, tiles.storage)
    barriers = role_channels.make_barriers(planned, machine.lanes)
    made, base.shared_bytes = role_channels.memories_of(barriers, base.shared_bytes)
    base.memories.extend(made)
    bodies: list[tuple[Any, ...]] = []
    for part in parts:
        bodies.append(_body(lowering, base, part, tiles, barriers))
    has_budgets = any(part.role.registers is not None for part in parts)
    given = given_registers(lowering, sum(part.lanes for part in parts)) if has_budgets else None
    body = _together(parts, bodies, barriers, given or 0)
    boxes = {node.box: None for statement in body for node in walk(statement) if isinstance(node, TensorCopy)}
    return lowering.finished(
        base, Solution(shared=shared), (*params, *(BoxMap(box=box) for box in boxes)), body, min_blocks=1 if has_budgets else None,
        registers=given,
    )  # fmt: skip


def _checked_tiles(planned: PlannedLaunch, lowering: LaunchLowering) -> EngineTiles:
    tiles = engine_tiles(planned, lowering.machine)
    boxed = {id(node) for node in _boxed(planned, tiles)}
    for channel in planned.channels:
        if not channel.is_transaction:
            continue
        roots = {b.root for b in channel.buffers}
        for role in planned.roles:
            if role.name not in channel.producers:
                continue
            for statement in statements_of(role.body, into_maps=True):
                written = {r.buffer.root for r in statement.writes()}
                if written & roots and id(statement) not in boxed:
                    raise NotLowered(f"lanes and boxes write the slots of {channel.name}")
    _check_registers(planned, lowering)
    return tiles


def _boxed(planned: PlannedLaunch, tiles: EngineTiles) -> list[StmtNode]:
    return [s for role in planned.roles for s in statements_of(role.body, into_maps=True) if id(s) in tiles.boxes]


def _check_registers(planned: PlannedLaunch, lowering: LaunchLowering) -> None:
    """Budgets pass on what the block was given at its launch: more would be waited for for ever."""
    roles = planned.roles
    if all(role.registers is None for role in roles):
        return
    lanes = sum(role.lanes * role.count for role in roles)
    given = given_registers(lowering, lanes)
    wanted = sum(role.lanes * role.count * (role.registers or given) for role in roles)
    if wanted > given * lanes:
        raise NotLowered(f"its budgets take {wanted} registers and the block is given {given * lanes}")


def given_registers(lowering: LaunchLowering, lanes: int) -> int:
    """The registers that each lane of a block of so many has at its launch."""
    file = lowering.machine.capabilities.registers
    if file is None or not file.per_block or not file.per_lane:
        raise NotLowered("the target does not say how many registers a block has")
    step = max(1, file.step)
    return min(file.per_block // lanes // step * step, -(-file.per_lane // step) * step)


# ---- who runs what ----


def _parts(lowering: LaunchLowering, tiles: EngineTiles) -> list[_Part]:
    """The roles in the order of their warps: those that compute first."""
    roles = sorted(lowering.planned.roles, key=lambda role: _asks_only(role, tiles))
    parts: list[_Part] = []
    first = 0
    for place, role in enumerate(roles):
        lanes = role.lanes * role.count
        warps = lanes // lowering.machine.lanes
        tilings = lowering.tilings(role, warps, tiles)
        alone = replace(lowering.planned, roles=(role,))
        solution = Solver(alone, tilings, lanes=lowering.machine.lanes, warps=warps).solve()
        parts.append(
            _Part(
                role=role, first=first, lanes=lanes, number=place + 1, is_one_lane=_asks_only(role, tiles), solution=solution,
                tilings=tilings,
            )
        )  # fmt: skip
        first += warps
    return parts


def _asks_only(role: Role, tiles: EngineTiles) -> bool:
    """Whether a role does nothing but ask for boxes."""
    return all(
        id(s) in tiles.boxes or isinstance(s, _STRUCTURE) or not (s.reads() or s.writes()) for s in statements_of(role.body, into_maps=True)
    ) and any(isinstance(s, Copy) for s in statements_of(role.body, into_maps=True))


def _body(
    lowering: LaunchLowering, base: Context, part: _Part, tiles: EngineTiles, barriers: dict[Channel, ChannelBarriers]
) -> tuple[Any, ...]:
    """The statements of a role, its lanes and warps counted in the block."""
    role, planned = part.role, lowering.planned
    ctx = replace(
        base, threads=part.lanes, homes=dict(base.homes), maps=dict(part.solution.maps), code=Code(), scope=base.scope.inner(),
        tilings=part.tilings, as_maps=dict(part.solution.as_maps), channels={}, slots={}, boxes=tiles.boxes,
        bytes_a_slot=_bytes_a_slot(planned, tiles), read_by_engines=_read_by_engines(planned, part), is_one_lane=part.is_one_lane,
        product_tokens=_product_tokens(role), products_begun=[], engine_operands=_engine_operands(part),
        box_stores=tiles.stores, sums_in_parts=_sums_in_parts(part),
    )  # fmt: skip
    lowering.head(ctx)
    role_channels.declare(ctx, role, [c for c in planned.channels if c.scope != "role"], barriers)
    lowering.fragments(ctx, part.solution)
    _declare_tiles(lowering, ctx, role)
    channels.declare(ctx, tuple(c for c in planned.channels if c.scope == "role" and role.name in c.producers))
    turns.declare(ctx, role, len(planned.roles) + 1)
    with ctx.code.nested() as inner:
        control.emit_body(ctx, role.body)
        box_stores.finish(ctx)
    if part.is_one_lane:
        ctx.code.emit(If(condition=Compare(op="eq", left=THREAD, right=number(0)), then=tuple(inner)))
    else:
        ctx.code.emit(*inner)
    base.shared_bytes, base.serial = ctx.shared_bytes, ctx.serial
    for buffer, home in ctx.homes.items():
        base.homes.setdefault(buffer, home)  # where its tiles in registers live, for who asks
    lowering.close_scratch(ctx)
    base.shared_bytes = ctx.shared_bytes
    placed = with_barriers(ctx.code.statements)
    return tuple(_in_block(statement, part, lowering.machine.lanes) for statement in placed)


def _declare_tiles(lowering: LaunchLowering, ctx: Context, role: Role) -> None:
    """The tiles in registers that a role uses, which its body does not declare."""
    used: set[Buffer] = set()
    declared: set[Buffer] = set()
    for statement in role.body:
        for node in walk(statement):
            buffer = getattr(node, "buffer", None)
            if isinstance(node, Alloc):
                declared.add(node.buffer)
            elif isinstance(buffer, Buffer):
                used.add(buffer.root)
    for node in walk(lowering.planned.launch):
        if isinstance(node, Alloc) and node.buffer in used - declared:
            control.emit(ctx, node)


def _in_block(statement: Any, part: _Part, lanes: int) -> Any:
    """A statement of a role with its barriers among the role's lanes and its lanes counted in the block."""

    def visit(node: Any) -> Any:
        if isinstance(node, Barrier) and node.scope == "block":
            if part.lanes == lanes:
                return Barrier(scope="warp", span=node.span)
            return NamedBarrier(number=number(part.number), lanes=part.lanes, span=node.span)
        if isinstance(node, For) and isinstance(node.kind, Serial) and any(isinstance(s, WaitBarrier) for s in walk(node)):
            return rebuilt(node, kind=Unrolled(factor=1))  # it waits in each iteration: more text would not make it faster
        return node

    changed = rewrite(statement, visit)
    if part.first == 0:
        return changed
    places: dict[Var, Expr] = {
        WARP: Binary(op="sub", left=WARP, right=number(part.first)),
        THREAD: Binary(op="sub", left=THREAD, right=number(part.first * lanes)),
    }
    return substitute(changed, places)


def _product_tokens(role: Role) -> frozenset[Token]:
    nodes = (node for statement in role.body for node in walk(statement))
    return frozenset(node.token for node in nodes if isinstance(node, Issue) and isinstance(node.operation, Gemm))


def _engine_operands(part: _Part) -> tuple[Buffer, ...]:
    """The tiles that the role's asynchronous products read, in the order of the program."""
    found: dict[Buffer, None] = {}
    for statement, _ in _async_products(part):
        found.update(dict.fromkeys((statement.a.buffer.root, statement.b.buffer.root)))
    return tuple(root for root in found if root.space == "shared")


def _sums_in_parts(part: _Part) -> frozenset[Buffer]:
    """The sums of asynchronous products that a lane holds in several blocks of registers, each the result of an instruction."""
    return frozenset(s.c.buffer.root for s, tiling in _async_products(part) if tiling.row_tiles * tiling.column_tiles > 1)


def _bytes_a_slot(planned: PlannedLaunch, tiles: EngineTiles) -> dict[Channel, int]:
    copies = [s for s in _boxed(planned, tiles) if isinstance(s, Copy)]
    found: dict[Channel, int] = {}
    for channel in planned.channels:
        for buffer in channel.buffers:
            mine = {id(c): tiles.boxes[id(c)].bytes for c in copies if c.dst.buffer.root is buffer.root}
            found[channel] = found.get(channel, 0) + (next(iter(mine.values())) if mine else 0)
    return found


def _read_by_engines(planned: PlannedLaunch, part: _Part) -> frozenset[Channel]:
    """The channels whose tiles this role hands to asynchronous products and reads nowhere else."""
    found = []
    for channel in planned.channels:
        roots = {b.root for b in channel.buffers}
        readers = [s for s in statements_of(part.role.body, into_maps=True) if _reads(s) & roots]
        if roots and all(id(s) in part.tilings and part.tilings[id(s)].form.is_asynchronous for s in readers):
            found.append(channel)
    return frozenset(found)


def _reads(statement: StmtNode) -> set[Buffer]:
    if isinstance(statement, (For, If)):
        return set()
    loads = {node.buffer.root for node in walk(statement) if isinstance(node, Load)}
    return loads | {r.buffer.root for r in statement.reads()}


def _together(
    parts: Sequence[_Part], bodies: Sequence[tuple[Any, ...]], barriers: dict[Channel, ChannelBarriers], given: int
) -> tuple[Any, ...]:
    """The barriers, then each role in its branch. ``given``: the registers of a lane at the launch, where there are budgets."""
    makes: tuple[Any, ...] = (*role_channels.inits(barriers), Fence(to="barriers"))
    head: list[Any] = [If(condition=Compare(op="eq", left=THREAD, right=number(0)), then=makes), Barrier(scope="block")]
    lanes = sum(part.lanes for part in parts)
    rest: tuple[Any, ...] = ()
    for place in range(len(parts) - 1, -1, -1):
        part = parts[place]
        opening: list[Any] = [Comment(text=f"{part.role.name}: {part.lanes} of {lanes} lanes")]
        if part.role.registers is not None:
            opening.append(Budget(registers=part.role.registers, is_larger=part.role.registers > given))
        body = (*opening, *bodies[place])
        if place == len(parts) - 1:
            rest = body
        else:
            rest = (If(condition=Compare(op="lt", left=WARP, right=number(parts[place + 1].first)), then=body, otherwise=rest),)
    if any(pair.peers > 1 for pair in barriers.values()):
        # barriers are there before other blocks arrive at them, and no block ends while others write to its memory
        return (*head[:-1], Barrier(scope="cluster"), *rest, Barrier(scope="cluster"))
    return (*head, *rest)

